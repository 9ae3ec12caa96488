package predict

import (
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

// bits turns the list into a bit per item, nil for every item, and counts what is left.
func (f Filter) bits(items int64) ([]uint64, int64, error) {
	if f.Items == nil {
		return nil, items, nil
	}
	words := make([]uint64, (items+63)/64)
	var listed int64
	for n, item := range f.Items {
		if item < 0 || int64(item) >= items {
			return nil, 0, fault.New(fault.InvalidArgument, "items[%d] is %d; the model has items 0 to %d", n, item, items-1)
		}
		if words[item/64]>>(item%64)&1 == 0 {
			words[item/64] |= 1 << (item % 64)
			listed++
		}
	}
	if !f.Deny {
		return words, listed, nil
	}
	for i := range words {
		words[i] = ^words[i]
	}
	return words, items - listed, nil
}

// newTopK checks k and makes the op for batches of up to rows rows, if its workspace fits into memory beside what there is and
// the parts that the caller takes.
func (p *Predictor) newTopK(scorer kernels.Scorer, allowed []uint64, k, rows int64, parts ...program.Part) (*kernels.TopK, error) {
	if k < 1 || k > scorer.Items {
		return nil, fault.New(fault.InvalidArgument, "k is %d; it must be from 1 to %d, the number of items", k, scorer.Items)
	}
	op := &kernels.TopK{Scorer: scorer, K: k, Exclude: -1, Allowed: allowed}
	size := p.Device.WorkspaceSize(op, rows)
	parts = append(parts, program.Part{Name: "workspace", Of: "the ranking", Bytes: 4 * size, Device: p.name})
	if err := program.Fits(p.Device, p.limit, append(parts, p.held...)); err != nil {
		return nil, err
	}
	var err error
	op.Workspace, err = p.Device.Alloc(size)
	return op, err
}

// ranking ranks the items of an output layer, for the rows of a call.
type ranking struct {
	p        *Predictor
	scorer   kernels.Scorer
	rows     rowList
	allowed  []uint64 // nil: every item
	eligible int64    // items that are left
	exclude  *csr.Matrix
}

// newRanking checks what Recommend and Evaluate have in common. The ranking is to be closed.
func (p *Predictor) newRanking(layer string, rows []int64, exclude *csr.Matrix, filter Filter) (*ranking, error) {
	r := &ranking{p: p, exclude: exclude}
	var err error
	if r.rows, err = p.listed(rows); err != nil {
		return nil, err
	}
	output, err := p.output(layer)
	if err != nil {
		return nil, err
	}
	items := p.Net.Layers[output].Size
	if r.allowed, r.eligible, err = filter.bits(items); err != nil {
		return nil, err
	}
	if err := p.checkItems(exclude, items, "items to leave out"); err != nil {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	r.scorer = p.program.Scorer(output)
	if exclude != nil {
		err = exclude.Use()
	}
	return r, err
}

func (r *ranking) close() {
	if r.exclude != nil {
		r.exclude.Unuse()
		// The next call may have no such items, and should not hold memory for these.
		*r.p.step.Sparse[len(r.p.readers)] = kernels.SparseBatch{}
	}
}

// run finds the k best items, and calls each for every batch, with the op to run on it. Rows for which skip, if not nil, is
// true are left out; parts is the memory that the caller takes.
func (r *ranking) run(k int64, skip func(place, row int64) bool, each func(*kernels.TopK, *batch) error, parts ...program.Part) error {
	p := r.p
	var further []*csr.Reader
	if r.exclude != nil {
		reader := &csr.Reader{Matrix: r.exclude, Limit: r.excluded(), RowsOnly: true}
		further = append(further, reader)
		batch := program.BatchBytes(p.batchRows(r.rows), reader.Limit, true)
		parts = append(parts,
			program.Part{Name: "data", Of: "items to leave out", Bytes: r.exclude.Bytes(), Device: "host", Held: true},
			program.Part{Name: "batch", Of: "items to leave out", Bytes: batch, Device: p.name})
	}
	b := p.cut(r.rows, further...)
	b.skip = skip
	op, err := p.newTopK(r.scorer, r.allowed, k, b.most, parts...)
	if err != nil {
		return err
	}
	defer op.Workspace.Free()
	if r.exclude != nil {
		op.Exclude = len(p.readers)
	}
	return p.batches(b, func(b *batch) error { return each(op, b) })
}

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
	return r.run(k, nil, func(op *kernels.TopK, b *batch) error {
		from, to := b.places[0]*k, (b.places[0]+int64(len(b.rows)))*k
		op.IDs, op.Scores = ids[from:to], scores[from:to]
		return p.Device.TopK(op, &p.step)
	})
}
