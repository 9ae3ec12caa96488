package predict_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// whole has a layer of each kind that leads to an output. Without the last, "spur" does not, and without both, none does.
const whole = `{"layers": [
	{"name": "input", "kind": "input", "size": 130, "scaling": "l2"},
	{"name": "hidden1", "kind": "hidden", "size": 16},
	{"name": "spur", "kind": "hidden", "size": 5, "activation": "relu"},
	{"name": "items", "kind": "output", "sources": ["hidden1"], "size": 130},
	{"name": "more", "kind": "output", "sources": ["spur"], "size": 7}]}`

var (
	more    = `,` + "\n\t" + `{"name": "more", "kind": "output", "sources": ["spur"], "size": 7}`
	spurred = strings.Replace(whole, more, "", 1)
	encoder = strings.Replace(spurred, `,`+"\n\t"+`{"name": "items", "kind": "output", "sources": ["hidden1"], "size": 130}`,
		"", 1)
)

// valuesOf are the values of a layer for all rows of the fixture.
func valuesOf(t *testing.T, p *predict.Predictor, layer string, width int) []float32 {
	t.Helper()
	out := make([]float32, rows*width)
	require.NoError(t, p.Predict(layer, nil, out, int64(width)))
	return out
}

func predictorOf(t *testing.T, definition, options string) (*predict.Predictor, *model.Model) {
	t.Helper()
	m := fixture.Model(t, definition, nil)
	p, err := openers.Predictor(m, []byte(options))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.Bind("input", fixture.Blocks(t, rows, items, 4, 6, 3)))
	return p, m
}

func TestALayerThatLeadsToNoOutputIsComputedForWhoeverAsksForIt(t *testing.T) {
	for _, options := range []string{`{"devices": "cpu", "batch_size": 30}`, `{"devices": "cpu:3", "batch_size": 30}`} {
		reference, _ := predictorOf(t, whole, options)
		p, _ := predictorOf(t, spurred, options)
		before := valuesOf(t, p, "items", items)
		require.Equal(t, valuesOf(t, reference, "spur", 5), valuesOf(t, p, "spur", 5))
		require.Equal(t, valuesOf(t, reference, "hidden1", 16), valuesOf(t, p, "hidden1", 16))
		require.Equal(t, before, valuesOf(t, p, "items", items), "after the other layers")
		plan, err := p.Plan("items", 5)
		require.NoError(t, err)
		require.NotContains(t, string(plan), "spur <-")
	}
}

func TestAnEncoderHasHiddenValuesAndNoScores(t *testing.T) {
	reference, _ := predictorOf(t, whole, `{"devices": "cpu"}`)
	p, _ := predictorOf(t, encoder, `{"devices": "cpu"}`)
	require.Equal(t, valuesOf(t, reference, "spur", 5), valuesOf(t, p, "spur", 5))
	require.Equal(t, valuesOf(t, reference, "hidden1", 16), valuesOf(t, p, "hidden1", 16))
	ids, scores, data := make([]int32, rows), make([]float32, rows), fixture.Blocks(t, rows, items, 4, 6, 3)
	_, evaluated := p.Evaluate("", data, nil, nil, predict.Filter{}, []string{"recall@9"}, nil)
	for _, err := range []error{
		p.Predict("", nil, scores, 1), p.Recommend("", nil, nil, predict.Filter{}, 1, ids, scores), evaluated,
	} {
		require.EqualError(t, err, "the model has no output layer, so it has no scores of items; ask for the values of a "+
			"hidden layer")
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
	}
}
