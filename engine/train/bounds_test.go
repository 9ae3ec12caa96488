package train_test

import (
	"math"
)

// gradientError bounds how far the order of sums moves a number of the gradient of which gradients are some: by units
// of float32, or with bfloat16 factors that are rounded to a neighbour, of the largest.
func gradientError(gradients []float64, narrow bool) float64 {
	largest := 0.0
	for _, g := range gradients {
		largest = max(largest, math.Abs(g))
	}
	if narrow {
		return largest * math.Pow(2, -6)
	}
	return largest * 1e-5
}

// gradientsOf are the magnitudes of the gradients with which a step of SGD at a rate of 0.1 has changed weights.
func gradientsOf(before, after []float32) []float64 {
	gradients := make([]float64, len(before))
	for i := range before {
		gradients[i] = math.Abs(float64(before[i]-after[i])) / 0.1
	}
	return gradients
}

// stepError bounds how far a weight can be after the first step, at a rate of 0.1, if its gradient is off by so much. The
// first step of RMSProp, Adam and AdaGrad is rate times g / (a |g| + e): its slope is at most 1 / (a |g|), and it is at
// most 1 / a.
func stepError(optimizer string, gradient, off, weight float64) float64 {
	const rate = 0.1
	step := rate * off
	switch optimizer {
	case "nesterov":
		step *= 1.9
	case "rmsprop", "adam", "adamw", "adagrad":
		a := 1.0
		if optimizer == "rmsprop" {
			a = math.Sqrt(0.1)
		}
		step = rate / a * min(2, 2*off/max(gradient-off-1e-6, 1e-30))
	case "adadelta": // its first step is rate times sqrt(e) g / sqrt(0.05 g^2 + e): the slope is at most rate
	}
	return step + math.Pow(2, -22)*(math.Abs(weight)+rate)
}
