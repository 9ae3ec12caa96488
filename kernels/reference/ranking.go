package reference

import (
	"cmp"
	"math"
	"slices"

	"dsstne/kernels"
)

// sumsOf gives the sums of a sparse source for row u of a batch.
func sumsOf(s *kernels.SparseSource, items int64, batch *kernels.SparseBatch, u int64) []float64 {
	sums := make([]float64, items)
	values := s.Values.Float32()
	for e := batch.Offsets[u]; e < batch.Offsets[u+1]; e++ {
		j, x := int64(batch.Indices[e]), float64(batch.Values[e])
		if s.Offsets == nil {
			for i := range sums {
				sums[i] += x * float64(values[j*s.Columns+s.First+int64(i)])
			}
			continue
		}
		offsets := kernels.View[int64](s.Offsets)
		for at := offsets[j]; at < offsets[j+1]; at++ {
			if i := int64(s.Indices.Int32()[at]) - s.First; i >= 0 && i < items {
				sums[i] += x * float64(values[at])
			}
		}
	}
	return sums
}

// scoresOf gives the scores of every item for row u. Several sources are added in float64, in their order, before the
// bias; cosine scores have one source.
func scoresOf(s *kernels.Scorer, step *kernels.Step, u int64) []float32 {
	scores := make([]float32, s.Items)
	if s.IsGiven {
		copy(scores, s.Given.Float32()[u*s.Items:])
		return scores
	}
	var sums []float64
	bias := s.Bias
	if s.Sparse != nil {
		if rows := step.Sparse[s.Sparse.Input].Offsets; s.Sparse.BiasIfEmpty && rows[u] < rows[u+1] {
			bias = nil
		}
		sums = sumsOf(s.Sparse, s.Items, step.Sparse[s.Sparse.Input], u)
	}
	for i := range scores {
		var dot, hh, ww float64
		if sums != nil {
			dot = sums[i]
		}
		for _, source := range s.Sources {
			h := rowOf(source.H, u, source.Weight.Columns)
			w := source.Weight.Row(int64(i))
			dot += kernels.Dot(h, w)
			if s.Temperature != 0 {
				hh, ww = kernels.Dot(h, h), kernels.Dot(w, w)
			}
		}
		var added float32
		if bias != nil {
			added = bias.Value.Float32()[i]
		}
		scores[i] = kernels.Score(dot, hh, ww, added, s.Temperature)
	}
	return scores
}

func (device) Scores(op *kernels.Scores, step *kernels.Step) error {
	out, stride := op.Matrix()
	for u := range step.Rows {
		copy(out[u*stride:u*stride+op.Items], scoresOf(&op.Scorer, step, u))
	}
	return nil
}

// TopK sorts all items that take part. An item whose score is NaN takes no place at all.
func (device) TopK(op *kernels.TopK, step *kernels.Step) error {
	allowed := kernels.View[uint64](op.Allowed)
	for u := range step.Rows {
		scores := scoresOf(&op.Scorer, step, u)
		var excluded []int32
		if op.Exclude >= 0 {
			batch := step.Sparse[op.Exclude]
			excluded = batch.Indices[batch.Offsets[u]:batch.Offsets[u+1]]
		}
		var found []ranked
		for i, score := range scores {
			_, seen := slices.BinarySearch(excluded, int32(i))
			may := allowed == nil || allowed[i/64]>>(i%64)&1 == 1
			if may && !seen && !math.IsNaN(float64(score)) {
				found = append(found, ranked{int32(op.First) + int32(i), score})
			}
		}
		listBest(found, op.IDs.Int32()[u*op.K:(u+1)*op.K], op.Scores.Float32()[u*op.K:(u+1)*op.K])
	}
	return nil
}

// ranked is an item with its score.
type ranked struct {
	item  int32
	score float32
}

// listBest writes the best of what was found.
func listBest(found []ranked, ids []int32, scores []float32) {
	slices.SortFunc(found, func(a, b ranked) int {
		if a.score != b.score {
			return cmp.Compare(b.score, a.score)
		}
		return cmp.Compare(a.item, b.item)
	})
	for n := range ids {
		ids[n], scores[n] = -1, float32(math.Inf(-1))
		if n < len(found) {
			ids[n], scores[n] = found[n].item, found[n].score
		}
	}
}

// MergeTopK sorts what all shards have found.
func (device) MergeTopK(op *kernels.MergeTopK, step *kernels.Step) error {
	for u := range step.Rows {
		var found []ranked
		for shard := range op.Shards {
			for n := range op.Each {
				id := (2*shard*op.Stride+u)*op.Each + n
				if item := op.Parts.Int32()[id]; item >= 0 {
					found = append(found, ranked{item, op.Parts.Float32()[id+op.Stride*op.Each]})
				}
			}
		}
		listBest(found, op.IDs.Int32()[u*op.K:(u+1)*op.K], op.Scores.Float32()[u*op.K:(u+1)*op.K])
	}
	return nil
}
