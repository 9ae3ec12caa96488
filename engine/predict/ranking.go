package predict

import (
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// ranking is the computation that finds the best items of a batch's rows, and perhaps counts metrics of them. It comes
// behind the list that computes the hidden values. Each device ranks its own items. With several devices, the first one
// gathers and merges what they found, and counts the metrics alone, since counting is little work beside ranking.
type ranking struct {
	items   int64
	scorer  func(*program.Builder) kernels.Scorer // of the rank's items
	k       int64                                 // items that are found for each row
	allowed func(first, count int64) []uint64
	// exclude are the items to leave out and targets those that metrics are about; without Entries: none.
	exclude, targets program.Feed
	queries          program.Feed // sparse rows that are scored, where no list comes before; without Entries: none
	metrics          []kernels.Metric
	perRow           bool // the metrics of each row are wanted
	screening        kernels.Buffer

	rows    int64          // of the largest batch
	ids     kernels.Buffer // [2, rows, k] on the first rank: int32 items, then scores
	values  kernels.Buffer // float64 [rows, metrics]
	totals  kernels.Buffer
	device  kernels.Device // of the first rank
	staging []float32
}

// querySlot is the slot of ranking.queries, where no list comes before.
const querySlot = 2

// specify makes the ranking the computation of a specification.
func (r *ranking) specify(spec *program.Spec) error {
	if r.k < 1 || r.k > r.items {
		return fault.New(fault.InvalidArgument, "k is %d; it must be from 1 to %d, the number of items", r.k, r.items)
	}
	spec.Computation, r.rows, r.device = r.build, spec.Rows, spec.Ranks[0].Device
	return nil
}

// program makes the ranking's program. It is to be freed.
func (r *ranking) program(spec program.Spec) (*program.Program, error) {
	if err := r.specify(&spec); err != nil {
		return nil, err
	}
	return program.Build(spec)
}

// build adds the operations of one rank.
func (r *ranking) build(b *program.Builder) {
	r.targets.FirstRank = true
	b.Batches(true, r.exclude, r.targets, r.queries)
	first, end := b.Items(r.items)
	op := &kernels.TopK{Scorer: r.scorer(b), K: r.k, First: first, Exclude: -1, Screening: r.screening}
	if world := int64(b.World()); b.Sharded() {
		op.K = min(r.k, (r.items+world-1)/world) // at most the items of the largest shard
	}
	if r.exclude.Entries != nil {
		op.Exclude = b.FirstSlot()
	}
	found := b.Alloc("recommendations", "", 2*r.rows*op.K)
	op.IDs, op.Scores = r.halves(found, op.K)
	if r.allowed != nil {
		bits := func() []float32 { return kernels.Bits(r.allowed(first, end-first)) }
		op.Allowed = b.Constants("filter", 2*((end-first+63)/64), bits)
	}
	b.AddWith(&op.Workspace, op, op)
	if b.Sharded() {
		found = r.merge(b, found, op.K)
	}
	if b.Rank() > 0 {
		return
	}
	r.ids = found
	if len(r.metrics) > 0 {
		r.count(b)
	} else if size := 8 * r.rows * r.k; !kernels.ReachesHost(r.device) {
		b.Note(program.Part{Name: "recommendations", Of: "the host's copy", Bytes: size, Device: "host"})
	}
}

// halves are the items and the scores of lists of k.
func (r *ranking) halves(lists kernels.Buffer, k int64) (ids, scores kernels.Buffer) {
	if lists == nil { // a dry run
		return nil, nil
	}
	n := r.rows * k
	return lists.Slice(0, n), lists.Slice(n, n)
}

// merge gathers what the shards have found, and makes the lists of all items out of it on the first rank.
func (r *ranking) merge(b *program.Builder, part kernels.Buffer, each int64) kernels.Buffer {
	all := b.AllGather("the best of the shards", "recommendations", "all shards", part, 2*each)
	if b.Rank() > 0 {
		return nil
	}
	merged := b.Alloc("recommendations", "", 2*r.rows*r.k)
	op := &kernels.MergeTopK{Shards: int64(b.World()), Each: each, Stride: r.rows, Parts: all, K: r.k}
	op.IDs, op.Scores = r.halves(merged, r.k)
	b.Add(op)
	return merged
}

// count adds the metrics.
func (r *ranking) count(b *program.Builder) {
	op := &kernels.RankingMetrics{Metrics: r.metrics, Items: r.items, K: r.k, Target: b.FirstSlot() + 1}
	op.IDs, _ = r.halves(r.ids, r.k)
	table := func() []float32 { return kernels.Bits(kernels.DiscountTable(r.k)) }
	op.Discounts = b.Constants("discounts", 2*(2*r.k+1), table)
	if r.perRow {
		r.values = b.Alloc("metrics", "rows", 2*r.rows*int64(len(r.metrics)))
	}
	r.totals = b.Alloc("metrics", "totals", 2*r.layout().Size())
	op.Values, op.Totals = r.values, r.totals
	b.Add(op)
}

func (r *ranking) layout() kernels.MetricTotals {
	return kernels.MetricTotals{Metrics: r.metrics, Items: r.items}
}

// best copies what the last step has found for its rows, as found.
func (r *ranking) best(rows int64, ids []int32, scores []float32) error {
	foundIDs, foundScores, err := r.found(rows)
	copy(kernels.Bits(ids), foundIDs)
	copy(scores, foundScores)
	return err
}

// found is what the last step has found for its rows, until the next step: the bits of items, and scores, [rows, k]. It
// waits for the step; Settle reports how the step went.
func (r *ranking) found(rows int64) (ids, scores []float32, err error) {
	n, behind := rows*r.k, r.rows*r.k
	found := r.ids.Float32()
	if found == nil {
		if r.staging == nil {
			r.staging = make([]float32, 2*behind)
		}
		found = r.staging[:behind+n] // at once: every copy waits for the device
		if err := r.device.Read(r.ids, 0, found); err != nil {
			return nil, nil, err
		}
	}
	return found[:n], found[behind : behind+n], nil
}

// sums are the metrics of all steps added up, in the layout of MetricTotals. No step is under way.
func (r *ranking) sums() (kernels.MetricTotals, []uint64, error) {
	totals := make([]uint64, r.layout().Size())
	return r.layout(), totals, r.device.Read(r.totals, 0, kernels.Bits(totals))
}
