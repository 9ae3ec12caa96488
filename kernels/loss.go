package kernels

import "math"

// LossKind names an output loss l(a, t) of a target t and of the value a = f(z) that an output's activation f gives a
// logit z. Soft-max and sigmoid cross-entropies are functions of the logit, where they are stable: their f is Linear.
type LossKind int32

const (
	// SigmoidCrossEntropy: l = softplus(z) - t z, dl/dz = sigmoid(z) - t; 0 <= t <= 1.
	SigmoidCrossEntropy LossKind = iota
	// ScaledMarginal is DSSTNE's scaled marginal cross-entropy on a sigmoid, a = sigmoid(z):
	// t = 0: -ZeroScale ln(1-a) and ZeroScale a, where a > ZeroTarget, else 0 and 0;
	// t > 0: -OneScale t ln(a) and OneScale t (a-1), where a < OneTarget, else 0 and 0.
	ScaledMarginal
	// Softmax is the multinomial likelihood with multi-hot targets, p = softmax(z), n_u = sum over i of t_ui:
	// l = -t ln p, dl/dz = n_u p - t; with NormalizeRows t is divided by n_u first (rows without targets give 0); t >= 0.
	// With a OneTarget it is DSSTNE's scaled marginal cross-entropy on a soft-max: MarginalTargets makes t.
	Softmax
	// Squared: l = (a-t)^2 / 2, dl/da = a - t.
	Squared
	// Hinge: l = max(0, 1 - t a), dl/da = -t where l > 0, else 0; -1 <= t <= 1. An item that is not stored has t = -1.
	Hinge
	// Absolute: l = |a-t|, dl/da = the sign of a - t, 0 where they are equal.
	Absolute
	// L2Hinge is DSSTNE's L2 hinge: l = d^2 / 2, dl/da = d, with d = min(0, a-t) where t > 0, else max(0, a-t).
	L2Hinge
	// CosineContrastive is the cosine contrastive loss (Mao et al., 2021), of cosines a: t > 0: l = t (1-a), dl/da = -t;
	// t = 0: l = ZeroScale (a - ZeroTarget), dl/da = ZeroScale where a > ZeroTarget, else 0; t >= 0.
	CosineContrastive
)

// Loss describes the loss of an output layer. Weight multiplies loss and gradient. OneScale and ZeroScale are
// parameters of ScaledMarginal and CosineContrastive, and weights of targets, see Boosts, where other losses take them.
// OneScale and OneTarget of a Softmax are those of MarginalTargets; 0 and 0: all targets count.
type Loss struct {
	Kind          LossKind
	Activation    Activation // Linear unless the loss is ElementWise
	Weight        float32
	NormalizeRows bool
	OneScale      float32
	ZeroScale     float32
	OneTarget     float32
	ZeroTarget    float32
	// Pairs: the loss is one of differences between two logits of a row, see OutputEntries.
	Pairs bool
}

// targets are Loss.Targets by kind.
var targets = [][2]float64{
	SigmoidCrossEntropy: {0, 1},
	ScaledMarginal:      {0, math.Inf(1)},
	Softmax:             {0, math.Inf(1)},
	Squared:             {math.Inf(-1), math.Inf(1)},
	Hinge:               {-1, 1},
	Absolute:            {math.Inf(-1), math.Inf(1)},
	L2Hinge:             {math.Inf(-1), math.Inf(1)},
	CosineContrastive:   {0, math.Inf(1)},
}

// ElementWise reports whether the loss is one of an output's value, whatever function of the logit that is.
func (k LossKind) ElementWise() bool {
	switch k {
	case Squared, Hinge, Absolute, L2Hinge, CosineContrastive:
		return true
	}
	return false
}

// TakesBoosts reports whether OneScale multiplies the loss of items with a target, and ZeroScale that of the others.
func (l Loss) TakesBoosts() bool {
	return !l.Pairs && (l.Kind == SigmoidCrossEntropy || l.Kind.ElementWise() && l.Kind != CosineContrastive)
}

// Boosts are the factors of the loss and the gradient of items with a target and of those without: DSSTNE's delta
// boost. Scales that are both 0 stand for 1.
func (l Loss) Boosts() (one, zero float32) {
	if !l.TakesBoosts() || l.OneScale == 0 && l.ZeroScale == 0 {
		return 1, 1
	}
	return l.OneScale, l.ZeroScale
}

// Targets are the lowest and the highest target that the loss accepts.
func (l Loss) Targets() (low, high float64) {
	if l.Pairs {
		return 0, math.Inf(1)
	}
	return targets[l.Kind][0], targets[l.Kind][1]
}

// Compares reports whether the loss of an entry depends on other logits of its row.
func (l Loss) Compares() bool { return l.Pairs || l.Kind == Softmax }

// NeedsStats reports whether OutputStats must run before OutputStep.
func (l Loss) NeedsStats() bool { return l.Kind == Softmax }
