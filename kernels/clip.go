package kernels

import "fmt"

// ClipNorm bounds the length of the gradient of all weights: with n the Euclidean norm of all numbers of Gradients,
// those are multiplied by Limit / n if n > Limit (Pascanu et al., "On the difficulty of training recurrent neural
// networks", 2013).
type ClipNorm struct {
	Gradients Buffer // [Count]
	Count     int64
	Limit     float32
	Workspace Buffer
}

func (o *ClipNorm) Do(r Rank, s *Step) error { return r.Device.ClipNorm(o, s) }
func (o *ClipNorm) String() string           { return fmt.Sprintf("ClipNorm of all gradients, %g", o.Limit) }

// Work: it reads the gradients, and, where they are too long, reads and writes them once more.
func (o *ClipNorm) Work(*Sizes) Work { return Work{Bytes: 3 * numbers(float64(o.Count), 1)} }
