package reference

import (
	"math"

	"dsstne/internal/random"
	"dsstne/kernels"
)

func (device) Gather(op *kernels.Gather, step *kernels.Step) error {
	batch, w := step.Sparse[op.Input], op.Weight
	for u := range step.Rows {
		sums := make([]float64, w.Columns)
		for e := batch.Offsets[u]; e < batch.Offsets[u+1]; e++ {
			addScaled(sums, float64(batch.Values[e]), rowOf(w.Value, int64(batch.Indices[e]), w.Columns))
		}
		if err := finish(op.Out, op.Accumulate, op.Epilogue, step, u, sums); err != nil {
			return err
		}
	}
	return nil
}

func (device) Dense(op *kernels.Dense, step *kernels.Step) error {
	w := op.Weight
	for u := range step.Rows {
		in := rowOf(op.In, u, w.Columns)
		sums := make([]float64, w.Rows)
		for unit := range w.Rows {
			for k, x := range rowOf(w.Value, unit, w.Columns) {
				sums[unit] += float64(x) * float64(in[k])
			}
		}
		if err := finish(op.Out, op.Accumulate, op.Epilogue, step, u, sums); err != nil {
			return err
		}
	}
	return nil
}

func (device) Activate(op *kernels.Activate, step *kernels.Step) error {
	for u := range step.Rows {
		sums := make([]float64, op.Units)
		for k, z := range rowOf(op.In, u, op.Units) {
			if sums[k] = float64(z); op.Norm != nil {
				sums[k] = centred(op.Norm, u, int64(k), z) * float64(op.Norm.Scale.Float32()[k])
			}
		}
		if err := finish(op.Out, false, &op.Epilogue, step, u, sums); err != nil {
			return err
		}
	}
	return nil
}

// finish adds what the output held, if asked to, applies the epilogue, if there is one, and stores row u.
func finish(
	out kernels.Buffer, accumulate bool, e *kernels.Epilogue, step *kernels.Step, u int64, sums []float64,
) error {
	var act activation
	if e != nil {
		var err error
		if act, err = activationOf(e.Activation); err != nil {
			return err
		}
	}
	row := rowOf(out, u, int64(len(sums)))
	for k, z := range sums {
		if accumulate {
			z += float64(row[k])
		}
		if e != nil {
			if e.Bias != nil {
				z += float64(e.Bias.Float32()[k])
			}
			drop, kept := dropout(e, step, u, int64(k))
			if z = float64(drop.Scale)*act.value(z) + float64(drop.Shift); !kept {
				z = float64(drop.Dropped)
			}
		}
		row[k] = float32(z)
	}
	return nil
}

// dropout is what becomes of a unit, and whether it is kept.
func dropout(e *kernels.Epilogue, step *kernels.Step, u, k int64) (drop kernels.Drop, kept bool) {
	if !step.Training || e.Dropout == 0 {
		return kernels.Drop{Scale: 1, Undo: 1}, true
	}
	return e.Drop(), random.Uniform(step.Seed, e.Stream, step.Number, step.First+u, k) >= e.Dropout
}

// activation is act(z) and its derivative act'(z), which is computed from a = act(z), or from z with SlopeNeedsSum.
type activation struct{ value, slope func(float64) float64 }

func activationOf(a kernels.Activation) (activation, error) {
	of, err := kernels.FunctionOf(activations, a.Kind)
	if err != nil {
		return activation{}, err
	}
	return of(float64(a.Alpha)), nil
}

// activations are by kind, for a value of Alpha.
var activations = map[kernels.ActivationKind]func(alpha float64) activation{
	kernels.Linear: fixed(activation{
		func(z float64) float64 { return z },
		func(float64) float64 { return 1 },
	}),
	kernels.Sigmoid: fixed(activation{
		sigmoid,
		func(a float64) float64 { return a * (1 - a) },
	}),
	kernels.Tanh: fixed(activation{
		math.Tanh,
		func(a float64) float64 { return 1 - a*a },
	}),
	kernels.ReLU: fixed(activation{
		func(z float64) float64 { return math.Max(0, z) }, // NaN stays NaN
		func(a float64) float64 {
			if a == 0 {
				return 0
			}
			return 1
		},
	}),
	kernels.ELU:  func(alpha float64) activation { return exponentialUnit(1, alpha) },
	kernels.SELU: fixed(exponentialUnit(kernels.SELUScale, kernels.SELUAlpha)),
	kernels.LeakyReLU: func(alpha float64) activation {
		return activation{
			func(z float64) float64 {
				if z > 0 {
					return z
				}
				return alpha * z
			},
			func(a float64) float64 {
				if a > 0 {
					return 1
				}
				return alpha
			},
		}
	},
	kernels.Softplus: fixed(activation{
		softplus,
		func(a float64) float64 { return -math.Expm1(-a) }, // the sigmoid of z
	}),
	kernels.Softsign: fixed(activation{
		func(z float64) float64 {
			if math.IsInf(z, 0) {
				return math.Copysign(1, z)
			}
			return z / (1 + math.Abs(z))
		},
		func(a float64) float64 { return (1 - math.Abs(a)) * (1 - math.Abs(a)) },
	}),
	kernels.GELU: fixed(activation{
		func(z float64) float64 { return timesShare(z, normalShare(z)) },
		func(z float64) float64 {
			return normalShare(z) + timesShare(z, math.Exp(-z*z/2)/math.Sqrt(2*math.Pi))
		},
	}),
	kernels.SiLU: fixed(activation{
		func(z float64) float64 { return timesShare(z, sigmoid(z)) },
		func(z float64) float64 { return sigmoid(z) + timesShare(z, sigmoid(z)*sigmoid(-z)) },
	}),
}

// normalShare is the probability that a standard normal number is below z.
func normalShare(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// timesShare is z times a share of it, which is nothing of an infinite z.
func timesShare(z, share float64) float64 {
	if share == 0 {
		return 0
	}
	return z * share
}

// fixed is an activation that does not depend on Alpha.
func fixed(a activation) func(float64) activation { return func(float64) activation { return a } }

// exponentialUnit is scale z for z > 0, else scale alpha (exp(z) - 1).
func exponentialUnit(scale, alpha float64) activation {
	return activation{
		func(z float64) float64 {
			if z > 0 {
				return scale * z
			}
			return scale * alpha * math.Expm1(z)
		},
		func(a float64) float64 {
			if a > 0 {
				return scale
			}
			return a + scale*alpha
		},
	}
}

// UnitSums adds up the units.
func (device) UnitSums(op *kernels.UnitSums, step *kernels.Step) error {
	sums := make([]float64, op.Units)
	for u := range step.Rows {
		addScaled(sums, 1, rowOf(op.X, u, op.Units))
	}
	for k, sum := range sums {
		op.Sums.Float32()[k] = float32(sum)
	}
	return nil
}

// Sparsity computes the penalty of each unit.
func (device) Sparsity(op *kernels.Sparsity, step *kernels.Step) error { return op.Apply(step) }

func (device) Backward(op *kernels.Backward, step *kernels.Step) error {
	e := &op.Epilogue
	act, err := activationOf(e.Activation)
	if err != nil {
		return err
	}
	name, bias, shift := op.Name, make([]float64, op.Units), make([]float64, op.Units)
	if op.Bias != nil {
		name = op.Bias.Name
	}
	if op.Shift != nil {
		for k := range shift {
			shift[k] = float64(op.Shift.Float32()[k])
		}
	}
	for u := range step.Rows {
		h, dh := rowOf(op.H, u, op.Units), rowOf(op.DH, u, op.Units)
		for k := range dh {
			dz := 0.0
			if drop, kept := dropout(e, step, u, int64(k)); kept {
				at := float64(h[k])
				if !e.Activation.Kind.SlopeNeedsSum() {
					at = (at - float64(drop.Shift)) / float64(drop.Scale)
				}
				dz = (float64(dh[k]) + shift[k]) * float64(drop.Scale) * act.slope(at)
			}
			if !finite(dz) {
				return &kernels.NotFiniteError{Tensor: name, What: "gradient", Row: -1}
			}
			bias[k] += dz
			dh[k] = float32(dz)
		}
	}
	if op.Bias == nil {
		return nil
	}
	for k := range op.Units {
		if err := update(op.Bias, op.Optimizer, step, k, bias[k:k+1]); err != nil {
			return err
		}
	}
	return nil
}

// DenseBackward gives the gradient with respect to the input of a dense layer and updates its weight.
func (device) DenseBackward(op *kernels.DenseBackward, step *kernels.Step) error {
	w := op.Weight
	if op.DIn != nil {
		din := make([]float64, step.Rows*w.Columns)
		for u := range step.Rows {
			for unit, dz := range rowOf(op.DZ, u, w.Rows) {
				addScaled(din[u*w.Columns:(u+1)*w.Columns], float64(dz), rowOf(w.Value, int64(unit), w.Columns))
			}
		}
		storeRows(op.DIn, din, op.Accumulate)
		if !allFinite(op.DIn.Float32()[:len(din)]) {
			return &kernels.NotFiniteError{Tensor: w.Name, What: "gradient", Row: -1}
		}
	}
	if w.Locked {
		return nil
	}
	for unit := range w.Rows {
		dw := make([]float64, w.Columns)
		for u := range step.Rows {
			addScaled(dw, float64(rowOf(op.DZ, u, w.Rows)[unit]), rowOf(op.In, u, w.Columns))
		}
		if err := update(w, op.Optimizer, step, unit, dw); err != nil {
			return err
		}
	}
	return nil
}

func (device) Scatter(op *kernels.Scatter, step *kernels.Step) error {
	batch, w := step.Sparse[op.Input], op.Weight
	if w.Gradient != nil && op.TiedGradient == nil {
		clear(w.Gradient.Float32()[:w.Rows*w.Columns])
	}
	values, dz := batch.ItemValues, []float32{1}
	if op.Values != nil {
		values = op.Values.Float32()
	}
	for n, item := range batch.Items {
		dw := make([]float64, w.Columns)
		for e := batch.ItemOffsets[n]; e < batch.ItemOffsets[n+1]; e++ {
			if op.DZ != nil {
				dz = rowOf(op.DZ, int64(batch.ItemRows[e]), w.Columns)
			}
			addScaled(dw, float64(values[e]), dz)
		}
		if op.TiedGradient != nil {
			addScaled(dw, 1, rowOf(op.TiedGradient, int64(n), w.Columns))
		}
		if op.Own != nil {
			addScaled(dw, float64(op.Own.Float32()[n]), rowOf(w.Value, int64(item), w.Columns))
		}
		if err := update(w, op.Optimizer, step, int64(item), dw); err != nil {
			return err
		}
	}
	return nil
}
