package predict

import (
	"dsstne/engine/fault"
	"dsstne/engine/program"
	"dsstne/kernels"
)

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
	if _, err := filter.check(weight.Rows); err != nil {
		return err
	}
	shards := program.ShardsOf(weight, len(p.Ranks))
	parts := make([]program.Part, len(shards))
	for rank := range shards {
		if o.Cosine {
			shards[rank].Temperature = 1
		}
		parts[rank] = program.Part{
			Name: "queries", Of: weight.Name, Bytes: 4 * rows * weight.Columns, Device: p.Ranks[rank].Device.Info().Name,
		}
	}
	if err := p.copyShards(shards); err != nil {
		return err
	}
	spec := program.RankingSpec{
		Ranks: p.Ranks, Shards: shards, Rows: rows, K: k, Allowed: filter.allowed(), Limit: p.limit, Held: append(parts, p.held...),
	}
	if !o.IncludeSelf {
		spec.Exclude = &program.Feed{Name: "queries", Columns: weight.Rows, Entries: rows}
	}
	list, err := program.NewRanking(spec)
	if err != nil {
		return err
	}
	defer list.Free()
	h := make([]kernels.Buffer, len(shards))
	for rank := range shards {
		if h[rank], err = p.Ranks[rank].Device.Alloc(rows * weight.Columns); err != nil {
			return list.Plan.Explain(err)
		}
		defer h[rank].Free()
		shards[rank].Sources[0].H = h[rank]
	}
	own := &kernels.SparseBatch{Columns: weight.Rows}
	for first := int64(0); first < int64(len(queries)); first += rows {
		if p.cancelled.Load() {
			return fault.New(fault.Cancelled, "the call was cancelled after %d of %d queries", first, len(queries))
		}
		batch := queries[first:min(first+rows, int64(len(queries)))]
		own.Indices, own.Offsets = batch, own.Offsets[:0]
		for u, q := range batch {
			own.Offsets = append(own.Offsets, int32(u))
			row := weight.Value.Float32()[int64(q)*weight.Columns : (int64(q)+1)*weight.Columns]
			for rank := range h {
				if err := p.Ranks[rank].Device.Write(h[rank], int64(u)*weight.Columns, row); err != nil {
					return err
				}
			}
		}
		own.Offsets = append(own.Offsets, int32(len(batch)))
		from, to := first*k, (first+int64(len(batch)))*k
		if err := p.nearest(list, own, ids[from:to], scores[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// nearest ranks a batch of queries, of which own has each one's own number.
func (p *Predictor) nearest(list *program.Ranking, own *kernels.SparseBatch, ids []int32, scores []float32) error {
	rows := int64(len(own.Indices))
	err := list.Run(&kernels.Step{Rows: rows, Sparse: []*kernels.SparseBatch{own, {}}})
	if err == nil {
		err = list.Best(rows, ids, scores)
	}
	if _, failure := list.Settle(0); err == nil {
		err = failure
	}
	return err
}

// copyShards gives devices that do not reach the model's memory copies of the rows that they rank.
func (p *Predictor) copyShards(shards []program.Shard) error {
	copies := p.Copies()
	for rank := range shards {
		device, w := p.Ranks[rank].Device, shards[rank].Sources[0].Weight
		if device.Reaches(w.Value) {
			continue
		}
		if !copies.Has(rank, w.Name, w.Value.Len()) {
			part := program.Part{Name: "weights", Of: "the device's copy of " + w.Name, Bytes: 4 * w.Value.Len(), Device: device.Info().Name}
			if err := program.Fits(p.Ranks[rank:rank+1], p.limit, append([]program.Part{part}, p.held...)); err != nil {
				return err
			}
			part.Held = true
			p.held = append(p.held, part)
		}
		var err error
		if w.Value, err = copies.Of(rank, device, w.Name, w.Value); err != nil {
			return (&program.Plan{Parts: p.held}).Explain(err)
		}
	}
	return copies.Refresh()
}

// itemWeight binds a weight by name; empty means the output layer's.
func (p *Predictor) itemWeight(name string) (*kernels.Weights, error) {
	if name == "" {
		output, err := p.output("")
		if err != nil {
			return nil, err
		}
		l := &p.Net.Layers[output]
		if len(l.Sources) != 1 {
			return nil, fault.New(fault.InvalidArgument, "layer %q has %d weights; name the tensor whose rows are to be compared",
				l.Name, len(l.Sources))
		}
		name = p.Net.WeightName(output, l.Sources[0])
	}
	tensors, err := p.Net.Tensors()
	if err != nil {
		return nil, err
	}
	data, err := p.Model.Tensor(name)
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
