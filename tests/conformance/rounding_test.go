package conformance

import (
	"math"

	"dsstne/kernels"
)

// unit is the unit roundoff of float32: a rounded result is off by at most unit times itself.
const unit = 1.0 / (1 << 24)

// unit16 is that of bfloat16.
const unit16 = 1.0 / (1 << 8)

// unit19 is that of TF32, whose factors may also be cut off.
const unit19 = 1.0 / (1 << 10)

// narrowing is what rounding both factors to a precision may do to their product, relative to it.
func narrowing(p kernels.Precision) float64 {
	switch p {
	case kernels.Float32:
		return 0
	case kernels.BFloat16:
		return unit16 * (2 + unit16)
	case kernels.TensorFloat32:
		return unit19 * (2 + unit19)
	default:
		panic(unhandled(p))
	}
}

// functionError is allowed to exp, log and tanh, in units of roundoff: four ULPs.
const functionError = 8 * unit

// underflow is the smallest normal float32: what a device that flushes denormals may lose per operation.
const underflow = 1.0 / (1 << 63) / (1 << 63)

// growth bounds the rounding error of a sum of n products in any order, relative to the sum of their absolute values:
// n+2 roundings in the worst case, and 4 sqrt(n) of them with a probability that leaves no failures to be seen, since
// rounding errors are as good as independent (Higham and Mary, 2019, theorem 2.4).
func growth(n int64) float64 { return unit * math.Min(float64(n)+2, 6+4*math.Sqrt(float64(n))) }

// sum collects a sum of products with its error bound: the errors that the factors bring, and its own rounding.
type sum struct {
	value, magnitude, inherited float64
	narrowed, squares           float64 // what rounding factors to bfloat16 may do to each product: sum, sum of squares
	terms                       int64
}

// add adds a term; magnitude is the absolute value of its parts where it is itself a difference.
func (s *sum) add(value, magnitude, inherited float64) {
	s.value += value
	s.magnitude += magnitude
	s.inherited += inherited
	s.terms++
}

// product adds x*y of two exactly known numbers.
func (s *sum) product(x, y float64) {
	s.add(x*y, math.Abs(x*y), underflow*(1+math.Abs(x)+math.Abs(y)))
}

// narrow allows the last product an error that comes from rounding its factors.
func (s *sum) narrow(e float64) {
	s.narrowed += e
	s.squares += e * e
	s.magnitude += e
}

// factors adds x*y, rounded to a precision before they are multiplied.
func (s *sum) factors(x, y float64, p kernels.Precision) {
	s.product(x, y)
	s.narrow(narrowing(p) * math.Abs(x*y))
}

// narrowedBound bounds what rounding factors does to the sum, which is independent from product to product as in growth.
func (s *sum) narrowedBound() float64 { return math.Min(s.narrowed, 4*math.Sqrt(s.squares)) }

// truncated bounds the error of a sum of n products that a tensor core adds, relative to the sum of their absolute values. It
// adds groups of G products to what it has, G at least 4, and cuts all G + 1 numbers off at one place, one bit below the last
// of the largest: with |part| for the sum of absolute values so far, each loses up to 2^-24 |part|, and so does the rounded
// result, twice. These are n/G (G + 3) errors, which all have one sign: they do not cancel.
func truncated(n int64) float64 { return unit * (1 + 3.0/4) * float64(n+4) }

// bound is how far a computation may be off that adds in float32, or products of narrow factors in a tensor core.
func (s *sum) bound() float64 {
	growth := growth(s.terms)
	if s.narrowed > 0 {
		growth = math.Max(growth, truncated(s.terms))
	}
	return s.inherited + s.narrowedBound() + growth*s.magnitude + underflow
}

// rule is an optimizer at one step for one tensor.
type rule struct {
	kernels.Optimizer
	rates     kernels.Rates
	decay, l1 float64
}

func ruleOf(o kernels.Optimizer, rates kernels.Rates, noDecay bool) rule {
	r := rule{o, rates, float64(o.WeightDecay), float64(o.L1)}
	if noDecay {
		r.decay, r.l1 = 0, 0
	}
	return r
}

// number is a weight and its two states.
type number [3]float64

// apply is a step with gradient g, written apart from the reference's own. The second result are the sums of the absolute
// values of the parts that each of the three is made of.
func (r rule) apply(x number, g float64) (number, number) {
	next, parts := r.withoutL1(x, g)
	by := float64(r.rates.LearningRate) * r.l1
	parts[0] += by
	switch {
	case next[0] > by:
		next[0] -= by
	case next[0] < -by:
		next[0] += by
	default:
		next[0] = 0
	}
	return next, parts
}

// withoutL1 is the update rule.
func (r rule) withoutL1(x number, g float64) (number, number) {
	w, a, b := x[0], x[1], x[2]
	rate, mu := float64(r.rates.LearningRate), float64(r.Momentum)
	beta1, beta2, epsilon := float64(r.Beta1), float64(r.Beta2), float64(r.Epsilon)
	scale1, scale2 := float64(r.rates.Scale1), float64(r.rates.Scale2)
	shrink, parts := 0.0, math.Abs(g)
	if r.Kind == kernels.AdamW {
		shrink = rate * r.decay * w
	} else {
		parts += math.Abs(r.decay * w)
		g += r.decay * w
	}
	switch r.Kind {
	case kernels.SGD:
		return number{w - rate*g, a, b}, number{math.Abs(w) + rate*parts, 0, 0}
	case kernels.Momentum, kernels.Nesterov:
		v := mu*a - rate*g
		size := math.Abs(mu*a) + rate*parts
		move, moveSize := v, size
		if r.Kind == kernels.Nesterov {
			move, moveSize = mu*v-rate*g, mu*size+rate*parts
		}
		return number{w + move, v, b}, number{math.Abs(w) + moveSize, size, 0}
	case kernels.RMSProp:
		s := beta2*a + (1-beta2)*g*g
		root := math.Sqrt(s) + epsilon
		return number{w - rate*g/root, s, b}, number{math.Abs(w) + rate*parts/root, s + (1-beta2)*parts*parts, 0}
	case kernels.AdaGrad:
		s := a + g*g
		root := math.Sqrt(s) + epsilon
		return number{w - rate*g/root, s, b}, number{math.Abs(w) + rate*parts/root, s + parts*parts, 0}
	case kernels.AdaDelta:
		s := beta2*a + (1-beta2)*g*g
		ratio := math.Sqrt((b + epsilon) / (s + epsilon))
		v, size := beta2*b+(1-beta2)*ratio*g*ratio*g, (1-beta2)*ratio*parts*ratio*parts
		return number{w - rate*ratio*g, s, v}, number{math.Abs(w) + rate*ratio*parts, s + (1-beta2)*parts*parts, v + size}
	case kernels.Adam, kernels.AdamW:
		m, s := beta1*a+(1-beta1)*g, beta2*b+(1-beta2)*g*g
		size := math.Abs(beta1*a) + (1-beta1)*parts
		root := math.Sqrt(scale2*s) + epsilon
		return number{w - shrink - rate*scale1*m/root, m, s},
			number{math.Abs(w) + math.Abs(shrink) + rate*scale1*size/root, size, s + (1-beta2)*parts*parts}
	default:
		panic(unhandled(r.Kind))
	}
}

// bound returns how far weight and states may be off after an update whose gradient is g to within e. The rule is evaluated
// over the interval that g lies in (Adam's quotient is steep where g and the states are small, so a derivative at g would
// not do), and the rounding of the rule itself is added: about a dozen operations on the parts.
func (r rule) bound(x number, g, e float64) number {
	e += 4 * unit * (math.Abs(g) + math.Abs(r.decay*x[0]))
	at, parts := r.apply(x, g)
	var off number
	try := func(h float64) {
		y, _ := r.apply(x, h)
		for i := range off {
			off[i] = math.Max(off[i], math.Abs(y[i]-at[i]))
		}
	}
	for _, f := range []float64{-1, -0.5, -0.1, 0.1, 0.5, 1} {
		try(g + f*e)
	}
	for _, h := range []float64{0, -r.decay * x[0]} { // the extremes of g*g
		if math.Abs(g-h) <= e {
			try(h)
		}
	}
	for i := range off {
		off[i] = 1.5*off[i] + 12*unit*parts[i] + underflow
	}
	return off
}

// updateBounds adds the bounds of a weight's fields to a map. gradient gives the gradient of element i with its error, and
// whether the element's row is updated at all.
func (w *weight) updateBounds(to map[string][]float64, r rule, gradient func(i int64) (g, e float64, touched bool)) {
	size := w.rows * w.columns
	var bounds [3][]float64
	for f := range bounds {
		bounds[f] = make([]float64, size)
	}
	written := make([]float64, size)
	for i := range size {
		g, e, touched := gradient(i)
		if !touched || w.locked {
			continue
		}
		if w.written {
			written[i] = e + unit*math.Abs(g) + underflow
			continue
		}
		b := r.bound(w.number(i), g, e)
		for f := range bounds {
			bounds[f][i] = b[f]
		}
	}
	to[w.name] = bounds[0]
	for s, state := range w.state {
		if state != nil {
			to[w.name+[]string{".state0", ".state1"}[s]] = bounds[s+1]
		}
	}
	if w.written {
		to[w.name+".gradient"] = written
	}
}

func (w *weight) number(i int64) number {
	x := number{float64(w.value[i])}
	for s, state := range w.state {
		if state != nil {
			x[s+1] = float64(state[i])
		}
	}
	return x
}
