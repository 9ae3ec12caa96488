package kernels

import "fmt"

// CopyMatrix copies a matrix, or adds it to another one. Layers that share a weight need it: one that uses the weight
// transposed reads a copy, and the gradient of a weight is the sum of the parts that its users leave.
//
//	Out[i,j] (+)= In[i,j],  or In[j,i] if Transposed
type CopyMatrix struct {
	Name          string // what it makes
	In            Buffer // as many numbers as Out
	Out           Buffer // [Rows, Columns]; not In
	Rows, Columns int64
	Transposed    bool
	Accumulate    bool // add to Out instead of replacing it
}

func (o *CopyMatrix) Do(r Rank, s *Step) error { return r.Device.CopyMatrix(o, s) }
func (o *CopyMatrix) String() string {
	return fmt.Sprintf("CopyMatrix %s[%d, %d]", o.Name, o.Rows, o.Columns)
}

// Work: it reads In and writes Out.
func (o *CopyMatrix) Work(*Sizes) Work {
	return Work{Bytes: (2 + times(o.Accumulate)) * numbers(float64(o.Rows), o.Columns)}
}
