package predict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/predict"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

const twoOutputs = `{"layers": [
	{"name": "input", "kind": "input", "size": 130},
	{"name": "hidden1", "kind": "hidden", "sources": ["input"], "size": 16, "activation": "tanh"},
	{"name": "items", "kind": "output", "sources": ["hidden1"], "size": 130},
	{"name": "tags", "kind": "output", "sources": ["hidden1"], "size": 9}],
	"loss": [{"layer": "items", "kind": "softmax"}, {"layer": "tags", "kind": "sigmoid"}]}`

func TestAnyOfSeveralOutputsCanBeRanked(t *testing.T) {
	m := fixture.Model(t, twoOutputs, nil)
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	data, tags := fixture.Blocks(t, rows, items, 4, 6, 3), fixture.Blocks(t, rows, 9, 3, 2, 4)
	require.NoError(t, p.Bind("input", data))
	for layer, width := range map[string]int{"items": items, "tags": 9} {
		dense := make([]float32, rows*width)
		require.NoError(t, p.Predict(layer, nil, dense, int64(width)))
		ids, scores := make([]int32, rows*5), make([]float32, rows*5)
		require.NoError(t, p.Recommend(layer, nil, nil, predict.Filter{}, 5, ids, scores))
		for u := range rows {
			require.Equal(t, sorted(dense[u*width:][:width], func(int32) bool { return true })[:5], ids[u*5:][:5])
		}
	}
	result, err := p.Evaluate("tags", tags, nil, nil, predict.Filter{}, []string{"recall@9"}, nil)
	require.NoError(t, err)
	require.Equal(t, []float64{1}, result.Values)

	ids, scores := make([]int32, rows), make([]float32, rows)
	ask := func(layer string) error { return p.Recommend(layer, nil, nil, predict.Filter{}, 1, ids, scores) }
	require.ErrorContains(t, ask(""), `several output layers, such as "items" and "tags"; name one`)
	require.ErrorContains(t, ask("tag"), `did you mean "tags"?`)
	require.ErrorContains(t, ask("hidden1"), `layer "hidden1" is not an output layer`)
	_, err = p.Evaluate("items", tags, nil, nil, predict.Filter{}, []string{"recall@9"}, nil)
	require.ErrorContains(t, err, "the dataset of targets has 9 columns, the output layer has 130 units")
}
