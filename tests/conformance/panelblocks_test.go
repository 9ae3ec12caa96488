package conformance

import (
	"math"

	"dsstne/kernels"
)

const blockArea = kernels.BlockWidth * kernels.BlockWidth

// gramCase is a PanelGram. A sum of n products in float32 is within n + 1 roundings of its terms' sizes; float64 adds
// nothing to speak of.
type gramCase struct {
	title string
	op    kernels.PanelGram // without buffers
	a, b  []float32
}

func (c *gramCase) name() string { return c.title }

func (c *gramCase) bounds() map[string][]float64 {
	bound := make([]float64, c.op.As*c.op.Bs*blockArea)
	for at := range bound {
		block, row, column := int64(at)/blockArea, int64(at)/kernels.BlockWidth%kernels.BlockWidth, int64(at)%kernels.BlockWidth
		for r := range c.op.Rows {
			x := c.a[(block/c.op.Bs*c.op.Rows+r)*kernels.BlockWidth+row]
			y := c.b[(block%c.op.Bs*c.op.Rows+r)*kernels.BlockWidth+column]
			bound[at] += math.Abs(float64(x)*float64(y))*0x1p-24*float64(min(c.op.Rows, 512)+1) + 0x1p-149
		}
	}
	return map[string][]float64{"out": bound}
}

func (c *gramCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.A, op.B = p.floats(c.a), p.floats(c.b)
	op.Out = p.floats(guards(2 * op.As * op.Bs * blockArea))
	op.Workspace = p.workspace(&op, 1)
	err = d.(kernels.Solver).PanelGram(&op, &kernels.Step{Number: 1})
	out := make([]float32, 0, op.As*op.Bs*blockArea)
	for _, x := range kernels.View[float64](op.Out) {
		out = append(out, float32(x))
	}
	r.add("out", p.floats(out))
	return r, err
}

func gramCases() (cases []opCase) {
	s := newSampler(101)
	for range 20 {
		c := &gramCase{op: kernels.PanelGram{
			Rows: pick(s, "rows", int64(1), 7, 64, 600, 5000), As: pick(s, "As", int64(1), 2, 3), Bs: pick(s, "Bs", int64(1), 2),
		}}
		size := pick(s, "size", 1.0, 1e10, 1e-15)
		c.a = s.normal(c.op.As*c.op.Rows*kernels.BlockWidth, size)
		c.b = s.normal(c.op.Bs*c.op.Rows*kernels.BlockWidth, size)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// blocksCase is a PanelProduct.
type blocksCase struct {
	title           string
	op              kernels.PanelProduct // without buffers
	in, matrix, out []float32
}

func (c *blocksCase) name() string { return c.title }

func (c *blocksCase) bounds() map[string][]float64 {
	op := &c.op
	terms := float64(op.Ins*kernels.BlockWidth + 2)
	bound := make([]float64, op.Outs*op.Rows*kernels.BlockWidth)
	for at := range bound {
		j, row, column := int64(at)/kernels.BlockWidth/op.Rows, int64(at)/kernels.BlockWidth%op.Rows,
			int64(at)%kernels.BlockWidth
		size := 0.0
		if op.Add {
			size = math.Abs(float64(c.out[at]))
		}
		for p := range op.Ins * kernels.BlockWidth {
			i, k := p/kernels.BlockWidth, p%kernels.BlockWidth
			x := c.in[(i*op.Rows+row)*kernels.BlockWidth+k]
			size += math.Abs(float64(x) * float64(c.matrix[((i*op.Outs+j)*kernels.BlockWidth+k)*kernels.BlockWidth+column]))
		}
		bound[at] = terms * (size*0x1p-24 + 0x1p-149)
	}
	return map[string][]float64{"out": bound}
}

func (c *blocksCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.In, op.Matrix, op.Out = p.floats(c.in), p.floats(c.matrix), p.floats(c.out)
	if op.InPlace {
		op.Out = op.In
	}
	op.Workspace = p.workspace(&op, 1)
	err = d.PanelProduct(&op, &kernels.Step{Number: 1})
	r.add("out", p.floats(contents(op.Out)[:op.Outs*op.Rows*kernels.BlockWidth]))
	return r, err
}

func blocksCases() (cases []opCase) {
	s := newSampler(103)
	for range 30 {
		c := &blocksCase{op: kernels.PanelProduct{
			Rows: pick(s, "rows", int64(1), 63, 64, 300), Ins: pick(s, "ins", int64(1), 2, 3), Outs: pick(s, "outs", int64(1), 2),
			InPlace: pick(s, "in place", false, true),
		}}
		c.op.Add = !c.op.InPlace && pick(s, "add", false, true)
		c.op.Outs = min(c.op.Ins, c.op.Outs)
		size := pick(s, "size", 1.0, 1e10, 1e-15)
		c.in = s.normal(c.op.Ins*c.op.Rows*kernels.BlockWidth, size)
		c.matrix = s.normal(c.op.Ins*c.op.Outs*blockArea, size)
		c.out = s.normal(c.op.Outs*c.op.Rows*kernels.BlockWidth, size*size)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// toBlocksCase is a RowsToBlocks.
type toBlocksCase struct {
	title       string
	op          kernels.RowsToBlocks // without buffers
	rows        *kernels.SparseBatch
	factors, in []float32
}

func (c *toBlocksCase) name() string { return c.title }

func (c *toBlocksCase) bounds() map[string][]float64 {
	bound := make([]float64, c.op.Ins*blockArea)
	rows := int64(len(c.rows.Offsets) - 1)
	for at := range bound {
		i, k := int64(at)/blockArea, int64(at)/kernels.BlockWidth%kernels.BlockWidth
		u := c.op.First + int64(at)%kernels.BlockWidth
		if u >= rows {
			continue
		}
		terms := float64(c.rows.Offsets[u+1]-c.rows.Offsets[u]) + 2
		for e := c.rows.Offsets[u]; e < c.rows.Offsets[u+1]; e++ {
			j := int64(c.rows.Indices[e])
			x := float64(c.factors[j]) * float64(c.rows.Values[e]) * float64(c.in[(i*c.op.Items+j)*kernels.BlockWidth+k])
			bound[at] += terms * (math.Abs(x)*0x1p-24 + 0x1p-149)
		}
	}
	return map[string][]float64{"out": bound}
}

func (c *toBlocksCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	step := &kernels.Step{Number: 1, Rows: int64(len(c.rows.Offsets) - 1), Sparse: []*kernels.SparseBatch{c.rows}}
	op.Factors, op.In, op.Out = p.floats(c.factors), p.floats(c.in), p.floats(guards(op.Ins*blockArea))
	err = d.RowsToBlocks(&op, step)
	r.add("out", op.Out)
	return r, err
}

func toBlocksCases() (cases []opCase) {
	s := newSampler(107)
	for range 20 {
		c := &toBlocksCase{op: kernels.RowsToBlocks{
			Items: pick(s, "items", int64(1), 40, 500), Ins: pick(s, "ins", int64(1), 3),
			First: pick(s, "first", int64(0), 64, 200),
		}}
		c.rows = s.batch(pick(s, "rows", int64(1), 33, 100), c.op.Items, pick(s, "batch", "sparse", "gaps", "full", "empty"),
			true)
		c.factors, c.in = s.normal(c.op.Items, 1), s.normal(c.op.Ins*c.op.Items*kernels.BlockWidth, 1)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// scaleCase is a PanelScale: three roundings.
type scaleCase struct {
	title            string
	op               kernels.PanelScale // without buffers
	in, out, factors []float32
}

func (c *scaleCase) name() string { return c.title }

func (c *scaleCase) bounds() map[string][]float64 {
	bound := make([]float64, len(c.in))
	for at, x := range c.in {
		size := math.Abs(float64(x) * float64(c.op.Factor))
		if c.factors != nil {
			size *= math.Abs(float64(c.factors[int64(at)/c.op.Width]))
		}
		if c.op.Add {
			size += math.Abs(float64(c.out[at]))
		}
		bound[at] = 3*size*0x1p-24 + 0x1p-148
	}
	return map[string][]float64{"out": bound}
}

func (c *scaleCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	if op.In, op.Out = p.floats(c.in), p.floats(c.out); c.factors != nil {
		op.Factors = p.floats(c.factors)
	}
	err = d.PanelScale(&op, &kernels.Step{Number: 1})
	r.add("out", op.Out)
	return r, err
}

func scaleCases() (cases []opCase) {
	s := newSampler(109)
	for range 20 {
		c := &scaleCase{op: kernels.PanelScale{
			Rows: pick(s, "rows", int64(1), 40, 600), Width: pick(s, "width", kernels.PanelWidths...),
			Add: pick(s, "add", false, true), Factor: pick(s, "factor", float32(1), -0.3),
		}}
		c.in, c.out = s.normal(c.op.Rows*c.op.Width, 1), s.normal(c.op.Rows*c.op.Width, 1)
		if pick(s, "factors", false, true) {
			c.factors = s.normal(c.op.Rows, 1)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
