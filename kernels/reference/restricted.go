package reference

import (
	"slices"

	"dsstne/kernels"
)

func (device) RestrictedInverse(op *kernels.RestrictedInverse, s *kernels.Step) error {
	for j, end := op.Range(s); j < end; j++ {
		members := []int32{}
		for _, i := range op.IDs.Int32()[j*op.Neighbors : (j+1)*op.Neighbors] {
			if i >= 0 {
				members = append(members, i)
			}
		}
		members = append(members, int32(j))
		var x []float64
		for shrunk := 1.0; x == nil && shrunk > 0; shrunk /= 2 {
			x = lastColumn(partOf(op, members, shrunk))
		}
		weights := op.Weights.Float32()[j*op.Neighbors : (j+1)*op.Neighbors]
		clear(weights)
		for i, item := range members[:len(members)-1] {
			weights[i] = float32(-float64(op.Factors.Float32()[item]) * x[i] / x[len(x)-1])
		}
	}
	return nil
}

// partOf is the part of A for some items.
func partOf(op *kernels.RestrictedInverse, members []int32, shrunk float64) [][]float64 {
	part := make([][]float64, len(members))
	for a := range part {
		part[a] = make([]float64, len(members))
	}
	for a, item := range members {
		part[a][a] = 1
		for e := int64(item) * op.Neighbors; e < (int64(item)+1)*op.Neighbors; e++ {
			if b := slices.Index(members, op.IDs.Int32()[e]); b >= 0 {
				part[a][b] = float64(op.Values.Float32()[e]) * shrunk
				part[b][a] = part[a][b]
			}
		}
	}
	return part
}

// lastColumn is the last column of an inverse, up to a factor, by Gaussian elimination; nil if a pivot is not positive.
func lastColumn(a [][]float64) []float64 {
	n := len(a)
	x := make([]float64, n)
	x[n-1] = 1
	for i := range n {
		if !(a[i][i] > 0) {
			return nil
		}
		for to := range n {
			if to == i {
				continue
			}
			factor := a[to][i] / a[i][i]
			for j := i; j < n; j++ {
				a[to][j] -= factor * a[i][j]
			}
			x[to] -= factor * x[i]
		}
	}
	for i := range x {
		x[i] /= a[i][i]
	}
	return x
}
