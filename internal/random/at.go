package random

// UniformAt fills dst with the numbers that belong to some columns of a row: dst[i] is Uniform of columns[i].
func UniformAt(dst []float32, seed uint64, stream uint32, step, row int64, columns []int32) {
	k0, k1 := uint32(seed), uint32(seed>>32)
	for i, column := range columns[:len(dst)] {
		a, b, c, d := uint32(column>>2), uint32(row), uint32(step), stream
		// Philox, in registers from the place to the number: half as long as by way of arrays.
		a, b, c, d = round(a, b, c, d, k0, k1, 0)
		a, b, c, d = round(a, b, c, d, k0, k1, 1)
		a, b, c, d = round(a, b, c, d, k0, k1, 2)
		a, b, c, d = round(a, b, c, d, k0, k1, 3)
		a, b, c, d = round(a, b, c, d, k0, k1, 4)
		a, b, c, d = round(a, b, c, d, k0, k1, 5)
		a, b, c, d = round(a, b, c, d, k0, k1, 6)
		a, b, c, d = round(a, b, c, d, k0, k1, 7)
		a, b, c, d = round(a, b, c, d, k0, k1, 8)
		a, b, c, d = round(a, b, c, d, k0, k1, 9)
		low, high := uint64(b)<<32|uint64(a), uint64(d)<<32|uint64(c)
		if column&2 != 0 {
			low = high
		}
		dst[i] = float32(uint32(low>>(uint(column&1)*32))>>8) * unit
	}
}

// round is round n of Philox, counted from 0.
func round(a, b, c, d, k0, k1, n uint32) (uint32, uint32, uint32, uint32) {
	p, q := uint64(a)*multiplier0, uint64(c)*multiplier1
	return uint32(q>>32) ^ b ^ (k0 + n*weyl0), uint32(q), uint32(p>>32) ^ d ^ (k1 + n*weyl1), uint32(p)
}
