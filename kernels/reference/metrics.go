package reference

import (
	"math/big"
	"slices"

	"dsstne/kernels"
)

// RankingMetrics writes the formulas out, rank by rank.
func (device) RankingMetrics(op *kernels.RankingMetrics, step *kernels.Step) error {
	targets, totals := step.Sparse[op.Target], kernels.View[uint64](op.Totals)
	layout := kernels.MetricTotals{Metrics: op.Metrics, Items: op.Items}
	for u := range step.Rows {
		wanted := targets.Indices[targets.Offsets[u]:targets.Offsets[u+1]]
		list := op.IDs.Int32()[u*op.K : (u+1)*op.K]
		if end := slices.IndexFunc(list, func(item int32) bool { return item < 0 }); end >= 0 {
			list = list[:end]
		}
		for n, m := range op.Metrics {
			value, seen := kernels.NoValue, list[:min(int64(len(list)), m.K)]
			switch {
			case len(wanted) == 0:
			case m.Kind == kernels.MetricCoverage:
				for _, item := range seen {
					totals[layout.Seen(n)+int64(item)/64] |= 1 << (item % 64)
				}
			default:
				value = metricOf(m, seen, wanted, kernels.View[float64](op.Discounts), op.K)
				add(totals[2*n:], value)
			}
			if op.Values != nil {
				kernels.View[float64](op.Values)[u*int64(len(op.Metrics))+int64(n)] = value
			}
		}
		if len(wanted) > 0 {
			totals[2*len(op.Metrics)]++
		}
	}
	return nil
}

// metricOf is a metric of a row with targets.
func metricOf(m kernels.Metric, list, wanted []int32, discounts []float64, k int64) float64 {
	var hits, first int
	var gain, precisions float64
	for i, item := range list {
		if !slices.Contains(wanted, item) {
			continue
		}
		if hits++; hits == 1 {
			first = i + 1
		}
		gain += discounts[i]
		precisions += float64(hits) / float64(i+1)
	}
	reachable := min(m.K, int64(len(wanted)))
	switch m.Kind {
	case kernels.MetricPrecision:
		return float64(hits) / float64(m.K)
	case kernels.MetricRecall:
		return float64(hits) / float64(len(wanted))
	case kernels.MetricTruncatedRecall:
		return float64(hits) / float64(reachable)
	case kernels.MetricNDCG:
		return gain / discounts[k+reachable]
	case kernels.MetricHitRate:
		return float64(min(hits, 1))
	case kernels.MetricMRR:
		if hits == 0 {
			return 0
		}
		return 1 / float64(first)
	default: // MAP
		return precisions / float64(reachable)
	}
}

// add adds a number to a fixed-point sum, low word first.
func add(sum []uint64, value float64) {
	units, _ := new(big.Float).SetMantExp(big.NewFloat(value), 62).Int(nil)
	total := new(big.Int).Lsh(new(big.Int).SetUint64(sum[1]), 64)
	total.Add(total, new(big.Int).SetUint64(sum[0])).Add(total, units)
	sum[0] = new(big.Int).And(total, new(big.Int).SetUint64(1<<64-1)).Uint64()
	sum[1] = total.Rsh(total, 64).Uint64()
}
