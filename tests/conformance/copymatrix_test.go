package conformance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// copyMatrixCase is a CopyMatrix.
type copyMatrixCase struct {
	title                  string
	step                   *kernels.Step
	in, out                []float32
	rows, columns          int64 // of out
	transposed, accumulate bool
}

func (c *copyMatrixCase) name() string { return c.title }

func (c *copyMatrixCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.CopyMatrix{
		In: p.guarded(c.in, c.rows), Out: p.guarded(c.out, c.columns), Rows: c.rows, Columns: c.columns,
		Transposed: c.transposed, Accumulate: c.accumulate,
	}
	err = d.CopyMatrix(op, c.step)
	r.add("in", op.In)
	r.add("out", op.Out)
	return r, err
}

// at is where the number of an element of out is in in.
func (c *copyMatrixCase) at(n int64) int64 {
	if c.transposed {
		return n%c.columns*c.rows + n/c.columns
	}
	return n
}

// bounds: a copy has the same bits, a sum of two numbers is rounded once.
func (c *copyMatrixCase) bounds() map[string][]float64 {
	bounds := make([]float64, len(c.out))
	for n := range bounds {
		if c.accumulate {
			size := math.Abs(float64(c.out[n])) + math.Abs(float64(c.in[c.at(int64(n))]))
			bounds[n] = unit*size + 3*underflow
		}
	}
	return map[string][]float64{"out": bounds}
}

func copyMatrixCases() (cases []opCase) {
	s := newSampler(74)
	for range 48 {
		rows, columns := pick(s, "rows", int64(1), 3, 16, 33, 64, 300), pick(s, "columns", int64(1), 5, 32, 65, 200)
		c := &copyMatrixCase{step: s.step(kernels.Optimizer{}, 1), rows: rows, columns: columns}
		c.transposed, c.accumulate = pick(s, "transposed", true, false), pick(s, "accumulate", true, false)
		size := pick(s, "size", 1.0, 1e-38, 1e30)
		c.in, c.out = s.normal(rows*columns, size), s.normal(rows*columns, size)
		if pick(s, "zeros", false, false, true) {
			clear(c.in)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestCopiesOfNumbersThatAreNotFiniteHaveThem(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d, in := open(1), []float32{1, float32(math.Inf(1)), float32(math.NaN()), 4, -5, 6}
		for _, accumulate := range []bool{false, true} {
			c := &copyMatrixCase{
				step: newSampler(1).step(kernels.Optimizer{}, 1), in: in, out: make([]float32, 6), rows: 3, columns: 2,
				transposed: true, accumulate: accumulate,
			}
			r, err := c.run(d)
			require.NoError(t, err)
			out := r[1].data
			require.Equal(t, []float64{1, 4}, out[:2])
			require.True(t, math.IsInf(out[2], 1))
			require.True(t, math.IsNaN(out[4]))
			require.Equal(t, 6.0, out[5])
		}
	})
}
