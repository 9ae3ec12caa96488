package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// updateCase is an Update.
type updateCase struct {
	title     string
	step      *kernels.Step
	gradient  []float32
	weight    *weight
	optimizer kernels.Optimizer
}

func (c *updateCase) name() string { return c.title }

func (c *updateCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Update{Weight: c.weight.place(p), Optimizer: c.optimizer}
	op.Weight.Gradient = p.floats(c.gradient)
	err = d.Update(op, c.step)
	r.addWeights(op.Weight)
	return r, err
}

func (c *updateCase) bounds() map[string][]float64 {
	to := map[string][]float64{}
	r := ruleOf(c.optimizer, c.step.RatesOf(c.step.Number), c.weight.noDecay)
	// A gradient below the normal numbers may be read as zero.
	c.weight.updateBounds(to, r, func(i int64) (float64, float64, bool) { return float64(c.gradient[i]), underflow, true })
	return to
}

func updateCases() (cases []opCase) {
	s := newSampler(15)
	for range 32 {
		shape := pick(s, "shape", layerShapes...)
		c := &updateCase{optimizer: s.optimizer()}
		c.step = s.step(c.optimizer, shape[0])
		c.weight = s.weight("w", shape[1], shape[2], 1, c.optimizer)
		c.weight.noDecay = pick(s, "exempt", false, false, true)
		c.gradient = s.normal(shape[1]*shape[2], s.size())
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestAnUpdateHasTheBitsOfTheOpThatWroteTheGradient(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(2)
		if d.Info().Kind == oracle(t).Info().Kind {
			t.Skip("the reference has gradients in float64")
		}
		for _, o := range everyOptimizer() {
			s := newSampler(16)
			const rows, columns = 37, 29
			step := s.step(o, 4)
			c := &denseBackwardCase{step: step, optimizer: o, dz: s.normal(4*rows, 1), in: s.normal(4*columns, 1), weight: s.weight("w", rows, columns, 1, o)}
			atOnce, err := c.run(d)
			require.NoError(t, err)
			c.weight.written = true
			written, err := c.run(d)
			require.NoError(t, err)
			u := &updateCase{step: step, optimizer: o, weight: c.weight}
			for _, f := range written {
				if f.name == "w.gradient" {
					for _, g := range f.data {
						u.gradient = append(u.gradient, float32(g))
					}
				}
			}
			u.weight.written = false
			later, err := u.run(d)
			require.NoError(t, err)
			for _, field := range atOnce {
				for _, same := range later {
					if field.name == same.name {
						require.Equal(t, field.data, same.data, field.name)
					}
				}
			}
		}
	})
}

func TestAPartOfABatchWithoutRowsWritesGradientsOfZero(t *testing.T) {
	t.Parallel()
	partWithoutRows := func(t *testing.T, open opener) {
		d := open(2)
		s, sgd := newSampler(17), kernels.Optimizer{}
		none := batchOf(23, nil)
		step := &kernels.Step{Number: 1, Whole: 9, First: 4, MaxRows: 3, Training: true, RatesFrom: 1, Rates: make([]kernels.Rates, 1),
			Loss: make([]float64, 1), Sparse: []*kernels.SparseBatch{none, none}}
		p := &place{device: d}
		defer p.free()
		weight := func(name string, rows, columns int64) *kernels.Weights {
			w := s.weight(name, rows, columns, 1, sgd)
			w.written = true
			return w.place(p)
		}
		in, hidden, out := weight("in", 23, 7), weight("hidden", 5, 7), weight("out", 23, 5)
		bias, outBias := weight("bias", 7, 1), weight("out bias", 23, 1)
		buffer := func(columns int64) kernels.Buffer { return p.floats(s.normal(3*columns, 1)) }
		h1, dh1, h2, dh2 := buffer(7), buffer(7), buffer(5), buffer(5)
		epilogue := kernels.Epilogue{Activation: kernels.Activation{Kind: kernels.Tanh}, Dropout: 0.5}
		dense := &kernels.Dense{In: h1, Weight: hidden, Out: h2, Epilogue: &epilogue}
		dense.Workspace = p.workspace(dense, 3)
		back := &kernels.DenseBackward{DZ: dh2, In: h1, DIn: dh1, Weight: hidden}
		back.Workspace = p.workspace(back, 3)
		require.NoError(t, d.Gather(&kernels.Gather{Input: 0, Weight: in, Out: h1, Epilogue: &epilogue}, step))
		require.NoError(t, d.Dense(dense, step))
		var cases served
		for _, loss := range some(d, losses, 2) { // a soft-max is among them
			op := &kernels.Output{
				Target: 1, Items: 23, Loss: loss, TiedInput: -1, Bias: outBias, Stats: p.alloc(6),
				Sources: []kernels.OutputSource{{H: h2, DH: dh2, Weight: out}}, Continues: loss.NeedsStats(),
			}
			op.Workspace = p.workspace(op, 3)
			if loss.NeedsStats() {
				require.NoError(t, d.OutputStats(op, step))
			}
			cases.require(t, d.OutputStep(op, step))
		}
		require.NotZero(t, cases)
		require.NoError(t, d.DenseBackward(back, step))
		require.NoError(t, d.Backward(&kernels.Backward{H: h1, DH: dh1, Units: 7, Epilogue: epilogue, Bias: bias}, step))
		require.NoError(t, d.Scatter(&kernels.Scatter{Input: 0, DZ: dh1, Weight: in}, step))
		for _, w := range []*kernels.Weights{in, hidden, out, bias, outBias} {
			for _, x := range contents(w.Gradient) {
				require.Zero(t, x, w.Name)
			}
		}
		require.Zero(t, step.Loss[0])
	}
	forEveryBackend(t, partWithoutRows)
	t.Run("forms", func(t *testing.T) {
		forEveryForm(t, func(t *testing.T, _ kernels.Precision, open opener) { partWithoutRows(t, open) })
	})
}
