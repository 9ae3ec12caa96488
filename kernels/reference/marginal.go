package reference

import (
	"math"
	"slices"

	"dsstne/kernels"
)

// MarginalTargets goes from one item of the batch to the next.
func (device) MarginalTargets(op *kernels.MarginalTargets, step *kernels.Step) error {
	output, l := op.Output, newLogits(op.Output, step.Rows)
	batch := step.Sparse[output.Target]
	// The entries of a row have ascending items, so items in their order find the entries of each row in theirs.
	next, sums := slices.Clone(batch.Offsets), make([]float64, step.Rows)
	for n, item := range batch.Items {
		z, err := l.of(int64(item))
		if err != nil {
			return err
		}
		for e := batch.ItemOffsets[n]; e < batch.ItemOffsets[n+1]; e++ {
			u := batch.ItemRows[e]
			logSumExp := float64(rowOf(output.Stats, int64(u), 2)[1])
			t := marginalTarget(op, float64(batch.ItemValues[e]), float64(batch.RowSum[u]), z[u]-logSumExp)
			sums[u] += t
			output.Targets.ByRow.Float32()[next[u]] = float32(t)
			if output.Targets.ByItem != nil {
				output.Targets.ByItem.Float32()[e] = float32(t)
			}
			next[u]++
		}
	}
	for u, sum := range sums {
		output.Targets.Sums.Float32()[u] = float32(sum)
	}
	return nil
}

// marginalTarget is t' of a target, in a row with the given sum, whose probability has the given logarithm.
func marginalTarget(op *kernels.MarginalTargets, t, sum, logarithm float64) float64 {
	if t == 0 || op.OneTarget != 1 && logarithm >= math.Log(float64(op.OneTarget)) {
		return 0
	}
	if op.NormalizeRows {
		t /= sum
	}
	return float64(op.OneScale) * t
}
