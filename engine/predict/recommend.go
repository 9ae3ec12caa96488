package predict

import (
	"dsstne/engine/csr"
	"dsstne/engine/fault"
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

// ranking is a top-k call that goes over batches of rows.
type ranking struct {
	p       *Predictor
	op      kernels.TopK
	exclude *csr.Reader
}

// newRanking checks k and the filters and makes the op; its workspace lives until free.
func (p *Predictor) newRanking(scorer kernels.Scorer, exclude *csr.Matrix, filter Filter, k, rows int64) (*ranking, error) {
	if k < 1 || k > scorer.Items {
		return nil, fault.New(fault.InvalidArgument, "k is %d; it must be from 1 to %d, the number of items", k, scorer.Items)
	}
	allowed, _, err := filter.bits(scorer.Items)
	if err != nil {
		return nil, err
	}
	r := &ranking{p: p, op: kernels.TopK{Scorer: scorer, K: k, Exclude: -1, Allowed: allowed}}
	if exclude != nil {
		if exclude.Columns() != scorer.Items {
			return nil, fault.New(fault.InvalidData, "the dataset of items to leave out has %d columns, the output layer has %d units",
				exclude.Columns(), scorer.Items)
		}
		r.exclude = &csr.Reader{Matrix: exclude}
		r.op.Exclude = len(p.step.Sparse) - 1
	}
	r.op.Workspace, err = p.device.Alloc(p.device.WorkspaceSize(&r.op, rows))
	return r, err
}

// run ranks the items for the rows of the current batch.
func (r *ranking) run(batch []int64, ids []int32, scores []float32) error {
	if r.exclude != nil {
		if err := r.exclude.Batch(batch, 0, false, r.p.step.Sparse[r.op.Exclude]); err != nil {
			return err
		}
	}
	r.op.IDs, r.op.Scores = ids, scores
	return r.p.device.TopK(&r.op, &r.p.step)
}

func (r *ranking) free() {
	if r.op.Workspace != nil {
		r.op.Workspace.Free()
	}
}

// checkRows compares a dataset of items to leave out, or of targets, with the bound rows.
func (p *Predictor) checkRows(d *csr.Matrix, what string) error {
	if d != nil && d.Rows() != p.rows {
		return fault.New(fault.InvalidData, "the dataset of %s has %d rows, the ones bound have %d", what, d.Rows(), p.rows)
	}
	return nil
}

// Recommend writes the k best items of each row, see dsstne_predictor_recommend.
func (p *Predictor) Recommend(rows []int64, exclude *csr.Matrix, filter Filter, k int64, ids []int32, scores []float32) error {
	done, err := p.begin()
	if err != nil {
		return err
	}
	defer done()
	if rows, err = p.allRows(rows); err != nil {
		return err
	}
	return p.rank(rows, exclude, filter, k, func(r *ranking, first int64, batch []int64) error {
		from, to := first*k, (first+int64(len(batch)))*k
		return r.run(batch, ids[from:to], scores[from:to])
	})
}

// rank prepares a ranking of the output layer and calls each for every batch of rows.
func (p *Predictor) rank(rows []int64, exclude *csr.Matrix, filter Filter, k int64,
	each func(r *ranking, first int64, batch []int64) error) error {
	if err := p.checkRows(exclude, "items to leave out"); err != nil {
		return err
	}
	if exclude != nil {
		if err := exclude.Use(); err != nil {
			return err
		}
		defer exclude.Unuse()
	}
	output, err := p.output("")
	if err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return err
	}
	r, err := p.newRanking(p.program.Scorer(output), exclude, filter, k, min(p.batchSize, int64(len(rows))))
	if err != nil {
		return err
	}
	defer r.free()
	return p.batches(rows, func(first int64, batch []int64) error { return each(r, first, batch) })
}

// NeighborOptions choose the measure of nearness.
type NeighborOptions struct {
	Cosine      bool // else the dot product
	IncludeSelf bool
}

// Neighbors writes the k nearest rows of a weight for each query row of it, see dsstne_predictor_neighbors. It needs no
// bound datasets.
func (p *Predictor) Neighbors(tensor string, queries []int32, filter Filter, o NeighborOptions, k int64, ids []int32,
	scores []float32) error {
	done, err := p.begin()
	if err != nil {
		return err
	}
	defer done()
	weight, err := p.itemWeight(tensor)
	if err != nil {
		return err
	}
	for n, q := range queries {
		if q < 0 || int64(q) >= weight.Rows {
			return fault.New(fault.InvalidArgument, "queries[%d] is %d; %s has rows 0 to %d", n, q, weight.Name, weight.Rows-1)
		}
	}
	rows := max(1, min(p.batchSize, int64(len(queries))))
	h, err := p.device.Alloc(rows * weight.Columns)
	if err != nil {
		return err
	}
	defer h.Free()
	scorer := kernels.Scorer{Items: weight.Rows, Sources: []kernels.OutputSource{{H: h, Weight: weight}}}
	if o.Cosine {
		scorer.Temperature = 1
	}
	r, err := p.newRanking(scorer, nil, filter, k, rows)
	if err != nil {
		return err
	}
	defer r.free()
	step := kernels.Step{Sparse: []*kernels.SparseBatch{{}}}
	if !o.IncludeSelf {
		r.op.Exclude = 0
	}
	for first := int64(0); first < int64(len(queries)); first += rows {
		if p.cancelled.Load() {
			return fault.New(fault.Cancelled, "the call was cancelled after %d of %d queries", first, len(queries))
		}
		batch := queries[first:min(first+rows, int64(len(queries)))]
		step.Rows = int64(len(batch))
		own := step.Sparse[0]
		own.Indices, own.Offsets = batch, own.Offsets[:0]
		for u, q := range batch {
			own.Offsets = append(own.Offsets, int32(u))
			copy(h.Float32()[int64(u)*weight.Columns:], weight.Value.Float32()[int64(q)*weight.Columns:(int64(q)+1)*weight.Columns])
		}
		own.Offsets = append(own.Offsets, int32(len(batch)))
		from, to := first*k, (first+step.Rows)*k
		r.op.IDs, r.op.Scores = ids[from:to], scores[from:to]
		if err := p.device.TopK(&r.op, &step); err != nil {
			return err
		}
	}
	return nil
}

// itemWeight binds a weight by name; empty means the output layer's.
func (p *Predictor) itemWeight(name string) (*kernels.Weights, error) {
	if name == "" {
		output, err := p.output("")
		if err != nil {
			return nil, err
		}
		l := &p.net.Layers[output]
		if len(l.Sources) != 1 {
			return nil, fault.New(fault.InvalidArgument, "layer %q has %d weights; name the tensor whose rows are to be compared",
				l.Name, len(l.Sources))
		}
		name = p.net.WeightName(output, l.Sources[0])
	}
	tensors, err := p.net.Tensors()
	if err != nil {
		return nil, err
	}
	data, err := p.model.Tensor(name)
	if err != nil {
		return nil, err
	}
	for _, t := range tensors {
		if t.Name == name && t.Source >= 0 {
			return &kernels.Weights{Name: name, Rows: t.Rows, Columns: t.Columns, Value: data.Buffer()}, nil
		}
	}
	return nil, fault.New(fault.InvalidArgument, "tensor %q is no weight matrix; neighbours are rows of one", name)
}
