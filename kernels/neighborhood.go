package kernels

import "fmt"

// SparseMatrix is a whole matrix in compressed row form: checked, columns ascending in each row, without duplicates or
// stored zeros.
type SparseMatrix struct {
	Rows, Columns int64
	Offsets       Buffer // int64 [Rows + 1]
	Indices       Buffer // int32 [entries]
	Values        Buffer // [entries]
}

// Solver is a device that does the operations by which package solve makes models.
type Solver interface {
	Device
	Neighborhood(*Neighborhood, *Step) error
	KeepLargest(*KeepLargest, *Step) error
	RestrictedInverse(*RestrictedInverse, *Step) error
	PanelGram(*PanelGram, *Step) error
	LeastSquares(*LeastSquares, *Step) error
	PrincipalAxes(*PrincipalAxes, *Step) error
}

// Similarity of items i and j, which occur in rows u of a matrix x, in float64:
//
//	c  = sum over the rows u of both, ascending, of x_ui RowWeights_u x_uj
//	s  = c Left_i Right_j / (Product Norms_i Norms_j + Sum (Norms_i + Norms_j) - Shared c + Constant)
type Similarity struct {
	RowWeights                     Buffer // float64 [rows]
	Left, Right, Norms             Buffer // float64 [items]
	Product, Sum, Shared, Constant float64
}

// Neighborhood finds the K other items that are most similar to each item of a block: items (n - 1) Block to n Block at
// step n. Similarities are rounded to float32 before they are compared; of equal ones, the lower item is nearer.
// Similarities of 0 and NaN are none.
//
//	IDs[i]          the nearest items of item i, ascending; -1 behind them where there are fewer than K
//	Similarities[i] those of IDs[i]; 0 where there is none
type Neighborhood struct {
	ByItem, ByRow SparseMatrix // the matrix, transposed and as it is
	Similarity    Similarity
	Block, K      int64
	IDs           Buffer // int32 [items, K]
	Similarities  Buffer // [items, K]
	Workspace     Buffer
}

// Items is the range of items of a step.
func (o *Neighborhood) Items(s *Step) (first, end int64) {
	return min((s.Number-1)*o.Block, o.ByItem.Rows), min(s.Number*o.Block, o.ByItem.Rows)
}

func (o *Neighborhood) Do(r Rank, s *Step) error { return r.Device.(Solver).Neighborhood(o, s) }
func (o *Neighborhood) String() string {
	return fmt.Sprintf("Neighborhood: the %d items that are most similar to each of %d", o.K, o.Block)
}
