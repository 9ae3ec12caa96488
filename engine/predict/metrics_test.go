package predict

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
	_ "dsstne/kernels/cpu"
)

// slowMetric is every definition written out by rank, with nothing shared and nothing clever. The test's own copy of
// the formulas: docs/metrics.md.
func slowMetric(name string, k int, ranked, targets []int32) float64 {
	wanted := map[int32]bool{}
	for _, item := range targets {
		wanted[item] = true
	}
	hit := make([]float64, k) // by rank, 1 or 0
	for rank := range k {
		if rank < len(ranked) && ranked[rank] >= 0 && wanted[ranked[rank]] {
			hit[rank] = 1
		}
	}
	hitsUpTo := func(rank int) (n float64) {
		for i := 0; i <= rank; i++ {
			n += hit[i]
		}
		return n
	}
	hits, reachable := hitsUpTo(k-1), math.Min(float64(k), float64(len(targets)))
	switch name {
	case "precision":
		return hits / float64(k)
	case "recall":
		return hits / float64(len(targets))
	case "truncated_recall":
		return hits / reachable
	case "hit_rate":
		return math.Min(hits, 1)
	case "mrr":
		for rank, h := range hit {
			if h == 1 {
				return 1 / float64(rank+1)
			}
		}
		return 0
	case "map":
		sum := 0.0
		for rank, h := range hit {
			sum += h * hitsUpTo(rank) / float64(rank+1)
		}
		return sum / reachable
	default: // ndcg
		gain, ideal := 0.0, 0.0
		for rank, h := range hit {
			gain += h / math.Log2(float64(rank+2))
			if float64(rank) < reachable {
				ideal += 1 / math.Log2(float64(rank+2))
			}
		}
		return gain / ideal
	}
}

// randomRow is a ranking of up to 40 of 60 items, padded with -1, and up to 30 targets.
func randomRow(r *rand.Rand) (ranked, targets []int32) {
	order := r.Perm(60)
	for i, n := 0, r.IntN(41); i < 40; i++ {
		if i < n {
			ranked = append(ranked, int32(order[i]))
		} else {
			ranked = append(ranked, -1)
		}
	}
	for _, item := range r.Perm(60)[:r.IntN(31)] {
		targets = append(targets, int32(item))
	}
	slices.Sort(targets)
	return ranked, targets
}

func mustParse(t *testing.T, texts ...string) []kernels.Metric {
	metrics, err := ParseMetrics(texts)
	require.NoError(t, err)
	return metrics
}

func requireInvalid(t *testing.T, err error, words ...string) {
	t.Helper()
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
	for _, word := range words {
		require.Contains(t, err.Error(), word)
	}
}

var rowMetrics = kernels.MetricWords[:kernels.MetricCoverage]

// tally adds up rows on a device, one at a time, as Evaluate does with batches.
type tally struct {
	t        testing.TB
	device   kernels.Device
	layout   kernels.MetricTotals
	eligible int64
	totals   kernels.Buffer
}

func newTally(t testing.TB, metrics []kernels.Metric, items, eligible int64) *tally {
	device, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1})
	require.NoError(t, err)
	a := &tally{t: t, device: device, layout: kernels.MetricTotals{Metrics: metrics, Items: items}, eligible: eligible}
	a.totals, err = kernels.AllocHost(2 * a.layout.Size())
	require.NoError(t, err)
	t.Cleanup(func() {
		a.totals.Free()
		require.NoError(t, device.Close())
	})
	return a
}

// add takes a row and returns its values.
func (a *tally) add(ranked, targets []int32) []float64 {
	k := max(1, int64(len(ranked)), min(LargestK(a.layout.Metrics), int64(len(targets))))
	host := func(x []float32) kernels.Buffer {
		b, err := kernels.AllocHost(int64(len(x)))
		require.NoError(a.t, err)
		copy(b.Float32(), x)
		return b
	}
	list := append(slices.Clone(ranked), slices.Repeat([]int32{-1}, int(k)-len(ranked))...)
	op := &kernels.RankingMetrics{
		Metrics: a.layout.Metrics, Items: a.layout.Items, K: k, IDs: host(kernels.Bits(list)),
		Discounts: host(kernels.Bits(kernels.DiscountTable(k))),
		Values:    host(make([]float32, 2*len(a.layout.Metrics))), Totals: a.totals,
	}
	defer func() {
		for _, b := range []kernels.Buffer{op.IDs, op.Discounts, op.Values} {
			b.Free()
		}
	}()
	batch := &kernels.SparseBatch{Offsets: []int32{0, int32(len(targets))}, Indices: targets}
	require.NoError(a.t, a.device.RankingMetrics(op, &kernels.Step{Rows: 1, Sparse: []*kernels.SparseBatch{batch}}))
	return slices.Clone(kernels.View[float64](op.Values))
}

func (a *tally) rows() int64 { return a.layout.Rows(kernels.View[uint64](a.totals)) }

func (a *tally) means() (list []float64) {
	for m := range a.layout.Metrics {
		list = append(list, a.layout.Mean(kernels.View[uint64](a.totals), m, a.eligible))
	}
	return list
}

// valueOf is a metric of one row.
func valueOf(t testing.TB, m kernels.Metric, ranked, targets []int32) float64 {
	return newTally(t, []kernels.Metric{m}, 5000, 5000).add(ranked, targets)[0]
}

func TestEveryMetricEqualsItsDefinitionByRank(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var metrics []kernels.Metric
	for kind := range rowMetrics {
		for _, k := range []int64{1, 2, 5, 20, 40, 50} {
			metrics = append(metrics, kernels.Metric{Kind: kernels.MetricKind(kind), K: k})
		}
	}
	a := newTally(t, metrics, 60, 60)
	for range 2000 {
		ranked, targets := randomRow(r)
		if len(targets) == 0 {
			continue
		}
		for m, value := range a.add(ranked, targets) {
			metric := metrics[m]
			// Both sides round up to 50 additions differently.
			want := slowMetric(metric.Kind.String(), int(metric.K), ranked, targets)
			require.InDelta(t, want, value, 1e-14, "%v", metric)
		}
	}
}

func TestMetricsOfOneRowByHand(t *testing.T) {
	// Hits at ranks 2 and 4 of {2, 5, 9}; item 5 is not among the first five.
	ranked, targets := []int32{7, 2, 3, 9, 8, 5}, []int32{2, 5, 9}
	for text, want := range map[string]float64{
		"precision@5":        2.0 / 5,
		"recall@5":           2.0 / 3,
		"recall@1":           0,
		"recall@2":           1.0 / 3,
		"truncated_recall@2": 1.0 / 2,
		"truncated_recall@5": 2.0 / 3,
		"hit_rate@1":         0,
		"hit_rate@2":         1,
		"mrr@1":              0,
		"mrr@5":              1.0 / 2,
		"map@5":              (1.0/2 + 2.0/4) / 3,
		"map@2":              (1.0 / 2) / 2,
		"ndcg@5":             (0.6309297535714574 + 0.43067655807339306) / (1 + 0.6309297535714574 + 0.5),
		"ndcg@2":             0.6309297535714574 / (1 + 0.6309297535714574),
	} {
		require.InDelta(t, want, valueOf(t, mustParse(t, text)[0], ranked, targets), 1e-15, text)
	}
}

func TestAPerfectRankingIsOneByEveryMeasureOfOrder(t *testing.T) {
	targets := make([]int32, 3000) // more than the tables of discounts hold
	for i := range targets {
		targets[i] = int32(i)
	}
	for _, text := range []string{"ndcg@1", "ndcg@3000", "ndcg@4000", "map@3000", "mrr@3000", "truncated_recall@20",
		"precision@3000"} {
		require.Equal(t, 1.0, valueOf(t, mustParse(t, text)[0], targets, targets), text)
	}
}

func TestNDCGBeyondTheTableOfDiscountsFollowsTheFormula(t *testing.T) {
	ranked := make([]int32, 2000)
	for i := range ranked {
		ranked[i] = int32(i)
	}
	m := mustParse(t, "ndcg@2000")[0]
	require.InDelta(t, 1/math.Log2(1501), valueOf(t, m, ranked, []int32{1499}), 1e-15)
}

func TestPrecisionCountsMissingRecommendationsAsMisses(t *testing.T) {
	require.Equal(t, 0.25, valueOf(t, mustParse(t, "precision@4")[0], []int32{3, -1, -1, -1}, []int32{3}))
}

func TestARowWithoutTargetsHasNoValue(t *testing.T) {
	for _, name := range rowMetrics {
		require.True(t, math.IsNaN(valueOf(t, mustParse(t, name+"@5")[0], []int32{1, 2}, nil)), name)
	}
}

func TestCoverageHasNoValueForOneRow(t *testing.T) {
	require.True(t, math.IsNaN(valueOf(t, mustParse(t, "coverage@5")[0], []int32{1, 2}, []int32{1})))
}

func TestEveryKindOfMetricHasItsName(t *testing.T) {
	require.Len(t, kernels.MetricWords, int(kernels.MetricCoverage)+1)
	for kind, name := range kernels.MetricWords {
		m, err := ParseMetric(name + "@20")
		require.NoError(t, err)
		require.Equal(t, kernels.Metric{Kind: kernels.MetricKind(kind), K: 20}, m)
	}
}

func TestAnUnknownMetricNamesTheNearest(t *testing.T) {
	for text, want := range map[string]string{
		"ndgc@20": `"ndcg@20"`, "hr@10": `"hit_rate@10"`, "HR@10": `"hit_rate@10"`, "Recall@5": `"recall@5"`,
		"precison@5": `"precision@5"`, "hitrate@3": `"hit_rate@3"`, "hr": `"hit_rate@20"`, "p@5": `"precision@5"`,
	} {
		_, err := ParseMetric(text)
		requireInvalid(t, err, `"`+text+`"`, "did you mean "+want)
	}
}

func TestAMetricLikeNoneListsAll(t *testing.T) {
	_, err := ParseMetric("zzzzzzzz@20")
	requireInvalid(t, err, "precision, recall, truncated_recall, ndcg, hit_rate, mrr, map, coverage")
}

func TestACutOffMustBeAPositiveNumber(t *testing.T) {
	for _, text := range []string{"recall@0", "recall@-1", "recall@x", "recall@", "recall@1.5", "recall@020", "recall@+5",
		"recall@2147483648", "recall@99999999999999999999", "recall@20@20", "recall@ 20"} {
		_, err := ParseMetric(text)
		requireInvalid(t, err, "cut-off", `"recall@20"`)
	}
}

func TestAMetricWithoutACutOffIsToldHowToWriteIt(t *testing.T) {
	_, err := ParseMetric("ndcg")
	requireInvalid(t, err, "no cut-off", `"ndcg@20"`)
}

func TestAMetricListedTwiceIsRefused(t *testing.T) {
	_, err := ParseMetrics([]string{"recall@20", "ndcg@20", "recall@20"})
	requireInvalid(t, err, `"recall@20"`, "twice")
}

func TestTheLargestCutOffIsTheLengthOfTheRanking(t *testing.T) {
	require.EqualValues(t, 50, LargestK(mustParse(t, "recall@20", "coverage@50", "ndcg@10")))
}

func TestTheMeanIsOverRowsWithTargets(t *testing.T) {
	a := newTally(t, mustParse(t, "recall@2"), 10, 10)
	a.add([]int32{1, 2}, []int32{1})
	a.add([]int32{1, 2}, nil)
	a.add([]int32{1, 2}, []int32{3})
	require.EqualValues(t, 2, a.rows())
	require.Equal(t, []float64{0.5}, a.means())
}

func TestThereIsNoMeanWithoutRows(t *testing.T) {
	a := newTally(t, mustParse(t, "recall@2", "coverage@2"), 10, 10)
	require.True(t, math.IsNaN(a.means()[0]))
	require.True(t, math.IsNaN(a.means()[1]))
}

func TestValuesOfARowAreWrittenOut(t *testing.T) {
	a := newTally(t, mustParse(t, "recall@2", "coverage@2"), 10, 10)
	perRow := a.add([]int32{1, 2}, []int32{1, 5})
	require.Equal(t, 0.5, perRow[0])
	require.True(t, math.IsNaN(perRow[1]))
}

func TestCoverageCountsDistinctItemsWithinTheCutOff(t *testing.T) {
	a := newTally(t, mustParse(t, "coverage@2", "coverage@3"), 100, 8)
	a.add([]int32{1, 2, 64}, []int32{1})
	a.add([]int32{2, 99, -1}, []int32{1})
	require.Equal(t, []float64{3.0 / 8, 4.0 / 8}, a.means())
}

// accumulate adds the rows in a given order.
func accumulate(t *testing.T, metrics []kernels.Metric, order []int) []float64 {
	a := newTally(t, metrics, 60, 60)
	for _, row := range order {
		ranked, targets := randomRow(rand.New(rand.NewPCG(uint64(row), 9)))
		a.add(ranked, targets)
	}
	return a.means()
}

func TestMeansHaveTheSameBitsInAnyOrder(t *testing.T) {
	metrics := mustParse(t, "precision@3", "recall@20", "truncated_recall@20", "ndcg@20", "hit_rate@5", "mrr@20", "map@20",
		"coverage@2")
	r := rand.New(rand.NewPCG(0, 0))
	want := accumulate(t, metrics, r.Perm(500))
	for range 8 {
		require.Equal(t, want, accumulate(t, metrics, r.Perm(500)))
	}
}

func TestMeansAreThoseOfTheRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	metrics := mustParse(t, "ndcg@20", "map@20", "recall@20")
	a := newTally(t, metrics, 60, 60)
	sums := make([]float64, 3)
	for range 1000 {
		ranked, targets := randomRow(r)
		for i, value := range a.add(ranked, targets) {
			if len(targets) > 0 {
				sums[i] += value
			}
		}
	}
	for i, mean := range a.means() {
		// The plain sum of 1,000 numbers below 1 is off by at most 1000^2 / 2 rounding errors, the mean by 500.
		require.InDelta(t, sums[i]/float64(a.rows()), mean, 500*0x1p-53)
	}
}
