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
			z = act.value(z)
			if scale := dropout(e, step, u, int64(k)); scale != 0 {
				z *= scale
			} else {
				z = 0
			}
		}
		row[k] = float32(z)
	}
	return nil
}

// dropout is the factor of a unit: 0 if it is dropped, otherwise 1/(1-Dropout), or 1 outside training.
func dropout(e *kernels.Epilogue, step *kernels.Step, u, k int64) float64 {
	if !step.Training || e.Dropout == 0 {
		return 1
	}
	if random.Uniform(step.Seed, e.Stream, step.Number, step.First+u, k) < e.Dropout {
		return 0
	}
	return 1 / (1 - float64(e.Dropout))
}

// activation is act(z) and its derivative act'(z), which is computed from a = act(z).
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
			if scale := dropout(e, step, u, int64(k)); scale != 0 {
				dz = (float64(dh[k]) + shift[k]) * scale * act.slope(float64(h[k])/scale)
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
		if err := update(w, op.Optimizer, step, int64(item), dw); err != nil {
			return err
		}
	}
	return nil
}
