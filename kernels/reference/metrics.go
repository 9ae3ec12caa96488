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
	values := make([]metricFunction, len(op.Metrics))
	for n, m := range op.Metrics {
		var err error
		if values[n], err = kernels.FunctionOf(metrics, m.Kind); err != nil {
			return err
		}
	}
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
				value = values[n](countHits(m, seen, wanted, kernels.View[float64](op.Discounts), op.K))
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

// hits are those of a row with targets, among its first k recommendations.
type hits struct {
	k, targets, count, first float64 // first: the rank of the first hit
	reachable                float64 // min(k, targets)
	gain, ideal              float64 // of the hits, and of as many as are reachable
	precisions               float64 // sum over hits of (hits up to that rank / rank)
}

func countHits(m kernels.Metric, list, wanted []int32, discounts []float64, k int64) hits {
	reachable := min(m.K, int64(len(wanted)))
	h := hits{k: float64(m.K), targets: float64(len(wanted)), reachable: float64(reachable), ideal: discounts[k+reachable]}
	for i, item := range list {
		if !slices.Contains(wanted, item) {
			continue
		}
		if h.count++; h.count == 1 {
			h.first = float64(i + 1)
		}
		h.gain += discounts[i]
		h.precisions += h.count / float64(i+1)
	}
	return h
}

// metricFunction is a metric of a row with targets.
type metricFunction func(hits) float64

var metrics = map[kernels.MetricKind]metricFunction{
	kernels.MetricPrecision:       func(h hits) float64 { return h.count / h.k },
	kernels.MetricRecall:          func(h hits) float64 { return h.count / h.targets },
	kernels.MetricTruncatedRecall: func(h hits) float64 { return h.count / h.reachable },
	kernels.MetricNDCG:            func(h hits) float64 { return h.gain / h.ideal },
	kernels.MetricHitRate:         func(h hits) float64 { return min(h.count, 1) },
	kernels.MetricMRR: func(h hits) float64 {
		if h.count == 0 {
			return 0
		}
		return 1 / h.first
	},
	kernels.MetricMAP:      func(h hits) float64 { return h.precisions / h.reachable },
	kernels.MetricCoverage: func(hits) float64 { return kernels.NoValue }, // none for a row
}

// add adds a number to a fixed-point sum, low word first.
func add(sum []uint64, value float64) {
	units, _ := new(big.Float).SetMantExp(big.NewFloat(value), 62).Int(nil)
	total := new(big.Int).Lsh(new(big.Int).SetUint64(sum[1]), 64)
	total.Add(total, new(big.Int).SetUint64(sum[0])).Add(total, units)
	sum[0] = new(big.Int).And(total, new(big.Int).SetUint64(1<<64-1)).Uint64()
	sum[1] = total.Rsh(total, 64).Uint64()
}
