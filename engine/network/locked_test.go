package network

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

const twoHeads = `{"layers": [
	{"name": "input", "kind": "input"},
	{"name": "hidden1", "kind": "hidden", "size": 8},
	{"name": "hidden2", "kind": "hidden", "size": 8, "sources": ["hidden1", "input"], "bias": false},
	{"name": "output", "kind": "output", "shared": "hidden1.weight"},
	{"name": "label", "kind": "output", "sources": ["hidden1", "hidden2"], "size": 3}]}`

func TestANameLocksATensorOrAllThatALayerComputesWith(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{nil, nil},
		{[]string{"hidden1"}, []string{"hidden1.bias", "hidden1.weight"}},
		{[]string{"hidden1.bias", "hidden1.bias"}, []string{"hidden1.bias"}},
		{[]string{"hidden2"}, []string{"hidden2.weight.hidden1", "hidden2.weight.input"}},
		{[]string{"output", "label.bias"}, []string{"hidden1.weight", "label.bias", "output.bias"}},
	} {
		locked, err := parse(t, twoHeads).Locked(c.names)
		require.NoError(t, err)
		require.Equal(t, c.want, slices.Sorted(maps.Keys(locked)), "%q", c.names)
	}
}

func TestNamesThatLockNothingOrEverythingAreErrors(t *testing.T) {
	for _, c := range []struct {
		names []string
		kind  fault.Kind
		want  string
	}{
		{[]string{"hidden1", "hiden2"}, fault.NotFound,
			`locked[1]: the network has no layer and no weight "hiden2"; did you mean "hidden2"?`},
		{[]string{"hidden2.weight.imput"}, fault.NotFound,
			`locked[0]: the network has no layer and no weight "hidden2.weight.imput"; did you mean "hidden2.weight.input"?`},
		{[]string{"input"}, fault.InvalidArgument,
			`locked[0]: "input" is an input layer, which has no weights of its own; name a layer that it feeds, or a weight`},
		{[]string{"hidden1", "hidden2", "output", "label"}, fault.InvalidArgument,
			`locked: all weights that an output depends on are locked, so there is nothing to train; leave out at least ` +
				`one of ["hidden1" "hidden2" "output" "label"]`},
	} {
		_, err := parse(t, twoHeads).Locked(c.names)
		require.EqualError(t, err, c.want)
		require.Equal(t, c.kind, fault.KindOf(err))
	}
}
