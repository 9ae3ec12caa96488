package conformance

import (
	"dsstne/kernels"
)

// neighborhoodCase is a Neighborhood. It has no bounds: similarities are defined to the bit.
type neighborhoodCase struct {
	title   string
	rows    int64
	op      kernels.Neighborhood // without buffers
	dense   []float32            // [rows, items]
	weights []float64
	by      [3][]float64 // Left, Right, Norms
	step    int64
}

func (c *neighborhoodCase) name() string                 { return c.title }
func (c *neighborhoodCase) bounds() map[string][]float64 { return nil }

func (c *neighborhoodCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op, items := c.op, c.op.ByItem.Rows
	op.ByRow = placeStored(p, c.dense, c.rows, items)
	op.ByItem = placeStored(p, transposed(c.dense, c.rows, items), items, c.rows)
	op.Similarity.RowWeights = p.floats(kernels.Bits(c.weights))
	for n, to := range []*kernels.Buffer{&op.Similarity.Left, &op.Similarity.Right, &op.Similarity.Norms} {
		*to = p.floats(kernels.Bits(c.by[n]))
	}
	op.IDs, op.Similarities = p.floats(guards(items*op.K)), p.floats(guards(items*op.K))
	op.Workspace = p.workspace(&op, op.Block)
	err = d.(kernels.Solver).Neighborhood(&op, &kernels.Step{Number: c.step})
	r.addInts("ids", integers(contents(op.IDs)))
	r.add("similarities", op.Similarities)
	return r, err
}

// placeStored puts the entries of a dense matrix that are not 0 on a device.
func placeStored(p *place, dense []float32, rows, columns int64) kernels.SparseMatrix {
	s := (&sparseMatrix{rows: rows, columns: columns, dense: dense, isStored: true}).place(p)
	return kernels.SparseMatrix{Rows: rows, Columns: columns, Offsets: s.Offsets, Indices: s.Indices, Values: s.Values}
}

func neighborhoodCases() (cases []opCase) {
	s := newSampler(71)
	for range 60 {
		shape := pick(s, "shape", [2]int64{1, 1}, [2]int64{1, 9}, [2]int64{9, 1}, [2]int64{40, 30}, [2]int64{7, 300})
		c := &neighborhoodCase{rows: shape[0], weights: make([]float64, shape[0])}
		items := shape[1]
		c.op = kernels.Neighborhood{
			ByItem: kernels.SparseMatrix{Rows: items}, Block: pick(s, "block", int64(1), 7, 1000),
			K: pick(s, "k", int64(1), 3, 50, 400),
		}
		c.step = pick(s, "step", int64(1), 2, 9)
		c.dense = s.normal(c.rows*items, 1)
		switch pick(s, "numbers", "normal", "ones", "cancelling", "huge", "tiny", "none") {
		case "ones":
			for i := range c.dense {
				c.dense[i] = 1
			}
		case "cancelling":
			for i := range c.dense {
				c.dense[i] = float32(s.IntN(3) - 1)
			}
		case "huge":
			scaleBy(c.dense, 1e30)
		case "tiny":
			scaleBy(c.dense, 1e-40)
		case "none":
			clear(c.dense)
		}
		s.sparse(c.dense, pick(s, "one entry of", 1, 3, 10))
		for u := range c.weights {
			c.weights[u] = 1 + s.Float64()
		}
		for n := range c.by {
			c.by[n] = make([]float64, items)
			for i := range c.by[n] {
				c.by[n][i] = 1 + float64(s.IntN(3))
			}
		}
		similarity := &c.op.Similarity
		similarity.Product = pick(s, "product", 0.0, 1)
		similarity.Sum, similarity.Shared = pick(s, "sum", 0.0, 1), pick(s, "shared", 0.0, 0.5)
		similarity.Constant = pick(s, "constant", 1.0, 0, 20)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
