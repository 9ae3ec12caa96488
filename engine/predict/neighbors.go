package predict

import (
	"cmp"

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
	dense      []float32           // the matrix whose rows are queries; nil: they are sparse
	h          []kernels.Buffer    // by rank: dense queries
	stored     storedRows          // rows as sparse queries
	own        kernels.SparseBatch // each query's own number
	sparse     kernels.SparseBatch // the sparse queries
}

// Neighbors writes the k nearest rows of a matrix for each query row of it, see dsstne.h. It needs no bound datasets.
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
	s := &search{p: p, measure: o.Measure, matrix: m, by: m, h: make([]kernels.Buffer, len(p.Ranks))}
	s.ranking = ranking{items: m.Rows, scorer: s.scorer, k: k, allowed: filter.allowed()}
	if !o.IncludeSelf {
		s.exclude = program.Feed{Layer: -1, Name: "queries", Columns: m.Rows, Entries: func(int64) int64 { return rows }}
	}
	defer s.close()
	if err := s.prepare(rows); err != nil {
		return err
	}
	for first := int64(0); first < int64(len(queries)); first += rows {
		if p.cancelled.Load() {
			return fault.New(fault.Cancelled, "the call was cancelled after %d of %d queries", first, len(queries))
		}
		batch := queries[first:min(first+rows, int64(len(queries)))]
		from, to := first*k, (first+int64(len(batch)))*k
		if err := s.nearest(batch, ids[from:to], scores[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the program that ranks up to rows queries at a time.
func (s *search) prepare(rows int64) (err error) {
	p, m, spec := s.p, s.matrix, s.p.rankingSpec(rows)
	s.tensors = map[string]kernels.Buffer{}
	for _, t := range m.Tensors(0) {
		if s.tensors[t.Name], err = p.Model.Buffer(t.Name); err != nil {
			return err
		}
	}
	spec.Copies = p.Copies()
	if compares := s.measure != Entry; compares && m.Sparse {
		part, err := s.transpose()
		if err != nil {
			return err
		}
		spec.Copies, spec.Held = nil, append([]program.Part{part}, p.held...)
	} else if compares {
		s.dense = s.tensors[m.Name].Float32()
	}
	if s.dense == nil {
		longest := s.stored.longest()
		s.queries = program.Feed{
			Layer: -1, Name: "rows of the queries", Columns: m.Columns, Whole: true,
			Entries: func(int64) int64 { return rows * longest },
		}
	}
	if s.list, err = s.program(spec); err != nil {
		return err
	}
	if spec.Copies == nil {
		return s.list.Load()
	}
	p.remember(s.list.Plan.Parts)
	return p.Copies().Refresh()
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
	if s.dense == nil {
		bind := func(name string) kernels.Buffer { return b.ModelBuffer(name, s.tensors[name]) }
		scorer.Sparse = s.by.Source(querySlot, first, bind)
		return scorer
	}
	name, columns := s.matrix.Name, s.matrix.Columns
	weight := &kernels.Weights{Name: name, Rows: scorer.Items, Columns: columns}
	weight.Value = b.ModelBuffer(name, s.tensors[name].Slice(first*columns, weight.Rows*columns))
	s.h[b.Rank()] = b.Alloc("queries", name, b.Rows()*columns)
	scorer.Sources = []kernels.OutputSource{{H: s.h[b.Rank()], Weight: weight}}
	if s.measure == Cosine {
		scorer.Temperature = 1
	}
	return scorer
}

// nearest ranks a batch of queries.
func (s *search) nearest(batch []int32, ids []int32, scores []float32) error {
	if err := s.fill(batch); err != nil {
		return err
	}
	rows := int64(len(batch))
	err := s.list.Run(&kernels.Step{Rows: rows, Sparse: []*kernels.SparseBatch{&s.own, {}, &s.sparse}})
	if err == nil {
		err = s.best(rows, ids, scores)
	}
	_, failure := s.list.Settle(0)
	return cmp.Or(err, failure)
}

// fill makes a batch of queries.
func (s *search) fill(batch []int32) error {
	s.own.Columns, s.own.Indices, s.own.Offsets = s.matrix.Rows, batch, s.own.Offsets[:0]
	for u := range len(batch) + 1 {
		s.own.Offsets = append(s.own.Offsets, int32(u))
	}
	if s.dense == nil {
		return s.stored.fill(batch, &s.sparse)
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
