package conformance

import (
	"math"

	"dsstne/kernels"
)

// fillCase is a Fill, which has no bounds: it is defined to the bit.
type fillCase struct {
	title string
	op    kernels.Fill
}

func (c *fillCase) name() string { return c.title }

func (c *fillCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.Out = p.guarded(make([]float32, op.Rows*op.Columns), op.Columns)
	err = d.Fill(&op)
	r.add("out", op.Out)
	return r, err
}

func (c *fillCase) bounds() map[string][]float64 { return nil }

func fillCases() (cases []opCase) {
	s := newSampler(19)
	for range 60 {
		c := &fillCase{}
		shape := pick(s, "shape", [2]int64{0, 5}, [2]int64{1, 1}, [2]int64{3, 19}, [2]int64{37, 64}, [2]int64{700, 1}, [2]int64{65, 130},
			[2]int64{2, 300_001}, [2]int64{9000, 66})
		c.op = kernels.Fill{Rows: shape[0], Columns: shape[1], Seed: s.Uint64(), Stream: s.Uint32()}
		c.op.Kind = pick(s, "kind", fillKinds...)
		// A scale that makes numbers below the normal ones, and one that overflows a few.
		c.op.Scale = pick(s, "scale", float32(0.05), 1, 0, -3, 1e-41, math.MaxFloat32/4)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
