package reference

import (
	"math"
	"slices"

	"dsstne/kernels"
)

// rowOf is row number row of a matrix with the given columns; a view, not a copy.
func rowOf(b kernels.Buffer, row, columns int64) []float32 {
	return b.Float32()[row*columns : (row+1)*columns]
}

// rounded is a copy in float32; too large numbers become infinite.
func rounded(x []float64) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = float32(x[i])
	}
	return y
}

func allFinite(x []float32) bool {
	for _, v := range x {
		if !finite(float64(v)) {
			return false
		}
	}
	return true
}

// finite reports whether x is a number that float32 can hold.
func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat32 }

// storeRows rounds [rows, columns] numbers into the first rows of a buffer, or adds them to what is there.
func storeRows(b kernels.Buffer, x []float64, add bool) {
	out := b.Float32()
	for i, v := range x {
		if add {
			v += float64(out[i])
		}
		out[i] = float32(v)
	}
}

// addScaled adds a*x to y.
func addScaled(y []float64, a float64, x []float32) {
	for i := range y {
		y[i] += a * float64(x[i])
	}
}

// itemEntries gives the rows and values of one item's entries in a batch.
func itemEntries(batch *kernels.SparseBatch, item int64) ([]int32, []float32) {
	j, found := slices.BinarySearch(batch.Items, int32(item))
	if !found {
		return nil, nil
	}
	from, to := batch.ItemOffsets[j], batch.ItemOffsets[j+1]
	return batch.ItemRows[from:to], batch.ItemValues[from:to]
}
