package cpu

import (
	"math"

	"dsstne/kernels"
)

// The ops on what is so small that no vectors and no other workers are needed.

// CombineStats combines the statistics of a few shards: some thousand exponentials in a step.
func (d *device) CombineStats(op *kernels.CombineStats, s *kernels.Step) error {
	parts, stats := op.Parts.Float32(), op.Stats.Float32()
	for u := range s.Rows {
		maximum, largest := math.Inf(-1), math.Inf(-1)
		for shard := range op.Shards {
			at := 2 * (shard*op.Stride + u)
			maximum, largest = math.Max(maximum, float64(parts[at])), math.Max(largest, float64(parts[at+1]))
		}
		sum := 0.0
		for shard := range op.Shards {
			if part := float64(parts[2*(shard*op.Stride+u)+1]); !math.IsInf(part, -1) {
				sum += math.Exp(part - largest)
			}
		}
		stats[2*u], stats[2*u+1] = float32(maximum), float32(largest+math.Log(sum))
	}
	return nil
}

// noStats are the statistics of an output without items.
func noStats(op *kernels.Output, s *kernels.Step) error {
	stats := op.Stats.Float32()[:2*s.Rows]
	for i := range stats {
		stats[i] = float32(math.Inf(-1))
	}
	return nil
}

// noStep is the step of an output without items: it adds nothing.
func noStep(op *kernels.Output, s *kernels.Step) error {
	for _, source := range op.Sources {
		if source.DH != nil && !source.Accumulate {
			clear(source.DH.Float32()[:s.Rows*source.Weight.Columns])
		}
	}
	return nil
}
