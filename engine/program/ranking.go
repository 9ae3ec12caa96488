package program

import (
	"fmt"

	"dsstne/engine/fault"
	"dsstne/kernels"
)

// RankingSpec is what a ranking is made from.
type RankingSpec struct {
	Ranks []Rank
	// Forward is the program whose list comes first in a step; nil: the sources of the shards hold their values.
	Forward *Program
	Shards  []Shard // of the weights whose rows are ranked, by rank
	Rows, K int64   // rows of the largest batch; items that are found for each
	Allowed func(first, count int64) []uint64
	// Exclude has the items to leave out and Targets those that metrics are about; nil: none. Their slots follow Forward's.
	Exclude, Targets *Feed
	Metrics          []kernels.Metric
	PerRow           bool // the metrics of each row are wanted
	Limit            int64
	Held             []Part // memory that there is already, or that the caller takes
	host             map[string]string
}

// Ranking is a list for each rank that finds the best items of a batch's rows, and perhaps counts metrics of them, where the
// forward list has put the hidden values. Each device ranks the items that it has; of several the best are gathered and merged
// on the first rank. That one counts alone: counting is little beside ranking, and so nobody needs to gather sums.
type Ranking struct {
	spec    RankingSpec
	Plan    *Plan // without the operations
	items   int64
	parts   []*part
	ids     kernels.Buffer // [2, Rows, K] on the first rank: int32 items, then scores
	values  kernels.Buffer // float64 [Rows, metrics]
	totals  kernels.Buffer
	staging []float32
}

// NewRanking plans, compares the plan with the memory there is, allocates and binds. It is to be freed.
func NewRanking(spec RankingSpec) (*Ranking, error) {
	last := spec.Shards[len(spec.Shards)-1]
	items := last.First + last.Items
	if spec.K < 1 || spec.K > items {
		return nil, fault.New(fault.InvalidArgument, "k is %d; it must be from 1 to %d, the number of items", spec.K, items)
	}
	spec.host = map[string]string{}
	var plan *Plan
	for {
		dry := &Ranking{spec: spec, items: items}
		if err := dry.build(true); err != nil {
			return nil, err
		}
		parts := append([]Part(nil), spec.Held...)
		for _, p := range dry.parts {
			parts = append(parts, p.memory.parts...)
		}
		plan = planOf(spec.Limit, parts)
		misfit := plan.fits(spec.Ranks)
		if misfit == nil {
			break
		}
		if !leave(spec.host, plan, dry.parts[0]) {
			return nil, misfit
		}
	}
	built, err := withRoom(func() (*Ranking, error) {
		r := &Ranking{spec: spec, Plan: plan, items: items}
		if err := r.build(false); err != nil {
			r.Free()
			return nil, err
		}
		return r, nil
	})
	return built, plan.Explain(err)
}

// Slots are those of the items to leave out and of the targets.
func (s *RankingSpec) slots() (exclude, targets int) {
	n := 0
	if s.Forward != nil {
		n = len(s.Forward.Slots)
	}
	return n, n + 1
}

func (r *Ranking) build(dry bool) error {
	for rank := range r.spec.Ranks {
		b := r.builder(rank, dry)
		r.parts = append(r.parts, b.p)
		if err := r.feed(b); err != nil {
			return err
		}
		if err := r.rank(b); err != nil {
			return err
		}
	}
	return nil
}

// builder is one for lists that have no layers.
func (r *Ranking) builder(rank int, dry bool) *builder {
	s := &r.spec
	device := s.Ranks[rank].Device
	p := &part{Rank: s.Ranks[rank], rank: rank, rows: s.Rows, memory: &memory{device: device, dry: dry}}
	b := &builder{spec: Spec{Ranks: s.Ranks, Rows: s.Rows, host: s.host}, batch: s.Rows, rank: rank, device: device, p: p}
	if s.Forward != nil {
		p.forward = s.Forward.parts[rank]
		b.others = p.forward.kept
	}
	return b
}

// feed brings the items to leave out and the targets to where they are wanted.
func (r *Ranking) feed(b *builder) error {
	s, p := &r.spec, b.p
	exclude, targets := s.slots()
	p.made, p.own = make([]*kernels.SparseBatch, targets+1), make([]*kernels.SparseBatch, targets+1)
	var before []int64 // entries of the batches that the forward list gets from the host
	if p.forward != nil {
		before = p.forward.stepList.Entries
	}
	entries := before[:len(before):len(before)]
	if s.Exclude != nil {
		f := *s.Exclude
		f.text = f.Name
		if err := b.assemble(exclude, f); err != nil {
			return err
		}
		if p.made[exclude] == nil {
			b.noteBatch(f, true)
			if entries = append(entries, f.Entries); b.sharded() {
				b.takeShard(exclude, f)
			}
		}
	}
	if s.Targets != nil {
		f := *s.Targets
		f.text, f.whole = f.Name, true
		if b.rank > 0 {
			p.own[targets] = &kernels.SparseBatch{} // which it does not need
		} else if err := b.assemble(targets, f); err != nil {
			return err
		}
		if p.made[targets] == nil && b.rank == 0 {
			b.noteBatch(f, true)
			entries = append(entries, f.Entries)
		}
	}
	p.stepList.Entries = entries
	if more := b.device.StepSize(s.Rows, entries) - b.device.StepSize(s.Rows, before); more > 0 {
		p.memory.note("batch", "the device's copies for the ranking", more, false)
	}
	return nil
}

// rank adds the ops.
func (r *Ranking) rank(b *builder) error {
	s, device, m := &r.spec, b.device, b.p.memory
	each := int64(0) // how many a shard finds
	for _, shard := range s.Shards {
		each = max(each, min(s.K, shard.Items))
	}
	shard, k := s.Shards[b.rank], s.K
	if b.sharded() {
		k = each
	}
	exclude, _ := s.slots()
	op := &kernels.TopK{Scorer: shard.Scorer, K: k, First: shard.First, Exclude: -1}
	if s.Exclude != nil {
		op.Exclude = exclude
	}
	b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
	own, err := m.allocAll(want{"recommendations", "", 2 * s.Rows * k}, want{"workspace", "the ranking", b.most})
	if err != nil {
		return err
	}
	found := own[0]
	for _, take := range b.scratch {
		take(own[1])
	}
	op.IDs, op.Scores = r.halves(found, k)
	if s.Allowed != nil {
		bits := func() []float32 { return kernels.Bits(s.Allowed(shard.First, shard.Items)) }
		if op.Allowed, err = b.constants("filter", 2*((shard.Items+63)/64), bits); err != nil {
			return err
		}
	}
	b.add(fmt.Sprintf("TopK %d of %d items", k, shard.Items), func(s *kernels.Step) error { return device.TopK(op, s) })
	if b.sharded() {
		if found, err = r.merge(b, found, each); err != nil {
			return err
		}
	}
	if b.rank > 0 {
		return nil
	}
	if r.ids = found; len(s.Metrics) > 0 {
		return r.count(b)
	}
	if !reachesHost(device) {
		m.parts = append(m.parts, Part{Name: "recommendations", Of: "the host's copy", Bytes: 8 * s.Rows * s.K, Device: "host"})
	}
	return nil
}

// halves are the items and the scores of lists of k.
func (r *Ranking) halves(lists kernels.Buffer, k int64) (ids, scores kernels.Buffer) {
	if lists == nil { // a dry builder
		return nil, nil
	}
	n := r.spec.Rows * k
	return lists.Slice(0, n), lists.Slice(n, n)
}

// constants are n elements that the host writes once.
func (b *builder) constants(name string, n int64, make func() []float32) (kernels.Buffer, error) {
	buffer, err := b.p.memory.alloc(name, "", n)
	if err != nil || buffer == nil {
		return nil, err
	}
	return buffer, b.device.Write(buffer, 0, make())
}

// merge gathers what the shards have found, and makes the lists of all items out of it on the first rank.
func (r *Ranking) merge(b *builder, part kernels.Buffer, each int64) (kernels.Buffer, error) {
	s, to, device, ranks := &r.spec, b.p.Communicator, b.device, int64(len(r.spec.Ranks))
	all, err := b.p.memory.alloc("recommendations", "all shards", ranks*2*s.Rows*each)
	if err != nil {
		return nil, err
	}
	n := 2 * s.Rows * each
	b.add(fmt.Sprintf("AllGather the shards' best[2, %d]", each), func(*kernels.Step) error { return to.AllGather(part, all, n) })
	if b.rank > 0 {
		return nil, nil
	}
	merged, err := b.p.memory.alloc("recommendations", "", 2*s.Rows*s.K)
	if err != nil {
		return nil, err
	}
	op := &kernels.MergeTopK{Shards: ranks, Each: each, Stride: s.Rows, Parts: all, K: s.K}
	op.IDs, op.Scores = r.halves(merged, s.K)
	b.add(fmt.Sprintf("MergeTopK %d of %d x %d", s.K, ranks, each), func(s *kernels.Step) error { return device.MergeTopK(op, s) })
	return merged, nil
}

// count adds the metrics.
func (r *Ranking) count(b *builder) (err error) {
	s, m, device := &r.spec, b.p.memory, b.device
	_, targets := s.slots()
	op := &kernels.RankingMetrics{Metrics: s.Metrics, Items: r.items, K: s.K, Target: targets}
	op.IDs, _ = r.halves(r.ids, s.K)
	table := func() []float32 { return kernels.Bits(kernels.DiscountTable(s.K)) }
	if op.Discounts, err = b.constants("discounts", 2*(2*s.K+1), table); err != nil {
		return err
	}
	if s.PerRow {
		if r.values, err = m.alloc("metrics", "rows", 2*s.Rows*int64(len(s.Metrics))); err != nil {
			return err
		}
	}
	if r.totals, err = m.alloc("metrics", "totals", 2*r.layout().Size()); err != nil {
		return err
	}
	op.Values, op.Totals = r.values, r.totals
	b.add(fmt.Sprintf("RankingMetrics, %d of them", len(s.Metrics)), func(s *kernels.Step) error { return device.RankingMetrics(op, s) })
	return nil
}

func (r *Ranking) layout() kernels.MetricTotals {
	return kernels.MetricTotals{Metrics: r.spec.Metrics, Items: r.items}
}

// Makes tells, as Program.Makes, whether the devices make the batches of a slot, which may be one of the forward list.
func (r *Ranking) Makes(slot int) bool {
	if forward := r.spec.Forward; forward != nil && slot < len(forward.Slots) {
		return forward.Makes(slot)
	}
	return r.parts[0].made[slot] != nil
}

// Run begins a step with the forward list, if there is one; its batch may have up to Rows rows.
func (r *Ranking) Run(step *kernels.Step) error {
	return r.Plan.Explain(inOrder(r.spec.Ranks, func(rank int) error { return r.parts[rank].runStep(step) }))
}

// Settle is Program.Settle.
func (r *Ranking) Settle(underWay int) ([]kernels.Result, error) {
	return settleParts(r.spec.Ranks, r.parts, underWay, nil)
}

// Best copies what the last step has found for so many rows. It waits for the step, and Settle tells how that went.
func (r *Ranking) Best(rows int64, ids []int32, scores []float32) error {
	n, behind := rows*r.spec.K, r.spec.Rows*r.spec.K
	found := r.ids.Float32()
	if found == nil {
		if r.staging == nil {
			r.staging = make([]float32, 2*behind)
		}
		found = r.staging[:behind+n] // at once: every copy waits for the device
		if err := r.spec.Ranks[0].Device.Read(r.ids, 0, found); err != nil {
			return err
		}
	}
	copy(kernels.Bits(ids), found[:n])
	copy(scores, found[behind:behind+n])
	return nil
}

// Values copies the metrics of so many rows of the last step, row by row, and waits like Best.
func (r *Ranking) Values(rows int64) ([]float64, error) {
	values := make([]float64, rows*int64(len(r.spec.Metrics)))
	return values, r.spec.Ranks[0].Device.Read(r.values, 0, kernels.Bits(values))
}

// Totals are what the metrics of all steps add up to, as MetricTotals lays it out. No step is under way.
func (r *Ranking) Totals() (kernels.MetricTotals, []uint64, error) {
	totals := make([]uint64, r.layout().Size())
	return r.layout(), totals, r.spec.Ranks[0].Device.Read(r.totals, 0, kernels.Bits(totals))
}

// Free gives the memory back.
func (r *Ranking) Free() {
	for _, p := range r.parts {
		p.stepList.Free()
		p.freeData()
		p.memory.free()
	}
}
