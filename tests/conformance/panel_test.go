package conformance

import (
	"fmt"
	"math"

	"dsstne/kernels"
)

// transposed is a dense matrix, [rows, columns], by columns.
func transposed(dense []float32, rows, columns int64) []float32 {
	out := make([]float32, len(dense))
	for r := range rows {
		for c := range columns {
			out[c*rows+r] = dense[r*columns+c]
		}
	}
	return out
}

// sparse keeps about one number in n of a matrix, and sets the others to 0.
func (s *sampler) sparse(dense []float32, n int) {
	for i := range dense {
		if s.IntN(n) > 0 {
			dense[i] = 0
		}
	}
}

var panelShapes = [][2]int64{{1, 1}, {1, 9}, {9, 1}, {40, 30}, {7, 600}, {600, 33}, {0, 5}}

// productCase is a SparseProduct. An error of a sum of n products is at most n float32 roundings of its terms' sizes.
type productCase struct {
	title         string
	op            kernels.SparseProduct // without buffers
	dense, panels []float32
}

func (c *productCase) name() string { return c.title }

func (c *productCase) bounds() map[string][]float64 {
	rows, columns, width := c.op.Matrix.Rows, c.op.Matrix.Columns, c.op.Width
	bound := make([]float64, c.op.Panels*rows*width)
	for at := range bound {
		p, row, column := int64(at)/(rows*width), int64(at)/width%rows, int64(at)%width
		terms, size := 0.0, 0.0
		for j := range columns {
			if x := float64(c.dense[row*columns+j]); x != 0 {
				terms++
				size += math.Abs(x * float64(c.panels[(p*columns+j)*width+column]))
			}
		}
		bound[at] = (terms+1)*(size*0x1p-24) + (terms+1)*0x1p-149
	}
	return map[string][]float64{"out": bound}
}

func (c *productCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.Matrix = placeStored(p, c.dense, op.Matrix.Rows, op.Matrix.Columns)
	op.In, op.Out = p.floats(c.panels), p.floats(guards(op.Panels*op.Matrix.Rows*op.Width))
	err = d.SparseProduct(&op, &kernels.Step{Number: 1})
	r.add("out", op.Out)
	return r, err
}

func productCases() (cases []opCase) {
	s := newSampler(83)
	for range 60 {
		shape := panelShapes[s.IntN(len(panelShapes))]
		c := &productCase{op: kernels.SparseProduct{
			Matrix: kernels.SparseMatrix{Rows: shape[0], Columns: shape[1]},
			Panels: pick(s, "panels", int64(1), 2, 5), Width: pick(s, "width", kernels.PanelWidths...),
		}}
		size := pick(s, "size", 1.0, 1e10, 1e-20)
		c.dense = s.normal(shape[0]*shape[1], size)
		s.sparse(c.dense, pick(s, "one entry of", 1, 3, 20, 1<<30))
		c.panels = s.normal(c.op.Panels*shape[1]*c.op.Width, size)
		c.title = fmt.Sprintf("%v, %s", shape, s.title())
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// solveCase is a Solve whose iterations suffice: the ridge is as large as what is added to it.
type solveCase struct {
	title string
	op    kernels.Solve // without buffers
	dense []float32
	ridge []float32
	sides []float32
}

func (c *solveCase) name() string { return c.title }

// bounds: each column is within a ten-thousandth of its largest number. A column without a right-hand side is 0.
func (c *solveCase) bounds() map[string][]float64 {
	items, width := c.op.ByItem.Rows, c.op.Width
	bound := make([]float64, items*width)
	for column := range width {
		largest := 0.0
		for i := range items {
			largest = max(largest, math.Abs(float64(c.sides[i*width+column]/c.ridge[i])))
		}
		for i := range items {
			bound[i*width+column] = 5e-5 * largest
		}
	}
	return map[string][]float64{"x": bound}
}

func (c *solveCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op, rows, items := c.op, c.op.ByRow.Rows, c.op.ByItem.Rows
	op.ByRow = placeStored(p, c.dense, rows, items)
	op.ByItem = placeStored(p, transposed(c.dense, rows, items), items, rows)
	diagonal := make([]float32, items)
	for i := range diagonal {
		sum := float64(c.ridge[i])
		for u := range rows {
			sum += math.Pow(float64(c.dense[u*items+int64(i)]), 2)
		}
		diagonal[i] = float32(sum)
	}
	op.Ridge, op.Diagonal, op.B = p.floats(c.ridge), p.floats(diagonal), p.floats(c.sides)
	op.X, op.Report = p.floats(guards(items*op.Width)), p.floats(make([]float32, 2))
	op.Workspace = p.workspace(&op, 1)
	err = d.Solve(&op, &kernels.Step{Number: 1})
	r.add("x", op.X)
	return r, err
}

func solveCases() (cases []opCase) {
	s := newSampler(89)
	for range 40 {
		shape := panelShapes[s.IntN(len(panelShapes))]
		c := &solveCase{op: kernels.Solve{
			ByRow: kernels.SparseMatrix{Rows: shape[0]}, ByItem: kernels.SparseMatrix{Rows: shape[1]},
			Width: pick(s, "width", kernels.PanelWidths...), Tolerance: 1e-6, Iterations: 40,
		}}
		size := pick(s, "size", 1.0, 1e4, 1e-4)
		c.dense = s.normal(shape[0]*shape[1], size)
		s.sparse(c.dense, pick(s, "one entry of", 3, 20, 1<<30))
		c.ridge = make([]float32, shape[1])
		for i := range c.ridge {
			c.ridge[i] = float32(size * size * (5 + s.Float64()) * (1 + float64(shape[0])/10))
		}
		c.sides = s.normal(shape[1]*c.op.Width, 1)
		if pick(s, "right-hand sides", "normal", "unit vectors and zeros") != "normal" {
			for i := range c.sides {
				c.sides[i] = 0
				if int64(i)/c.op.Width == int64(i)%c.op.Width {
					c.sides[i] = 1
				}
			}
		}
		c.title = fmt.Sprintf("%v, %s", shape, s.title())
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// largestCase is a KeepLargest, which is defined to the bit.
type largestCase struct {
	title          string
	op             kernels.KeepLargest // without buffers
	panel, weights []float32
	step           int64
}

func (c *largestCase) name() string                 { return c.title }
func (c *largestCase) bounds() map[string][]float64 { return nil }

func (c *largestCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.Panel, op.Weights = p.floats(c.panel), p.floats(c.weights)
	op.IDs, op.Values = p.floats(guards(op.Rows*op.K)), p.floats(guards(op.Rows*op.K))
	op.Diagonal = p.floats(guards(op.Rows))
	err = d.(kernels.Solver).KeepLargest(&op, &kernels.Step{Number: c.step})
	r.addInts("ids", integers(contents(op.IDs)))
	r.add("values", op.Values)
	r.add("diagonal", op.Diagonal)
	return r, err
}

func largestCases() (cases []opCase) {
	s := newSampler(97)
	for range 60 {
		c := &largestCase{step: pick(s, "step", int64(1), 2, 9), op: kernels.KeepLargest{
			Rows: pick(s, "rows", int64(1), 40, 333), Width: pick(s, "width", kernels.PanelWidths...),
			K: pick(s, "k", int64(1), 7, 400),
		}}
		c.panel = s.normal(c.op.Rows*c.op.Width, 1)
		switch pick(s, "numbers", "normal", "few", "NaN and infinite", "zeros") {
		case "few":
			for i := range c.panel {
				c.panel[i] = float32(s.IntN(4) - 1)
			}
		case "NaN and infinite":
			for i := range c.panel {
				if s.IntN(3) == 0 {
					c.panel[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[s.IntN(3)]
				}
			}
		case "zeros":
			clear(c.panel)
		}
		c.weights = s.normal(c.op.Rows, 1)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// turnCase is a RowsToPanel or a PanelToRows, which are defined to the bit.
type turnCase struct {
	title                        string
	toRows                       bool
	items, width, first          int64
	rows                         *kernels.SparseBatch
	panel, factors, own, ifEmpty []float32
}

func (c *turnCase) name() string                 { return c.title }
func (c *turnCase) bounds() map[string][]float64 { return nil }

func (c *turnCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	rows := int64(len(c.rows.Offsets) - 1)
	step := &kernels.Step{Number: 1, Rows: rows, Sparse: []*kernels.SparseBatch{c.rows}}
	panel, factors := p.floats(c.panel), p.floats(c.factors)
	if !c.toRows {
		op := &kernels.RowsToPanel{Items: c.items, Width: c.width, First: c.first, Factors: factors, Panel: panel}
		err = d.RowsToPanel(op, step)
		r.add("panel", panel)
		return r, err
	}
	out := p.guarded(guards(rows*c.items), c.items)
	op := &kernels.PanelToRows{
		Items: c.items, Width: c.width, First: c.first, Factors: factors, IfEmpty: p.floats(c.ifEmpty), Panel: panel,
		Out: out,
	}
	if c.own != nil {
		op.Own = p.floats(c.own)
	}
	err = d.PanelToRows(op, step)
	r.add("out", out)
	return r, err
}

func turnCases(toRows bool) (cases []opCase) {
	s := newSampler(101)
	for range 40 {
		c := &turnCase{
			toRows: toRows, items: pick(s, "items", int64(1), 40, 1024, 3000), width: pick(s, "width", kernels.PanelWidths...),
			first: pick(s, "first", int64(0), 32, 200),
		}
		c.rows = s.batch(pick(s, "rows", int64(1), 33, 100), c.items, pick(s, "batch", "sparse", "gaps", "full", "empty"), true)
		c.panel, c.factors = s.normal(c.items*c.width, 1), s.normal(c.items, 1)
		c.ifEmpty = s.normal(c.items, 1)
		if toRows && pick(s, "own", true, false) {
			c.own = s.normal(c.items, 1)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// restrictedCase is a RestrictedInverse whose parts are well conditioned, or become it.
type restrictedCase struct {
	title           string
	op              kernels.RestrictedInverse // without buffers
	ids             []int32
	values, factors []float32
	step            int64
}

func (c *restrictedCase) name() string { return c.title }

func (c *restrictedCase) bounds() map[string][]float64 {
	bound := make([]float64, c.op.Items*c.op.Neighbors)
	for at := range bound {
		bound[at] = 2e-5
	}
	return map[string][]float64{"weights": bound}
}

func (c *restrictedCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.IDs, op.Values = p.floats(kernels.Bits(c.ids)), p.floats(c.values)
	op.Factors = p.floats(c.factors)
	op.Weights = p.floats(guards(op.Items * op.Neighbors))
	op.Workspace = p.workspace(&op, op.Block)
	err = d.(kernels.Solver).RestrictedInverse(&op, &kernels.Step{Number: c.step})
	r.add("weights", op.Weights)
	return r, err
}

func restrictedCases() (cases []opCase) {
	s := newSampler(103)
	for range 40 {
		c := &restrictedCase{step: pick(s, "step", int64(1), 2), op: kernels.RestrictedInverse{
			Items: pick(s, "items", int64(1), 30, 90), Neighbors: pick(s, "neighbors", int64(1), 7, 70),
			Block: pick(s, "block", int64(20), 100),
		}}
		size := float32(1) / float32(c.op.Neighbors)
		indefinite := pick(s, "matrix", "definite", "indefinite") == "indefinite"
		if indefinite {
			size = 5
		}
		matrix := s.normal(c.op.Items*c.op.Items, 1)
		for i := range c.op.Items {
			count := 0
			for j := range c.op.Items {
				if j != i && count < int(c.op.Neighbors) && s.IntN(2) == 0 {
					c.ids = append(c.ids, int32(j))
					c.values = append(c.values, size*matrix[min(i, j)*c.op.Items+max(i, j)])
					count++
				}
			}
			for ; count < int(c.op.Neighbors); count++ {
				c.ids, c.values = append(c.ids, -1), append(c.values, 0)
			}
		}
		c.factors = s.normal(c.op.Items, 1)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
