package conformance

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// mergedCase is a Merge, or with a gradient dout a MergeBackward.
type mergedCase struct {
	title   string
	step    *kernels.Step
	kind    kernels.MergeKind
	units   int64
	sources []mergedSource
	dout    []float32 // [B, columns]
}

// mergedSource is the host-side content of a kernels.MergeSource.
type mergedSource struct {
	h, dh      []float32 // [B, units]; dh is the content before the op, nil: not wanted
	accumulate bool
}

func (c *mergedCase) name() string { return c.title }

func (c *mergedCase) columns() int64 { return c.kind.Columns(c.units, len(c.sources)) }

func (c *mergedCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Merge{Kind: c.kind, Units: c.units}
	for _, s := range c.sources {
		source := kernels.MergeSource{H: p.guarded(s.h, c.units), Accumulate: s.accumulate}
		if s.dh != nil {
			source.DH = p.guarded(s.dh, c.units)
		}
		op.Sources = append(op.Sources, source)
	}
	step := fresh(c.step)
	if c.dout == nil {
		op.Out = p.guarded(make([]float32, c.step.Rows*c.columns()), c.columns())
		err = d.Merge(op, step)
		r.add("out", op.Out)
	} else {
		back := &kernels.MergeBackward{Merge: op, DOut: p.guarded(c.dout, c.columns())}
		err = d.MergeBackward(back, step)
		r.add("dout", back.DOut)
	}
	for n, source := range op.Sources {
		r.add(fieldOf("h", n), source.H)
		r.add(fieldOf("dh", n), source.DH)
	}
	return r, err
}

// bounds: sums in float64 are rounded once; gradients with respect to the first source are sums of rounded terms.
func (c *mergedCase) bounds() map[string][]float64 {
	const exact = 0x1p-40 // what sums in float64 may lose
	to := map[string][]float64{"out": make([]float64, c.step.Rows*c.columns())}
	gradients := make([][]sum, len(c.sources))
	for n, s := range c.sources {
		gradients[n] = make([]sum, len(s.h))
		for k := range s.h {
			if s.accumulate {
				gradients[n][k].product(1, float64(s.dh[k]))
			}
			if c.kind == kernels.MergeMaximum && c.dout != nil {
				gradients[n][k].product(1, float64(c.dout[k]))
			}
		}
	}
	for u := range c.step.Rows {
		row := func(n int) []float32 { return c.sources[n].h[u*c.units : (u+1)*c.units] }
		for n := 1; n < len(c.sources) && c.kind != kernels.MergeMaximum; n++ {
			a, b, aLen, bLen, magnitude := row(0), row(n), 1.0, 1.0, 0.0
			for k := range a {
				magnitude += math.Abs(float64(a[k]) * float64(b[k]))
			}
			value := kernels.Dot(a, b)
			if c.kind == kernels.MergeCosine {
				if aLen, bLen = math.Sqrt(kernels.Dot(a, a)), math.Sqrt(kernels.Dot(b, b)); aLen == 0 || bLen == 0 {
					continue
				}
				value, magnitude = value/aLen/bLen, magnitude/aLen/bLen
			}
			at := u*c.columns() + int64(n) - 1
			to["out"][at] = unit*math.Abs(value) + exact*magnitude + underflow
			if c.dout == nil {
				continue
			}
			g := math.Abs(float64(c.dout[at]))
			for k := range a {
				x, y := math.Abs(float64(a[k]))/aLen, math.Abs(float64(b[k]))/bLen
				if c.kind == kernels.MergeCosine {
					x, y = x+magnitude*y, y+magnitude*x
				}
				first, second := g*y/aLen, g*x/bLen
				gradients[0][u*c.units+int64(k)].add(first, first, unit*first+underflow)
				gradients[n][u*c.units+int64(k)].add(second, second, unit*second+underflow)
			}
		}
	}
	if c.dout == nil {
		return to
	}
	delete(to, "out")
	for n, s := range c.sources {
		if s.dh != nil {
			to[fieldOf("dh", n)] = boundsOf(gradients[n])
		}
	}
	return to
}

func mergedCases(backward bool) (cases []opCase) {
	s := newSampler(55)
	for range 48 {
		shape := pick(s, "shape", layerShapes...)
		rows, units := shape[0], shape[2]
		c := &mergedCase{step: s.step(kernels.Optimizer{}, rows), units: units}
		c.kind = pick(s, "kind", kernels.MergeMaximum, kernels.MergeDot, kernels.MergeCosine)
		size := pick(s, "size", 1.0, 1.0, 1e-15, 1e15)
		for range pick(s, "sources", 2, 2, 3, 1, 64) {
			source := mergedSource{h: s.normal(rows*units, size)}
			clear(source.h[(rows/2)*units : (rows/2+1)*units]) // rows of zeros, and ties
			if backward && pick(s, "dh", true, true, true, false) {
				source.dh, source.accumulate = s.normal(rows*units, 1), pick(s, "accumulate", false, true)
			}
			c.sources = append(c.sources, source)
		}
		if c.columns() == 0 { // a product takes two sources at least
			c.kind = kernels.MergeMaximum
		}
		if backward {
			c.dout = s.normal(rows*c.columns(), 1)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestTheGradientOfAMaximumGoesToTheFirstSourceThatHasIt(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		c := &mergedCase{step: newSampler(1).step(kernels.Optimizer{}, 1), units: 3, dout: []float32{1, 2, 3}}
		for _, h := range [][]float32{{1, 5, -1}, {1, 7, -1}, {0, 7, -1}} {
			c.sources = append(c.sources, mergedSource{h: h, dh: make([]float32, 3)})
		}
		r, err := c.run(open(1))
		require.NoError(t, err)
		for n, want := range [][]float64{{1, 0, 3}, {0, 2, 0}, {0, 0, 0}} {
			at := slices.IndexFunc(r, func(f field) bool { return f.name == fieldOf("dh", n) })
			require.Equal(t, want, r[at].data[:3])
		}
	})
}

// skipCase is a Skip.
type skipCase struct {
	title                string
	step                 *kernels.Step
	in, out              []float32 // [B, stride], [B, units]
	stride, first, units int64
	accumulate           bool
}

func (c *skipCase) name() string { return c.title }

func (c *skipCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Skip{
		In: p.guarded(c.in, c.stride), Stride: c.stride, First: c.first, Out: p.guarded(c.out, c.units), Units: c.units,
		Accumulate: c.accumulate,
	}
	err = d.Skip(op, fresh(c.step))
	r.add("in", op.In)
	r.add("out", op.Out)
	return r, err
}

// bounds: a sum of two numbers is rounded once.
func (c *skipCase) bounds() map[string][]float64 {
	bounds := make([]float64, len(c.out))
	for n := range bounds {
		if u, k := int64(n)/c.units, int64(n)%c.units; c.accumulate {
			bounds[n] = unit*(math.Abs(float64(c.out[n]))+math.Abs(float64(c.in[u*c.stride+c.first+k]))) + 3*underflow
		}
	}
	return map[string][]float64{"out": bounds}
}

func skipCases() (cases []opCase) {
	s := newSampler(56)
	for range 24 {
		shape := pick(s, "shape", layerShapes...)
		rows, units := shape[0], shape[2]
		c := &skipCase{step: s.step(kernels.Optimizer{}, rows), units: units, stride: units}
		if pick(s, "among others", true, false) {
			c.stride, c.first = units+7, 4
		}
		c.accumulate = pick(s, "accumulate", true, false)
		size := pick(s, "size", 1.0, 1e-38, 1e30)
		c.in, c.out = s.normal(rows*c.stride, size), s.normal(rows*units, size)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
