package predict_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

func TestAVectorThatIsARowHasTheNeighboursOfThatRow(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	for _, options := range []string{`{"batch_size": 2}`, `{"devices": "cpu:3", "batch_size": 2}`} {
		p, err := openers.Predictor(m, []byte(options))
		require.NoError(t, err)
		w, err := m.Tensor("output.weight")
		require.NoError(t, err)
		queries := []int32{129, 4, 0, 4, 77}
		var vectors []float32
		for _, q := range queries {
			vectors = append(vectors, w.Float32()[q*16:q*16+16]...)
		}
		for _, measure := range []predict.Measure{predict.Dot, predict.Cosine} {
			var first []int32 // without weights in low precision, which the later ones have
			var firstScores []float32
			for range 4 {
				o := predict.NeighborOptions{Measure: measure, IncludeSelf: true}
				ids, values := make([]int32, 5*7), make([]float32, 5*7)
				some := predict.Filter{Items: []int32{3, 5}, Deny: true}
				require.NoError(t, p.Neighbors("", queries, some, o, 7, ids, values))
				found, scores := make([]int32, 5*7), make([]float32, 5*7)
				require.NoError(t, p.Search("", vectors, 16, some, measure, 7, found, scores))
				require.Equal(t, ids, found)
				require.Equal(t, values, scores)
				if first == nil {
					first, firstScores = ids, values
				}
				require.Equal(t, first, ids)
				require.Equal(t, firstScores, values)
			}
		}
		require.NoError(t, p.Close())
	}
}

func bytesOf(numbers []float32) (all []byte) {
	for _, x := range numbers {
		all = binary.LittleEndian.AppendUint32(all, math.Float32bits(x))
	}
	return all
}

// index is a model of vectors.
func index(t *testing.T, rows []float32, metric string) *model.Model {
	t.Helper()
	text := `{"kind": "vectors", "items": 5, "size": 3, "metric": "` + metric + `"}`
	form, err := model.ReadForm([]byte(text), nil)
	require.NoError(t, err)
	m, err := model.Create(form, model.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.NoError(t, m.SetTensor("vectors", bytesOf(rows)))
	return m
}

func TestSearchesSeeVectorsThatHaveChanged(t *testing.T) {
	rows := []float32{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0}
	m := index(t, rows, "dot")
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	ids, scores := make([]int32, 5), make([]float32, 5)
	for range 6 {
		require.NoError(t, p.Search("", []float32{1, 2, 3}, 3, predict.Filter{}, predict.Dot, 5, ids, scores))
		require.Equal(t, []int32{3, 2, 1, 0, 4}, ids)
		require.Equal(t, []float32{6, 3, 2, 1, 0}, scores)
	}
	require.NoError(t, m.SetRows("vectors", 4, 1, bytesOf([]float32{9, 0, 0})))
	require.NoError(t, p.Search("", []float32{1, 2, 3}, 3, predict.Filter{}, predict.Dot, 5, ids, scores))
	require.Equal(t, []int32{4, 3, 2, 1, 0}, ids)
}

func TestSearchesThatCannotBeAreRefused(t *testing.T) {
	m := index(t, make([]float32, 15), "cosine")
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	ids, scores := make([]int32, 12), make([]float32, 12)
	ask := func(tensor string, queries []float32, columns, k int64, filter predict.Filter) error {
		return p.Search(tensor, queries, columns, filter, predict.Cosine, k, ids, scores)
	}
	nan := float32(math.NaN())
	for want, err := range map[string]error{
		"the queries have 2 columns, vectors has 3":      ask("", make([]float32, 4), 2, 1, predict.Filter{}),
		"queries, row 1, column 2: NaN is not finite":    ask("", []float32{1, 2, 3, 4, 5, nan}, 3, 1, predict.Filter{}),
		"k is 6; it must be from 1 to 5":                 ask("", make([]float32, 3), 3, 6, predict.Filter{}),
		"items[0] is 5; the model has items 0 to 4":      ask("", make([]float32, 3), 3, 1, predict.Filter{Items: []int32{5}}),
		`the model has no tensor "vector"; did you mean`: ask("vector", make([]float32, 3), 3, 1, predict.Filter{}),
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, ask("", nil, 3, 5, predict.Filter{}))
	require.NoError(t, ask("", make([]float32, 6), 3, 5, predict.Filter{}))
	require.Equal(t, []int32{0, 1, 2, 3, 4}, ids[5:10])
	require.True(t, slices.Equal(make([]float32, 10), scores[:10]), "vectors of zeros have the cosine 0")
}

func TestSparseWeightsAreNotComparedWithVectors(t *testing.T) {
	form, err := model.ReadForm([]byte(`{"kind": "item_weights", "items": 3, "weight": "csr", "entries": 0}`), nil)
	require.NoError(t, err)
	m, err := model.Create(form, model.Options{Threads: 1})
	require.NoError(t, err)
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	err = p.Search("", make([]float32, 3), 3, predict.Filter{}, predict.Dot, 1, make([]int32, 1), make([]float32, 1))
	require.Equal(t, fault.Unsupported, fault.KindOf(err))
	require.ErrorContains(t, err, `"weight" is sparse`)
	require.NoError(t, p.Close())
	require.NoError(t, m.Close())
}

func TestAnIndexPlansNoMoreThanItsVectorsInLowPrecision(t *testing.T) {
	m := index(t, make([]float32, 15), "dot")
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	device, screens := p.Ranks[0].Device.(kernels.Screener)
	if !screens {
		t.Skip("this device keeps nothing")
	}
	w := &kernels.Weights{Rows: 1 << 20, Columns: 128}
	s := kernels.Scorer{Items: w.Rows, Sources: []kernels.OutputSource{{Weight: w}}}
	require.LessOrEqual(t, float64(4*device.ScreeningSize(&s, 1)), 0.3*float64(4*w.Rows*w.Columns))
}
