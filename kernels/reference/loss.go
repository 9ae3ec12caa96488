package reference

import (
	"math"

	"dsstne/kernels"
)

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// softplus is ln(1 + exp(z)) without overflow.
func softplus(z float64) float64 { return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }

// lossFunction gives l(a, t) and dl/da of the value a of a logit. Soft-max also needs n, the sum of the row's targets,
// and its log-sum-exp.
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
	kernels.Absolute: func(_ *kernels.Loss, a, t, _, _ float64) (loss, delta float64) {
		switch {
		case a > t:
			return a - t, 1
		case a < t:
			return t - a, -1
		}
		return a - t, a - t // 0, or NaN
	},
	kernels.L2Hinge: func(_ *kernels.Loss, a, t, _, _ float64) (loss, delta float64) {
		d := a - t
		if t > 0 {
			d = math.Min(0, d)
		} else {
			d = math.Max(0, d)
		}
		return d * d / 2, d
	},
	kernels.CosineContrastive: func(l *kernels.Loss, a, t, _, _ float64) (loss, delta float64) {
		beyond, scale := a-float64(l.ZeroTarget), float64(l.ZeroScale)
		switch {
		case t != 0:
			return t * (1 - a), -t
		case beyond > 0:
			return scale * beyond, scale
		}
		return 0 * a, 0 * a // keeps what is not finite
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

// logitLoss is a loss by the logit, with its derivative.
type logitLoss func(z, t, n, logSumExp float64) (loss, delta float64)

// lossOf puts the loss behind the output's activation.
func lossOf(l *kernels.Loss) (logitLoss, error) {
	loss, err := kernels.FunctionOf(losses, l.Kind)
	if err != nil {
		return nil, err
	}
	act, err := activationOf(l.Activation)
	if err != nil {
		return nil, err
	}
	one, zero := l.Boosts()
	return func(z, t, n, logSumExp float64) (float64, float64) {
		a := act.value(z)
		value, delta := loss(l, a, t, n, logSumExp)
		boost := float64(one)
		if t == 0 {
			boost = float64(zero)
		}
		value, delta = boost*value, boost*delta
		if l.Activation.Kind.SlopeNeedsSum() {
			return value, delta * act.slope(z)
		}
		return value, delta * act.slope(a)
	}, nil
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
