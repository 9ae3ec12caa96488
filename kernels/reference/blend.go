package reference

import (
	"math"
	"slices"

	"dsstne/kernels"
)

// Moments goes through the items in their order.
func (device) Moments(op *kernels.Moments, step *kernels.Step) error {
	out, batch := kernels.View[float64](op.Out), step.Sparse[op.Stored]
	for u := range step.Rows {
		stored := batch.Indices[batch.Offsets[u]:batch.Offsets[u+1]]
		var count, origin float64
		var sums, squares [kernels.MomentLanes]float64
		for i, score := range rowOf(op.Scores, u, op.Items) {
			_, has := slices.BinarySearch(stored, int32(int64(i)+op.First))
			x := float64(score)
			if has || math.IsNaN(x) || math.IsInf(x, 0) {
				continue
			}
			if count == 0 {
				origin = x
			}
			lane := i % kernels.MomentLanes
			count++
			sums[lane] += x - origin
			squares[lane] = math.FMA(x-origin, x-origin, squares[lane])
		}
		for n := kernels.MomentLanes / 2; n > 0; n /= 2 {
			for lane := range n {
				sums[lane] += sums[lane+n]
				squares[lane] += squares[lane+n]
			}
		}
		copy(out[4*u:], []float64{count, origin, sums[0], squares[0]})
	}
	return nil
}

// Blend computes a score at a time.
func (device) Blend(op *kernels.Blend, step *kernels.Step) error {
	for u := range step.Rows {
		sums := make([]float64, op.Items)
		for p := range op.Parts {
			mean, factor := op.Standard(&op.Parts[p], op.Weights.Float32()[p], u)
			if factor == 0 {
				continue
			}
			for i, score := range rowOf(op.Parts[p].Scores, u, op.Items) {
				sums[i] = math.FMA(factor, float64(score)-mean, sums[i])
			}
		}
		for i, out := 0, rowOf(op.Out, u, op.Items); i < len(out); i++ {
			out[i] = float32(sums[i])
		}
	}
	return nil
}
