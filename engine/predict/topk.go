package predict

import (
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// topK finds the k best of all items: each device ranks the items that it has, and of several the best are merged. Scores are
// defined to the bit and ties go to the lower item, so the result does not depend on the number of devices.
type topK struct {
	ranks  []program.Rank
	shards []*shardTopK // those with items
	taken  []int64      // by shard: how many of its best are among the merged
	k      int64
}

// shardTopK is the ranking of one device.
type shardTopK struct {
	op      *kernels.TopK
	rank    int
	first   int64 // item
	step    kernels.Step
	exclude kernels.SparseBatch // its items of those to leave out
	found   []kernels.Buffer    // ids and scores, where there are several devices
}

// newTopK checks k and makes the op for batches of up to rows rows, if its workspace fits into memory beside what there is and
// the parts that the caller takes. It is to be freed.
func (p *Predictor) newTopK(shards []program.Shard, f Filter, k, rows int64, parts ...program.Part) (*topK, error) {
	last := shards[len(shards)-1]
	if items := last.First + last.Items; k < 1 || k > items {
		return nil, fault.New(fault.InvalidArgument, "k is %d; it must be from 1 to %d, the number of items", k, items)
	}
	t := &topK{ranks: p.Ranks, k: k}
	var sizes []int64
	for rank, shard := range shards {
		if shard.Items == 0 {
			continue
		}
		s := &shardTopK{rank: rank, first: shard.First}
		s.op = &kernels.TopK{Scorer: shard.Scorer, K: min(k, shard.Items), Exclude: -1, Allowed: f.bits(shard.First, shard.Items)}
		t.shards = append(t.shards, s)
		device := p.Ranks[rank].Device
		size := device.WorkspaceSize(s.op, rows)
		sizes = append(sizes, size)
		parts = append(parts, program.Part{Name: "workspace", Of: "the ranking", Bytes: 4 * size, Device: device.Info().Name})
		if len(shards) > 1 {
			parts = append(parts, program.Part{Name: "recommendations", Of: "a shard", Bytes: 8 * rows * s.op.K, Device: "host"})
		}
	}
	t.taken = make([]int64, len(t.shards))
	if err := program.Fits(p.Ranks, p.limit, append(parts, p.held...)); err != nil {
		return nil, err
	}
	for n, s := range t.shards {
		if err := s.alloc(p.Ranks[s.rank].Device, sizes[n], rows, len(shards) > 1); err != nil {
			t.free()
			return nil, err
		}
	}
	return t, nil
}

// alloc takes the memory of a device's ranking.
func (s *shardTopK) alloc(device kernels.Device, workspace, rows int64, merged bool) (err error) {
	if s.op.Workspace, err = device.Alloc(workspace); err != nil || !merged {
		return err
	}
	for range 2 {
		buffer, err := kernels.AllocHost(rows * s.op.K)
		if err != nil {
			return err
		}
		s.found = append(s.found, buffer)
	}
	return nil
}

func (t *topK) free() {
	for _, s := range t.shards {
		if s.op.Workspace != nil {
			s.op.Workspace.Free()
		}
		for _, buffer := range s.found {
			buffer.Free()
		}
	}
}

// run ranks a batch of rows, whose hidden values the shards' sources hold; exclude, if not nil, has items to leave out.
func (t *topK) run(rows int64, exclude *kernels.SparseBatch, ids []int32, scores []float32) error {
	merged := len(t.ranks) > 1
	for _, s := range t.shards {
		s.step = kernels.Step{Rows: rows}
		if !merged {
			s.op.IDs, s.op.Scores = ids, scores
		} else {
			s.op.IDs, s.op.Scores = s.found[0].Int32()[:rows*s.op.K], s.found[1].Float32()[:rows*s.op.K]
		}
		if s.op.Exclude = -1; exclude != nil {
			s.op.Exclude, s.step.Sparse = 0, []*kernels.SparseBatch{exclude}
		}
	}
	if !merged {
		s := t.shards[0]
		return t.ranks[0].Device.TopK(s.op, &s.step)
	}
	err := program.Together(t.ranks, func(rank int) error {
		for _, s := range t.shards {
			if s.rank != rank {
				continue
			}
			if exclude != nil {
				csr.ShardRows(exclude, s.first, s.first+s.op.Items, &s.exclude)
				s.step.Sparse[0] = &s.exclude
			}
			return t.ranks[rank].Device.TopK(s.op, &s.step)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for u := range rows {
		t.merge(u, ids[u*t.k:(u+1)*t.k], scores[u*t.k:(u+1)*t.k])
	}
	return nil
}

// merge takes the best of what the devices found for row u. Of equal scores the first device's comes first, whose items are
// lower.
func (t *topK) merge(u int64, ids []int32, scores []float32) {
	taken := t.taken
	clear(taken)
	for n := range ids {
		best, score := -1, float32(0)
		for i, s := range t.shards {
			at := u*s.op.K + taken[i]
			if taken[i] == s.op.K || s.op.IDs[at] < 0 {
				continue
			}
			if best < 0 || s.op.Scores[at] > score {
				best, score = i, s.op.Scores[at]
			}
		}
		if best < 0 {
			ids[n], scores[n] = -1, float32(math.Inf(-1))
			continue
		}
		s := t.shards[best]
		ids[n], scores[n] = s.op.IDs[u*s.op.K+taken[best]]+int32(s.first), score
		taken[best]++
	}
}
