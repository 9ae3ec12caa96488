package reference

import (
	"math"

	"dsstne/kernels"
)

// numbers are the scalars of one update rule at one step, in float64.
type numbers struct {
	momentum, beta1, beta2, epsilon, decay, l1 float64
	rate, scale1, scale2                       float64
}

func numbersOf(w *kernels.Weights, o kernels.Optimizer, r kernels.Rates) numbers {
	n := numbers{
		momentum: float64(o.Momentum), beta1: float64(o.Beta1), beta2: float64(o.Beta2),
		epsilon: float64(o.Epsilon), decay: float64(o.WeightDecay), l1: float64(o.L1),
		rate: float64(r.LearningRate), scale1: float64(r.Scale1), scale2: float64(r.Scale2),
	}
	if w.NoDecay {
		n.decay, n.l1 = 0, 0
	}
	return n
}

// rules give one weight w and its states a, b after a step with gradient g; see kernels.OptimizerKind.
var rules = map[kernels.OptimizerKind]func(n numbers, w, a, b, g float64) (float64, float64, float64){
	kernels.SGD: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		g += n.decay * w
		return w - n.rate*g, a, b
	},
	kernels.Momentum: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		g += n.decay * w
		a = n.momentum*a - n.rate*g
		return w + a, a, b
	},
	kernels.Nesterov: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		g += n.decay * w
		a = n.momentum*a - n.rate*g
		return w + (n.momentum*a - n.rate*g), a, b
	},
	kernels.RMSProp: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		g += n.decay * w
		a = n.beta2*a + (1-n.beta2)*g*g
		return w - n.rate*g/(math.Sqrt(a)+n.epsilon), a, b
	},
	kernels.Adam: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		return n.adam(w, a, b, g+n.decay*w)
	},
	kernels.AdamW: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		return n.adam(w-n.rate*n.decay*w, a, b, g)
	},
	kernels.AdaGrad: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		g += n.decay * w
		a += g * g
		return w - n.rate*g/(math.Sqrt(a)+n.epsilon), a, b
	},
	kernels.AdaDelta: func(n numbers, w, a, b, g float64) (float64, float64, float64) {
		g += n.decay * w
		a = n.beta2*a + (1-n.beta2)*g*g
		change := math.Sqrt(b+n.epsilon) / math.Sqrt(a+n.epsilon) * g
		return w - n.rate*change, a, n.beta2*b + (1-n.beta2)*change*change
	},
}

func (n numbers) adam(w, a, b, g float64) (float64, float64, float64) {
	a = n.beta1*a + (1-n.beta1)*g
	b = n.beta2*b + (1-n.beta2)*g*g
	return w - n.rate*n.scale1*a/(math.Sqrt(n.scale2*b)+n.epsilon), a, b
}

// shrunk is a weight after the proximal step of L1: sign(w) max(0, |w| - rate l1). What is not finite stays so.
func (n numbers) shrunk(w float64) float64 {
	by := n.rate * n.l1
	return w - min(max(w, -by), by)
}

// change is the new content of one row of a weight (or of its written gradient), checked but not stored.
type change struct {
	weights  *kernels.Weights
	row      int64
	step     int64
	gradient []float32
	value    []float32
	state    [2][]float32
}

// prepare computes what a step makes of one row. Nothing is stored, so that an op can check all rows that belong
// together before it changes any of them.
func prepare(w *kernels.Weights, o kernels.Optimizer, r kernels.Rates, step, row int64, g []float64) (*change, error) {
	if w.Locked {
		return &change{weights: w}, nil
	}
	c := &change{weights: w, row: row, step: step, gradient: rounded(g)}
	if !allFinite(c.gradient) {
		return nil, &kernels.NotFiniteError{Tensor: w.Name, What: "gradient", Row: row}
	}
	if w.Gradient != nil {
		return c, nil
	}
	apply, err := kernels.FunctionOf(rules, o.Kind)
	if err != nil {
		return nil, err
	}
	n, states := numbersOf(w, o, r), o.States()
	c.value = append(c.value, rowOf(w.Value, row, w.Columns)...)
	for s := range states {
		c.state[s] = append(c.state[s], rowOf(w.State[s], row, w.Columns)...)
	}
	for k := range c.value {
		var old [2]float64
		for s := range states {
			old[s] = float64(c.state[s][k])
		}
		value, first, second := apply(n, float64(c.value[k]), old[0], old[1], g[k])
		c.value[k] = float32(n.shrunk(value))
		for s, x := range []float64{first, second}[:states] {
			c.state[s][k] = float32(x)
		}
	}
	if !allFinite(c.value) || !allFinite(c.state[0]) || !allFinite(c.state[1]) {
		return nil, &kernels.NotFiniteError{Tensor: w.Name, What: "weight", Row: row}
	}
	return c, nil
}

func (c *change) store() {
	w := c.weights
	if w.Locked {
		return
	}
	if w.Gradient != nil {
		copy(rowOf(w.Gradient, c.row, w.Columns), c.gradient)
		return
	}
	copy(rowOf(w.Value, c.row, w.Columns), c.value)
	for s, values := range c.state {
		if values != nil {
			copy(rowOf(w.State[s], c.row, w.Columns), values)
		}
	}
	if w.Last != nil {
		w.Last.Int32()[c.row] = int32(c.step)
	}
}

// update is prepare and store for a row that stands alone.
func update(w *kernels.Weights, o kernels.Optimizer, step *kernels.Step, row int64, gradient []float64) error {
	c, err := prepare(w, o, step.RatesOf(step.Number), step.Number, row, gradient)
	if err != nil {
		return err
	}
	c.store()
	return nil
}

func (device) Update(op *kernels.Update, step *kernels.Step) error {
	w := *op.Weight
	w.Gradient = nil
	for row := range w.Rows {
		g := make([]float64, w.Columns)
		for k, x := range rowOf(op.Weight.Gradient, row, w.Columns) {
			g[k] = float64(x)
		}
		if err := update(&w, op.Optimizer, step, row, g); err != nil {
			return err
		}
	}
	return nil
}

func (device) Replay(op *kernels.Replay, step *kernels.Step) error {
	if op.Weight.Last == nil {
		return nil
	}
	if err := kernels.CheckKind(op.Optimizer.Kind); err != nil {
		return err
	}
	if op.Input < 0 {
		for row := range op.Weight.Rows {
			if err := replay(op, step, row, step.Number); err != nil {
				return err
			}
		}
		return nil
	}
	for _, item := range step.Sparse[op.Input].Items {
		if err := replay(op, step, int64(item), step.Number-1); err != nil {
			return err
		}
	}
	return nil
}

func replay(op *kernels.Replay, step *kernels.Step, row, upto int64) error {
	w := op.Weight
	last := w.Last.Int32()
	if int64(last[row]) >= upto {
		return nil
	}
	if moves(w, op.Optimizer, row) {
		zeros := make([]float64, w.Columns)
		for n := int64(last[row]) + 1; n <= upto; n++ {
			c, err := prepare(w, op.Optimizer, step.RatesOf(n), n, row, zeros)
			if err != nil {
				return err
			}
			c.store()
		}
	}
	last[row] = int32(upto)
	return nil
}

// moves reports whether zero gradients can change a row: there is decay or L1, or a state that is not zero.
func moves(w *kernels.Weights, o kernels.Optimizer, row int64) bool {
	if !w.NoDecay && o.Penalizes() {
		return true
	}
	for s := range o.States() {
		for _, x := range rowOf(w.State[s], row, w.Columns) {
			if x != 0 {
				return true
			}
		}
	}
	return false
}

// ClipNorm shortens the gradients of all weights.
func (device) ClipNorm(op *kernels.ClipNorm, _ *kernels.Step) error {
	gradients, squares := op.Gradients.Float32()[:op.Count], 0.0
	for _, g := range gradients {
		squares += float64(g) * float64(g)
	}
	if norm := math.Sqrt(squares); norm > float64(op.Limit) {
		for i, g := range gradients {
			gradients[i] = float32(float64(g) * (float64(op.Limit) / norm))
		}
	}
	return nil
}

// ColumnNorms computes the norms of columns.
func (device) ColumnNorms(op *kernels.ColumnNorms, _ *kernels.Step) error {
	w, norms := op.Weight, op.Norms.Float32()
	for k := range w.Columns {
		squares := 0.0
		for row := range w.Rows {
			x := float64(rowOf(w.Value, row, w.Columns)[k])
			squares += x * x
		}
		norms[k] = float32(min(math.Sqrt(squares), math.MaxFloat32))
	}
	return nil
}

// CapWeight scales vectors of a weight that are too long.
func (device) CapWeight(op *kernels.CapWeight, _ *kernels.Step) error {
	w, most := op.Weight, float64(op.Cap)
	for row := range w.Rows {
		x := rowOf(w.Value, row, w.Columns)
		ofRow := math.Sqrt(kernels.Dot(x, x))
		for k := range w.Columns {
			norm := ofRow
			if op.Ranks > 0 {
				squares := 0.0
				for rank := range op.Ranks {
					part := float64(rowOf(op.Norms, rank, w.Columns)[k])
					squares += part * part
				}
				norm = math.Sqrt(squares)
			}
			if norm > most {
				x[k] = float32(float64(x[k]) * (most / norm))
			}
		}
	}
	return nil
}
