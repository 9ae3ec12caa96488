package random

import "math"

// FillNormal fills dst, the columns of one row at step 0, with normally distributed numbers: Box and Muller's transform
// of the words 0 and 1, and 2 and 3, in float64. No value is more than 6.7 deviations away from the mean.
func FillNormal(dst []float32, seed uint64, stream uint32, row int64, mean, deviation float32) {
	fillNormal(dst, seed, stream, 0, row, mean, deviation)
}

// Noise fills dst, the columns of one row at a step, with standard normal numbers, made like those of FillNormal.
func Noise(dst []float32, seed uint64, stream uint32, step, row int64) {
	fillNormal(dst, seed, stream, step, row, 0, 1)
}

func fillNormal(dst []float32, seed uint64, stream uint32, step, row int64, mean, deviation float32) {
	for first := 0; first < len(dst); first += 4 {
		words := Philox(seed, [4]uint32{uint32(first >> 2), uint32(row), uint32(step), stream})
		var values [4]float64
		values[0], values[1] = normalPair(words[0], words[1])
		values[2], values[3] = normalPair(words[2], words[3])
		for lane, value := range values[:min(4, len(dst)-first)] {
			dst[first+lane] = float32(float64(mean) + float64(float64(deviation)*value))
		}
	}
}

// normalPair makes two standard normal numbers. The first word becomes a number in (0, 1], which has a logarithm.
func normalPair(a, b uint32) (float64, float64) {
	radius := math.Sqrt(-2 * logarithm((float64(a)+1)/(1<<32)))
	sine, cosine := sineAndCosine(2 * math.Pi * float64(b) / (1 << 32))
	return radius * cosine, radius * sine
}

// What follows does not call package math, so that every processor and backend gives the same bits: a conversion to
// float64 keeps the compiler from fusing a product with a sum. Polynomials are in Horner's form.

func horner(x float64, coefficients ...float64) float64 {
	p := coefficients[0]
	for _, c := range coefficients[1:] {
		p = float64(p*x) + c
	}
	return p
}

// logarithm is ln x of a positive normal number to one unit in the last place: x = 2^k (1 + f), 1 + f from sqrt(1/2) to
// sqrt(2); with s = f/(2+f), ln(1+f) = f - f^2/2 + s (f^2/2 + R(s^2)), and R a minimax polynomial (fdlibm).
func logarithm(x float64) float64 {
	const high, low = 6.93147180369123816490e-01, 1.90821492927058770002e-10 // ln 2
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction *= 2
		exponent--
	}
	f, k := fraction-1, float64(exponent)
	s := f / (2 + f)
	s2 := s * s
	s4 := s2 * s2
	odd := s2 * horner(s4,
		1.479819860510858591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01)
	even := s4 * horner(s4, 1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)
	half := 0.5 * f * f
	small := float64(s*(half+float64(odd+even))) + float64(k*low)
	return float64(k*high) - ((half - small) - f)
}

// sineAndCosine are those of x from 0 to 2 pi, to one unit in the last place: x less the nearest even multiple of pi/4,
// in three parts, and minimax polynomials from -pi/4 to pi/4 (Cephes).
func sineAndCosine(x float64) (sine, cosine float64) {
	const first, second, third = 7.85398125648498535156e-1, 3.77489470793079817668e-8, 2.69515142907905952645e-15 // pi/4
	octant := uint64(x * (4 / math.Pi))
	octant += octant & 1
	y := float64(octant)
	z := float64(float64(x-float64(y*first))-float64(y*second)) - float64(y*third)
	q := z * z
	cosine = float64(1-float64(0.5*q)) + float64(float64(q*q)*horner(q,
		-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7, 2.48015872888517045348e-5,
		-1.38888888888730564116e-3, 4.16666666666665929218e-2))
	sine = z + float64(float64(z*q)*horner(q, 1.58962301576546568060e-10, -2.50507477628578072866e-8,
		2.75573136213857245213e-6, -1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1))
	switch octant & 7 { // always even
	case 2:
		return cosine, -sine
	case 4:
		return -sine, -cosine
	case 6:
		return -cosine, sine
	default:
		return sine, cosine
	}
}
