package predict

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"dsstne/engine/fault"
	"dsstne/engine/strictjson"
)

// MetricKind names a ranking metric. The first k recommendations of a row are compared with its targets: a hit is a
// recommendation that is a target, ranks count from 1.
type MetricKind int

const (
	// Precision: hits / k.
	Precision MetricKind = iota
	// Recall: hits / |targets|.
	Recall
	// TruncatedRecall: hits / min(k, |targets|).
	TruncatedRecall
	// NDCG: sum over hits of 1/log2(rank+1), divided by the same sum over the ranks 1 .. min(k, |targets|).
	NDCG
	// HitRate: 1 if there is a hit, else 0.
	HitRate
	// MRR: 1 / rank of the first hit, 0 without one.
	MRR
	// MAP: sum over hits of (hits up to that rank / rank), divided by min(k, |targets|).
	MAP
	// Coverage: distinct items recommended to any row / items that could be recommended. It has no value for one row.
	Coverage
)

var metricNames = []string{"precision", "recall", "truncated_recall", "ndcg", "hit_rate", "mrr", "map", "coverage"}

// otherNames are words that other tools use; they are suggested, never taken, because each tool means something else.
var otherNames = map[string]string{
	"p": "precision", "prec": "precision", "r": "recall", "rec": "recall", "hr": "hit_rate", "hit": "hit_rate",
	"hits": "hit_rate", "hit_ratio": "hit_rate", "hitrate": "hit_rate", "hitratio": "hit_rate", "success": "hit_rate",
	"n": "ndcg", "dcg": "ndcg", "rr": "mrr", "reciprocal_rank": "mrr", "ap": "map", "average_precision": "map",
	"cov": "coverage", "catalog_coverage": "coverage", "catalogue_coverage": "coverage",
}

// Metric is a kind with its cut-off k, as in "recall@20".
type Metric struct {
	Kind MetricKind
	K    int64
}

// String is what ParseMetric reads: "recall@20".
func (m Metric) String() string { return metricNames[m.Kind] + "@" + strconv.FormatInt(m.K, 10) }

// ParseMetric reads "recall@20"; the error of an unknown name suggests the nearest.
func ParseMetric(text string) (Metric, error) {
	name, cut, hasCut := strings.Cut(text, "@")
	kind := slices.Index(metricNames, name)
	if kind < 0 {
		return Metric{}, unknownMetric(text, name, cut)
	}
	if !hasCut {
		return Metric{}, fault.New(fault.InvalidArgument, "metric %q has no cut-off; write for example %q", text, name+"@20")
	}
	k, err := strconv.ParseInt(cut, 10, 64)
	if err != nil || k < 1 || k > math.MaxInt32 || cut != strconv.FormatInt(k, 10) {
		return Metric{}, fault.New(fault.InvalidArgument,
			"metric %q: the cut-off %q is not a whole number from 1 to 2147483647; write for example %q", text, cut, name+"@20")
	}
	return Metric{Kind: MetricKind(kind), K: k}, nil
}

// ParseMetrics reads a list of metrics, in which none may stand twice.
func ParseMetrics(texts []string) ([]Metric, error) {
	metrics := make([]Metric, len(texts))
	for i, text := range texts {
		m, err := ParseMetric(text)
		if err != nil {
			return nil, err
		}
		if slices.Contains(metrics[:i], m) {
			return nil, fault.New(fault.InvalidArgument, "metric %q is listed twice", text)
		}
		metrics[i] = m
	}
	return metrics, nil
}

// LargestK is the length of the ranking that a list of metrics needs.
func LargestK(metrics []Metric) int64 {
	var k int64
	for _, m := range metrics {
		k = max(k, m.K)
	}
	return k
}

func unknownMetric(text, name, cut string) error {
	known := strings.Join(metricNames, ", ")
	nearest, ok := otherNames[strings.ToLower(name)]
	if !ok {
		nearest = strictjson.Nearest(strings.ToLower(name), metricNames)
	}
	if nearest == "" {
		return fault.New(fault.InvalidArgument, "metric %q is unknown; there are %s, each with a cut-off such as @20", text, known)
	}
	if cut == "" {
		cut = "20"
	}
	return fault.New(fault.InvalidArgument, "metric %q is unknown; did you mean %q? There are %s", text, nearest+"@"+cut, known)
}

// Row is the metric of one row. ranked are distinct items, best first, and end at the first negative one; targets are
// distinct and ascending. It is NaN without targets, and for Coverage.
func (m Metric) Row(ranked []int32, targets []int32) float64 {
	if len(targets) == 0 || m.Kind == Coverage {
		return math.NaN()
	}
	var hits, firstHit int
	var gain, precisions float64
	for i, item := range ranked[:min(int64(len(ranked)), m.K)] {
		if item < 0 {
			break
		}
		if _, hit := slices.BinarySearch(targets, item); !hit {
			continue
		}
		hits++
		if hits == 1 {
			firstHit = i + 1
		}
		gain += discount(i)
		precisions += float64(hits) / float64(i+1)
	}
	reachable := min(m.K, int64(len(targets)))
	switch m.Kind {
	case Precision:
		return float64(hits) / float64(m.K)
	case Recall:
		return float64(hits) / float64(len(targets))
	case TruncatedRecall:
		return float64(hits) / float64(reachable)
	case NDCG:
		return gain / idealGain(reachable)
	case HitRate:
		return float64(min(hits, 1))
	case MRR:
		if hits == 0 {
			return 0
		}
		return 1 / float64(firstHit)
	default: // MAP
		return precisions / float64(reachable)
	}
}

// discounts[i] is the gain of a hit at rank i+1, idealGains[n] the sum of the first n, for the ranks in common use.
var discounts, idealGains = func() (d [1024]float64, ideal [1025]float64) {
	for i := range d {
		d[i] = 1 / math.Log2(float64(i+2))
		ideal[i+1] = ideal[i] + d[i]
	}
	return d, ideal
}()

func discount(i int) float64 {
	if i < len(discounts) {
		return discounts[i]
	}
	return 1 / math.Log2(float64(i+2))
}

func idealGain(n int64) float64 {
	if n < int64(len(idealGains)) {
		return idealGains[n]
	}
	sum := idealGains[len(idealGains)-1]
	for i := int64(len(discounts)); i < n; i++ {
		sum += discount(int(i))
	}
	return sum
}

// Accumulator takes the mean of metrics over the rows that have targets. Sums are kept exactly, so that the result has the
// same bits in whatever order rows are added.
type Accumulator struct {
	metrics  []Metric
	eligible int64
	rows     int64
	sums     []fixedPoint // by metric
	seen     [][]uint64   // by metric: one bit an item, nil unless it is Coverage
}

// NewAccumulator prepares for recommendations of items 0 .. items-1, of which eligible can be recommended to somebody
// (all, unless an allow- or deny-list says less).
func NewAccumulator(metrics []Metric, items, eligible int64) *Accumulator {
	a := &Accumulator{metrics: metrics, eligible: eligible}
	a.sums = make([]fixedPoint, len(metrics))
	a.seen = make([][]uint64, len(metrics))
	for i, m := range metrics {
		if m.Kind == Coverage {
			a.seen[i] = make([]uint64, (items+63)/64)
		}
	}
	return a
}

// Add takes one row, as Metric.Row does, and writes its values to perRow unless that is nil (NaN where there is none).
// A row without targets counts for nothing, not even for Coverage.
func (a *Accumulator) Add(ranked, targets []int32, perRow []float64) {
	if len(targets) > 0 {
		a.rows++
	}
	for i, m := range a.metrics {
		value := m.Row(ranked, targets)
		if perRow != nil {
			perRow[i] = value
		}
		if len(targets) == 0 {
			continue
		}
		if m.Kind == Coverage {
			mark(a.seen[i], ranked[:min(int64(len(ranked)), m.K)])
		} else {
			a.sums[i].add(value)
		}
	}
}

func mark(seen []uint64, items []int32) {
	for _, item := range items {
		if item < 0 {
			return
		}
		seen[item>>6] |= 1 << (item & 63)
	}
}

// Rows is the number of rows with targets.
func (a *Accumulator) Rows() int64 { return a.rows }

// Values are the means, by metric; NaN without rows.
func (a *Accumulator) Values() []float64 {
	values := make([]float64, len(a.metrics))
	for i, m := range a.metrics {
		switch {
		case a.rows == 0:
			values[i] = math.NaN()
		case m.Kind == Coverage:
			values[i] = float64(count(a.seen[i])) / float64(a.eligible)
		default:
			values[i] = a.sums[i].float64() / float64(a.rows)
		}
	}
	return values
}

func count(seen []uint64) (n int) {
	for _, word := range seen {
		n += bits.OnesCount64(word)
	}
	return n
}

// fixedPoint is a sum of numbers from 0 to 1 in units of 2^-62. Integers add up to the same in any order; a number of at
// least 2^-9 is taken as it is, a smaller one to within 2^-62.
type fixedPoint struct{ high, low uint64 }

const fixedUnit = 1 << 62

func (s *fixedPoint) add(value float64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(value*fixedUnit), 0)
	s.high += carry
}

func (s *fixedPoint) float64() float64 {
	return float64(s.high)*4 + float64(s.low)/fixedUnit
}
