package predict

import (
	"math"
	"slices"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Result is what Evaluate finds: how many rows had targets, and the mean of each metric over them.
type Result struct {
	Rows   int64
	Values []float64
}

// Evaluate ranks every item of an output layer (empty: the only one) for the rows and compares the best with the items
// stored in the same row of targets. perRow, if not nil, gets the metrics of each row; NaN without targets.
func (p *Predictor) Evaluate(layer string, targets, exclude csr.Source, rows []int64, filter Filter, metrics []string,
	perRow []float64) (Result, error) {
	list, err := ParseMetrics(metrics)
	if err != nil {
		return Result{}, err
	}
	if len(list) == 0 {
		return Result{}, fault.New(fault.InvalidArgument, `give at least one metric, such as {"metrics": ["recall@20"]}`)
	}
	r, err := p.newCall(layer, rows, exclude, filter)
	if err != nil {
		return Result{}, err
	}
	defer r.close()
	if err := p.checkItems(targets, r.items, "targets"); err != nil {
		return Result{}, err
	}
	if r.targets, err = r.read(1, targets, "targets"); err != nil {
		return Result{}, err
	}
	r.metrics, r.perRow, r.k = list, perRow != nil, min(LargestK(list), r.items)
	return r.evaluate(targets, perRow)
}

// evaluate runs the ranking and collects the metrics. Rows without targets are left out; their values are NaN.
func (r *call) evaluate(targets csr.Source, perRow []float64) (result Result, err error) {
	count := int64(len(r.metrics))
	skip := func(place, row int64) bool {
		empty := targets.RowLength(row) == 0
		if empty && perRow != nil {
			copy(perRow[place*count:(place+1)*count], slices.Repeat([]float64{math.NaN()}, int(count)))
		}
		return empty
	}
	var each func(*batch) error
	if perRow != nil {
		each = func(b *batch) error {
			found := make([]float64, int64(len(b.rows))*count)
			err := r.device.Read(r.values, 0, kernels.Bits(found))
			for n, place := range b.places {
				copy(perRow[place*count:], found[int64(n)*count:][:count])
			}
			return err
		}
	}
	if err := r.run(skip, each); err != nil {
		return result, err
	}
	layout, totals, err := r.sums()
	result.Rows = layout.Rows(totals)
	for m := range layout.Metrics {
		result.Values = append(result.Values, layout.Mean(totals, m, r.eligible))
	}
	return result, err
}
