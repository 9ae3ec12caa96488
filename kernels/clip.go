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

// ColumnNorms computes the Euclidean norm of each column of a rank's rows of a weight. A norm above the largest float32
// is that number.
//
//	Norms[k] = sqrt(sum over j of W[j,k]^2)
type ColumnNorms struct {
	Weight    *Weights
	Norms     Buffer // [Columns]
	Workspace Buffer
}

func (o *ColumnNorms) Do(r Rank, s *Step) error { return r.Device.ColumnNorms(o, s) }
func (o *ColumnNorms) String() string           { return "ColumnNorms of " + o.Weight.String() }

// Work: it reads the weight.
func (o *ColumnNorms) Work(*Sizes) Work {
	return Work{Bytes: numbers(float64(o.Weight.Rows), o.Weight.Columns)}
}

// CapWeight multiplies each vector of a weight whose Euclidean norm n is above Cap by Cap / n, in place: the max-norm
// constraint (Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", 2014). The
// vectors are the rows or, with Ranks above 0, the columns. The weight is finite.
type CapWeight struct {
	Weight *Weights
	Cap    float32 // above 0
	// Norms is [Ranks, Columns]: what ColumnNorms found on each of the ranks that have some of the rows. The norm of a
	// column is the root of the sum of their squares, in the order of the ranks.
	Norms Buffer
	Ranks int64
}

func (o *CapWeight) Do(r Rank, s *Step) error { return r.Device.CapWeight(o, s) }
func (o *CapWeight) String() string {
	vectors := "rows"
	if o.Ranks > 0 {
		vectors = "columns"
	}
	return fmt.Sprintf("CapWeight %s of %s, norm %g", vectors, o.Weight, o.Cap)
}

// Work: it reads the weight, and writes it at most.
func (o *CapWeight) Work(*Sizes) Work {
	w := o.Weight
	return Work{Bytes: 2*numbers(float64(w.Rows), w.Columns) + numbers(float64(o.Ranks), w.Columns)}
}
