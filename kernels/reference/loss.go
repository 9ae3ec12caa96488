package reference

import (
	"math"

	"dsstne/kernels"
)

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// softplus is ln(1 + exp(z)) without overflow.
func softplus(z float64) float64 { return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }

// lossFunction gives l(z, t) and dl/dz. Soft-max also needs n, the sum of the row's targets, and its log-sum-exp.
type lossFunction func(l *kernels.Loss, z, t, n, logSumExp float64) (loss, delta float64)

var losses = map[kernels.LossKind]lossFunction{
	kernels.SigmoidCrossEntropy: func(_ *kernels.Loss, z, t, _, _ float64) (loss, delta float64) {
		return softplus(z) - t*z, sigmoid(z) - t
	},
	kernels.ScaledMarginal: scaledMarginal,
	kernels.Softmax: func(l *kernels.Loss, z, t, n, logSumExp float64) (loss, delta float64) {
		if n == 0 {
			return 0, 0
		}
		if l.NormalizeRows {
			t, n = t/n, 1
		}
		return t * (logSumExp - z), n*math.Exp(z-logSumExp) - t
	},
	kernels.Squared: func(_ *kernels.Loss, z, t, _, _ float64) (loss, delta float64) {
		return (z - t) * (z - t) / 2, z - t
	},
	kernels.Hinge: func(_ *kernels.Loss, z, t, _, _ float64) (loss, delta float64) {
		if t == 0 {
			t = -1
		}
		margin := 1 - t*z
		if margin > 0 {
			return margin, -t
		}
		return 0 * margin, 0 * margin // keeps what is not finite
	},
}

func scaledMarginal(l *kernels.Loss, z, t, _, _ float64) (loss, delta float64) {
	a := sigmoid(z)
	if t == 0 {
		if a > float64(l.ZeroTarget) {
			scale := float64(l.ZeroScale)
			return scale * softplus(z), scale * a // -ln(1-a) = softplus(z)
		}
		return 0, 0
	}
	if a < float64(l.OneTarget) {
		scale := float64(l.OneScale) * t
		return scale * softplus(-z), scale * (a - 1) // -ln(a) = softplus(-z)
	}
	return 0, 0
}
