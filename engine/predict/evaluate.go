package predict

import (
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
)

// Result is what Evaluate finds: how many rows had targets, and the mean of each metric over them.
type Result struct {
	Rows   int64
	Values []float64
}

// Evaluate ranks every item for the rows and compares the best with the items stored in the same row of targets. perRow, if
// not nil, gets a value for each row and metric, row by row; NaN for rows without targets.
func (p *Predictor) Evaluate(targets, exclude *csr.Matrix, rows []int64, filter Filter, metrics []string,
	perRow []float64) (Result, error) {
	list, err := ParseMetrics(metrics)
	if err != nil {
		return Result{}, err
	}
	done, err := p.begin()
	if err != nil {
		return Result{}, err
	}
	defer done()
	if rows, err = p.allRows(rows); err != nil {
		return Result{}, err
	}
	if err := p.checkRows(targets, "targets"); err != nil {
		return Result{}, err
	}
	output, err := p.output("")
	if err != nil {
		return Result{}, err
	}
	items := p.net.Layers[output].Size
	if targets.Columns() != items {
		return Result{}, fault.New(fault.InvalidData, "the dataset of targets has %d columns, the output layer has %d units",
			targets.Columns(), items)
	}
	if err := targets.Use(); err != nil {
		return Result{}, err
	}
	defer targets.Unuse()
	_, eligible, err := filter.bits(items)
	if err != nil {
		return Result{}, err
	}
	e := evaluation{
		targets: targets, metrics: list, perRow: perRow, k: LargestK(list), sum: NewAccumulator(list, items, eligible),
	}
	e.ids, e.scores = make([]int32, p.batchSize*e.k), make([]float32, p.batchSize*e.k)
	ranked := e.withTargets(rows)
	if err := p.rank(ranked, exclude, filter, e.k, e.batch); err != nil {
		return Result{}, err
	}
	return Result{Rows: e.sum.Rows(), Values: e.sum.Values()}, nil
}

// evaluation is the state of one Evaluate.
type evaluation struct {
	targets *csr.Matrix
	metrics []Metric
	perRow  []float64
	places  []int64 // of the ranked rows in the caller's list
	k       int64
	ids     []int32
	scores  []float32
	entries csr.Entries
	sum     *Accumulator
}

// withTargets keeps the rows that store a target, and fills the values of the others with NaN.
func (e *evaluation) withTargets(rows []int64) []int64 {
	var kept []int64
	n := len(e.metrics)
	for place, row := range rows {
		if e.targets.RowLength(row) > 0 {
			kept = append(kept, row)
			e.places = append(e.places, int64(place))
		} else if e.perRow != nil {
			for m := range n {
				e.perRow[place*n+m] = math.NaN()
			}
		}
	}
	return kept
}

// batch ranks and scores one batch of rows.
func (e *evaluation) batch(r *ranking, first int64, batch []int64) error {
	if err := r.run(batch, e.ids[:int64(len(batch))*e.k], e.scores[:int64(len(batch))*e.k]); err != nil {
		return err
	}
	n := int64(len(e.metrics))
	for u, row := range batch {
		e.entries.Reset()
		if err := e.targets.AppendRow(&e.entries, row); err != nil {
			return err
		}
		var values []float64
		if e.perRow != nil {
			place := e.places[first+int64(u)]
			values = e.perRow[place*n : (place+1)*n]
		}
		e.sum.Add(e.ids[int64(u)*e.k:int64(u+1)*e.k], e.entries.Indices, values)
	}
	return nil
}
