package predict

import (
	"cmp"
	"slices"

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
	ranking
	p          *Predictor
	measure    Measure
	matrix     program.Matrix
	by         program.Matrix            // that scores: matrix, or its transpose
	tensors    map[string]kernels.Buffer // of by
	transposed []kernels.Buffer          // of those, what the call has made
	list       *program.Program
	h          []kernels.Buffer    // by rank: dense queries; nil: they are sparse
	stored     storedRows          // rows as sparse queries
	own        kernels.SparseBatch // each query's own number
	sparse     kernels.SparseBatch // the sparse queries
}

// Neighbors writes the k nearest rows of a matrix for each query row of it, see dsstne.h. It needs no bound datasets.
func (p *Predictor) Neighbors(tensor string, queries []int32, filter Filter, o NeighborOptions, k int64, ids []int32,
	scores []float32) error {
	s, done, err := p.newSearch(tensor, filter, o.Measure, k)
	if err != nil {
		return err
	}
	defer done()
	m := s.matrix
	if o.Measure == Entry && !m.ByItems {
		return fault.New(fault.InvalidArgument, "the entries of %q are not weights between items; use cosine or dot", m.Name)
	}
	for n, q := range queries {
		if q < 0 || int64(q) >= m.Rows {
			return fault.New(fault.InvalidArgument, "queries[%d] is %d; %s has rows 0 to %d", n, q, m.Name, m.Rows-1)
		}
	}
	count := int64(len(queries))
	if rows := s.batchRows(count); !o.IncludeSelf {
		s.exclude = program.Feed{Layer: -1, Name: "queries", Columns: m.Rows, Entries: func(int64) int64 { return rows }}
	}
	return s.all(count, ids, scores, func(first, end int64) error { return s.fill(queries[first:end]) })
}

// Search writes the k nearest rows of a matrix for each query, a vector with as many columns, see dsstne.h. It needs no
// bound datasets.
func (p *Predictor) Search(tensor string, queries []float32, columns int64, filter Filter, measure Measure, k int64,
	ids []int32, scores []float32) error {
	s, done, err := p.newSearch(tensor, filter, measure, k)
	if err != nil {
		return err
	}
	defer done()
	m := s.matrix
	switch {
	case m.Sparse:
		return fault.New(fault.Unsupported, "%q is sparse; vectors are compared with the rows of dense matrices", m.Name)
	case columns != m.Columns:
		return fault.New(fault.InvalidData, "the queries have %d columns, %s has %d", columns, m.Name, m.Columns)
	}
	if at := slices.IndexFunc(queries, isNotFinite); at >= 0 {
		return fault.New(fault.NotFinite, "queries, row %d, column %d: %v is not finite", int64(at)/columns,
			int64(at)%columns, queries[at])
	}
	return s.all(int64(len(queries))/columns, ids, scores, func(first, end int64) error {
		return s.write(0, queries[first*columns:end*columns])
	})
}

func isNotFinite(x float32) bool { return x-x != 0 }

// newSearch begins a call. Without an error, done is to be called at its end.
func (p *Predictor) newSearch(tensor string, filter Filter, measure Measure, k int64) (
	s *search, done func(), err error,
) {
	end, err := p.begin()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if err := p.notServing(); err != nil {
		return nil, nil, err
	}
	m, err := p.matrix(tensor)
	if err != nil {
		return nil, nil, err
	}
	if _, err := filter.check(m.Rows); err != nil {
		return nil, nil, err
	}
	s = &search{p: p, measure: measure, matrix: m, by: m}
	s.ranking = ranking{items: m.Rows, scorer: s.scorer, k: k, allowed: filter.allowed()}
	return s, func() { s.close(); end() }, nil
}

// batchRows is the size of the largest batch of some queries.
func (s *search) batchRows(queries int64) int64 { return max(1, min(s.p.batchSize, queries)) }

// all ranks all queries, a batch after the other; fill makes a batch of some of them.
func (s *search) all(queries int64, ids []int32, scores []float32, fill func(first, end int64) error) error {
	rows := s.batchRows(queries)
	if err := s.prepare(queries); err != nil {
		return err
	}
	for first := int64(0); first < queries; first += rows {
		if s.p.cancelled.Load() {
			return fault.New(fault.Cancelled, "the call was cancelled after %d of %d queries", first, queries)
		}
		end := min(first+rows, queries)
		if err := fill(first, end); err != nil {
			return err
		}
		if err := s.nearest(end-first, ids[first*s.k:end*s.k], scores[first*s.k:end*s.k]); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the program that ranks batches of some queries.
func (s *search) prepare(queries int64) (err error) {
	rows := s.batchRows(queries)
	p, m := s.p, s.matrix
	s.tensors = map[string]kernels.Buffer{}
	for _, t := range m.Tensors(0) {
		if s.tensors[t.Name], err = p.Model.Buffer(t.Name); err != nil {
			return err
		}
	}
	compares := s.measure != Entry
	var transposed []program.Part
	if compares && m.Sparse {
		part, err := s.transpose()
		if err != nil {
			return err
		}
		transposed = []program.Part{part}
	} else if compares {
		s.h = make([]kernels.Buffer, len(p.Ranks))
		if err := s.screen(queries, rows); err != nil {
			return err
		}
	}
	if s.h == nil {
		longest := s.stored.longest()
		s.queries = program.Feed{
			Layer: -1, Name: "rows of the queries", Columns: m.Columns, Whole: true,
			Entries: func(int64) int64 { return rows * longest },
		}
	}
	spec := p.rankingSpec(rows)
	spec.Held = append(transposed, spec.Held...)
	if transposed == nil {
		spec.Copies = p.Copies()
	}
	if s.list, err = p.buildRanking(&s.ranking, spec); err != nil {
		return err
	}
	if transposed != nil {
		return s.list.Load()
	}
	p.remember(s.list.Plan.Parts)
	return p.Copies().Refresh()
}

// screen finds what ranks the rows of a dense matrix faster, if the call, or those before it, have enough queries. It
// needs the device's copy of the matrix, which the first call plans and makes.
func (s *search) screen(queries, rows int64) (err error) {
	m := s.matrix
	weight := s.whole()
	if device, copies := s.p.Ranks[0].Device, s.p.Copies(); !device.Reaches(weight.Value) {
		if !copies.Has(0, m.Name, weight.Value.Len()) {
			return nil
		}
		if weight.Value, err = copies.Of(0, device, m.Name, weight.Value); err != nil {
			return err
		}
		if err := copies.Refresh(); err != nil {
			return err
		}
	}
	scorer := kernels.Scorer{
		Items: m.Rows, Sources: []kernels.OutputSource{{Weight: weight}}, Temperature: s.temperature(),
	}
	s.screening, err = s.p.screening(screened{name: m.Name, measure: s.measure}, scorer, queries, rows)
	return err
}

// whole is the dense matrix in the host's memory.
func (s *search) whole() *kernels.Weights {
	m := s.matrix
	return &kernels.Weights{
		Name: m.Name, Rows: m.Rows, Columns: m.Columns, Value: s.tensors[m.Name], Storage: m.Storage,
	}
}

// temperature makes scores cosines.
func (s *search) temperature() float32 {
	if s.measure == Cosine {
		return 1
	}
	return 0
}

func (s *search) close() {
	if s.list != nil {
		s.list.Free()
	}
	for _, b := range s.transposed {
		b.Free()
	}
}

// scorer binds what a rank scores its items with.
func (s *search) scorer(b *program.Builder) kernels.Scorer {
	first, end := b.Items(s.items)
	scorer := kernels.Scorer{Items: end - first}
	if s.h == nil {
		bind := func(name string) kernels.Buffer { return b.ModelBuffer(name, s.tensors[name]) }
		scorer.Sparse = s.by.Source(querySlot, first, bind)
		return scorer
	}
	name, columns := s.matrix.Name, s.matrix.Columns
	weight := &kernels.Weights{Name: name, Rows: scorer.Items, Columns: columns, Storage: s.matrix.Storage}
	shard, skip := weight.Storage.Slice(s.tensors[name], first*columns, weight.Rows*columns)
	weight.Value, weight.Skip = b.ModelBuffer(name, shard), skip
	s.h[b.Rank()] = b.Alloc("queries", name, b.Rows()*columns)
	scorer.Sources = []kernels.OutputSource{{H: s.h[b.Rank()], Weight: weight}}
	scorer.Temperature = s.temperature()
	return scorer
}

// nearest ranks a batch of queries.
func (s *search) nearest(rows int64, ids []int32, scores []float32) error {
	err := s.list.Run(&kernels.Step{Rows: rows, Sparse: []*kernels.SparseBatch{&s.own, {}, &s.sparse}})
	if err == nil {
		err = s.best(rows, ids, scores)
	}
	_, failure := s.list.Settle(0)
	return cmp.Or(err, failure)
}

// fill makes a batch of queries that are rows of the matrix.
func (s *search) fill(batch []int32) error {
	s.own.Columns, s.own.Indices, s.own.Offsets = s.matrix.Rows, batch, s.own.Offsets[:0]
	for u := range len(batch) + 1 {
		s.own.Offsets = append(s.own.Offsets, int32(u))
	}
	if s.h == nil {
		return s.stored.fill(batch, &s.sparse)
	}
	for u, q := range batch {
		if err := s.write(int64(u), s.whole().Row(int64(q))); err != nil {
			return err
		}
	}
	return nil
}

// write copies vectors to the devices, as the queries of a batch from number u on.
func (s *search) write(u int64, vectors []float32) error {
	for rank := range s.h {
		if err := s.p.Ranks[rank].Device.Write(s.h[rank], u*s.matrix.Columns, vectors); err != nil {
			return err
		}
	}
	return nil
}

// matrix finds a matrix by name; empty means the output layer's.
func (p *Predictor) matrix(name string) (program.Matrix, error) {
	if name == "" {
		output, err := p.output("")
		if err != nil {
			return program.Matrix{}, err
		}
		l := &p.Ports[output]
		if len(l.Weights) == 0 {
			return program.Matrix{}, fault.New(fault.InvalidArgument,
				"no weight matrix belongs to layer %q; name the tensor whose rows are to be compared, or recommend items for a "+
					"row that has one item alone", l.Name)
		}
		if len(l.Weights) > 1 {
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
		"tensor %q is not a weight matrix; neighbours are rows of one", name)
}
