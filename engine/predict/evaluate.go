package predict

import (
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// Result is what Evaluate finds: how many rows had targets, and the mean of each metric over them.
type Result struct {
	Rows   int64
	Values []float64
}

// Evaluate ranks every item of an output layer (empty: the only one) for the rows and compares the best with the items stored
// in the same row of targets. perRow, if not nil, gets a value for each row and metric, row by row; NaN for rows without
// targets.
func (p *Predictor) Evaluate(layer string, targets, exclude *csr.Matrix, rows []int64, filter Filter, metrics []string,
	perRow []float64) (Result, error) {
	list, err := ParseMetrics(metrics)
	if err != nil {
		return Result{}, err
	}
	if len(list) == 0 {
		return Result{}, fault.New(fault.InvalidArgument, `give at least one metric, such as {"metrics": ["recall@20"]}`)
	}
	done, err := p.begin()
	if err != nil {
		return Result{}, err
	}
	defer done()
	r, err := p.newRanking(layer, rows, exclude, filter)
	if err != nil {
		return Result{}, err
	}
	defer r.close()
	if err := p.checkItems(targets, r.items, "targets"); err != nil {
		return Result{}, err
	}
	if err := targets.Use(); err != nil {
		return Result{}, err
	}
	defer targets.Unuse()
	e := evaluation{
		ranking: r, targets: targets, metrics: int64(len(list)), perRow: perRow, k: min(LargestK(list), r.items),
		sum: NewAccumulator(list, r.items, r.eligible),
	}
	defer e.free()
	if err := e.run(); err != nil {
		return Result{}, err
	}
	return Result{Rows: e.sum.Rows(), Values: e.sum.Values()}, nil
}

// evaluation is the state of one Evaluate.
type evaluation struct {
	*ranking
	targets *csr.Matrix
	metrics int64 // how many
	perRow  []float64
	k       int64          // recommendations that are looked at: there may be fewer items than a metric counts
	ids     kernels.Buffer // [rows of a batch, k]
	scores  kernels.Buffer
	entries csr.Entries
	sum     *Accumulator
}

func (e *evaluation) run() error {
	n := e.p.batchRows(e.rows) * e.k
	return e.ranking.run(e.k, e.skip, e.batch,
		program.Part{Name: "data", Of: "targets", Bytes: e.targets.Bytes(), Device: "host", Held: true},
		program.Part{Name: "recommendations", Bytes: 8 * n, Device: "host"})
}

// skip leaves out the rows without targets, whose values are NaN.
func (e *evaluation) skip(place, row int64) bool {
	if e.targets.RowLength(row) > 0 {
		return false
	}
	values := e.values(place)
	for m := range values {
		values[m] = math.NaN()
	}
	return true
}

// values is where the values of a row go, nil if they are not wanted.
func (e *evaluation) values(place int64) []float64 {
	if e.perRow == nil {
		return nil
	}
	return e.perRow[place*e.metrics : (place+1)*e.metrics]
}

// batch ranks and scores one batch of rows.
func (e *evaluation) batch(rank rankInto, b *batch) error {
	if err := e.alloc(b.most * e.k); err != nil {
		return err
	}
	n := int64(len(b.rows)) * e.k
	ids := e.ids.Int32()[:n]
	if err := rank(ids, e.scores.Float32()[:n]); err != nil {
		return err
	}
	for u, row := range b.rows {
		e.entries.Reset()
		if err := e.targets.AppendRow(&e.entries, row); err != nil {
			return err
		}
		ranked := ids[int64(u)*e.k:][:e.k]
		e.sum.Add(ranked, e.entries.Indices, e.values(b.places[u]))
	}
	return nil
}

// alloc takes the memory for the recommendations of a batch, outside the Go heap, before the first one.
func (e *evaluation) alloc(n int64) (err error) {
	if e.ids != nil {
		return nil
	}
	if e.ids, err = kernels.AllocHost(n); err != nil {
		return err
	}
	e.scores, err = kernels.AllocHost(n)
	return err
}

func (e *evaluation) free() {
	for _, buffer := range []kernels.Buffer{e.ids, e.scores} {
		if buffer != nil {
			buffer.Free()
		}
	}
}
