package conformance

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// activateCase is an Activate.
type activateCase struct {
	title    string
	step     *kernels.Step
	out      []float32 // [B, units]: what is read
	apart    bool      // and it stays
	norm     *normed   // or nil
	units    int64
	epilogue kernels.Epilogue
	bias     []float32
}

func (c *activateCase) name() string { return c.title }

func (c *activateCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Activate{Out: p.guarded(c.out, c.units), Units: c.units, Epilogue: c.epilogue}
	if op.In = op.Out; c.apart {
		op.Out = p.guarded(make([]float32, len(c.out)), c.units)
	}
	if c.norm != nil {
		norm := c.norm.place(p)
		op.Norm = &norm
	}
	if c.bias != nil {
		op.Epilogue.Bias = p.floats(c.bias)
	}
	err = d.Activate(op, c.step)
	r.add("out", op.Out)
	if c.apart {
		r.add("in", op.In)
	}
	return r, err
}

// normBounds are those of a normalised sum, to which the bias is added.
func (c *activateCase) normBounds() map[string][]float64 {
	bounds := make([]float64, len(c.out))
	for n, x := range c.out {
		u, k := int64(n)/c.units, int64(n)%c.units
		xhat, off := c.norm.xhat(x, n)
		scale := float64(c.norm.scale[k])
		var z sum
		z.add(xhat*scale, math.Abs(xhat*scale), off*math.Abs(scale)+2*unit*math.Abs(xhat*scale)+underflow)
		if c.bias != nil {
			z.product(1, float64(c.bias[k]))
		}
		_, a, moved := activatedBound(c.epilogue.Activation, z.value, z.bound())
		bounds[n] = keep(&c.epilogue, c.step, u, k) * (moved + 4*unit*a)
	}
	return map[string][]float64{"out": bounds}
}

// bounds without a norm are those of a forward op that adds nothing to what is there.
func (c *activateCase) bounds() map[string][]float64 {
	if c.norm != nil {
		return c.normBounds()
	}
	same := &forwardCase{
		step: c.step, out: c.out, accumulate: true, epilogue: &c.epilogue, bias: c.bias, in: []float32{},
		weight: &weight{rows: c.units},
	}
	return same.bounds()
}

func activateCases() (cases []opCase) {
	s := newSampler(41)
	for range 32 {
		shape := pick(s, "shape", layerShapes...)
		c := &activateCase{step: s.step(kernels.Optimizer{}, shape[0]), units: shape[2]}
		size := s.size()
		e, bias := s.epilogue(c.units, size)
		c.epilogue, c.bias, c.out = *e, bias, s.normal(shape[0]*c.units, size)
		c.step.Training = pick(s, "training", true, true, false)
		c.apart = pick(s, "apart", false, true)
		if pick(s, "norm", false, true) {
			norm := s.norm(shape[0], c.units, size)
			c.norm = &norm
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// combineCase is a CombineStats.
type combineCase struct {
	title  string
	step   *kernels.Step
	shards int64
	stride int64
	parts  []float32 // [shards, stride, 2]
}

func (c *combineCase) name() string { return c.title }

func (c *combineCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.CombineStats{Shards: c.shards, Stride: c.stride, Parts: p.floats(c.parts)}
	op.Stats = p.guarded(make([]float32, 2*c.step.Rows), 2)
	err = d.CombineStats(op, c.step)
	r.add("stats", op.Stats)
	return r, err
}

// bounds: a maximum is exact. The logarithm is of a sum of exponentials of at most 1, whose largest is 1; so its error is one
// of functions, and the roundings of itself and of the maximum that is added to it.
func (c *combineCase) bounds() map[string][]float64 {
	bounds := make([]float64, 2*c.step.Rows)
	for u := range c.step.Rows {
		largest := 0.0
		for shard := range c.shards {
			if x := math.Abs(float64(c.parts[2*(shard*c.stride+u)+1])); !math.IsInf(x, 0) {
				largest = max(largest, x)
			}
		}
		bounds[2*u+1] = 4*unit*(largest+math.Log(float64(c.shards))) + float64(c.shards)*functionError
	}
	return map[string][]float64{"stats": bounds}
}

func combineCases() (cases []opCase) {
	s := newSampler(42)
	for range 24 {
		rows := pick(s, "rows", int64(1), 7, 100)
		c := &combineCase{step: s.step(kernels.Optimizer{}, rows), shards: pick(s, "shards", int64(1), 2, 3, 8, 64)}
		size := pick(s, "size", 1.0, 100, 1e-30, 1e30)
		c.stride = rows + pick(s, "rows beyond the batch", int64(0), 3)
		maximum := s.normal(c.shards*c.stride, size)
		for n, high := range maximum {
			c.parts = append(c.parts, high, high+float32(math.Log(1+float64(n%5))))
		}
		for shard := range c.shards - 1 { // but one of them has items
			if pick(s, "items", true, true, false) {
				continue
			}
			part := c.parts[2*shard*c.stride : 2*(shard+1)*c.stride]
			copy(part, slices.Repeat([]float32{float32(math.Inf(-1))}, len(part)))
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestAnOutputWithoutItemsAddsNothing(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(2)
		for _, accumulate := range []bool{false, true} {
			p := &place{device: d}
			defer p.free()
			s := newSampler(43)
			w := s.weight("w", 0, 3, 1, kernels.Optimizer{})
			op := &kernels.Output{
				Target: 0, Items: 0, Loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1}, TiedInput: -1,
				Sources: []kernels.OutputSource{{
					H: p.guarded(s.normal(12, 1), 3), DH: p.guarded(s.normal(12, 1), 3), Weight: w.place(p), Accumulate: accumulate,
				}},
				Stats: p.guarded(make([]float32, 8), 2),
			}
			op.Workspace = p.workspace(op, 4)
			step := &kernels.Step{Number: 1, Rows: 4, Training: true, RatesFrom: 1, Rates: make([]kernels.Rates, 1), Loss: make([]float64, 1),
				Sparse: []*kernels.SparseBatch{batchOf(0, make([]map[int32]float32, 4))}}
			before := contents(op.Sources[0].DH)
			require.NoError(t, d.OutputStats(op, step))
			for i, x := range contents(op.Stats) {
				require.True(t, i >= 8 || math.IsInf(float64(x), -1))
			}
			require.NoError(t, d.OutputStep(op, step))
			require.Zero(t, step.Loss[0])
			if !accumulate {
				clear(before[:12])
			}
			require.Equal(t, before, contents(op.Sources[0].DH))
		}
	})
}

func TestLargeBuffersAreReadAsTheyWereWritten(t *testing.T) {
	x := make([]float32, 21<<20+7) // 84 MiB: more than what devices copy in one piece
	for i := range x {
		x[i] = float32(i % 16_777_213)
	}
	forEveryBackend(t, func(t *testing.T, open opener) {
		p := &place{device: open(1)}
		defer p.free()
		b := p.alloc(len(x) + 5)
		write(b, 3, x)
		found := contents(b)
		require.True(t, slices.Equal(x, found[3:len(x)+3]))
		require.Equal(t, []float32{0, 0, 0, 0, 0}, append(found[:3:3], found[len(x)+3:]...))
	})
}
