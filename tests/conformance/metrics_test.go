package conformance

import (
	"math"
	"slices"
	"sort"

	"dsstne/kernels"
)

// mergeCase is a MergeTopK. It has no bounds: nothing is computed.
type mergeCase struct {
	title string
	op    kernels.MergeTopK // without buffers
	rows  int64
	ids   []int32 // [shards, stride, each]
	score []float32
}

func (c *mergeCase) name() string                 { return c.title }
func (c *mergeCase) bounds() map[string][]float64 { return nil }

func (c *mergeCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op, n := c.op, c.op.Stride*c.op.Each
	var parts []float32
	for shard := range op.Shards {
		parts = append(append(parts, kernels.Bits(c.ids[shard*n:(shard+1)*n])...), c.score[shard*n:(shard+1)*n]...)
	}
	op.Parts, op.IDs, op.Scores = p.floats(parts), p.guarded(guards(op.K*c.rows), op.K), p.guarded(guards(op.K*c.rows), op.K)
	err = d.MergeTopK(&op, &kernels.Step{Number: 1, Rows: c.rows, MaxRows: op.Stride})
	r.addInts("ids", integers(contents(op.IDs)))
	r.add("scores", op.Scores)
	return r, err
}

func mergeCases() (cases []opCase) {
	s := newSampler(61)
	for range 36 {
		c := &mergeCase{rows: pick(s, "rows", int64(1), 3, 40)}
		c.op = kernels.MergeTopK{Shards: pick(s, "shards", int64(1), 2, 3, 8, 64), Each: pick(s, "each", int64(1), 5, 33, 300)}
		c.op.K = pick(s, "k", 1, c.op.Each, min(c.op.Each*c.op.Shards, 2*c.op.Each-1), c.op.Each*c.op.Shards)
		c.op.Stride = c.rows + pick(s, "rows beyond the batch", int64(0), 3)
		left := pick(s, "left", "all", "some", "none", "in one shard")
		scores := pick(s, "scores", "normal", "ties", "equal", "not finite")
		for shard := range c.op.Shards {
			for range c.op.Stride {
				n := int(c.op.Each)
				if left == "none" || left == "in one shard" && shard != c.op.Shards-1 {
					n = 0
				} else if left == "some" {
					n = s.IntN(n + 1)
				}
				c.list(s, n, shard, scores)
			}
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// list appends a row's list of a shard with n items.
func (c *mergeCase) list(s *sampler, n int, shard int64, kind string) {
	type found struct {
		item  int32
		score float32
	}
	var list []found
	for i := range n {
		score := float32(s.NormFloat64())
		switch kind {
		case "ties":
			score = []float32{0, float32(math.Copysign(0, -1)), 1}[s.IntN(3)]
		case "equal":
			score = -3
		case "not finite":
			score = []float32{infinite, -infinite, 1e38, -1e38}[s.IntN(4)]
		}
		list = append(list, found{int32(int(shard)*1000 + i*3), score})
	}
	sort.SliceStable(list, func(a, b int) bool { return list[a].score > list[b].score })
	for len(list) < int(c.op.Each) {
		list = append(list, found{-1, -infinite})
	}
	for _, x := range list {
		c.ids, c.score = append(c.ids, x.item), append(c.score, x.score)
	}
}

// metricsCase is some batches of RankingMetrics, added up. It has no bounds: values are defined to the bit.
type metricsCase struct {
	title   string
	op      kernels.RankingMetrics // without buffers
	rows    int64
	batches []*kernels.SparseBatch
	ids     [][]int32
	totals  []uint64 // before
	perRow  bool
}

func (c *metricsCase) name() string                 { return c.title }
func (c *metricsCase) bounds() map[string][]float64 { return nil }

func (c *metricsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op, n := c.op, int64(len(c.op.Metrics))
	op.Discounts, op.Totals = p.floats(kernels.Bits(kernels.DiscountTable(op.K))), p.floats(kernels.Bits(c.totals))
	if c.perRow {
		op.Values = p.guarded(guards(2*n*c.rows), 2*n)
	}
	op.IDs = p.alloc(int(c.rows * op.K))
	for i, batch := range c.batches {
		write(op.IDs, 0, kernels.Bits(c.ids[i]))
		step := &kernels.Step{Number: 1, Rows: c.rows, MaxRows: c.rows + guardRows, Sparse: []*kernels.SparseBatch{nil, batch}}
		if err := d.RankingMetrics(&op, step); err != nil {
			return nil, err
		}
	}
	if op.Values != nil {
		r.addInts("values", integers(contents(op.Values)))
	}
	r.addInts("totals", integers(contents(op.Totals)))
	return r, nil
}

func metricsCases() (cases []opCase) {
	s := newSampler(62)
	for range 40 {
		c := &metricsCase{rows: pick(s, "rows", int64(1), 7, 70), perRow: pick(s, "values", true, true, false)}
		c.op = kernels.RankingMetrics{Items: pick(s, "items", int64(1), 2, 64, 65, 700), Target: 1}
		longest := pick(s, "k", 1, 10, 33, c.op.Items, 3*c.op.Items)
		c.op.K = min(longest, c.op.Items)
		for range pick(s, "metrics", 1, 3, 31, 150, 300) {
			kind := metricKinds[s.IntN(len(metricKinds))]
			c.op.Metrics = append(c.op.Metrics, kernels.Metric{Kind: kind, K: 1 + s.Int64N(longest)})
		}
		c.op.Metrics[0].K = longest
		layout := kernels.MetricTotals{Metrics: c.op.Metrics, Items: c.op.Items}
		c.totals = make([]uint64, layout.Size())
		if pick(s, "before", "nothing", "sums about to carry") != "nothing" {
			for m := range c.op.Metrics {
				c.totals[2*m], c.totals[2*m+1] = math.MaxUint64-uint64(s.IntN(3)), uint64(s.IntN(3))
			}
			c.totals[2*len(c.op.Metrics)] = 99
		}
		left, targets := pick(s, "left", "all", "some", "none"), pick(s, "targets", "sparse", "gaps", "full", "empty", "column")
		for range pick(s, "batches", 1, 3) {
			c.batches = append(c.batches, s.batch(c.rows, c.op.Items, targets, true))
			var ids []int32
			for range c.rows {
				ids = append(ids, s.list(c.op.Items, c.op.K, left)...)
			}
			c.ids = append(c.ids, ids)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// list is what could be recommended: distinct items, -1 where nothing is left.
func (s *sampler) list(items, k int64, left string) []int32 {
	n := int(k)
	switch left {
	case "some":
		n = s.IntN(n + 1)
	case "none":
		n = 0
	}
	var list []int32
	for _, item := range s.Perm(int(items))[:n] {
		list = append(list, int32(item))
	}
	return append(list, slices.Repeat([]int32{-1}, int(k)-n)...)
}
