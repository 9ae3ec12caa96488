package random

import "math"

// The streams; the index of a layer or tensor is or-ed into the lower 24 bits.
const (
	StreamInit      uint32 = 1 << 24 // initial weights; tensor index
	StreamDropout   uint32 = 2 << 24 // dropout of hidden units; layer index
	StreamDenoising uint32 = 3 << 24 // dropout of stored input entries; layer index
	StreamShuffle   uint32 = 4 << 24 // order of the examples
)

// unit is the step between neighbouring values of Uniform.
const unit = 1.0 / (1 << 24)

// Uniform is the number in [0, 1) that belongs to a place: a multiple of 2^-24, exact in float32. Four neighbouring columns
// share one call of Philox, whose counter is {column/4, row, step, stream}; the column's word is number column%4.
func Uniform(seed uint64, stream uint32, step, row, column int64) float32 {
	words := Philox(seed, [4]uint32{uint32(column >> 2), uint32(row), uint32(step), stream})
	return float32(words[column&3]>>8) * unit
}

// FillUniform fills dst, the columns of one row at step 0, with low + (high-low) Uniform. Rounding may make a value equal
// to high.
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

// FillNormal fills dst, the columns of one row at step 0, with normally distributed numbers: Box and Muller's transform of
// the words 0 and 1, and 2 and 3, in float64. No value is more than 6.7 deviations away from the mean.
func FillNormal(dst []float32, seed uint64, stream uint32, row int64, mean, deviation float32) {
	for first := 0; first < len(dst); first += 4 {
		words := Philox(seed, [4]uint32{uint32(first >> 2), uint32(row), 0, stream})
		var values [4]float64
		values[0], values[1] = normalPair(words[0], words[1])
		values[2], values[3] = normalPair(words[2], words[3])
		for lane, value := range values[:min(4, len(dst)-first)] {
			dst[first+lane] = float32(float64(mean) + float64(float64(deviation)*value))
		}
	}
}

// normalPair makes two independent standard normal numbers from two words. The first word becomes a number in (0, 1], of
// which there is always a logarithm.
func normalPair(a, b uint32) (float64, float64) {
	radius := math.Sqrt(-2 * math.Log((float64(a)+1)/(1<<32)))
	sine, cosine := math.Sincos(2 * math.Pi * float64(b) / (1 << 32))
	return radius * cosine, radius * sine
}
