package predict

import (
	"encoding/json"
	"math/bits"
	"slices"

	"dsstne/engine/csr"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Filter limits the items of a call: an allow-list, or a deny-list with Deny. Nil Items means every item.
type Filter struct {
	Items []int32
	Deny  bool
}

// check counts the items that the filter leaves of all items.
func (f Filter) check(items int64) (left int64, err error) {
	if f.Items == nil {
		return items, nil
	}
	for n, item := range f.Items {
		if item < 0 || int64(item) >= items {
			return 0, fault.New(fault.InvalidArgument, "items[%d] is %d; the model has items 0 to %d", n, item, items-1)
		}
	}
	for _, word := range f.bits(0, items) {
		left += int64(bits.OnesCount64(word))
	}
	if f.Deny { // the last word has more bits than there are items
		left -= (items+63)/64*64 - items
	}
	return left, nil
}

// allowed is bits, nil for every item.
func (f Filter) allowed() func(first, count int64) []uint64 {
	if f.Items == nil {
		return nil
	}
	return f.bits
}

// bits has a bit for each of the count items from first on, whether it takes part.
func (f Filter) bits(first, count int64) []uint64 {
	words := make([]uint64, (count+63)/64)
	for _, item := range f.Items {
		if at := int64(item) - first; at >= 0 && at < count {
			words[at/64] |= 1 << (at % 64)
		}
	}
	if f.Deny {
		for i := range words {
			words[i] = ^words[i]
		}
	}
	return words
}

// call ranks the items of an output layer, for the rows of a call.
type call struct {
	ranking
	p        *Predictor
	done     func() // ends the reading of the model
	rowList  rowList
	eligible int64         // items that are left
	used     []csr.Source  // beside those that are bound
	readers  []*csr.Reader // of the items to leave out and of the targets; nil ones are not read
	spec     program.Spec
	list     *program.Program
}

// newCall begins what Recommend and Evaluate have in common. Without an error, the call is to be closed.
func (p *Predictor) newCall(layer string, rows []int64, exclude csr.Source, filter Filter) (r *call, err error) {
	done, err := p.begin()
	if err != nil {
		return nil, err
	}
	r = &call{p: p, done: done}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.rowList, err = p.listed(rows); err != nil {
		return r, err
	}
	output, err := p.output(layer)
	if err != nil {
		return r, err
	}
	items := p.Ports[output].Size
	if r.eligible, err = filter.check(items); err != nil {
		return r, err
	}
	if err := p.checkItems(exclude, items, "items to leave out"); err != nil {
		return r, err
	}
	if err := p.prepare(r.rowList, output); err != nil {
		return r, err
	}
	r.readers = make([]*csr.Reader, 2)
	r.ranking = p.ranking(output)
	r.allowed = filter.allowed()
	of, scorer := p.layerScreening(output, p.program)
	if r.screening, err = p.screening(of, scorer, r.rowList.count, p.batchRows(r.rowList)); err != nil {
		return r, err
	}
	r.spec = p.rankingSpec(p.batchRows(r.rowList))
	r.spec.Follows = p.program
	if exclude != nil {
		r.exclude, err = r.read(0, exclude, "items to leave out")
	}
	return r, err
}

// ranking begins a ranking of the items of an output layer, behind the list that has its hidden values.
func (p *Predictor) ranking(output int) ranking {
	scorer := func(b *program.Builder) kernels.Scorer { return b.Shard(output).Scorer }
	return ranking{items: p.Ports[output].Size, scorer: scorer}
}

// remember counts copies of weights as held: they stay on the devices between calls.
func (p *Predictor) remember(parts []program.Part) {
	for _, part := range parts {
		part.Held = true
		if part.Name == "weights" && !slices.Contains(p.held, part) {
			p.held = append(p.held, part)
		}
	}
}

// rankingSpec begins the specification of a ranking.
func (p *Predictor) rankingSpec(rows int64) program.Spec {
	spec := p.Base(rows)
	spec.Held = p.heldParts()
	return spec
}

// read makes the rows of a dataset those of a slot behind the program's.
func (r *call) read(slot int, d csr.Source, what string) (f program.Feed, err error) {
	p := r.p
	if err := d.Use(); err != nil {
		return f, err
	}
	r.used = append(r.used, d)
	entries := r.entries(d)
	f = program.Feed{Layer: -1, Name: what, Text: what, Columns: d.Columns()}
	f.Entries = func(int64) int64 { return entries }
	// If not all rows are asked for, copying the whole dataset would take longer than copying those.
	if f.Shared = r.rowList.count < p.Rows(); p.keeping && (p.IsBound(d) || !f.Shared) {
		f.Keep = func(first, end int64) (*kernels.Data, error) {
			data, err := p.Resident(d, first, end)
			return data, fault.Wrap(err, "the dataset of %s", what)
		}
	}
	r.readers[slot] = &p.further[slot]
	r.readers[slot].Source, r.readers[slot].Limit, r.readers[slot].RowsOnly = d, entries, true
	if !p.IsBound(d) {
		r.spec.Held = append(r.spec.Held[:len(r.spec.Held):len(r.spec.Held)],
			program.Part{Name: "data", Of: what, Bytes: d.Statistics().Bytes, Device: "host", Held: true})
	}
	return f, nil
}

// entries is an upper bound on the stored entries that a batch has of a dataset.
func (r *call) entries(d csr.Source) (n int64) {
	if r.rowList.count > r.p.planned || r.rowList.chosen == nil {
		return csr.MaxBatchEntries(d, r.p.planned)
	}
	for place := range r.rowList.count {
		n += d.RowLength(r.rowList.at(place))
	}
	return n
}

// release ends the reading of the model: the list stays.
func (r *call) release() {
	r.done()
	r.done = func() {}
}

func (r *call) close() {
	defer r.done()
	if r.list != nil {
		r.list.Free()
	}
	for _, d := range r.used {
		d.Unuse()
		r.p.Forget(d)
	}
	// The next call may not need these batches, and should not hold their memory.
	for slot := range r.readers {
		*r.p.step.Sparse[len(r.p.readers)+slot] = kernels.SparseBatch{}
		r.p.further[slot].Source = nil
	}
}

// build makes the list.
func (r *call) build() (err error) {
	r.list, err = r.p.buildRanking(&r.ranking, r.spec)
	return err
}

// run finds the k best items of the rows that skip, if not nil, does not leave out, see batches.
func (r *call) run(skip func(place, row int64) bool, each func(*batch) error) (err error) {
	if err := r.build(); err != nil {
		return err
	}
	b := r.p.cut(r.rowList, r.readers...)
	b.skip = skip
	return r.p.batches(r.list, b, each)
}

// checkItems compares a dataset of items to leave out, or of targets, with the bound rows and the items.
func (p *Predictor) checkItems(d csr.Source, items int64, what string) error {
	switch {
	case d == nil:
		return nil
	case d.Rows() != p.Rows():
		return fault.New(fault.InvalidData, "the dataset of %s has %d rows, the ones bound have %d", what, d.Rows(), p.Rows())
	case d.Columns() != items:
		return fault.New(fault.InvalidData, "the dataset of %s has %d columns, the output layer has %d units",
			what, d.Columns(), items)
	}
	return nil
}

// Recommend writes the k best items of each row, see dsstne.h. An empty layer is the only output layer.
func (p *Predictor) Recommend(layer string, rows []int64, exclude csr.Source, filter Filter, k int64, ids []int32,
	scores []float32) error {
	r, err := p.newCall(layer, rows, exclude, filter)
	if err != nil {
		return err
	}
	defer r.close()
	r.k = k
	return r.run(nil, func(b *batch) error {
		n := int64(len(b.rows))
		from, to := b.places[0]*k, (b.places[0]+n)*k
		return r.best(n, ids[from:to], scores[from:to])
	})
}

// Plan describes the memory and the operations of recommending k items of an output layer (empty: the only one), as
// JSON. It allocates nothing. For inputs without a dataset it counts the largest batches, without entries.
func (p *Predictor) Plan(layer string, k int64) ([]byte, error) {
	output, err := p.output(layer)
	if err != nil {
		return nil, err
	}
	rows := p.batchSize
	if p.Rows() >= 0 {
		rows = max(1, min(rows, p.Rows()))
	}
	forward, err := program.Draft(p.Draft(rows, nil, false))
	if err != nil {
		return nil, err
	}
	r, ranking := p.ranking(output), p.rankingSpec(rows)
	r.k, ranking.Held, ranking.Follows = k, forward.Plan.Parts, forward
	if err := r.specify(&ranking); err != nil {
		return nil, err
	}
	plan, err := program.Describe(ranking)
	if err != nil {
		return nil, err
	}
	if p.reach != program.SeveralDevices {
		plan.Operations = append(plan.Operations, p.reach.String())
	}
	// Some devices keep a copy for batches of few rows only, which calls with row numbers have.
	of, scorer := p.layerScreening(output, forward)
	if part := p.screeningPart(of, &scorer, 1); part.Bytes > 0 && program.Fits(
		p.Ranks, ranking.Limit, append(plan.Parts, part), nil) == nil {
		plan.Parts, plan.Bytes = append(plan.Parts, part), plan.Bytes+part.Bytes
	}
	return json.Marshal(plan)
}
