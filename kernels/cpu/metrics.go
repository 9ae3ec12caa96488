package cpu

import (
	"math"
	"slices"

	"dsstne/kernels"
)

// RankingMetrics finds the hits of a row once for all metrics.
func (d *device) RankingMetrics(op *kernels.RankingMetrics, s *kernels.Step) error {
	targets, totals := s.Sparse[op.Target], kernels.View[uint64](op.Totals)
	layout, count := kernels.MetricTotals{Metrics: op.Metrics, Items: op.Items}, int64(len(op.Metrics))
	seen, functions := make([][]uint64, count), make([]metricFunction, count)
	for n, m := range op.Metrics {
		var err error
		if functions[n], err = kernels.FunctionOf(metrics, m.Kind); err != nil {
			return err
		}
		if m.Kind == kernels.MetricCoverage {
			seen[n] = totals[layout.Seen(n):]
		}
	}
	sums := make([]kernels.FixedPoint, count)
	for n := range sums {
		sums[n] = kernels.FixedPoint{Low: totals[2*n], High: totals[2*n+1]}
	}
	values := kernels.View[float64](op.Values)
	row := rowMetrics{discounts: kernels.View[float64](op.Discounts), k: op.K}
	for u := range s.Rows {
		row.find(op.IDs.Int32()[u*op.K:(u+1)*op.K], targets.Indices[targets.Offsets[u]:targets.Offsets[u+1]])
		if row.targets > 0 {
			totals[2*count]++
		}
		for n, m := range op.Metrics {
			value := kernels.NoValue
			switch {
			case row.targets == 0:
			case m.Kind == kernels.MetricCoverage:
				for _, item := range row.list[:min(int64(len(row.list)), m.K)] {
					seen[n][item>>6] |= 1 << (item & 63)
				}
			default:
				hits, _ := slices.BinarySearch(row.hits, int32(min(m.K, math.MaxInt32)))
				value = functions[n](&row, m.K, row.hits[:hits])
				sums[n].Add(value)
			}
			if values != nil {
				values[u*count+int64(n)] = value
			}
		}
	}
	for n, sum := range sums {
		totals[2*n], totals[2*n+1] = sum.Low, sum.High
	}
	return nil
}

// rowMetrics is what the metrics of a row are made of.
type rowMetrics struct {
	discounts []float64 // of DiscountTable
	k         int64
	list      []int32 // up to its end
	hits      []int32 // which of them are hits, counted from 0
	targets   int64
}

// find looks for the hits of a row.
func (r *rowMetrics) find(list, targets []int32) {
	r.hits, r.targets, r.list = r.hits[:0], int64(len(targets)), list
	for i, item := range list {
		if item < 0 {
			r.list = list[:i]
			break
		}
		if _, hit := slices.BinarySearch(targets, item); hit {
			r.hits = append(r.hits, int32(i))
		}
	}
}

// metricFunction is a metric with cut-off k of a row that has targets; hits are those among the first k
// recommendations.
type metricFunction func(r *rowMetrics, k int64, hits []int32) float64

var metrics = map[kernels.MetricKind]metricFunction{
	kernels.MetricPrecision: func(_ *rowMetrics, k int64, hits []int32) float64 {
		return float64(len(hits)) / float64(k)
	},
	kernels.MetricRecall: func(r *rowMetrics, _ int64, hits []int32) float64 {
		return float64(len(hits)) / float64(r.targets)
	},
	kernels.MetricTruncatedRecall: func(r *rowMetrics, k int64, hits []int32) float64 {
		return float64(len(hits)) / float64(min(k, r.targets))
	},
	kernels.MetricHitRate: func(_ *rowMetrics, _ int64, hits []int32) float64 {
		return float64(min(len(hits), 1))
	},
	kernels.MetricNDCG: func(r *rowMetrics, k int64, hits []int32) float64 {
		gain := 0.0
		for _, i := range hits {
			gain += r.discounts[i]
		}
		return gain / r.discounts[r.k+min(k, r.targets)]
	},
	kernels.MetricMRR: func(_ *rowMetrics, _ int64, hits []int32) float64 {
		if len(hits) == 0 {
			return 0
		}
		return 1 / float64(hits[0]+1)
	},
	kernels.MetricMAP: func(r *rowMetrics, k int64, hits []int32) float64 {
		precisions := 0.0
		for n, i := range hits {
			precisions += float64(n+1) / float64(i+1)
		}
		return precisions / float64(min(k, r.targets))
	},
	kernels.MetricCoverage: func(*rowMetrics, int64, []int32) float64 { return kernels.NoValue }, // none for a row
}
