package kernels

import "fmt"

// BlockWidth is the width of the panels that PanelGram and PanelProduct take. Small matrices beside them are in blocks:
// [64 p, 64 q] is [p][q][64, 64].
const BlockWidth = 64

// PanelGram multiplies panels by panels:
//
//	Out[i][j] = A[i]' B[j]
//
// Sums are in float32 over 512 rows, and in float64 over these.
type PanelGram struct {
	Rows, As, Bs int64
	A            Buffer // [As, Rows, 64]
	B            Buffer // [Bs, Rows, 64]
	Out          Buffer // float64 [As][Bs][64, 64]
	Workspace    Buffer
}

func (o *PanelGram) Do(r Rank, s *Step) error { return r.Device.(Solver).PanelGram(o, s) }
func (o *PanelGram) String() string {
	return fmt.Sprintf("PanelGram [%d, %d]' x %d", o.Rows, BlockWidth*o.As, BlockWidth*o.Bs)
}

// PanelProduct multiplies panels by a small matrix:
//
//	Out[j] (+)= sum over i of In[i] Matrix[i][j]
//
// A sum is in float32, in the order of the columns of In. Out may begin where In does; then it has at most as many
// panels.
type PanelProduct struct {
	Rows, Ins, Outs int64
	In              Buffer // [Ins, Rows, 64]
	Matrix          Buffer // [Ins][Outs][64, 64]
	Out             Buffer // [Outs, Rows, 64]
	Add             bool   // to Out
	InPlace         bool   // Out begins where In does
	Workspace       Buffer
}

func (o *PanelProduct) Do(r Rank, s *Step) error { return r.Device.PanelProduct(o, s) }
func (o *PanelProduct) String() string {
	return fmt.Sprintf("PanelProduct [%d, %d] x %d", o.Rows, BlockWidth*o.Ins, BlockWidth*o.Outs)
}

// RowsToBlocks multiplies rows of a batch, with a factor for each item, by panels that have a row for each item:
//
//	Out[i][k, c] = sum over the stored items j of row First + c, ascending, of Factors[j] x_j In[i][j, k]
//
// in float32. Columns for which the batch has no row are 0.
type RowsToBlocks struct {
	Input             int // slot
	Items, Ins, First int64
	Factors           Buffer // [Items]
	In                Buffer // [Ins, Items, 64]
	Out               Buffer // [Ins][64, 64]
}

func (o *RowsToBlocks) Do(r Rank, s *Step) error { return r.Device.RowsToBlocks(o, s) }
func (o *RowsToBlocks) String() string {
	return fmt.Sprintf("RowsToBlocks x [%d, %d]: rows from %d on", o.Items, BlockWidth*o.Ins, o.First)
}

// PanelScale multiplies the rows of a panel:
//
//	Out[r] (+)= Factor Factors[r] In[r]
type PanelScale struct {
	Rows, Width int64
	Factor      float32
	Factors     Buffer // [Rows]; nil: 1
	In, Out     Buffer // [Rows, Width]; they may be the same
	Add         bool   // to Out
}

func (o *PanelScale) Do(r Rank, s *Step) error { return r.Device.PanelScale(o, s) }
func (o *PanelScale) String() string {
	return fmt.Sprintf("PanelScale [%d, %d] x %g", o.Rows, o.Width, o.Factor)
}
