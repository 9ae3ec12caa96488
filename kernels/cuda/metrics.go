//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// Constants of src/metrics.cu.
const (
	mostMetrics = 128 // of a launch
	metricWarps = 8
)

// MergeTopK merges what the devices of a group have found.
func (d *device) MergeTopK(op *kernels.MergeTopK, s *kernels.Step) error {
	type args struct {
		step, parts, ids, scores driver.Address
		shards, stride, each, k  int64
	}
	return d.run("MergeTopK", s, nil, func() {
		launch(d, "merge_top_k", driver.Dim{X: uint32(max(1, s.Most()))}, 256, &args{
			d.step.at, addressOf(op.Parts), addressOf(op.IDs), addressOf(op.Scores), op.Shards, op.Stride, op.Each, op.K,
		})
	})
}

// RankingMetrics counts the metrics, mostMetrics at a time.
func (d *device) RankingMetrics(op *kernels.RankingMetrics, s *kernels.Step) error {
	type metric struct {
		cut, seen int64
		kind, _   int32
	}
	type args struct {
		step, ids, discounts, values, totals, counted driver.Address
		k, stride                                     int64
		metrics, target, launch, _                    int32
		metric                                        [mostMetrics]metric
	}
	return d.run("RankingMetrics", s, []int{op.Target}, func() {
		layout, count := kernels.MetricTotals{Metrics: op.Metrics, Items: op.Items}, len(op.Metrics)
		for first := 0; first < count; first += mostMetrics {
			metrics := op.Metrics[first:min(first+mostMetrics, count)]
			a := &args{
				step: d.step.at, ids: addressOf(op.IDs), discounts: addressOf(op.Discounts),
				totals: element(op.Totals, int64(4*first)), k: op.K, stride: int64(count),
				metrics: int32(len(metrics)), target: int32(op.Target), launch: d.next(site{}),
			}
			if op.Values != nil {
				a.values = element(op.Values, int64(2*first))
			}
			if first == 0 {
				a.counted = element(op.Totals, int64(4*count))
			}
			for i, m := range metrics {
				a.metric[i] = metric{cut: m.K, kind: number(d, m.Kind)}
				if m.Kind == kernels.MetricCoverage {
					a.metric[i].seen = layout.Seen(first+i) - int64(2*first)
				}
			}
			launch(d, "ranking_metrics", driver.Dim{X: max(1, blocks(s.Most(), metricWarps))}, 32*metricWarps, a)
		}
	})
}
