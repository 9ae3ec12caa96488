package conformance

import (
	"math"

	"dsstne/internal/random"
	"dsstne/kernels"
)

// layerShapes are batch rows, columns of the input, and units. They hold every size that a tile or a vector may trip over.
var layerShapes = [][3]int64{
	{1, 1, 1}, {2, 13, 3}, {7, 100, 16}, {31, 14, 31}, {32, 15, 64}, {33, 2, 100}, {100, 1003, 31}, {257, 100, 64},
	{7, 1003, 256}, {32, 100, 100}, {1, 13, 256}, {2, 4099, 3}, {33, 15, 1}, {100, 31, 16}, {257, 64, 33}, {31, 256, 100},
	{65, 130, 304},
}

var batchKinds = []string{"sparse", "gaps", "empty", "full", "column", "crowded"}

// size draws the magnitude of numbers: usual, too large for a sigmoid, tiny, and below the normal range of float32.
func (s *sampler) size() float64 { return pick(s, "size", 1.0, 1e4, 1e-30, 1e-39) }

// epilogue draws one; the bias is host-side.
func (s *sampler) epilogue(units int64, size float64) (*kernels.Epilogue, []float32) {
	e := &kernels.Epilogue{Activation: pick(s, "activation", activations...), Stream: random.StreamDropout | 3}
	e.Dropout = pick(s, "dropout", float32(0), 0.3)
	e.Alpha = pick(s, "alpha dropout", true, false) && dropsToAlpha(e.Activation.Kind)
	if pick(s, "bias", true, false) {
		return e, s.normal(units, size)
	}
	return e, nil
}

// dropsToAlpha reports whether layers with an activation may have alpha dropout.
func dropsToAlpha(kind kernels.ActivationKind) bool {
	return kind == kernels.ELU || kind == kernels.SELU
}

// forwardCase is a Gather (batch set) or a Dense (in set).
type forwardCase struct {
	title      string
	step       *kernels.Step
	in         []float32
	weight     *weight
	out        []float32 // content before the op, [B, units]
	accumulate bool
	epilogue   *kernels.Epilogue // nil: none
	bias       []float32
	precision  kernels.Precision // of Dense
}

func (c *forwardCase) name() string { return c.title }

func (c *forwardCase) units() int64 {
	if c.in == nil {
		return c.weight.columns
	}
	return c.weight.rows
}

func (c *forwardCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	w, out := c.weight.place(p), p.guarded(c.out, c.units())
	var e *kernels.Epilogue
	if c.epilogue != nil {
		copied := *c.epilogue
		e = &copied
		if c.bias != nil {
			e.Bias = p.floats(c.bias)
		}
	}
	if c.in == nil {
		op := &kernels.Gather{Input: 1, Weight: w, Out: out, Accumulate: c.accumulate, Epilogue: e}
		op.Workspace = p.workspace(op, c.step.Most())
		err = d.Gather(op, c.step)
	} else {
		op := &kernels.Dense{In: p.guarded(c.in, c.weight.columns), Weight: w, Out: out, Accumulate: c.accumulate, Epilogue: e}
		op.Workspace = p.workspace(op, c.step.Most())
		err = d.Dense(op, c.step)
	}
	r.add("out", out)
	r.addWeights(w)
	return r, err
}

func (c *forwardCase) bounds() map[string][]float64 {
	bounds := make([]float64, c.step.Rows*c.units())
	for u := range c.step.Rows {
		for k := range c.units() {
			bounds[u*c.units()+k] = c.bound(u, k)
		}
	}
	return map[string][]float64{"out": bounds}
}

func (c *forwardCase) bound(u, k int64) float64 {
	var z sum
	if c.accumulate {
		z.product(1, float64(c.out[u*c.units()+k]))
	}
	if c.in == nil {
		b := c.step.Sparse[1]
		for e := b.Offsets[u]; e < b.Offsets[u+1]; e++ {
			z.product(float64(b.Values[e]), float64(c.weight.value[int64(b.Indices[e])*c.weight.columns+k]))
		}
	} else {
		for j := range c.weight.columns {
			z.factors(float64(c.in[u*c.weight.columns+j]), float64(c.weight.value[k*c.weight.columns+j]), c.precision)
		}
	}
	if c.epilogue == nil {
		return z.bound()
	}
	if c.bias != nil {
		z.product(1, float64(c.bias[k]))
	}
	scale := keep(c.epilogue, c.step, u, k)
	_, a, off := activatedBound(c.epilogue.Activation, z.value, z.bound())
	return scale*(off+4*unit*a) + 8*unit*shiftOf(c.epilogue, c.step)
}

// shiftOf bounds what alpha dropout adds to units, and what it makes of those that are dropped.
func shiftOf(e *kernels.Epilogue, step *kernels.Step) float64 {
	if !step.Training || e.Dropout == 0 || !e.Alpha {
		return 0
	}
	scale, alpha := constantsOf(e.Activation)
	return scale * alpha
}

// activatedBound is the activation of a sum that may be off, the magnitude of the numbers it is made of, and how far it
// may be off itself but for the rounding of that.
func activatedBound(act kernels.Activation, z, off float64) (value, magnitude, bound float64) {
	value = activated(act, z)
	switch act.Kind {
	case kernels.Linear, kernels.ReLU: // slope at most 1
		return value, math.Abs(z), off
	case kernels.Sigmoid: // slope at most 1/4
		return value, 1, math.Min(off/4, 1) + functionError
	case kernels.Tanh: // slope at most 1; accurate to the roundoff of 1, as is (1-e)/(1+e)
		return value, 1, math.Min(off, 2) + functionError
	case kernels.ELU, kernels.SELU:
		scale, alpha := constantsOf(act)
		return value, math.Abs(value), scale*max(1, alpha)*off + functionError*math.Abs(value)
	case kernels.LeakyReLU, kernels.Softplus, kernels.Softsign: // slope at most 1
		return value, math.Abs(value), off + functionError*math.Abs(value) + underflow
	case kernels.GELU, kernels.SiLU: // slope at most 1.13; 0 for z near -88
		return value, math.Abs(value), 1.2*off + functionError*math.Abs(value) + 1e-35
	}
	panic(unhandled(act.Kind))
}

// constantsOf are the scale and the alpha of an ELU or SELU.
func constantsOf(a kernels.Activation) (scale, alpha float64) {
	if a.Kind == kernels.SELU {
		return 1.0507009873554805, 1.6732632423543773
	}
	return 1, float64(a.Alpha)
}

// activated is the activation of z by its definition.
func activated(act kernels.Activation, z float64) float64 {
	switch act.Kind {
	case kernels.Linear:
		return z
	case kernels.Sigmoid:
		return 1 / (1 + math.Exp(-z))
	case kernels.Tanh:
		return math.Tanh(z)
	case kernels.ReLU:
		return max(z, 0)
	case kernels.ELU, kernels.SELU:
		scale, alpha := constantsOf(act)
		return scale * (max(z, 0) + alpha*math.Expm1(min(z, 0)))
	case kernels.LeakyReLU:
		return max(z, 0) + float64(act.Alpha)*min(z, 0)
	case kernels.Softplus:
		return softplusOf(z)
	case kernels.Softsign:
		return z / (1 + math.Abs(z))
	case kernels.GELU:
		return z * math.Erfc(-z/math.Sqrt2) / 2
	case kernels.SiLU:
		return z / (1 + math.Exp(-z))
	}
	panic(unhandled(act.Kind))
}

// slopeOf is the derivative of an activation where its value is a, or its sum if the derivative needs that, and a bound of
// the numbers that it is a difference of.
func slopeOf(act kernels.Activation, a float64) (slope, magnitude float64) {
	switch act.Kind {
	case kernels.GELU:
		return math.Erfc(-a/math.Sqrt2)/2 + a*math.Exp(-a*a/2)/math.Sqrt(2*math.Pi), 1
	case kernels.SiLU:
		share := 1 / (1 + math.Exp(-a))
		return share + a*share*(1-share), 1
	case kernels.Linear:
		return 1, 1
	case kernels.Sigmoid:
		return a * (1 - a), a
	case kernels.Tanh:
		return 1 - a*a, 1
	case kernels.ReLU:
		if a == 0 {
			return 0, 0
		}
		return 1, 1
	case kernels.ELU, kernels.SELU:
		scale, alpha := constantsOf(act)
		if a > 0 {
			return scale, scale
		}
		return a + scale*alpha, 2 * scale * alpha
	case kernels.LeakyReLU:
		if a > 0 {
			return 1, 1
		}
		return float64(act.Alpha), float64(act.Alpha)
	case kernels.Softplus:
		return -math.Expm1(-a), math.Abs(math.Expm1(-a)) // accurate to its own roundoff
	case kernels.Softsign:
		return (1 - math.Abs(a)) * (1 - math.Abs(a)), 1
	}
	panic(unhandled(act.Kind))
}

// keep is the factor of dropout as its definition has it.
func keep(e *kernels.Epilogue, step *kernels.Step, u, k int64) float64 {
	if !step.Training || e.Dropout == 0 {
		return 1
	}
	if random.Uniform(step.Seed, e.Stream, step.Number, step.First+u, k) < e.Dropout {
		return 0
	}
	p := float64(e.Dropout)
	if e.Alpha {
		scale, alpha := constantsOf(e.Activation)
		return 1 / math.Sqrt((1-p)+scale*scale*alpha*alpha*p*(1-p))
	}
	return 1 / (1 - p)
}

func forwardCases(dense bool, p kernels.Precision) (cases []opCase) {
	s := newSampler(11)
	for range 48 {
		shape := pick(s, "shape", layerShapes...)
		b, columns, units := shape[0], shape[1], shape[2]
		size := s.size()
		c := &forwardCase{step: s.step(kernels.Optimizer{}, b), precision: p}
		if dense {
			c.in = s.normal(b*columns, 1)
			c.weight = s.weight("w", units, columns, size/math.Sqrt(float64(columns)), kernels.Optimizer{})
		} else {
			c.step.Sparse = []*kernels.SparseBatch{nil, s.batch(b, columns, pick(s, "batch", batchKinds...), true)}
			c.weight = s.weight("w", columns, units, size, kernels.Optimizer{})
		}
		c.out = s.normal(b*units, size)
		c.accumulate = pick(s, "accumulate", false, true)
		if pick(s, "epilogue", true, true, true, false) {
			c.epilogue, c.bias = s.epilogue(units, size)
			c.step.Training = pick(s, "training", true, true, false)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
