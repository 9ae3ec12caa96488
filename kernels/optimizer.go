package kernels

import "math"

// OptimizerKind names an update rule. g is the gradient, with WeightDecay * w added (but for AdamW); lr the learning
// rate. With L1, each rule ends with w = sign(w) max(0, |w| - lr L1), see Optimizer.
type OptimizerKind int32

const (
	// SGD: w -= lr g.
	SGD OptimizerKind = iota
	// Momentum: v = Momentum v - lr g; w += v.
	Momentum
	// Nesterov: v = Momentum v - lr g; w += Momentum v - lr g. (Sutskever et al., 2013)
	Nesterov
	// RMSProp: s = Beta2 s + (1-Beta2) g^2; w -= lr g / (sqrt(s) + Epsilon). (Tieleman and Hinton, 2012)
	RMSProp
	// Adam: m = Beta1 m + (1-Beta1) g; s = Beta2 s + (1-Beta2) g^2;
	// w -= lr Scale1 m / (sqrt(Scale2 s) + Epsilon), Scale = 1/(1-Beta^step). (Kingma and Ba, 2015)
	Adam
	// AdamW: w -= lr WeightDecay w first, then Adam without decay in g. (Loshchilov and Hutter, 2019)
	AdamW
	// AdaGrad: s += g^2; w -= lr g / (sqrt(s) + Epsilon). (Duchi et al., 2011)
	AdaGrad
	// AdaDelta: s = Beta2 s + (1-Beta2) g^2; u = sqrt(v + Epsilon) / sqrt(s + Epsilon) g;
	// v = Beta2 v + (1-Beta2) u^2; w -= lr u. (Zeiler, 2012, has lr = 1)
	AdaDelta
)

// Optimizer describes an update rule; fields that a kind does not use are ignored.
type Optimizer struct {
	Kind        OptimizerKind
	Momentum    float32
	Beta1       float32
	Beta2       float32
	Epsilon     float32
	WeightDecay float32
	// L1 is the weight of the sum of |w| in what is minimised. Its step comes after that of the rule: the proximal one,
	// w = sign(w) max(0, |w| - lr L1), which makes weights exactly 0. (Duchi and Singer, 2009)
	L1 float32
	// ClipNorm is the greatest length of the gradient of all weights, 0 for any, see ClipNorm.
	ClipNorm float32
}

// Rates are the numbers of an optimizer that depend on the step.
type Rates struct {
	LearningRate float32
	Scale1       float32 // Adam's 1/(1-Beta1^step), else 1
	Scale2       float32 // Adam's 1/(1-Beta2^step), else 1
}

// optimizers are, by kind, how many states a weight has, and whether a zero gradient can change a weight or its state.
var optimizers = []struct {
	states int
	moves  bool
}{
	SGD:      {0, false},
	Momentum: {1, true},
	Nesterov: {1, true},
	RMSProp:  {1, true},
	Adam:     {2, true},
	AdamW:    {2, true},
	AdaGrad:  {1, false},
	AdaDelta: {2, true},
}

// States is the number of state values a weight needs.
func (o Optimizer) States() int { return optimizers[o.Kind].states }

// MovesUntouched reports whether a zero gradient can change a weight or its state, so that rows a batch does not touch
// must be replayed. decay: whether weight decay and L1 apply to the tensor.
func (o Optimizer) MovesUntouched(decay bool) bool {
	return optimizers[o.Kind].moves || (decay && o.Penalizes())
}

// Penalizes reports whether weight decay or L1 moves weights whatever their gradients and states are.
func (o Optimizer) Penalizes() bool { return o.WeightDecay != 0 || o.L1 != 0 }

// RatesAt gives the rates of a step (counted from 1) at a learning rate.
func (o Optimizer) RatesAt(step int64, learningRate float64) Rates {
	r := Rates{LearningRate: float32(learningRate), Scale1: 1, Scale2: 1}
	if o.Kind == Adam || o.Kind == AdamW {
		r.Scale1 = float32(1 / (1 - math.Pow(float64(o.Beta1), float64(step))))
		r.Scale2 = float32(1 / (1 - math.Pow(float64(o.Beta2), float64(step))))
	}
	return r
}
