package solve

import (
	"cmp"
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/factors"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// Factorize is the method that gives rows and items factors by alternating least squares: in each epoch, those of the
// rows are found from those of the items, and then the other way round. With weights of observations this is iALS
// (Hu, Koren and Volinsky, "Collaborative Filtering for Implicit Feedback Datasets", 2008) as in Rendle et al.,
// "Revisiting the Performance of iALS on Item Recommendation Benchmarks", 2021.
type Factorize struct {
	Factors, Epochs int64
	Seed            uint64
	Deviation       float64 // of the length of an item's first factors
	factors.Objective

	start       start
	rows, items *kernels.LeastSquares
}

// multiplicationsOfAStep bounds the multiplications of a step: some tens of milliseconds for a core.
const multiplicationsOfAStep = 1 << 32

// start is the operation that makes the first factors.
type start struct{ kernels.Fill }

func (o *start) Do(r kernels.Rank, s *kernels.Step) error {
	if s.Number > 1 {
		return nil
	}
	return r.Device.Fill(&o.Fill)
}

func (o *start) String() string { return "Fill: the first factors of the items" }

// Check refuses values that the objective does not take, and more factors than the matrix has rows or columns.
func (f *Factorize) Check(data csr.Source) error {
	least, what := -math.MaxFloat64, "ratings must be finite"
	if !f.Ratings {
		least, what = 0, "weights of observations must be finite and not negative; for ratings use method=\"explicit\""
	}
	if row, column, value, found := csr.FirstOutside(data, least, math.MaxFloat64); found {
		return fault.New(fault.InvalidData, "row %d, column %d: the value is %g; %s", row, column, value, what)
	}
	if most := min(data.Rows(), data.Columns()); f.Factors > most {
		return fault.New(fault.InvalidArgument, "factors is %d; a matrix of %s rows and %s columns has at most %s", f.Factors,
			fault.Grouped(data.Rows()), fault.Grouped(data.Columns()), fault.Grouped(most))
	}
	f.Complete(data.Rows(), data.Columns(), data.Statistics().NonZeros)
	return nil
}

// Build adds the operations of an epoch. A step does those of a block of the rows, or of a block of the items.
func (f *Factorize) Build(b *program.Builder, data csr.Source) int64 {
	rows, items, entries := data.Rows(), data.Columns(), data.Statistics().NonZeros
	blocks := 1 + entries*f.Factors*f.Factors/2/multiplicationsOfAStep
	byRow, byItem := stored(b, data)
	of := func(name string, n int64) (w, bias kernels.Buffer) {
		if w = b.Alloc("factors", name, n*f.Factors); f.Ratings {
			bias = b.Alloc("biases", name, n)
		}
		return w, bias
	}
	rowFactors, rowBias := of("rows", rows)
	itemFactors, itemBias := of("items", items)
	f.start = start{kernels.Fill{
		Kind: kernels.FillNormal, Scale: float32(f.Deviation / math.Sqrt(float64(f.Factors))), Seed: f.Seed,
		Stream: random.StreamInit, Rows: items, Columns: f.Factors, Out: itemFactors,
	}}
	b.Add(&f.start)
	rowTurn := kernels.Turn{First: 1, Period: 2 * blocks, Last: 2 * blocks * f.Epochs, Block: parts(rows, blocks)}
	itemTurn := rowTurn
	itemTurn.First, itemTurn.Block = 1+blocks, parts(items, blocks)
	var squares kernels.Buffer
	steps := rowTurn.Last
	if !f.Ratings {
		squares = b.Alloc("squares", "the factors", f.Factors)
		steps++ // at last the model's factors get their principal axes
	}
	half := func(m kernels.SparseMatrix, turn kernels.Turn, from, offsets, to, bias kernels.Buffer) *kernels.LeastSquares {
		if !f.Ratings {
			axes := &kernels.PrincipalAxes{Turn: turn, Rows: m.Columns, Width: f.Factors, Factors: from, Squares: squares}
			axes.Turn.Last = steps
			b.AddWith(&axes.Workspace, axes, axes)
		}
		op := f.Operation(m.Columns, f.Factors)
		op.Matrix, op.Turn, op.Factors, op.Squares = &m, turn, from, squares
		op.Offsets, op.Out, op.Bias = offsets, to, bias
		b.AddWith(&op.Workspace, op, op)
		return op
	}
	f.rows = half(byRow, rowTurn, itemFactors, itemBias, rowFactors, rowBias)
	f.items = half(byItem, itemTurn, rowFactors, rowBias, itemFactors, itemBias)
	b.Note(program.Part{Name: "the model", Bytes: 4 * (items*(f.Factors+1) + f.Factors), Device: "host"})
	return steps
}

// Load copies the data, and finds the mean of ratings.
func (f *Factorize) Load(data csr.Source) error {
	if err := csr.Store(data, f.rows.Matrix, f.items.Matrix); err != nil {
		return err
	}
	if f.Ratings {
		offsets, sum := kernels.View[int64](f.rows.Matrix.Offsets), 0.0
		entries := offsets[f.rows.Matrix.Rows]
		for _, x := range f.rows.Matrix.Values.Float32()[:entries] {
			sum += float64(x)
		}
		f.rows.Center = float32(sum / float64(max(1, entries)))
		f.items.Center = f.rows.Center
	}
	return nil
}

// Model copies the factors of the items.
func (f *Factorize) Model() (*model.Model, error) {
	form := &factors.Form{Items: f.items.Matrix.Rows, Factors: f.Factors, Objective: f.Objective}
	return made(form, func(m *model.Model) error {
		err := copyTo(m, factors.FactorsName, f.items.Out)
		if f.Ratings {
			bias, center := f.items.Bias.Float32(), f.items.Center
			return cmp.Or(err, fill(m, factors.BiasName, func(i int) float32 { return bias[i] + center }))
		}
		return cmp.Or(err, copyTo(m, factors.SquaresName, f.items.Squares))
	})
}
