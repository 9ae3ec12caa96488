package random

// The streams; the index of a layer or tensor is or-ed into the lower 24 bits.
const (
	StreamInit      uint32 = 1 << 24 // initial weights; tensor index
	StreamDropout   uint32 = 2 << 24 // dropout of hidden units; layer index
	StreamDenoising uint32 = 3 << 24 // dropout of stored input entries; layer index
	StreamShuffle   uint32 = 4 << 24 // order of the examples
	StreamNegatives uint32 = 5 << 24 // items without a target that are drawn for a loss; layer index
	StreamNoise     uint32 = 6 << 24 // noise of variational layers; layer index
)

// unit is the step between neighbouring values of Uniform.
const unit = 1.0 / (1 << 24)

// Uniform is the number in [0, 1) that belongs to a place: a multiple of 2^-24, exact in float32. Four neighbouring
// columns share one call of Philox with the counter {column/4, row, step, stream}; a column has word column%4.
func Uniform(seed uint64, stream uint32, step, row, column int64) float32 {
	words := Philox(seed, [4]uint32{uint32(column >> 2), uint32(row), uint32(step), stream})
	return float32(words[column&3]>>8) * unit
}

// FillUniform fills dst, the columns of one row at step 0, with low + (high-low) Uniform, which may round to high.
func FillUniform(dst []float32, seed uint64, stream uint32, row int64, low, high float32) {
	span := high - low
	for first := 0; first < len(dst); first += 4 {
		words := Philox(seed, [4]uint32{uint32(first >> 2), uint32(row), 0, stream})
		for lane, word := range words[:min(4, len(dst)-first)] {
			// The conversion of the product forbids a fused multiply-add, so that all processors give the same bits.
			dst[first+lane] = low + float32(span*(float32(word>>8)*unit))
		}
	}
}

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
