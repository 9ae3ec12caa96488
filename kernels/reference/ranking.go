package reference

import (
	"math"
	"slices"
	"sort"

	"dsstne/kernels"
)

// scoresOf gives the scores of every item for row u. Several sources are added in float64, in their order, before the
// bias; cosine scores have one source.
func scoresOf(s *kernels.Scorer, u int64) []float32 {
	scores := make([]float32, s.Items)
	for i := range scores {
		var dot, hh, ww float64
		for _, source := range s.Sources {
			h := rowOf(source.H, u, source.Weight.Columns)
			w := rowOf(source.Weight.Value, int64(i), source.Weight.Columns)
			dot += kernels.Dot(h, w)
			if s.Temperature != 0 {
				hh, ww = kernels.Dot(h, h), kernels.Dot(w, w)
			}
		}
		var bias float32
		if s.Bias != nil {
			bias = s.Bias.Value.Float32()[i]
		}
		scores[i] = kernels.Score(dot, hh, ww, bias, s.Temperature)
	}
	return scores
}

// Scores writes all scores.
func (device) Scores(op *kernels.Scores, step *kernels.Step) error {
	for u := range step.Rows {
		copy(op.Out[u*op.Stride:u*op.Stride+op.Items], scoresOf(&op.Scorer, u))
	}
	return nil
}

// TopK sorts all items that take part. An item whose score is NaN takes no place at all.
func (device) TopK(op *kernels.TopK, step *kernels.Step) error {
	for u := range step.Rows {
		scores := scoresOf(&op.Scorer, u)
		var excluded []int32
		if op.Exclude >= 0 {
			batch := step.Sparse[op.Exclude]
			excluded = batch.Indices[batch.Offsets[u]:batch.Offsets[u+1]]
		}
		var items []int32
		for i, score := range scores {
			_, seen := slices.BinarySearch(excluded, int32(i))
			allowed := op.Allowed == nil || op.Allowed[i/64]>>(i%64)&1 == 1
			if allowed && !seen && !math.IsNaN(float64(score)) {
				items = append(items, int32(i))
			}
		}
		sort.SliceStable(items, func(a, b int) bool { return scores[items[a]] > scores[items[b]] })
		for n := range op.K {
			op.IDs[u*op.K+n], op.Scores[u*op.K+n] = -1, float32(math.Inf(-1))
			if n < int64(len(items)) {
				op.IDs[u*op.K+n], op.Scores[u*op.K+n] = items[n], scores[items[n]]
			}
		}
	}
	return nil
}
