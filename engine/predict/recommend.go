package predict

import (
	"math/bits"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// Filter limits the items of a call: an allow-list, or a deny-list with Deny. Nil Items means every item.
type Filter struct {
	Items []int32
	Deny  bool
}

// check counts the items that are left of so many.
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

// bits has a bit for each of the count items from first on, whether it takes part; nil for every item.
func (f Filter) bits(first, count int64) []uint64 {
	if f.Items == nil {
		return nil
	}
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

// ranking ranks the items of an output layer, for the rows of a call.
type ranking struct {
	p        *Predictor
	shards   []program.Shard // of the output layer, by device
	items    int64
	rows     rowList
	filter   Filter
	eligible int64 // items that are left
	exclude  *csr.Matrix
}

// newRanking checks what Recommend and Evaluate have in common. The ranking is to be closed.
func (p *Predictor) newRanking(layer string, rows []int64, exclude *csr.Matrix, filter Filter) (*ranking, error) {
	r := &ranking{p: p, exclude: exclude, filter: filter}
	var err error
	if r.rows, err = p.listed(rows); err != nil {
		return nil, err
	}
	output, err := p.output(layer)
	if err != nil {
		return nil, err
	}
	r.items = p.Net.Layers[output].Size
	if r.eligible, err = filter.check(r.items); err != nil {
		return nil, err
	}
	if err := p.checkItems(exclude, r.items, "items to leave out"); err != nil {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	r.shards = p.program.Shards(output)
	if exclude != nil {
		err = exclude.Use()
	}
	return r, err
}

func (r *ranking) close() {
	if r.exclude != nil {
		r.exclude.Unuse()
		// The next call may have no such items, and should not hold memory for these.
		*r.p.excluded() = kernels.SparseBatch{}
	}
}

// run finds the k best items, and calls each for every batch, with the function that ranks it. Rows for which skip, if not
// nil, is true are left out; parts is the memory that the caller takes.
func (r *ranking) run(k int64, skip func(place, row int64) bool, each func(rankInto, *batch) error, parts ...program.Part) error {
	p := r.p
	var further []*csr.Reader
	if r.exclude != nil {
		reader := &csr.Reader{Matrix: r.exclude, Limit: r.excluded(), RowsOnly: true}
		further = append(further, reader)
		batch := program.BatchBytes(p.batchRows(r.rows), reader.Limit, true)
		parts = append(parts,
			program.Part{Name: "data", Of: "items to leave out", Bytes: r.exclude.Bytes(), Device: "host", Held: true},
			program.Part{Name: "batch", Of: "items to leave out", Bytes: batch, Device: program.HostName(p.Ranks[0].Device)})
		for _, rank := range p.Ranks {
			if size := rank.Device.StepSize(p.batchRows(r.rows), []int64{reader.Limit}); size > 0 {
				parts = append(parts,
					program.Part{Name: "batch", Of: "the device's copy of items to leave out", Bytes: size, Device: rank.Device.Info().Name})
			}
		}
		if n := int64(len(p.Ranks)); n > 1 {
			shards := program.ShardBytes(n*p.batchRows(r.rows), reader.Limit, true)
			parts = append(parts, program.Part{Name: "batch", Of: "shards of items to leave out", Bytes: shards, Device: "host"})
		}
	}
	b := p.cut(r.rows, further...)
	b.skip = skip
	op, err := p.newTopK(r.shards, r.filter, k, b.most, parts...)
	if err != nil {
		return err
	}
	defer op.free()
	var exclude *kernels.SparseBatch
	if r.exclude != nil {
		exclude = p.excluded()
	}
	into := func(ids []int32, scores []float32) error { return op.run(p.step.Rows, exclude, ids, scores) }
	return p.batches(b, func(b *batch) error { return each(into, b) })
}

// rankInto ranks the items for the rows of a batch.
type rankInto func(ids []int32, scores []float32) error

// excluded is the most items to leave out that a batch can have.
func (r *ranking) excluded() (n int64) {
	if r.rows.count > r.p.planned {
		return r.exclude.MaxBatchEntries(r.p.planned)
	}
	for place := range r.rows.count {
		n += r.exclude.RowLength(r.rows.at(place))
	}
	return n
}

// checkItems compares a dataset of items to leave out, or of targets, with the bound rows and the items.
func (p *Predictor) checkItems(d *csr.Matrix, items int64, what string) error {
	switch {
	case d == nil:
		return nil
	case d.Rows() != p.Rows():
		return fault.New(fault.InvalidData, "the dataset of %s has %d rows, the ones bound have %d", what, d.Rows(), p.Rows())
	case d.Columns() != items:
		return fault.New(fault.InvalidData, "the dataset of %s has %d columns, the output layer has %d units", what, d.Columns(), items)
	}
	return nil
}

// Recommend writes the k best items of each row, see dsstne_predictor_recommend. An empty layer is the only output layer.
func (p *Predictor) Recommend(layer string, rows []int64, exclude *csr.Matrix, filter Filter, k int64, ids []int32,
	scores []float32) error {
	done, err := p.begin()
	if err != nil {
		return err
	}
	defer done()
	r, err := p.newRanking(layer, rows, exclude, filter)
	if err != nil {
		return err
	}
	defer r.close()
	return r.run(k, nil, func(rank rankInto, b *batch) error {
		from, to := b.places[0]*k, (b.places[0]+int64(len(b.rows)))*k
		return rank(ids[from:to], scores[from:to])
	})
}
