package predict

import (
	"dsstne/engine/devices"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Measure is how near a row is to a query.
type Measure int

// Cosine and Dot compare rows of a matrix. Entry is the entry of a matrix between items, in the row of the query.
const (
	Cosine Measure = iota
	Dot
	Entry
)

// NeighborOptions choose the measure of nearness.
type NeighborOptions struct {
	Measure     Measure
	IncludeSelf bool
}

// search is a call that ranks the rows of a matrix, or the entries of its rows.
type search struct {
	p       *Predictor
	measure Measure
	matrix  program.Matrix
	shards  []program.Shard
	dense   []float32           // the matrix whose rows are queries; nil: they are sparse
	stored  storedRows          // rows as sparse queries
	h       []kernels.Buffer    // by rank: dense queries
	own     kernels.SparseBatch // each query's own number
	queries kernels.SparseBatch // sparse ones
	free    []kernels.Buffer
}

// Neighbors writes the k nearest rows of a matrix for each query row of it, see dsstne_predictor_neighbors. It needs no
// bound datasets.
func (p *Predictor) Neighbors(tensor string, queries []int32, filter Filter, o NeighborOptions, k int64, ids []int32,
	scores []float32) error {
	done, err := p.begin()
	if err != nil {
		return err
	}
	defer done()
	m, err := p.matrix(tensor)
	if err != nil {
		return err
	}
	if o.Measure == Entry && !m.ByItems {
		return fault.New(fault.InvalidArgument, "the entries of %q are not weights between items; use cosine or dot", m.Name)
	}
	for n, q := range queries {
		if q < 0 || int64(q) >= m.Rows {
			return fault.New(fault.InvalidArgument, "queries[%d] is %d; %s has rows 0 to %d", n, q, m.Name, m.Rows-1)
		}
	}
	if _, err := filter.check(m.Rows); err != nil {
		return err
	}
	rows := max(1, min(p.batchSize, int64(len(queries))))
	s := &search{p: p, measure: o.Measure, matrix: m}
	defer func() { buffers(s.free).free() }()
	parts, err := s.prepare(rows)
	if err != nil {
		return err
	}
	r := &ranking{shards: s.shards, k: k, allowed: filter.allowed()}
	spec := p.rankingSpec(rows)
	spec.Held = append(parts, p.held...)
	if !o.IncludeSelf {
		r.exclude = program.Feed{Layer: -1, Name: "queries", Columns: m.Rows, Entries: func(int64) int64 { return rows }}
	}
	if s.dense == nil {
		r.queries = program.Feed{
			Layer: -1, Name: "rows of the queries", Columns: m.Columns, Whole: true,
			Entries: func(int64) int64 { return rows * s.stored.most },
		}
	}
	list, err := r.program(spec)
	if err != nil {
		return err
	}
	defer list.Free()
	if err := s.allocate(rows, list); err != nil {
		return err
	}
	for first := int64(0); first < int64(len(queries)); first += rows {
		if p.cancelled.Load() {
			return fault.New(fault.Cancelled, "the call was cancelled after %d of %d queries", first, len(queries))
		}
		batch := queries[first:min(first+rows, int64(len(queries)))]
		from, to := first*k, (first+int64(len(batch)))*k
		if err := s.fill(batch); err != nil {
			return err
		}
		if err := s.nearest(r, list, ids[from:to], scores[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the shards that are ranked, and says what memory that takes beside the ranking's.
func (s *search) prepare(rows int64) ([]program.Part, error) {
	if s.matrix.Sparse || s.measure == Entry {
		return s.prepareSparse()
	}
	p, m := s.p, s.matrix
	data, err := p.Model.Tensor(m.Name)
	if err != nil {
		return nil, err
	}
	s.dense = data.Float32()
	weight := &kernels.Weights{Name: m.Name, Rows: m.Rows, Columns: m.Columns, Value: data.Buffer()}
	s.shards = program.ShardsOf(weight, len(p.Ranks))
	parts := make([]program.Part, len(s.shards))
	for rank := range s.shards {
		if s.measure == Cosine {
			s.shards[rank].Temperature = 1
		}
		parts[rank] = program.Part{
			Name: "queries", Of: m.Name, Bytes: 4 * rows * m.Columns, Device: p.Ranks[rank].Device.Info().Name,
		}
		w := s.shards[rank].Sources[0].Weight
		if w.Value, err = p.here(rank, w.Name, w.Value); err != nil {
			return nil, err
		}
	}
	return parts, p.Copies().Refresh()
}

// allocate takes the memory of dense queries.
func (s *search) allocate(rows int64, list *program.Program) (err error) {
	if s.dense == nil {
		return nil
	}
	s.h = make([]kernels.Buffer, len(s.shards))
	for rank := range s.shards {
		if s.h[rank], err = s.p.Ranks[rank].Device.Alloc(rows * s.matrix.Columns); err != nil {
			return list.Plan.Explain(err)
		}
		s.free = append(s.free, s.h[rank])
		s.shards[rank].Sources[0].H = s.h[rank]
	}
	return nil
}

// fill makes a batch of queries.
func (s *search) fill(batch []int32) error {
	s.own.Columns, s.own.Indices, s.own.Offsets = s.matrix.Rows, batch, s.own.Offsets[:0]
	for u := range len(batch) + 1 {
		s.own.Offsets = append(s.own.Offsets, int32(u))
	}
	if s.dense == nil {
		return s.stored.fill(batch, &s.queries)
	}
	columns := s.matrix.Columns
	for u, q := range batch {
		row := s.dense[int64(q)*columns : (int64(q)+1)*columns]
		for rank := range s.h {
			if err := s.p.Ranks[rank].Device.Write(s.h[rank], int64(u)*columns, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// nearest ranks a batch of queries.
func (s *search) nearest(r *ranking, list *program.Program, ids []int32, scores []float32) error {
	rows := int64(len(s.own.Indices))
	err := list.Run(&kernels.Step{Rows: rows, Sparse: []*kernels.SparseBatch{&s.own, {}, &s.queries}})
	if err == nil {
		err = r.best(rows, ids, scores)
	}
	if _, failure := list.Settle(0); err == nil {
		err = failure
	}
	return err
}

// here gives a device that does not reach the model's memory a copy of a tensor, or of its shard of one. Refresh
// fills it.
func (p *Predictor) here(rank int, name string, value kernels.Buffer) (kernels.Buffer, error) {
	device, copies := p.Ranks[rank].Device, p.Copies()
	if device.Reaches(value) {
		return value, nil
	}
	if !copies.Has(rank, name, value.Len()) {
		part := program.Part{
			Name: "weights", Of: "the device's copy of " + name, Bytes: 4 * value.Len(), Device: device.Info().Name,
		}
		parts := append([]program.Part{part}, p.held...)
		if err := program.Fits(p.Ranks[rank:rank+1], p.limit, parts, devices.MakeRoom); err != nil {
			return nil, err
		}
		part.Held = true
		p.held = append(p.held, part)
	}
	here, err := copies.Of(rank, device, name, value)
	if err != nil {
		return nil, (&program.Plan{Parts: p.held}).Explain(err)
	}
	return here, nil
}

// matrix finds a matrix by name; empty means the output layer's.
func (p *Predictor) matrix(name string) (program.Matrix, error) {
	if name == "" {
		output, err := p.output("")
		if err != nil {
			return program.Matrix{}, err
		}
		l := &p.Ports[output]
		if len(l.Weights) != 1 {
			return program.Matrix{}, fault.New(fault.InvalidArgument,
				"layer %q has %d weights; name the tensor whose rows are to be compared", l.Name, len(l.Weights))
		}
		name = l.Weights[0]
	}
	for _, m := range p.Model.Form().Matrices() {
		if m.Name == name {
			return m, nil
		}
	}
	if _, err := p.Model.Tensor(name); err != nil {
		return program.Matrix{}, err
	}
	return program.Matrix{}, fault.New(fault.InvalidArgument,
		"tensor %q is no weight matrix; neighbours are rows of one", name)
}
