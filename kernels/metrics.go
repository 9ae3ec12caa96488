package kernels

import (
	"math"
	"math/bits"
)

// MetricKind names a ranking metric. The first k recommendations of a row are compared with its targets: a hit is a
// recommendation that is a target, ranks count from 1.
type MetricKind int32

const (
	// MetricPrecision: hits / k.
	MetricPrecision MetricKind = iota
	// MetricRecall: hits / |targets|.
	MetricRecall
	// MetricTruncatedRecall: hits / min(k, |targets|).
	MetricTruncatedRecall
	// MetricNDCG: sum over hits of 1/log2(rank+1), divided by the same sum over the ranks 1 .. min(k, |targets|).
	MetricNDCG
	// MetricHitRate: 1 if there is a hit, else 0.
	MetricHitRate
	// MetricMRR: 1 / rank of the first hit, 0 without one.
	MetricMRR
	// MetricMAP: sum over hits of (hits up to that rank / rank), divided by min(k, |targets|).
	MetricMAP
	// MetricCoverage: distinct items recommended to any row / items that could be recommended. It has no value for one
	// row.
	MetricCoverage
)

// Metric is a kind with its cut-off k.
type Metric struct {
	Kind MetricKind
	K    int64
}

// NoValue is the NaN of rows without a value, the same bits on every backend.
var NoValue = math.Float64frombits(0x7ff8000000000001)

// DiscountTable are the gains of a hit at ranks 1 .. k, 1/log2(rank+1), and behind them the sums of the first 0 .. k of
// these.
func DiscountTable(k int64) []float64 {
	table := make([]float64, 2*k+1)
	gains, ideal := table[:k], table[k:]
	for i := range gains {
		gains[i] = 1 / math.Log2(float64(i+2))
		ideal[i+1] = ideal[i] + gains[i]
	}
	return table
}

// MetricTotals lays out what RankingMetrics adds up, in words of uint64: the sums by metric, and one whose low word is
// the number of rows with targets; then for each metric that is coverage, in their order, a bit for each item.
type MetricTotals struct {
	Metrics []Metric
	Items   int64
}

// Size is the number of words.
func (t MetricTotals) Size() int64 {
	n := 2 * int64(len(t.Metrics)+1)
	for _, m := range t.Metrics {
		if m.Kind == MetricCoverage {
			n += t.words()
		}
	}
	return n
}

func (t MetricTotals) words() int64 { return (t.Items + 63) / 64 }

// Seen is where the bits of metric number m, which is coverage, begin.
func (t MetricTotals) Seen(m int) int64 {
	return MetricTotals{t.Metrics[:m], t.Items}.Size() + 2*int64(len(t.Metrics)-m)
}

// Rows is the number of rows with targets.
func (t MetricTotals) Rows(totals []uint64) int64 { return int64(totals[2*len(t.Metrics)]) }

// Mean is the mean of metric number m over the rows with targets; for coverage the share of the eligible items, those
// that could be recommended. It is NaN without rows.
func (t MetricTotals) Mean(totals []uint64, m int, eligible int64) float64 {
	rows := t.Rows(totals)
	if rows == 0 {
		return math.NaN()
	}
	if t.Metrics[m].Kind != MetricCoverage {
		return FixedPoint{totals[2*m], totals[2*m+1]}.Float64() / float64(rows)
	}
	seen := 0
	for _, word := range totals[t.Seen(m):][:t.words()] {
		seen += bits.OnesCount64(word)
	}
	return float64(seen) / float64(eligible)
}

// FixedPoint is a sum of numbers from 0 to 1 in units of 2^-62. Integers add up to the same in any order; a number of
// at least 2^-9 is taken as it is, a smaller one to within 2^-62.
type FixedPoint struct{ Low, High uint64 }

const fixedUnit = 1 << 62

// Add adds a number.
func (s *FixedPoint) Add(value float64) {
	var carry uint64
	s.Low, carry = bits.Add64(s.Low, uint64(value*fixedUnit), 0)
	s.High += carry
}

// Float64 is the sum, rounded.
func (s FixedPoint) Float64() float64 { return float64(s.High)*4 + float64(s.Low)/fixedUnit }
