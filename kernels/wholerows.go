package kernels

import "fmt"

// Operations that need a whole row of a layer at once, unlike activations, which work unit by unit.

// SoftmaxRows replaces the sums z of each row by their soft-max, numbers between 0 and 1 that add up to 1:
//
//	X[u,k] = exp(z_k - m) / sum over j of exp(z_j - m),   m = max over j of z_j
type SoftmaxRows struct {
	Name  string // of the layer
	X     Buffer // [B, Units], in: z, out: the values
	Units int64
}

func (o *SoftmaxRows) Do(r Rank, s *Step) error { return r.Device.SoftmaxRows(o, s) }
func (o *SoftmaxRows) String() string           { return "SoftmaxRows " + o.Name }

// Work: it reads and writes X.
func (o *SoftmaxRows) Work(s *Sizes) Work { return Work{Bytes: 2 * numbers(s.Rows, o.Units)} }

// SoftmaxRowsBackward goes back through a SoftmaxRows, in place. With a = H[u,:] and g = DH[u,:] + Shift,
//
//	DH[u,k] = a_k (g_k - sum over j of a_j g_j)
type SoftmaxRowsBackward struct {
	Name  string // of the layer
	H     Buffer // [B, Units], the values
	DH    Buffer // [B, Units], in: dL/dh, out: dL/dz
	Shift Buffer // [Units], what Sparsity adds to dL/dh of every row; nil = nothing
	Units int64
}

func (o *SoftmaxRowsBackward) Do(r Rank, s *Step) error { return r.Device.SoftmaxRowsBackward(o, s) }
func (o *SoftmaxRowsBackward) String() string           { return "SoftmaxRowsBackward " + o.Name }

// Work: it reads H and DH and writes DH.
func (o *SoftmaxRowsBackward) Work(s *Sizes) Work { return Work{Bytes: 3 * numbers(s.Rows, o.Units)} }

// CapRows scales each row of a gradient whose L2 norm is above a limit to the limit, in place. The limit is Cap over
// Step.WholeRows(), because the gradient is that of the mean over the rows of the batch: Cap is about the gradient of a
// row's own loss. A row with a number that is not finite has one afterwards, too.
type CapRows struct {
	Name  string // of the layer
	DZ    Buffer // [B, Units]
	Units int64
	Cap   float32 // above 0
}

func (o *CapRows) Do(r Rank, s *Step) error { return r.Device.CapRows(o, s) }
func (o *CapRows) String() string           { return fmt.Sprintf("CapRows %s, norm %g", o.Name, o.Cap) }

// Work: it reads DZ, and writes it at most.
func (o *CapRows) Work(s *Sizes) Work { return Work{Bytes: 2 * numbers(s.Rows, o.Units)} }

// Limit is the largest norm of a row.
func (o *CapRows) Limit(s *Step) float64 { return float64(o.Cap) / float64(s.WholeRows()) }
