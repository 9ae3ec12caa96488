package conformance

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// wholeRowsCase has what the operations on whole rows of a layer share.
type wholeRowsCase struct {
	title string
	step  *kernels.Step
	x     []float32 // [B, units]
	units int64
}

func (c *wholeRowsCase) name() string { return c.title }

func (c *wholeRowsCase) row(u int64) []float32 { return c.x[u*c.units : (u+1)*c.units] }

func (s *sampler) wholeRows() wholeRowsCase {
	shape := pick(s, "shape", layerShapes...)
	c := wholeRowsCase{step: s.step(kernels.Optimizer{}, shape[0]), units: shape[2]}
	c.x = s.normal(shape[0]*c.units, pick(s, "size", 1.0, 10, 100, 1e-30, 1e30))
	clear(c.row(shape[0] / 2))
	return c
}

// softmaxOf is the soft-max of a row, and the distances of its sums from the largest.
func softmaxOf(x []float32) (values, below []float64) {
	most, total := float64(slices.Max(x)), 0.0
	for _, z := range x {
		below = append(below, most-float64(z))
		values = append(values, math.Exp(float64(z)-most))
		total += values[len(values)-1]
	}
	for k := range values {
		values[k] /= total
	}
	return values, below
}

// softmaxRowsCase is a SoftmaxRows.
type softmaxRowsCase struct{ wholeRowsCase }

func (c *softmaxRowsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.SoftmaxRows{X: p.guarded(c.x, c.units), Units: c.units}
	err = d.SoftmaxRows(op, c.step)
	r.add("x", op.X)
	return r, err
}

// bounds: a rounded difference of z and the largest makes the exponential off by as much, relative to it.
func (c *softmaxRowsCase) bounds() map[string][]float64 {
	var bounds []float64
	for u := range c.step.Rows {
		values, below := softmaxOf(c.row(u))
		off := growth(c.units) + 4*unit
		for k, a := range values {
			off += a * (functionError + unit*below[k])
		}
		for k, a := range values {
			bounds = append(bounds, a*(off+functionError+unit*below[k])+2*underflow)
		}
	}
	return map[string][]float64{"x": bounds}
}

func softmaxRowsCases() (cases []opCase) {
	s := newSampler(71)
	for range 40 {
		c := &softmaxRowsCase{s.wholeRows()}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// softmaxRowsBackwardCase is a SoftmaxRowsBackward; x is the gradient.
type softmaxRowsBackwardCase struct {
	wholeRowsCase
	h, shift []float32
}

func (c *softmaxRowsBackwardCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.SoftmaxRowsBackward{H: p.guarded(c.h, c.units), DH: p.guarded(c.x, c.units), Units: c.units}
	if c.shift != nil {
		op.Shift = p.floats(c.shift)
	}
	err = d.SoftmaxRowsBackward(op, c.step)
	r.add("h", op.H)
	r.add("dh", op.DH)
	return r, err
}

// bounds: the sum over a row is in float64 and rounded once; what is multiplied is a difference of rounded numbers, and
// a value that may be flushed.
func (c *softmaxRowsBackwardCase) bounds() map[string][]float64 {
	var bounds []float64
	for u := range c.step.Rows {
		size, g := 0.0, make([]float64, c.units)
		for k, x := range c.row(u) {
			if g[k] = math.Abs(float64(x)); c.shift != nil {
				g[k] += math.Abs(float64(c.shift[k]))
			}
			size += float64(c.h[u*c.units+int64(k)]) * g[k]
		}
		for k := range g {
			a := float64(c.h[u*c.units+int64(k)])
			bounds = append(bounds, 4*unit*a*(g[k]+size)+underflow*(3+g[k]+size))
		}
	}
	return map[string][]float64{"dh": bounds}
}

func softmaxRowsBackwardCases() (cases []opCase) {
	s := newSampler(72)
	for range 40 {
		c := &softmaxRowsBackwardCase{wholeRowsCase: s.wholeRows()}
		sums := s.normal(c.step.Rows*c.units, pick(s, "spread of the sums", 1.0, 10, 1000))
		for u := range c.step.Rows {
			values, _ := softmaxOf(sums[u*c.units : (u+1)*c.units])
			for _, a := range values {
				c.h = append(c.h, float32(a))
			}
		}
		if pick(s, "shift", true, false) {
			c.shift = s.normal(c.units, 1)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// capRowsCase is a CapRows.
type capRowsCase struct {
	wholeRowsCase
	most float32
}

func (c *capRowsCase) op(x kernels.Buffer) *kernels.CapRows {
	return &kernels.CapRows{DZ: x, Units: c.units, Cap: c.most}
}

func (c *capRowsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op(p.guarded(c.x, c.units))
	err = d.CapRows(op, c.step)
	r.add("x", op.DZ)
	return r, err
}

// bounds: numbers of rows that are short stay as they are, the others are rounded once.
func (c *capRowsCase) bounds() map[string][]float64 {
	var bounds []float64
	for u := range c.step.Rows {
		norm, limit := math.Sqrt(kernels.Dot(c.row(u), c.row(u))), c.op(nil).Limit(c.step)
		for _, x := range c.row(u) {
			bound := 0.0
			if norm > limit {
				bound = 2*unit*math.Abs(float64(x))*limit/norm + underflow
			}
			bounds = append(bounds, bound)
		}
	}
	return map[string][]float64{"x": bounds}
}

func capRowsCases() (cases []opCase) {
	s := newSampler(73)
	for range 40 {
		c := &capRowsCase{s.wholeRows(), pick(s, "cap", float32(1), 100, 1e-20, 1e20)}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestWholeRowsThatAreNotFiniteStayNotFinite(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(1)
		for _, number := range []float64{math.Inf(1), math.NaN()} {
			row := []float32{1, float32(number), 3}
			one := wholeRowsCase{step: newSampler(1).step(kernels.Optimizer{}, 1), units: 3, x: row}
			ones := []float32{0.25, 0.5, 0.25}
			for _, c := range []opCase{
				&softmaxRowsCase{one}, &softmaxRowsBackwardCase{one, ones, nil}, &capRowsCase{one, 1},
			} {
				r, err := c.run(d)
				require.NoError(t, err)
				finite := true
				for _, f := range r {
					for _, x := range f.data[:3] {
						finite = finite && !math.IsNaN(x) && !math.IsInf(x, 0)
					}
				}
				require.False(t, finite, "%T of %v: %v", c, number, r)
			}
		}
	})
}
