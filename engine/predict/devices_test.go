package predict_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// answers are the bits of everything that a predictor can be asked.
type answers struct {
	Hidden, Scores, Best, BestOfSome, Similar, PerRow []uint32
	IDs, IDsOfSome, Neighbors                         []int32
	Metrics                                           []float64
}

func bitsOf(x []float32) []uint32 {
	list := make([]uint32, len(x))
	for i, v := range x {
		list[i] = math.Float32bits(v)
	}
	return list
}

const (
	oddItems = 133
	deeper   = `{"layers": [
		{"name": "input", "kind": "input", "size": "auto", "scaling": "l2"},
		{"name": "side", "kind": "input", "size": 3},
		{"name": "h1", "kind": "hidden", "sources": ["side", "input"], "size": 9, "activation": "sigmoid",
			"initializer": {"bias": 0.3}},
		{"name": "h2", "kind": "hidden", "sources": ["h1", "input"], "size": 20, "activation": "relu"},
		{"name": "h3", "kind": "hidden", "sources": ["input", "h2"], "size": 7, "activation": "tanh"},
		{"name": "output", "kind": "output", "sources": ["h3", "h1"], "size": "auto"}], "loss": "softmax"}`
)

// merged has skips, also of the output, and layers that compute with values.
const merged = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto"},
	{"name": "h1", "kind": "hidden", "size": 9, "activation": "sigmoid"},
	{"name": "h2", "kind": "hidden", "size": 9, "skips": ["h1"], "activation": "softmax"},
	{"name": "most", "kind": "merge", "function": "maximum", "sources": ["h2", "h1"]},
	{"name": "products", "kind": "merge", "function": "dot", "sources": ["most", "h1", "h2"]},
	{"name": "cosines", "kind": "merge", "function": "cosine", "sources": ["most", "h1", "h2"]},
	{"name": "scores", "kind": "hidden", "sources": ["products", "cosines"], "size": 133, "activation": "linear"},
	{"name": "output", "kind": "output", "sources": ["h2", "input"], "skips": ["scores"], "size": "auto"}],
	"loss": "softmax"}`

// shared has layers that use the weights of others, as they are and transposed.
const shared = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2"},
	{"name": "h1", "kind": "hidden", "size": 9, "activation": "sigmoid"},
	{"name": "h2", "kind": "hidden", "sources": ["input"], "size": 9, "shared": "h1.weight"},
	{"name": "code", "kind": "hidden", "size": 6},
	{"name": "back", "kind": "hidden", "size": 9, "shared": "code.weight"},
	{"name": "output", "kind": "output", "sources": ["back", "input", "h1"], "size": "auto", "shared":
		[{"source": "back", "weight": "h1.weight"}]}],
	"loss": "softmax"}`

// deeperWith is the network whose output has other sources.
func deeperWith(sources string) string { return strings.Replace(deeper, `["h3", "h1"]`, sources, 1) }

func sized(t *testing.T, definition string) *model.Model {
	return fixture.Model(t, definition, map[string]int64{"input": oddItems, "output": oddItems})
}

func ask(t *testing.T, m *model.Model, options string) (a answers) {
	t.Helper()
	p, err := openers.Predictor(m, []byte(options))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	data, targets := fixture.Blocks(t, rows, oddItems, 4, 6, 3), fixture.Blocks(t, rows, oddItems, 4, 5, 4)
	require.NoError(t, p.Bind("input", data))
	if _, err := m.Network().Layer("side"); err == nil {
		require.NoError(t, p.Bind("side", fixture.Valued(t, rows, 3, 2, 1)))
	}
	width := m.Network().Layers[len(m.Network().Layers)-2].Size
	const k = 40 // more than a shard of 8 has
	floats := func(n int64) []float32 { return make([]float32, n) }
	hidden, scores, best, some, similar := floats(rows*width), floats(rows*oddItems), floats(rows*k), floats(rows*k),
		floats(3*k)
	a.IDs, a.IDsOfSome, a.Neighbors = make([]int32, rows*k), make([]int32, rows*k), make([]int32, 3*k)
	require.NoError(t, p.Predict(m.Network().Layers[len(m.Network().Layers)-2].Name, nil, hidden, width))
	require.NoError(t, p.Predict("", nil, scores, oddItems))
	require.NoError(t, p.Recommend("", nil, data, predict.Filter{}, k, a.IDs, best))
	few := predict.Filter{Items: []int32{0, 7, 8, 63, 64, 65, 66, 131, 132}}
	require.NoError(t, p.Recommend("", nil, data, few, k, a.IDsOfSome, some))
	weight := m.Tensors()[0].Name
	require.NoError(t, p.Neighbors(weight, []int32{0, 2, 1}, predict.Filter{Items: []int32{1}, Deny: true},
		predict.NeighborOptions{Measure: predict.Cosine}, min(k, m.Tensors()[0].Shape[0]), a.Neighbors, similar))
	perRow := make([]float64, 3*rows)
	result, err := p.Evaluate("", targets, data, nil, predict.Filter{Items: []int32{5, 9}, Deny: true},
		[]string{"recall@20", "ndcg@7", "coverage@3"}, perRow)
	require.NoError(t, err)
	a.Metrics = result.Values
	for _, x := range perRow {
		a.PerRow = append(a.PerRow, math.Float32bits(float32(x)))
	}
	a.Hidden, a.Scores, a.Best, a.BestOfSome, a.Similar = bitsOf(hidden), bitsOf(scores), bitsOf(best), bitsOf(some),
		bitsOf(similar)
	return a
}

func TestPredictionsHaveTheSameBitsOnAnyNumberOfDevices(t *testing.T) {
	for _, definition := range []string{
		fixture.Autoencoder("softmax", ""), fixture.Autoencoder("softmax", `, "temperature": 0.1`),
		fixture.Autoencoder("sigmoid", `, "shared": "hidden1.weight", "bias": false`), deeper,
		deeperWith(`["input", "h3", "side"]`), deeperWith(`["side", "input"]`), deeperWith(`["input"]`), merged, shared,
	} {
		m := sized(t, definition)
		one := ask(t, m, `{"devices": "cpu"}`)
		for _, devices := range []string{"cpu:1", "cpu:2", "cpu:3", "cpu:4", "cpu:8", "cpu:64"} {
			require.Equal(t, one, ask(t, m, `{"devices": "`+devices+`"}`), devices)
			require.Equal(t, one, ask(t, m, `{"devices": "`+devices+`", "threads": 7, "batch_size": 5}`), devices)
		}
	}
}

func TestTiesBetweenDevicesGoToTheLowerItem(t *testing.T) {
	m := sized(t, fixture.Autoencoder("softmax", ""))
	for _, tensor := range m.Tensors() {
		if strings.HasPrefix(tensor.Name, "output") {
			clear(tensor.Float32())
		}
	}
	p, err := openers.Predictor(m, []byte(`{"devices": "cpu:4"}`))
	require.NoError(t, err)
	require.NoError(t, p.Bind("input", fixture.Matrix(t, oddItems, [][]int32{{3}})))
	const k = 50
	ids, values := make([]int32, k), make([]float32, k)
	require.NoError(t, p.Recommend("", nil, fixture.Matrix(t, oddItems, [][]int32{{0, 34}}), predict.Filter{}, k, ids,
		values))
	want := make([]int32, 0, k)
	for i := int32(0); len(want) < k; i++ {
		if i != 0 && i != 34 {
			want = append(want, i)
		}
	}
	require.Equal(t, want, ids)
	require.NoError(t, p.Close())
}

func TestWhereFewItemsAreLeftTheRestIsEmptyOnAnyNumberOfDevices(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:3", "cpu:64"} {
		p := on(t, fixture.Matrix(t, items, [][]int32{{3}}), `{"devices": "`+devices+`"}`)
		ids, values := make([]int32, items), make([]float32, items)
		require.NoError(t, p.Recommend("", nil, fixture.Matrix(t, items, [][]int32{{77}}),
			predict.Filter{Items: []int32{129, 77, 2}}, items,
			ids, values))
		require.ElementsMatch(t, []int32{2, 129}, ids[:2])
		for n := 2; n < items; n++ {
			require.EqualValues(t, -1, ids[n])
			require.True(t, math.IsInf(float64(values[n]), -1))
		}
	}
}

func TestTheLimitHoldsForAllDevicesTogether(t *testing.T) {
	data := fixture.Blocks(t, 400, items, 4, 2, 3)
	limit := func(devices string, bytes string) error {
		p := on(t, data, `{"threads": 1, "memory_limit": `+bytes+`, "devices": "`+devices+`"}`)
		return p.Recommend("", nil, nil, predict.Filter{}, 5, make([]int32, 2000), make([]float32, 2000))
	}
	require.NoError(t, limit("cpu", "400000"))
	require.ErrorContains(t, limit("cpu:16", "400000"), "nothing was allocated")
	require.NoError(t, limit("cpu:16", "40000000"))
}
