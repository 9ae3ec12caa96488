package train_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// trunk ends with an output, and spurs are further layers, which lead to none.
const (
	trunk = `{"name": "input", "kind": "input", "size": "auto", "scaling": "l2", "denoising": 0.3},
	{"name": "h1", "kind": "hidden", "size": 8, "activation": "tanh"},
	{"name": "h2", "kind": "hidden", "size": 8, "dropout": 0.1},
	{"name": "output", "kind": "output", "size": "auto"}`
	spurs = `, {"name": "side", "kind": "input", "size": 5},
	{"name": "spur1", "kind": "hidden", "sources": ["h1", "side"], "size": 6},
	{"name": "spur2", "kind": "hidden", "size": 4},
	{"name": "spur3", "kind": "hidden", "sources": ["input"], "size": 8, "shared": "h1.weight"},
	{"name": "spur4", "kind": "hidden", "size": 8, "shared": {"weight": "h2.weight", "transposed": true}}`
)

func TestLayersThatLeadToNoOutputChangeNothingInTraining(t *testing.T) {
	for _, set := range []string{
		options("cpu", optimizers["adam"], "float32"),
		by("model", options("cpu:4", optimizers["adam"], "float32")),
		by("data", options("cpu:4", optimizers["adam"], "float32")),
	} {
		plain, m := modelOf(t, `{"layers": [`+trunk+`]}`), modelOf(t, `{"layers": [`+trunk+spurs+`]}`)
		before := tensorsOf(t, m)
		run(t, training(t, plain, set), 4)
		trainer := training(t, m, set)
		run(t, trainer, 4)
		want, got := tensorsOf(t, plain), tensorsOf(t, m)
		for name := range before {
			if strings.HasPrefix(name, "spur") {
				require.Equal(t, before[name], got[name], "%s: %s", set, name)
			} else {
				require.Equal(t, want[name], got[name], "%s: %s", set, name)
			}
		}
		plan := planOf(t, trainer)
		require.NotContains(t, strings.Join(plan.Operations, "\n"), "spur", set)
		require.NotContains(t, strings.Join(plan.Operations, "\n"), "side", set)
		for _, part := range plan.Parts {
			if strings.Contains(part.Of, "spur") {
				require.Equal(t, "weights", part.Name, part.Of)
			}
		}
	}
}

// The layer that owns the weight is not computed, so the output alone makes its gradient.
func TestAnOutputCanShareTheWeightOfALayerThatLeadsToNone(t *testing.T) {
	const tied = `{"layers": [
		{"name": "input", "kind": "input", "size": "auto"},
		{"name": "owner", "kind": "hidden", "size": 8, "bias": false},
		{"name": "h1", "kind": "hidden", "sources": ["input"], "size": 8},
		{"name": "output", "kind": "output", "size": "auto", "shared": "owner.weight"}]}`
	for _, devices := range []string{"cpu", "cpu:3"} {
		m := modelOf(t, tied)
		before := tensorsOf(t, m)
		run(t, training(t, m, options(devices, optimizers["adam"], "float32")), 2)
		for name, values := range tensorsOf(t, m) {
			require.NotEqual(t, before[name], values, name)
		}
	}
}

// A layer that uses the weight transposed is the only one that is computed.
func TestAHiddenLayerCanShareTheWeightOfALayerThatLeadsToNone(t *testing.T) {
	const turned = `{"layers": [
		{"name": "input", "kind": "input", "size": "auto"},
		{"name": "h1", "kind": "hidden", "size": 8},
		{"name": "owner", "kind": "hidden", "size": 5, "bias": false},
		{"name": "h2", "kind": "hidden", "sources": ["h1"], "size": 5},
		{"name": "h3", "kind": "hidden", "size": 8, "shared": "owner.weight"},
		{"name": "table", "kind": "hidden", "sources": ["input"], "size": 8, "bias": false},
		{"name": "h4", "kind": "hidden", "sources": ["input"], "size": 8, "shared": "table.weight"},
		{"name": "output", "kind": "output", "sources": ["h3", "h4"], "size": "auto"}]}`
	for _, devices := range []string{"cpu", "cpu:3"} {
		m := modelOf(t, turned)
		before := tensorsOf(t, m)
		run(t, training(t, m, options(devices, optimizers["adam"], "float32")), 2)
		for name, values := range tensorsOf(t, m) {
			require.NotEqual(t, before[name], values, name)
		}
	}
}

func TestLocksThatLeaveOnlyLayersThatLeadToNoOutputAreRefused(t *testing.T) {
	m := modelOf(t, `{"layers": [`+trunk+spurs+`]}`)
	_, err := openers.Trainer(m, []byte(locking(`{"batch_size": 50}`, "h1", "h2", "output")))
	require.ErrorContains(t, err, "nothing to train")
}

func TestANetworkWithoutAnOutputHasNothingToTrain(t *testing.T) {
	m := fixture.Model(t, `{"layers": [{"name": "input", "kind": "input", "size": 9},
		{"name": "h1", "kind": "hidden", "size": 8}]}`, nil)
	_, err := openers.Trainer(m, nil)
	require.EqualError(t, err, "the network has no output layer, so there is nothing to train")
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}
