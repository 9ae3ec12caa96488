package kernels

import "math"

// Dot is the dot product that scores are made of: in float64, lane l of eight sums the products whose index is l modulo
// 8, in rising order, and the lanes are added as ((0+4)+(2+6))+((1+5)+(3+7)). Products of two float32 are exact in
// float64, so fused and separate multiply-add give the same bits, and every backend can do this with vectors.
func Dot(a, b []float32) float64 {
	var lane [8]float64
	for i := range a {
		lane[i&7] += float64(a[i]) * float64(b[i])
	}
	return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]))
}

// Score finishes a score from the dot product. For cosine logits hh and ww are the dot products of the vectors with
// themselves: score = dot / (sqrt(hh) sqrt(ww)) / temperature + bias, where a zero vector gives the bias.
func Score(dot, hh, ww float64, bias, temperature float32) float32 {
	if temperature != 0 {
		norm := math.Sqrt(hh) * math.Sqrt(ww)
		if norm == 0 {
			dot = 0
		} else {
			dot = dot / norm / float64(temperature)
		}
	}
	return float32(dot + float64(bias))
}
