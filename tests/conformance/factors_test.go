package conformance

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// leastSquaresCase is a LeastSquares of a matrix, or of a batch.
type leastSquaresCase struct {
	title                            string
	op                               kernels.LeastSquares // without buffers
	rows, columns, step              int64
	dense, factors, squares, offsets []float32
	isBatch                          bool
}

func (c *leastSquaresCase) name() string { return c.title }

func (c *leastSquaresCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op, step := c.op, &kernels.Step{Number: c.step, Rows: c.rows}
	matrix := placeStored(p, c.dense, c.rows, c.columns)
	op.Matrix = &matrix
	if c.isBatch {
		op.Matrix, op.Input = nil, 1
		batch := &kernels.SparseBatch{Columns: c.columns, Indices: matrix.Indices.Int32(), Values: matrix.Values.Float32()}
		for _, at := range kernels.View[int64](matrix.Offsets) {
			batch.Offsets = append(batch.Offsets, int32(at))
		}
		step.Sparse = []*kernels.SparseBatch{nil, batch}
	}
	op.Factors = p.floats(c.factors)
	if c.squares != nil {
		op.Squares = p.floats(c.squares)
	}
	op.Out = p.floats(guards((c.rows + 1) * op.Width))
	if c.offsets != nil {
		op.Offsets, op.Bias = p.floats(c.offsets), p.floats(guards(c.rows+1))
	}
	op.Workspace = p.workspace(&op, c.rows)
	err = op.Do(kernels.Rank{Device: d}, step)
	r.add("out", op.Out)
	if op.Bias != nil {
		r.add("bias", op.Bias)
	}
	return r, err
}

// bounds are a share of the length of each row's solution: the systems are well conditioned.
func (c *leastSquaresCase) bounds() map[string][]float64 {
	exact, err := c.run(referenceDevice())
	if err != nil {
		return nil
	}
	to := map[string][]float64{}
	for _, field := range exact {
		bound := make([]float64, len(field.data))
		for row := range c.rows {
			length := 0.0
			for _, f := range exact {
				width := int64(len(f.data)) / (c.rows + 1)
				for _, x := range f.data[row*width : (row+1)*width] {
					length = math.Hypot(length, x)
				}
			}
			width := int64(len(field.data)) / (c.rows + 1)
			for k := range width {
				if float32(field.data[row*width+k]) != guardValue {
					bound[row*width+k] = 2e-5*length + underflow
				}
			}
		}
		to[field.name] = bound
	}
	return to
}

func referenceDevice() kernels.Device {
	d, err := kernels.Lookup("reference").Open(0, kernels.Options{})
	if err != nil {
		panic(err)
	}
	return d
}

func leastSquaresCases() (cases []opCase) {
	s := newSampler(72)
	for range 80 {
		shape := pick(s, "shape", [2]int64{1, 1}, [2]int64{1, 90}, [2]int64{30, 7}, [2]int64{9, 200}, [2]int64{3, 400})
		c := &leastSquaresCase{rows: shape[0], columns: shape[1]}
		c.op.Width = pick(s, "width", int64(1), 3, 15, 16, 17, 40, 64, 130)
		c.dense = s.normal(c.rows*c.columns, 1)
		gaps := pick(s, "stored", 1, 3, 20, 1<<30)
		for i := range c.dense {
			if s.IntN(gaps) > 0 {
				c.dense[i] = 0
			}
		}
		// Sizes of factors whose squares are still numbers; the ridge is of their order.
		size := pick(s, "size", 1.0, 1e12, 1e-12)
		c.factors = s.normal(c.columns*c.op.Width, size)
		c.op.Ridge, c.op.Exponent, c.op.Pairs = size*size, pick(s, "exponent", 0.0, 1, 0.5), pick(s, "pairs", 0.0, 12.5)
		switch pick(s, "kind", "observations", "targets", "targets and biases") {
		case "observations":
			for i, x := range c.dense {
				c.dense[i] = float32(math.Abs(float64(x)))
			}
			c.op.Weight, c.op.Unobserved = pick(s, "weight", float32(1), 10, 1e-3), 0.1
			c.squares = make([]float32, c.op.Width)
			for k := range c.squares {
				c.squares[k] = float32(size * size * 30 * s.Float64())
			}
		case "targets and biases":
			scaleBy(c.factors, float32(1/size)) // a bias is a factor of 1
			c.op.Ridge, c.op.Biased = 1, true
			c.offsets = s.normal(c.columns, 1)
			fallthrough
		default:
			c.op.Center = pick(s, "center", float32(0), 3.5)
		}
		if c.isBatch = pick(s, "rows of", "matrix", "batch") == "batch"; c.isBatch {
			c.step = 1
		} else {
			c.op.Turn = kernels.Turn{First: pick(s, "first", int64(1), 2), Period: 3, Last: 7, Block: pick(s, "block", int64(1), 4, 1000)}
			c.step = pick(s, "step", int64(1), 2, 5, 8)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// principalAxesCase is a PrincipalAxes. Its axes have no signs and, of equal squares, no order, so it compares what does
// not depend on these: the squares, products of rows, and angles between the axes.
type principalAxesCase struct {
	title   string
	op      kernels.PrincipalAxes
	step    int64
	factors []float32
}

func (c *principalAxesCase) name() string { return c.title }

func (c *principalAxesCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.Factors, op.Squares = p.floats(c.factors), p.floats(guards(op.Width))
	op.Workspace = p.workspace(&op, 1)
	err = op.Do(kernels.Rank{Device: d}, &kernels.Step{Number: c.step})
	f := op.Factors.Float32()
	var products, angles []float64
	for i := range min(op.Rows, 40) {
		for j := range i + 1 {
			sum := 0.0
			for k := range op.Width {
				sum += float64(f[i*op.Width+k]) * float64(f[j*op.Width+k])
			}
			products = append(products, sum)
		}
	}
	for k := range op.Width {
		for l := range k + 1 {
			sum := 0.0
			for row := range op.Rows {
				sum += float64(f[row*op.Width+k]) * float64(f[row*op.Width+l])
			}
			angles = append(angles, sum)
		}
	}
	r.add("squares", op.Squares)
	r = append(r, field{"products", products}, field{"angles", angles})
	if op.Idle(&kernels.Step{Number: c.step}) {
		r = append(r[:1], field{"factors", widened(f)})
	}
	return r, err
}

func widened(x []float32) (y []float64) {
	for _, v := range x {
		y = append(y, float64(v))
	}
	return y
}

func (c *principalAxesCase) bounds() map[string][]float64 {
	if c.op.Idle(&kernels.Step{Number: c.step}) {
		return nil
	}
	exact, err := c.run(referenceDevice())
	if err != nil {
		return nil
	}
	to := map[string][]float64{}
	for _, field := range exact {
		largest := underflow
		for _, x := range field.data {
			largest = max(largest, math.Abs(x))
		}
		for range field.data {
			to[field.name] = append(to[field.name], 2e-5*largest)
		}
	}
	return to
}

func principalAxesCases() (cases []opCase) {
	s := newSampler(73)
	for range 24 {
		c := &principalAxesCase{step: pick(s, "step", int64(1), 4, 2)}
		c.op.Rows, c.op.Width = pick(s, "rows", int64(1), 5, 100, 2500), pick(s, "width", int64(1), 2, 9, 16, 33, 70)
		c.op.Turn = kernels.Turn{First: 1, Period: 3, Last: 4, Block: 1}
		c.factors = s.normal(c.op.Rows*c.op.Width, pick(s, "size", 1.0, 1e12, 1e-12))
		switch pick(s, "numbers", "normal", "zeros", "one column", "equal columns", "diagonal") {
		case "zeros":
			clear(c.factors)
		case "one column":
			for i := range c.factors {
				if int64(i)%c.op.Width > 0 {
					c.factors[i] = 0
				}
			}
		case "equal columns":
			for i := range c.factors {
				c.factors[i] = c.factors[int64(i)/c.op.Width*c.op.Width]
			}
		case "diagonal":
			for i := range c.factors {
				if int64(i)/c.op.Width%c.op.Width != int64(i)%c.op.Width {
					c.factors[i] = 0
				}
			}
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestASolutionThatIsNotFiniteIsAnError(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(2)
		if _, solves := d.(kernels.Solver); !solves {
			t.Skipf("%s does not have it", d.Info().Name)
		}
		for size, fails := range map[float64]bool{1: false, math.Inf(1): true, math.NaN(): true} {
			c := &leastSquaresCase{rows: 3, columns: 4, step: 1, isBatch: true, dense: make([]float32, 12)}
			c.op = kernels.LeastSquares{Width: 5, Weight: 1, Ridge: 1e-6}
			c.dense[6] = 1
			c.factors = newSampler(74).normal(4*5, 1)
			for i := range c.factors {
				c.factors[i] *= float32(size)
			}
			_, err := c.run(d)
			if fails {
				require.ErrorContains(t, err, "the solution of a row's factors, row 1, is not finite", fmt.Sprint(size))
			} else {
				require.NoError(t, err)
			}
			axes := &principalAxesCase{step: 1, factors: c.factors}
			axes.op = kernels.PrincipalAxes{Rows: 4, Width: 5, Turn: kernels.Turn{First: 1, Period: 1, Last: 1}}
			if _, err = axes.run(d); fails {
				require.ErrorContains(t, err, "is not finite", fmt.Sprint(size))
			} else {
				require.NoError(t, err)
			}
		}
	})
}

func TestValuesThatAreNoWeightsAreRefused(t *testing.T) {
	c := &leastSquaresCase{rows: 1, columns: 2, step: 1, isBatch: true, dense: []float32{1, -2}, factors: make([]float32, 2)}
	c.op = kernels.LeastSquares{Width: 1, Weight: 1, Ridge: 1}
	_, err := c.run(oracle(t))
	require.ErrorContains(t, err, "a value of -2")
	require.Equal(t, fault.InvalidData, fault.KindOf(err))
}
