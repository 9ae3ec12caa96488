package kernels

import (
	"errors"
	"fmt"
	"math"

	"dsstne/internal/fault"
)

// Turn says at which steps an operation of a solver works, and on which of the rows of its matrix. Every Period steps,
// from step First on, it has its Rows in blocks of Block rows, a block a step; after step Last it has none.
type Turn struct{ First, Period, Last, Block int64 }

// Of is the range of rows that a step has.
func (t Turn) Of(rows int64, s *Step) (first, end int64) {
	if s.Number < t.First || s.Number > t.Last {
		return 0, 0
	}
	at := (s.Number - t.First) % t.Period * t.Block
	return min(at, rows), min(at+t.Block, rows)
}

// LeastSquares finds a row of factors w, and perhaps a bias b, for each row of a sparse matrix x: those that minimize
//
//	sum over the stored j of c_j (w F_j + b - t_j)^2 + Unobserved sum over all j of (w F_j)^2 + ridge (|w|^2 + b^2)
//
// where F'F is diagonal. With n stored entries ridge is Ridge (n + Pairs)^Exponent; rows without any get zeros. If
// Weight is positive, entries are observations of 1 that weigh c_j = Weight x_j, which must be positive; otherwise
// they are the targets, t_j = x_j - Center - Offsets_j, and each weighs 1.
type LeastSquares struct {
	Matrix  *SparseMatrix // nil: the rows are those of the batch in slot Input
	Input   int
	Turn    Turn   // of a matrix
	Width   int64  // of a row of factors
	Factors Buffer // F, [columns of x, Width]
	Squares Buffer // the diagonal of F'F, [Width]; nil: Unobserved is 0
	Biased  bool
	Offsets Buffer // [columns of x]; not Biased: nil, for 0
	Out     Buffer // w, [rows, Width]
	Bias    Buffer // b, [rows]; not Biased: nil, for 0

	Unobserved, Weight, Center float32
	Ridge, Pairs, Exponent     float64
	Workspace                  Buffer
}

// Unknowns of a row.
func (o *LeastSquares) Unknowns() int64 {
	if o.Biased {
		return o.Width + 1
	}
	return o.Width
}

// Rows is the range of rows that a step has; offsets say where rows of the entries begin.
func (o *LeastSquares) Rows(s *Step) (first, end int64, offsets []int64, indices []int32, values []float32) {
	if m := o.Matrix; m != nil {
		first, end = o.Turn.Of(m.Rows, s)
		return first, end, View[int64](m.Offsets), m.Indices.Int32(), m.Values.Float32()
	}
	batch := s.Sparse[o.Input]
	offsets = make([]int64, s.Rows+1)
	for u := range offsets {
		offsets[u] = int64(batch.Offsets[u])
	}
	return 0, s.Rows, offsets, batch.Indices, batch.Values
}

// RidgeOf is the weight of |w|^2 for a row with n stored entries.
func (o *LeastSquares) RidgeOf(n int64) float32 {
	return float32(o.Ridge * math.Pow(float64(n)+o.Pairs, o.Exponent))
}

func (o *LeastSquares) Do(r Rank, s *Step) error {
	if o.Matrix == nil && o.Weight > 0 {
		for _, x := range s.Sparse[o.Input].Values {
			if !(x > 0) {
				return fault.New(fault.InvalidData, "the data have a value of %g; this model takes values as the weights of "+
					"observations, which must be positive", x)
			}
		}
	}
	return explained(r.Device.(Solver).LeastSquares(o, s))
}
func (o *LeastSquares) String() string {
	if o.Matrix == nil {
		return fmt.Sprintf("LeastSquares: %d factors of each row of the batch", o.Width)
	}
	return fmt.Sprintf("LeastSquares: %d factors of each of %d rows", o.Width, o.Turn.Block)
}

// PrincipalAxes multiplies a matrix of factors by an orthogonal matrix, F <- F Q, after which F'F is diagonal, with the
// largest square first. Products F_i F_j stay as they are. It works at the first steps of its Turn's periods.
type PrincipalAxes struct {
	Turn        Turn
	Rows, Width int64
	Factors     Buffer // [Rows, Width]
	Squares     Buffer // the diagonal of F'F, [Width]
	Workspace   Buffer
}

// Idle reports whether it does nothing at a step.
func (o *PrincipalAxes) Idle(s *Step) bool {
	first, end := Turn{o.Turn.First, o.Turn.Period, o.Turn.Last, 1}.Of(1, s)
	return first == end
}

func (o *PrincipalAxes) Do(r Rank, s *Step) error {
	return explained(r.Device.(Solver).PrincipalAxes(o, s))
}
func (o *PrincipalAxes) String() string {
	return fmt.Sprintf("PrincipalAxes: makes the squares of factors[%d, %d] diagonal", o.Rows, o.Width)
}

// explained adds to an error of a number that is not finite what to do.
func explained(err error) error {
	var bad *NotFiniteError
	if !errors.As(err, &bad) {
		return err
	}
	return fault.From(fault.NotFinite, err, "the values or weights are too large or too small for float32: scale them, "+
		"or use a larger regularization")
}
