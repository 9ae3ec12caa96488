package conformance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// clipCase is a ClipNorm.
type clipCase struct {
	title     string
	step      *kernels.Step
	gradients []float32
	limit     float32
}

func (c *clipCase) name() string { return c.title }

func (c *clipCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.ClipNorm{
		Gradients: p.guarded(c.gradients, 1), Count: int64(len(c.gradients)), Limit: c.limit,
	}
	op.Workspace = p.workspace(op, c.step.Most())
	err = d.ClipNorm(op, c.step)
	r.add("gradients", op.Gradients)
	return r, err
}

// bounds: squares are added in float64, so that a factor has the roundings of a float32 number and of a product. Where the
// norm is close to the limit, the factor is close to 1.
func (c *clipCase) bounds() map[string][]float64 {
	squares := 0.0
	for _, g := range c.gradients {
		squares += float64(g) * float64(g)
	}
	norm, bounds := math.Sqrt(squares), make([]float64, len(c.gradients))
	for i, g := range c.gradients {
		if norm > float64(c.limit)*(1-1e-9) {
			bounds[i] = 3*unit*math.Abs(float64(g))*float64(c.limit)/norm + underflow
		}
	}
	return map[string][]float64{"gradients": bounds}
}

func clipCases() (cases []opCase) {
	s := newSampler(53)
	for range 32 {
		c := &clipCase{step: s.step(kernels.Optimizer{}, 1)}
		c.gradients = s.normal(pick(s, "numbers", int64(1), 3, 64, 1000, 65_537, 300_000), s.size())
		norm := math.Sqrt(kernels.Dot(c.gradients, c.gradients))
		c.limit = float32(norm * pick(s, "limit over norm", 0.5, 1e-3, 0.99, 1.01, 1000))
		if pick(s, "zeros", false, false, false, true) {
			clear(c.gradients)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// cappedCase has what ColumnNorms and CapWeight share.
type cappedCase struct {
	title         string
	step          *kernels.Step
	rows, columns int64
	value         []float32
}

func (c *cappedCase) name() string { return c.title }

func (c *cappedCase) weight(p *place) *kernels.Weights {
	return &kernels.Weights{Name: "w", Rows: c.rows, Columns: c.columns, Value: p.guarded(c.value, c.columns)}
}

// capped draws a weight with a row and a column of zeros.
func (s *sampler) capped() cappedCase {
	shape := pick(s, "shape", layerShapes...)
	c := cappedCase{step: s.step(kernels.Optimizer{}, 1), rows: shape[1], columns: shape[2]}
	if pick(s, "wide", false, false, true) {
		c.rows, c.columns = c.columns, c.rows
	}
	c.value = s.normal(c.rows*c.columns, pick(s, "size", 1.0, 1e4, 1e-30, 1e-39, 3e37))
	if pick(s, "zeros", false, true) {
		clear(c.value[c.rows/2*c.columns:][:c.columns])
		for row := range c.rows {
			c.value[row*c.columns+c.columns/2] = 0
		}
	}
	return c
}

// norm is that of a row, or of a column.
func (c *cappedCase) norm(n int64, column bool) float64 {
	squares, first, apart, count := 0.0, n*c.columns, int64(1), c.columns
	if column {
		first, apart, count = n, c.columns, c.rows
	}
	for i := range count {
		x := float64(c.value[first+i*apart])
		squares += x * x
	}
	return math.Sqrt(squares)
}

// columnNormsCase is a ColumnNorms.
type columnNormsCase struct{ cappedCase }

func (c *columnNormsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.ColumnNorms{Weight: c.weight(p), Norms: p.guarded(make([]float32, c.columns), 1)}
	op.Workspace = p.workspace(op, 1)
	err = d.ColumnNorms(op, c.step)
	r.add("norms", op.Norms)
	r.add("w", op.Weight.Value)
	return r, err
}

// bounds: the sums are in float64, and rounded once.
func (c *columnNormsCase) bounds() map[string][]float64 {
	var bounds []float64
	for k := range c.columns {
		bounds = append(bounds, 2*unit*min(c.norm(k, true), math.MaxFloat32)+underflow)
	}
	return map[string][]float64{"norms": bounds}
}

func columnNormsCases() (cases []opCase) {
	s := newSampler(54)
	for range 48 {
		c := &columnNormsCase{s.capped()}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// capWeightCase is a CapWeight; norms: of the columns on each of some ranks.
type capWeightCase struct {
	cappedCase
	most  float32
	ranks int64
	norms []float32
}

func (c *capWeightCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.CapWeight{Weight: c.weight(p), Cap: c.most, Ranks: c.ranks}
	if c.ranks > 0 {
		op.Norms = p.floats(c.norms)
	}
	err = d.CapWeight(op, c.step)
	r.add("w", op.Weight.Value)
	return r, err
}

// bounds: vectors that are short stay as they are, others are rounded once. A norm that is close to the limit may be on
// the other side of it.
func (c *capWeightCase) bounds() map[string][]float64 {
	var bounds []float64
	for row := range c.rows {
		ofRow := c.norm(row, false)
		for k := range c.columns {
			norm, bound := ofRow, 0.0
			if c.ranks > 0 {
				norm = c.whole(k)
			}
			if most := float64(c.most); norm > most*(1-1e-9) {
				bound = 2*unit*math.Abs(float64(c.value[row*c.columns+k]))*most/norm + underflow
			}
			bounds = append(bounds, bound)
		}
	}
	return map[string][]float64{"w": bounds}
}

// whole is the norm of a column over all ranks.
func (c *capWeightCase) whole(k int64) float64 {
	squares := 0.0
	for rank := range c.ranks {
		part := float64(c.norms[rank*c.columns+k])
		squares += part * part
	}
	return math.Sqrt(squares)
}

func capWeightCases() (cases []opCase) {
	s := newSampler(55)
	for range 64 {
		c := &capWeightCase{cappedCase: s.capped(), ranks: pick(s, "ranks", int64(0), 0, 1, 3)}
		for rank := range c.ranks {
			for k := range c.columns {
				c.norms = append(c.norms, float32(min(c.norm(k, true), 1e38)*float64(1+rank%2)))
			}
		}
		typical := c.norm(0, c.ranks > 0) * pick(s, "limit over a norm", 0.5, 1e-3, 0.99, 1.01, 1000)
		c.most = float32(min(max(typical, 1e-37), 1e38))
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestCappedVectorsHaveTheNorm(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(2)
		p := &place{device: d}
		defer p.free()
		c := cappedCase{step: newSampler(1).step(kernels.Optimizer{}, 1), rows: 3, columns: 2, value: []float32{
			3, 4,
			4, -3,
			12, 0,
		}}
		norms := &kernels.ColumnNorms{Weight: c.weight(p), Norms: p.filled(2, 0)}
		norms.Workspace = p.workspace(norms, 1)
		require.NoError(t, d.ColumnNorms(norms, c.step))
		for _, of := range []struct {
			ranks int64
			want  []float32
		}{
			{0, []float32{3, 4, 4, -3, 5, 0}},
			{1, []float32{15. / 13, 4, 20. / 13, -3, 60. / 13, 0}},
		} {
			w := c.weight(p)
			require.NoError(t, d.CapWeight(&kernels.CapWeight{Weight: w, Cap: 5, Norms: norms.Norms, Ranks: of.ranks}, c.step))
			got := make([]float32, 6)
			require.NoError(t, d.Read(w.Value, 0, got))
			require.InDeltaSlice(t, of.want, got, 1e-6, "%d ranks", of.ranks)
		}
	})
}
