package predict_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/model"
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

func TestInputsThatFeedAnOutputAddTheirPartOfTheScores(t *testing.T) {
	x, side := fixture.Blocks(t, rows, oddItems, 4, 6, 3), fixture.Valued(t, rows, 3, 2, 1)
	for _, sources := range [][]string{{"input"}, {"side", "input"}, {"input", "h3", "side"}} {
		text, err := json.Marshal(sources)
		require.NoError(t, err)
		definition := strings.Replace(deeperWith(string(text)), `"scaling": "l2"`, `"scaling": "none"`, 1)
		m := sized(t, definition)
		p, err := openers.Predictor(m, nil)
		require.NoError(t, err)
		require.NoError(t, p.Bind("input", x))
		require.NoError(t, p.Bind("side", side))
		hidden, scores := make([]float32, rows*7), make([]float32, rows*oddItems)
		require.NoError(t, p.Predict("h3", nil, hidden, 7))
		require.NoError(t, p.Predict("", nil, scores, oddItems))
		ids, best := make([]int32, rows*9), make([]float32, rows*9)
		require.NoError(t, p.Recommend("", nil, x, predict.Filter{}, 9, ids, best))
		require.NoError(t, p.Close())

		want := make([]float64, rows*oddItems)
		for n := range want {
			want[n] = float64(weightOf(t, m, "output.bias")[n%oddItems])
		}
		for _, source := range sources {
			name := "output.weight"
			if len(sources) > 1 {
				name += "." + source
			}
			w := weightOf(t, m, name)
			for u := range rows {
				for i := range oddItems {
					at := &want[u*oddItems+i]
					if source == "h3" {
						for k := range 7 {
							*at += float64(hidden[u*7+k]) * float64(w[i*7+k])
						}
						continue
					}
					row := rowOf(t, map[string]*csr.Matrix{"input": x, "side": side}[source], u)
					for n, j := range row.Indices {
						*at += float64(row.Values[n]) * float64(w[int(j)*oddItems+i])
					}
				}
			}
		}
		for u := range rows {
			row := scores[u*oddItems:][:oddItems]
			for i, score := range row {
				require.InDelta(t, want[u*oddItems+i], score, 1e-6, "%v, row %d, item %d", sources, u, i)
			}
			known := rowOf(t, x, u)
			unknown := func(i int32) bool { return !slices.Contains(known.Indices, i) }
			require.Equal(t, sorted(row, unknown)[:9], ids[u*9:][:9])
		}
	}
}

func rowOf(t *testing.T, m *csr.Matrix, u int) (row csr.Entries) {
	require.NoError(t, m.AppendRow(&row, int64(u)))
	return row
}

func weightOf(t *testing.T, m *model.Model, name string) []float32 {
	tensor, err := m.Tensor(name)
	require.NoError(t, err)
	return tensor.Float32()
}
