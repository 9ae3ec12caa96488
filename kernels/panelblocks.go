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

func (o *PanelProduct) Do(r Rank, s *Step) error { return r.Device.(Solver).PanelProduct(o, s) }
func (o *PanelProduct) String() string {
	return fmt.Sprintf("PanelProduct [%d, %d] x %d", o.Rows, BlockWidth*o.Ins, BlockWidth*o.Outs)
}
