package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"dsstne/kernels"
)

// Role says where the numbers of a tensor come from.
type Role uint8

// A Trained tensor changes in training; a Fixed one is given and stays; a Measured one follows from the data that
// training has seen.
const (
	Trained Role = iota
	Fixed
	Measured
)

// String is the role's name in descriptions.
func (r Role) String() string {
	return [...]string{Trained: "weight", Fixed: "fixed", Measured: "measured"}[r]
}

// Spec describes a tensor of a model before there is memory for it.
type Spec struct {
	Name  string
	DType DType
	Shape []int64
	Layer int // index of the layer it belongs to
	Role  Role
	// Columns are those of a matrix in compressed row form, of which the tensor has the row offsets.
	Columns int64
	// Fill and Scale are the distribution of an F32 tensor's initial numbers, see kernels.Fill.
	Fill  kernels.FillKind
	Scale float64
	// Vectors, if not NoVectors, then get the length Scale each.
	Vectors Vectors
}

// Vectors are those of a matrix.
type Vectors int

// A matrix's vectors.
const (
	NoVectors Vectors = iota
	RowVectors
	ColumnVectors
)

// Bytes is the size of the tensor. It is a float64 because sizes of absurd models do not fit into int64.
func (s *Spec) Bytes() float64 {
	size := float64(s.DType.Size())
	for _, n := range s.Shape {
		size *= float64(n)
	}
	return size
}

// ByteSize multiplies a shape out; ok is false when a length is negative or the product does not fit.
func ByteSize(element int64, shape []int64) (size int64, ok bool) {
	size = element
	for _, n := range shape {
		if n < 0 {
			return 0, false
		}
		high, low := bits.Mul64(uint64(size), uint64(n))
		if high != 0 || low > math.MaxInt64-8 {
			return 0, false
		}
		size = int64(low)
	}
	return size, true
}

// ShapeText writes a shape as [40981, 256].
func ShapeText(shape []int64) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ")
}
