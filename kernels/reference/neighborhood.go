package reference

import (
	"cmp"
	"slices"

	"dsstne/kernels"
)

// stored calls each for the entries of a row.
func stored(m *kernels.SparseMatrix, row int64, each func(column int64, value float64)) {
	offsets := kernels.View[int64](m.Offsets)
	for at := offsets[row]; at < offsets[row+1]; at++ {
		each(int64(m.Indices.Int32()[at]), float64(m.Values.Float32()[at]))
	}
}

func (device) Neighborhood(op *kernels.Neighborhood, s *kernels.Step) error {
	weights := kernels.View[float64](op.Similarity.RowWeights)
	for first, end := op.Items(s); first < end; first++ {
		sums := make([]float64, op.ByItem.Rows)
		stored(&op.ByItem, first, func(u int64, a float64) {
			a *= weights[u]
			stored(&op.ByRow, u, func(j int64, b float64) { sums[j] += float64(a * b) })
		})
		nearest(op, first, sums)
	}
	return nil
}

// nearest writes the list of item i.
func nearest(op *kernels.Neighborhood, i int64, sums []float64) {
	s := &op.Similarity
	norms, left, right := kernels.View[float64](s.Norms), kernels.View[float64](s.Left), kernels.View[float64](s.Right)
	similar := make([]float32, len(sums))
	var list []int32
	for j, c := range sums {
		under := float64(s.Product*norms[i]*norms[j]) + float64(s.Sum*(norms[i]+norms[j]))
		under = under - float64(s.Shared*c) + s.Constant
		similar[j] = float32(c * left[i] * right[j] / under)
		if c != 0 && int64(j) != i && similar[j] == similar[j] && similar[j] != 0 {
			list = append(list, int32(j))
		}
	}
	slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(similar[b], similar[a]) })
	list = list[:min(len(list), int(op.K))]
	slices.Sort(list)
	ids, values := op.IDs.Int32()[i*op.K:(i+1)*op.K], op.Similarities.Float32()[i*op.K:(i+1)*op.K]
	for n := range ids {
		ids[n], values[n] = -1, 0
		if n < len(list) {
			ids[n], values[n] = list[n], similar[list[n]]
		}
	}
}
