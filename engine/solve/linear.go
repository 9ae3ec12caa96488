package solve

import (
	"cmp"
	"fmt"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/engine/ridge"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// Linear is the method of the model x S. Each row of S keeps its PerItem largest weights; or the model is the Operator,
// which solves for each row that it scores.
type Linear struct {
	Ridge
	Operator   bool
	PerItem    int64
	Tolerance  float64
	Iterations int64
	Probes     int64 // of the estimate of diag(P) by which weights are chosen, and which the operator has
	Seed       uint64

	system   system
	estimate kernels.Buffer // [items], of diag(P)
	report   kernels.Buffer // of kernels.Solve
	keep     *kernels.KeepLargest
}

// panelWidth is a compromise: wider panels read longer pieces of memory, and fewer of them fit into a cache.
const panelWidth = 32

// Build adds the operations of two kinds of steps: some estimate diag(P), and the others, unless the model is to be the
// operator, solve for rows of P.
func (l *Linear) Build(b *program.Builder, data csr.Source) int64 {
	items, entries := data.Columns(), data.Statistics().NonZeros
	l.system = newSystem(b, data)
	panel := func(of string) kernels.Buffer { return b.Alloc("panel", of, items*panelWidth) }
	solve := &kernels.Solve{
		ByRow: l.system.byRow, ByItem: l.system.byItem, Ridge: l.system.ridge, Diagonal: l.system.diagonal,
		Width: panelWidth, B: panel("right-hand sides"), X: panel("solutions"), Tolerance: l.Tolerance,
		Iterations: l.Iterations, Report: b.Alloc("panel", "report", 2),
	}
	b.Scratch(&solve.Workspace, solve)
	l.report = solve.Report
	l.estimate = b.Alloc("estimate", "the diagonal of the inverse", items)
	probes := parts(l.Probes, panelWidth)
	signs := &randomSigns{items, l.Seed, solve.B}
	during(b, 0, probes, signs, solve, &estimateDiagonal{signs, solve.X, 1 / float32(probes*panelWidth), l.estimate})
	if l.Operator {
		b.Note(program.Part{Name: "the model", Bytes: 16*entries + 8*(data.Rows()+items) + 24*items, Device: "host"})
		return probes
	}
	weights := b.Alloc("estimate", "factors of columns", items)
	k := max(1, min(l.PerItem, items-1))
	l.keep = &kernels.KeepLargest{
		Rows: items, Width: panelWidth, K: k, Panel: solve.X, Weights: weights,
		IDs: b.Alloc("weights", "columns", items*k), Values: b.Alloc("weights", "values", items*k),
		Diagonal: b.Alloc("weights", "the diagonal of the inverse", items),
	}
	steps := probes + parts(items, panelWidth)
	during(b, probes, steps, &unitColumns{items, solve.B}, solve, &columnWeights{l, weights}, l.keep)
	b.Note(program.Part{Name: "the model", Bytes: 8*items*k + 12*(items+1), Device: "host"})
	return steps
}

// during adds operations of some steps.
func during(b *program.Builder, after, until int64, ops ...kernels.Op) {
	for _, op := range ops {
		b.Add(&kernels.During{After: after, Until: until, Op: op})
	}
}

// Unfinished counts the solutions that more iterations would have changed.
func (l *Linear) Unfinished() uint64 { return uint64(l.report.Int32()[1]) }

// Load computes the system.
func (l *Linear) Load(data csr.Source) error { return l.system.load(data, l.Ridge) }

// Model makes the operator, or the weights: then the diagonal of the inverse comes from the solutions.
func (l *Linear) Model() (*model.Model, error) {
	if l.Operator {
		return l.operator()
	}
	in, out, diagonal := l.system.in.Float32(), l.system.out.Float32(), l.keep.Diagonal.Float32()
	weight := func(i, j int64, p float32) float32 {
		return float32(-float64(in[i]) * float64(p) / float64(diagonal[j]) * float64(out[j]))
	}
	return itemWeights(&l.system.byItem, l.keep.K, l.keep.IDs, l.keep.Values, weight)
}

// factor is that of column j of P, from the estimate of P_jj, which is kept between the bounds of the diagonal of such
// an inverse: 1 / diagonal and 1 / ridge.
func (l *Linear) factor(j int) float32 {
	s := &l.system
	estimate := max(1/s.diagonal.Float32()[j], min(1/s.ridge.Float32()[j], l.estimate.Float32()[j]))
	return -s.out.Float32()[j] / estimate
}

// operator makes the model that keeps the data.
func (l *Linear) operator() (*model.Model, error) {
	s := &l.system
	form := &ridge.Form{Data: shapeOf(&s.byRow), Tolerance: l.Tolerance, Iterations: l.Iterations}
	in, out := s.in.Float32(), s.out.Float32()
	return made(form, func(m *model.Model) error {
		return cmp.Or(
			copyData(m, form.Data, &s.byRow, &s.byItem), copyTo(m, ridge.Ridge, s.ridge),
			copyTo(m, ridge.Diagonal, s.diagonal), copyTo(m, ridge.In, s.in), fill(m, ridge.Out, l.factor),
			fill(m, ridge.Own, func(i int) float32 { return in[i] * out[i] }),
			fill(m, ridge.Popularity, popularity(&s.byItem)),
		)
	})
}

// unitColumns makes a panel of columns of the unit matrix: those of the step.
type unitColumns struct {
	items int64
	out   kernels.Buffer // [items, panelWidth]
}

func (o *unitColumns) Do(_ kernels.Rank, s *kernels.Step) error {
	out := o.out.Float32()
	clear(out)
	for c := range int64(panelWidth) {
		if i := (s.Number-1)*panelWidth + c; i < o.items {
			out[i*panelWidth+c] = 1
		}
	}
	return nil
}

func (o *unitColumns) String() string {
	return fmt.Sprintf("UnitColumns, %d of %d", panelWidth, o.items)
}

// randomSigns makes a panel of 1 and -1: those of the step.
type randomSigns struct {
	items int64
	seed  uint64
	out   kernels.Buffer // [items, panelWidth]
}

func (o *randomSigns) Do(_ kernels.Rank, s *kernels.Step) error {
	out := o.out.Float32()
	for i := range o.items {
		o.row(s, i, func(c int, sign float32) { out[i*panelWidth+int64(c)] = sign })
	}
	return nil
}

// row calls each for the signs of an item.
func (o *randomSigns) row(s *kernels.Step, item int64, each func(c int, sign float32)) {
	const stream = 0x7369676e
	bits := random.Philox(o.seed, [4]uint32{uint32(item), stream, uint32(s.Number), 0})[0]
	for c := range panelWidth {
		each(c, 1-2*float32(bits>>c&1))
	}
}

func (o *randomSigns) String() string {
	return fmt.Sprintf("RandomSigns [%d, %d]", o.items, panelWidth)
}

// estimateDiagonal adds the part of a panel of random signs and of the solutions for them to Hutchinson's estimate of
// the diagonal of the inverse ("A stochastic estimator of the trace of the influence matrix", 1990).
type estimateDiagonal struct {
	signs *randomSigns
	x     kernels.Buffer // [items, panelWidth]
	scale float32
	out   kernels.Buffer // [items]
}

func (o *estimateDiagonal) Do(_ kernels.Rank, s *kernels.Step) error {
	x, out := o.x.Float32(), o.out.Float32()
	for i := range o.signs.items {
		sum := float32(0)
		o.signs.row(s, i, func(c int, sign float32) { sum += sign * x[i*panelWidth+int64(c)] })
		out[i] += sum * o.scale
	}
	return nil
}

func (o *estimateDiagonal) String() string {
	return fmt.Sprintf("EstimateDiagonal of the inverse [%d, %d]", o.signs.items, o.signs.items)
}

// columnWeights makes, at its first step, the factors by which the entries of a column of P become weights.
type columnWeights struct {
	linear *Linear
	out    kernels.Buffer // [items]
}

func (o *columnWeights) Do(_ kernels.Rank, s *kernels.Step) error {
	if s.Number > 1 {
		return nil
	}
	for j := range o.out.Float32() {
		o.out.Float32()[j] = o.linear.factor(j)
	}
	return nil
}

func (o *columnWeights) String() string { return "ColumnWeights, once" }
