package kernels

import "fmt"

// A panel is a dense matrix of few columns, [rows, Width] by row: columns that are computed with together.

// PanelWidths are the widths that a device takes.
var PanelWidths = []int64{16, 32, 64}

// SparseProduct multiplies a sparse matrix by panels:
//
//	Out[p] = Matrix In[p]
//
// A sum is in float32, in the order of the entries.
type SparseProduct struct {
	Matrix        SparseMatrix
	Panels, Width int64
	In            Buffer // [Panels, Matrix.Columns, Width]
	Out           Buffer // [Panels, Matrix.Rows, Width]
}

func (o *SparseProduct) Do(r Rank, s *Step) error { return r.Device.SparseProduct(o, s) }
func (o *SparseProduct) String() string {
	return fmt.Sprintf("SparseProduct [%d, %d] x %d", o.Matrix.Rows, o.Matrix.Columns, o.Panels*o.Width)
}

// Solve solves
//
//	(Y'Y + diag(Ridge)) X = B
//
// for the columns of a panel, by conjugate gradients that are preconditioned by the diagonal (Hestenes and Stiefel,
// 1952). A column is done when its residual, in the norm of the preconditioner, is at most Tolerance times what the
// first iteration has left, or after that many Iterations. What the first iteration leaves measures what the solution
// has beside the diagonal's part, which is what recommendations are made of. A column's bits depend on no other.
type Solve struct {
	ByRow, ByItem SparseMatrix // Y, and Y transposed
	Ridge         Buffer       // [items], positive
	Diagonal      Buffer       // [items]: of Y'Y, plus Ridge
	Width         int64
	B             Buffer // [items, Width]; the residuals at the end
	X             Buffer // [items, Width]
	Tolerance     float64
	Iterations    int64
	Report        Buffer // int32 [2]: the most iterations so far, and how many columns had more to do
	Workspace     Buffer
}

func (o *Solve) Do(r Rank, s *Step) error { return r.Device.Solve(o, s) }
func (o *Solve) String() string {
	return fmt.Sprintf("Solve %d systems of %d equations, up to %d iterations", o.Width, o.ByItem.Rows, o.Iterations)
}

// KeepLargest keeps the K entries of each column of a square matrix, but for its diagonal, whose product with the
// weight of their row is largest; of equal ones, those of the lower rows. At step n, the columns of the matrix from
// (n - 1) Width on are those of the panel. Products of 0 and NaN are left out.
//
//	IDs[c]      the rows that column c keeps, ascending; -1 behind them where there are fewer than K
//	Values[c]   their entries
//	Diagonal[c] the entry of row c
type KeepLargest struct {
	Rows, Width, K int64
	Panel          Buffer // [Rows, Width]
	Weights        Buffer // [Rows]
	IDs            Buffer // int32 [Rows, K]
	Values         Buffer // [Rows, K]
	Diagonal       Buffer // [Rows]
}

// Columns is the range of columns of a step.
func (o *KeepLargest) Columns(s *Step) (first, end int64) {
	return min((s.Number-1)*o.Width, o.Rows), min(s.Number*o.Width, o.Rows)
}

func (o *KeepLargest) Do(r Rank, s *Step) error { return r.Device.(Solver).KeepLargest(o, s) }
func (o *KeepLargest) String() string {
	return fmt.Sprintf("KeepLargest %d of %d entries of a column", o.K, o.Rows)
}

// RowsToPanel makes rows of a batch the columns of a panel, with a factor for each item:
//
//	Panel[i, c] = Factors[i] x_(First + c),i
//
// Columns for which the batch has no row are 0.
type RowsToPanel struct {
	Input               int // slot
	Items, Width, First int64
	Factors             Buffer // [Items]
	Panel               Buffer // [Items, Width]
}

func (o *RowsToPanel) Do(r Rank, s *Step) error { return r.Device.RowsToPanel(o, s) }
func (o *RowsToPanel) String() string {
	return fmt.Sprintf("RowsToPanel [%d, %d]: rows from %d on", o.Items, o.Width, o.First)
}

// PanelToRows makes the columns of a panel rows of a matrix of scores, with a factor for each item:
//
//	Out[First + c, i] = Factors[i] Panel[i, c] + Own[i] x_(First + c),i
//
// for the rows x that the batch has. Rows without stored entries become IfEmpty.
type PanelToRows struct {
	Input                 int // slot
	Items, Width, First   int64
	Factors, Own, IfEmpty Buffer // [Items]; Own may be nil
	Panel                 Buffer // [Items, Width]
	Out                   Buffer // [B, Items]
}

func (o *PanelToRows) Do(r Rank, s *Step) error { return r.Device.PanelToRows(o, s) }
func (o *PanelToRows) String() string {
	return fmt.Sprintf("PanelToRows [%d, %d]: rows from %d on", o.Items, o.Width, o.First)
}

// During is an operation of the steps after After, up to Until; the operation counts them from 1.
type During struct {
	After, Until int64
	Op           Op
}

func (o *During) Do(r Rank, s *Step) error {
	if s.Number <= o.After || s.Number > o.Until {
		return nil
	}
	number := s.Number
	s.Number -= o.After
	defer func() { s.Number = number }()
	return o.Op.Do(r, s)
}

func (o *During) String() string {
	return fmt.Sprintf("in steps %d to %d: %s", o.After+1, o.Until, o.Op)
}
