package predict_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/predict"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// on opens a predictor on a matrix.
func on(t *testing.T, data *csr.Matrix, options string) *predict.Predictor {
	t.Helper()
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	p, err := openers.Predictor(m, []byte(options))
	require.NoError(t, err)
	require.NoError(t, p.Bind("input", data))
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, m.Close())
	})
	return p
}

// repeated is a list of one row.
func repeated(row int64, times int) []int64 {
	list := make([]int64, times)
	for i := range list {
		list[i] = row
	}
	return list
}

func TestMoreRowsThanTheDatasetHasAreComputedInBatchesOfWhatIsPlanned(t *testing.T) {
	data := fixture.Matrix(t, items, [][]int32{{3, 5, 8}})
	p := on(t, data, "")
	const times, k = 512, 4
	one, values := make([]int32, k), make([]float32, k)
	require.NoError(t, p.Recommend("", nil, data, predict.Filter{}, k, one, values))
	ids, scores := make([]int32, times*k), make([]float32, times*k)
	require.NoError(t, p.Recommend("", repeated(0, times), data, predict.Filter{}, k, ids, scores))
	dense := make([]float32, times*items)
	require.NoError(t, p.Predict("", repeated(0, times), dense, items))
	hidden := make([]float32, times*16)
	require.NoError(t, p.Predict("hidden1", repeated(0, times), hidden, 16))
	for u := range times {
		require.Equal(t, one, ids[u*k:][:k])
		require.Equal(t, dense[:items], dense[u*items:][:items])
		require.Equal(t, hidden[:16], hidden[u*16:][:16])
	}
	perRow := make([]float64, times)
	result, err := p.Evaluate("", data, nil, repeated(0, times), predict.Filter{}, []string{"ndcg@5"}, perRow)
	require.NoError(t, err)
	require.EqualValues(t, times, result.Rows)
	require.Equal(t, repeatedFloat(perRow[0], times), perRow)
}

func repeatedFloat(x float64, times int) []float64 {
	list := make([]float64, times)
	for i := range list {
		list[i] = x
	}
	return list
}

func TestTheLongestRowRepeatedStaysWithinThePlannedEntries(t *testing.T) {
	long := make([]int32, 100)
	for i := range long {
		long[i] = int32(i)
	}
	lists := [][]int32{long, {1}, {2}, {}, {4}, {5}}
	data := fixture.Matrix(t, items, lists) // a batch of 5 different rows has at most 104 entries
	p := on(t, data, `{"batch_size": 5}`)
	chosen := []int64{1, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 5}
	const k = 3
	ids, scores := make([]int32, len(chosen)*k), make([]float32, len(chosen)*k)
	require.NoError(t, p.Recommend("", chosen, data, predict.Filter{}, k, ids, scores))
	all, values := make([]int32, len(lists)*k), make([]float32, len(lists)*k)
	require.NoError(t, p.Recommend("", nil, data, predict.Filter{}, k, all, values))
	for u, row := range chosen {
		require.Equal(t, all[row*k:][:k], ids[u*k:][:k])
	}
}

func TestAllRowsAreNotListedInMemory(t *testing.T) {
	const rows = 100_000
	offsets := make([]int64, rows+1)
	data, err := csr.New(csr.Parts{Columns: items, Offsets64: offsets, Indices32: []int32{}})
	require.NoError(t, err)
	require.NoError(t, data.Validate(csr.ValidateOptions{}))
	p := on(t, data, "")
	evaluate := func() {
		_, err := p.Evaluate("", data, nil, nil, predict.Filter{}, []string{"recall@5"}, nil)
		require.NoError(t, err)
	}
	evaluate()
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			evaluate()
		}
	})
	require.Less(t, result.AllocedBytesPerOp(), int64(8*rows/10))
}

func TestACutOffBeyondTheItemsCountsTheMissingRanksAsNoHits(t *testing.T) {
	p, data := opened(t, "", "")
	result, err := p.Evaluate("", data, nil, nil, predict.Filter{}, []string{"recall@1000000000", "precision@1000000000",
		"recall@130"}, nil)
	require.NoError(t, err)
	require.Equal(t, 1.0, result.Values[0])
	require.InEpsilon(t, 6e-9, result.Values[1], 1e-9, "each row has 6 targets")
	require.Equal(t, 1.0, result.Values[2])
}

func TestValuesByRowAreWrittenAfterTheChecks(t *testing.T) {
	p, data := opened(t, "", "")
	narrow := fixture.Blocks(t, rows, 50, 2, 3, 1)
	perRow := make([]float64, rows)
	_, err := p.Evaluate("", data, narrow, nil, predict.Filter{}, []string{"recall@5"}, perRow)
	require.Error(t, err)
	require.Equal(t, make([]float64, rows), perRow)
	_, err = p.Evaluate("", data, nil, nil, predict.Filter{}, []string{"recall@5"}, perRow)
	require.NoError(t, err)
	require.True(t, math.IsNaN(perRow[9]), "every tenth row has no targets")
}
