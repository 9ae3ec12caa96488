package predict

import (
	"math"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// Result is what Evaluate finds: how many rows had targets, and the mean of each metric over them.
type Result struct {
	Rows   int64
	Values []float64
}

// Evaluate ranks every item of an output layer (empty: the only one) for the rows and compares the best with the items stored
// in the same row of targets. perRow, if not nil, gets a value for each row and metric, row by row; NaN for rows without
// targets.
func (p *Predictor) Evaluate(layer string, targets, exclude csr.Source, rows []int64, filter Filter, metrics []string,
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
	r, err := p.newCall(layer, rows, exclude, filter)
	if err != nil {
		return Result{}, err
	}
	defer r.close()
	if err := p.checkItems(targets, r.items(), "targets"); err != nil {
		return Result{}, err
	}
	if r.targets, err = r.read(1, targets, "targets"); err != nil {
		return Result{}, err
	}
	r.metrics, r.perRow, r.k = list, perRow != nil, min(LargestK(list), r.items())
	e := evaluation{call: r, held: targets, count: int64(len(list)), perRow: perRow}
	return e.run()
}

// evaluation is the state of one Evaluate.
type evaluation struct {
	*call
	held   csr.Source // the targets
	count  int64      // of metrics
	perRow []float64
}

func (e *evaluation) run() (result Result, err error) {
	list, err := e.program(e.spec)
	if err != nil {
		return result, err
	}
	defer list.Free()
	var each func(*batch) error
	if e.perRow != nil {
		each = e.writeValues
	}
	if err := e.call.run(list, e.skip, each); err != nil {
		return result, err
	}
	layout, totals, err := e.sums()
	result.Rows = layout.Rows(totals)
	for m := range layout.Metrics {
		result.Values = append(result.Values, layout.Mean(totals, m, e.eligible))
	}
	return result, err
}

// skip leaves out the rows without targets, whose values are NaN.
func (e *evaluation) skip(place, row int64) bool {
	if e.held.RowLength(row) > 0 {
		return false
	}
	if e.perRow != nil {
		values := e.values(place)
		for m := range values {
			values[m] = math.NaN()
		}
	}
	return true
}

// values is where the values of a row go.
func (e *evaluation) values(place int64) []float64 {
	return e.perRow[place*e.count : (place+1)*e.count]
}

// writeValues hands out the values of a batch.
func (e *evaluation) writeValues(b *batch) error {
	found, err := e.rowMetrics(int64(len(b.rows)))
	for n, place := range b.places {
		copy(e.values(place), found[int64(n)*e.count:])
	}
	return err
}
