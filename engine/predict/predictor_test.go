package predict_test

import (
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/predict"
	"dsstne/internal/fault"
	"dsstne/kernels"
	_ "dsstne/kernels/cpu"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

const (
	items = 130
	rows  = 37
)

func opened(t *testing.T, extra, options string) (*predict.Predictor, *csr.Matrix) {
	t.Helper()
	m := fixture.Model(t, fixture.Autoencoder("softmax", extra), map[string]int64{"input": items, "output": items})
	p, err := openers.Predictor(m, []byte(options))
	require.NoError(t, err)
	data := fixture.Blocks(t, rows, items, 4, 6, 3)
	require.NoError(t, p.Bind("input", data))
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, m.Close())
		require.NoError(t, data.Close())
	})
	return p, data
}

// scores of the output layer for all rows.
func scores(t *testing.T, p *predict.Predictor) [][]float32 {
	t.Helper()
	flat := make([]float32, rows*items)
	require.NoError(t, p.Predict("", nil, flat, items))
	table := make([][]float32, rows)
	for u := range table {
		table[u] = flat[u*items : (u+1)*items]
	}
	return table
}

// sorted lists the items of a row that keep, best first, ties to the lower.
func sorted(row []float32, keep func(item int32) bool) (list []int32) {
	for i := range row {
		if keep(int32(i)) {
			list = append(list, int32(i))
		}
	}
	sort.SliceStable(list, func(a, b int) bool { return row[list[a]] > row[list[b]] })
	return list
}

func recommend(t *testing.T, p *predict.Predictor, exclude csr.Source, f predict.Filter, k int64) ([]int32, []float32) {
	t.Helper()
	ids, values := make([]int32, rows*k), make([]float32, rows*k)
	require.NoError(t, p.Recommend("", nil, exclude, f, k, ids, values))
	return ids, values
}

func TestRecommendationsAreTheSortedScoresWithoutTheExcludedItems(t *testing.T) {
	for _, extra := range []string{"", `, "temperature": 0.1`, `, "shared": "hidden1.weight", "bias": false`} {
		p, data := opened(t, extra, "")
		table := scores(t, p)
		const k = 9
		ids, values := recommend(t, p, data, predict.Filter{}, k)
		for u := range rows {
			var seen csr.Entries
			require.NoError(t, data.AppendRow(&seen, int64(u)))
			want := sorted(table[u], func(item int32) bool { return !contains(seen.Indices, item) })[:k]
			require.Equal(t, want, ids[u*k:(u+1)*k], "row %d", u)
			for n, item := range want {
				require.Equal(t, table[u][item], values[u*k+n])
			}
		}
	}
}

func contains(list []int32, x int32) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

func TestAnAllowListLimitsTheItemsAndMissingPlacesAreMarked(t *testing.T) {
	p, _ := opened(t, "", "")
	allowed := []int32{7, 3, 129, 3}
	ids, values := recommend(t, p, nil, predict.Filter{Items: allowed}, 5)
	table := scores(t, p)
	for u := range rows {
		want := sorted(table[u], func(item int32) bool { return contains(allowed, item) })
		require.Equal(t, append(want, -1, -1), ids[u*5:u*5+5])
		require.True(t, math.IsInf(float64(values[u*5+4]), -1))
	}
}

func TestADenyListLeavesItemsOut(t *testing.T) {
	p, _ := opened(t, "", "")
	ids, _ := recommend(t, p, nil, predict.Filter{Items: []int32{0, 1, 2, 3}, Deny: true}, items)
	for u := range rows {
		require.Equal(t, []int32{-1, -1, -1, -1}, ids[(u+1)*items-4:(u+1)*items])
	}
}

func TestAnswersDoNotDependOnBatchesOrThreads(t *testing.T) {
	p, data := opened(t, "", `{"batch_size": 512, "threads": 1}`)
	q, _ := opened(t, "", `{"batch_size": 5, "threads": 3}`)
	a, x := recommend(t, p, data, predict.Filter{}, 10)
	b, y := recommend(t, q, data, predict.Filter{}, 10)
	require.Equal(t, a, b)
	require.Equal(t, x, y)
}

func TestRowsMayBeChosenInAnyOrder(t *testing.T) {
	p, _ := opened(t, "", `{"batch_size": 2}`)
	all, _ := recommend(t, p, nil, predict.Filter{}, 4)
	chosen := []int64{30, 2, 2, 36, 0}
	ids, values := make([]int32, 4*len(chosen)), make([]float32, 4*len(chosen))
	require.NoError(t, p.Recommend("", chosen, nil, predict.Filter{}, 4, ids, values))
	for n, row := range chosen {
		require.Equal(t, all[row*4:row*4+4], ids[n*4:n*4+4])
	}
}

func TestHiddenActivationsComeOutRowByRow(t *testing.T) {
	p, _ := opened(t, "", `{"batch_size": 10}`)
	h := make([]float32, rows*20)
	require.NoError(t, p.Predict("hidden1", nil, h, 20))
	for u := range rows {
		require.Equal(t, u%10 == 9, h[u*20+15] == 0, "the last of 16 units; only the tanh of an empty row's bias is 0")
		require.Zero(t, h[u*20+16], "beyond the units")
	}
}

func TestNeighboursAreTheNearestRowsOfTheWeight(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	w, err := m.Tensor("output.weight")
	require.NoError(t, err)
	row := func(i int32) []float32 { return w.Float32()[i*16 : i*16+16] }
	for measure, cosine := range map[predict.Measure]bool{predict.Dot: false, predict.Cosine: true} {
		ids, values := make([]int32, 2*6), make([]float32, 2*6)
		queries := []int32{129, 4}
		o := predict.NeighborOptions{Measure: measure}
		require.NoError(t, p.Neighbors("", queries, predict.Filter{}, o, 6, ids, values))
		for n, q := range queries {
			near := make([]float32, items)
			for i := range near {
				a, b := row(q), row(int32(i))
				temperature := float32(0)
				if cosine {
					temperature = 1
				}
				near[i] = kernels.Score(kernels.Dot(a, b), kernels.Dot(a, a), kernels.Dot(b, b), 0, temperature)
			}
			require.Equal(t, sorted(near, func(i int32) bool { return i != q })[:6], ids[n*6:n*6+6])
		}
	}
}

// byHand are recall@5, ndcg@10 and map@3.
var byHand = []func(ranked, targets []int32) float64{
	func(ranked, targets []int32) (hits float64) {
		for _, item := range ranked[:5] {
			if contains(targets, item) {
				hits++
			}
		}
		return hits / float64(len(targets))
	},
	func(ranked, targets []int32) float64 {
		gain, ideal := 0.0, 0.0
		for i, item := range ranked {
			if contains(targets, item) {
				gain += 1 / math.Log2(float64(i+2))
			}
			if i < len(targets) {
				ideal += 1 / math.Log2(float64(i+2))
			}
		}
		return gain / ideal
	},
	func(ranked, targets []int32) (sum float64) {
		hits := 0.0
		for i, item := range ranked[:3] {
			if contains(targets, item) {
				hits++
				sum += hits / float64(i+1)
			}
		}
		return sum / math.Min(3, float64(len(targets)))
	},
}

func TestEvaluationEqualsMetricsOfTheRecommendations(t *testing.T) {
	p, data := opened(t, "", `{"batch_size": 8}`)
	targets := fixture.Blocks(t, rows, items, 4, 6, 99)
	metrics := []string{"recall@5", "ndcg@10", "map@3"}
	perRow := make([]float64, rows*3)
	result, err := p.Evaluate("", targets, data, nil, predict.Filter{}, metrics, perRow)
	require.NoError(t, err)
	require.EqualValues(t, rows-rows/10, result.Rows, "every tenth row has no targets")
	ids, _ := recommend(t, p, data, predict.Filter{}, 10)
	for n := range metrics {
		sum := 0.0
		for u := range rows {
			var held csr.Entries
			require.NoError(t, targets.AppendRow(&held, int64(u)))
			value := byHand[n](ids[u*10:u*10+10], held.Indices)
			if len(held.Indices) == 0 {
				require.True(t, math.IsNaN(perRow[u*3+n]))
				continue
			}
			require.InDelta(t, value, perRow[u*3+n], 1e-15)
			sum += value
		}
		require.InDelta(t, sum/float64(result.Rows), result.Values[n], 1e-12)
	}
}

func TestWrongQuestionsGetClearAnswers(t *testing.T) {
	p, data := opened(t, "", "")
	small := fixture.Blocks(t, 5, items, 2, 3, 1)
	narrow := fixture.Blocks(t, rows, 50, 2, 3, 1)
	ids, values := make([]int32, 1000), make([]float32, rows*items)
	ask := func(rows []int64, exclude csr.Source, f predict.Filter, k int64) error {
		return p.Recommend("", rows, exclude, f, k, ids, values)
	}
	_, badMetric := p.Evaluate("", data, nil, nil, predict.Filter{}, []string{"ndgc@5"}, nil)
	_, noMetric := p.Evaluate("", data, nil, nil, predict.Filter{}, nil, nil)
	_, badTargets := p.Evaluate("", narrow, nil, nil, predict.Filter{}, []string{"ndcg@5"}, nil)
	for message, err := range map[string]error{
		"k is 0; it must be from 1 to 130":                    ask(nil, nil, predict.Filter{}, 0),
		"k is 131; it must be from 1 to 130":                  ask([]int64{0}, nil, predict.Filter{}, 131),
		"rows[1] is 37; the bound datasets have rows 0 to 36": ask([]int64{0, 37}, nil, predict.Filter{}, 1),
		"items[0] is -1; the model has items 0 to 129":        ask([]int64{0}, nil, predict.Filter{Items: []int32{-1}}, 1),
		"items to leave out has 5 rows, the ones bound have":  ask(nil, small, predict.Filter{}, 1),
		"items to leave out has 50 columns":                   ask(nil, narrow, predict.Filter{}, 1),
		"stride is 3, but layer \"output\" has 130 units":     p.Predict("", nil, values, 3),
		`did you mean "hidden1"?`:                             p.Predict("hiden1", nil, values, 16),
		`layer "input" is an input`:                           p.Predict("input", nil, values, items),
		`give at least one metric`:                            noMetric,
		`ndcg`:                                                badMetric,
		"the dataset of targets has 50 columns":               badTargets,
		"queries[0] is 500": p.Neighbors("", []int32{500}, predict.Filter{},
			predict.NeighborOptions{}, 1, ids, values),
		"is not a weight matrix": p.Neighbors("output.bias", []int32{0}, predict.Filter{},
			predict.NeighborOptions{}, 1, ids, values),
	} {
		require.ErrorContains(t, err, message)
	}
}

func TestWithoutABoundDatasetAQuestionIsRefused(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	err = p.Recommend("", nil, nil, predict.Filter{}, 1, nil, nil)
	require.Equal(t, fault.InvalidState, fault.KindOf(err))
}
