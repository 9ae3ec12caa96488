package kernels

import "fmt"

// NotFiniteError says where a number became NaN or infinite.
type NotFiniteError struct {
	Tensor string // name of the weight or of the layer
	What   string // "the loss", "a logit", "the gradient", "the updated weight", "the solution"
	Row    int64  // row of the tensor (item) or -1
}

func (e *NotFiniteError) Error() string {
	if e.Row >= 0 {
		return fmt.Sprintf("%s of %s, row %d, is not finite", e.What, e.Tensor, e.Row)
	}
	return fmt.Sprintf("%s of %s is not finite", e.What, e.Tensor)
}
