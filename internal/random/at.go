package random

// UniformAt fills dst with the numbers that belong to some columns of a row: dst[i] is Uniform of columns[i].
func UniformAt(dst []float32, seed uint64, stream uint32, step, row int64, columns []int32) {
	k0, k1 := uint32(seed), uint32(seed>>32)
	for i, column := range columns[:len(dst)] {
		a, b, c, d := words(k0, k1, uint32(column>>2), uint32(row), uint32(step), stream)
		low, high := uint64(b)<<32|uint64(a), uint64(d)<<32|uint64(c)
		if column&2 != 0 {
			low = high
		}
		dst[i] = float32(uint32(low>>(uint(column&1)*32))>>8) * unit
	}
}
