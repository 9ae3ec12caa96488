package cpu

import (
	"math"

	"dsstne/kernels"
)

// MergeTopK takes the best of what stands first in the shards' lists, again and again.
func (d *device) MergeTopK(op *kernels.MergeTopK, s *kernels.Step) error {
	items, values := op.Parts.Int32(), op.Parts.Float32()
	behind := op.Stride * op.Each // from an item to its score
	next, end := make([]int64, op.Shards), make([]int64, op.Shards)
	for u := range s.Rows {
		for shard := range op.Shards {
			next[shard] = (2*shard*op.Stride + u) * op.Each
			end[shard] = next[shard] + op.Each
		}
		ids, scores := op.IDs.Int32()[u*op.K:(u+1)*op.K], op.Scores.Float32()[u*op.K:(u+1)*op.K]
		for n := range ids {
			best := int64(-1) // where it stands
			from := 0
			for shard, at := range next {
				if at == end[shard] || items[at] < 0 {
					continue
				}
				x, y := values[at+behind], float32(0)
				if best >= 0 {
					y = values[best+behind]
				}
				if best < 0 || x > y || x == y && items[at] < items[best] {
					best, from = at, shard
				}
			}
			if best < 0 {
				ids[n], scores[n] = -1, float32(math.Inf(-1))
				continue
			}
			ids[n], scores[n] = items[best], values[best+behind]
			next[from]++
		}
	}
	return nil
}

// Sparsity has a few hundred units, as a rule.
func (d *device) Sparsity(op *kernels.Sparsity, s *kernels.Step) error { return op.Apply(s) }

// CombineMoments has a few hundred units, too.
func (d *device) CombineMoments(op *kernels.CombineMoments, _ *kernels.Step) error { return op.Apply() }

// MoveMoments has them as well.
func (d *device) MoveMoments(op *kernels.MoveMoments, _ *kernels.Step) error { return op.Apply() }

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
