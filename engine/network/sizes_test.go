package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

const auto = `{"name": "input", "kind": "input"}, {"name": "hidden1", "kind": "hidden", "size": 8}, ` +
	`{"name": "output", "kind": "output"}`

const tied = `{"name": "input", "kind": "input"}, {"name": "hidden1", "kind": "hidden", "size": 8}, ` +
	`{"name": "output", "kind": "output", "shared": "hidden1.weight"}`

// sizesOf lists the sizes of all layers.
func sizesOf(n *Network) []int64 {
	var list []int64
	for _, l := range n.Layers {
		list = append(list, l.Size)
	}
	return list
}

func TestWithSizesFillsAuto(t *testing.T) {
	n, err := parse(t, layers(auto)).WithSizes(map[string]int64{"input": 100, "output": 50})
	require.NoError(t, err)
	require.Equal(t, []int64{100, 8, 50}, sizesOf(n))
}

func TestWithSizesLeavesTheOriginalAlone(t *testing.T) {
	n := parse(t, layers(auto))
	_, err := n.WithSizes(map[string]int64{"input": 100})
	require.NoError(t, err)
	require.Equal(t, parse(t, layers(auto)), n)
}

func TestWithSizesLeavesLayersThatAreNotMentioned(t *testing.T) {
	n, err := parse(t, layers(auto)).WithSizes(map[string]int64{"input": 100})
	require.NoError(t, err)
	require.Equal(t, []int64{100, 8, 0}, sizesOf(n))
}

func TestWithSizesAcceptsWhatTheDefinitionSays(t *testing.T) {
	n, err := parse(t, layers(in+hidden+out)).WithSizes(map[string]int64{"input": 100, "hidden1": 8})
	require.NoError(t, err)
	require.Equal(t, []int64{100, 8, 100}, sizesOf(n))
}

func TestWithSizesFindsTheOnlyLayerOfAKind(t *testing.T) {
	n, err := parse(t, layers(auto)).WithSizes(map[string]int64{"*input": 100, "*output": 50})
	require.NoError(t, err)
	require.Equal(t, []int64{100, 8, 50}, sizesOf(n))
}

func TestWithSizesWantsNamesWhereSeveralLayersAreOfAKind(t *testing.T) {
	several := `{"name": "bought", "kind": "input"}, {"name": "seen", "kind": "input"}, ` +
		`{"name": "h", "kind": "hidden", "sources": ["bought", "seen"], "size": 8}, {"name": "output", "kind": "output"}`
	_, err := parse(t, layers(several)).WithSizes(map[string]int64{"*input": 99})
	require.EqualError(t, err, `the network has 2 input layers, so it takes a mapping with one matrix or size for each `+
		`of ["bought" "seen"]`)
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}

func TestWithSizesRefusesAContradiction(t *testing.T) {
	_, err := parse(t, layers(in+hidden+out)).WithSizes(map[string]int64{"input": 99})
	require.EqualError(t, err, `the layer "input" has size 100 in the network's definition, but 99 in the data; `+
		`is this the right dataset? a size of "auto" follows the data`)
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}

func TestWithSizesRefusesAnUnknownLayer(t *testing.T) {
	_, err := parse(t, layers(auto)).WithSizes(map[string]int64{"ouput": 99})
	require.EqualError(t, err, `the network has no layer "ouput"; did you mean "output"?`)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestWithSizesRefusesSizesThatNoLayerHas(t *testing.T) {
	for _, size := range []int64{-1, 0, 1 << 31} {
		_, err := parse(t, layers(auto)).WithSizes(map[string]int64{"input": size})
		require.ErrorContains(t, err, "a layer has from 1 to 2147483647")
	}
}

func TestASharedWeightCarriesTheSizeOfItsInputToTheOutput(t *testing.T) {
	n, err := parse(t, layers(tied)).WithSizes(map[string]int64{"input": 100})
	require.NoError(t, err)
	require.Equal(t, []int64{100, 8, 100}, sizesOf(n))
}

func TestASharedWeightCarriesTheSizeOfItsOutputToTheInput(t *testing.T) {
	n, err := parse(t, layers(tied)).WithSizes(map[string]int64{"output": 100})
	require.NoError(t, err)
	require.Equal(t, []int64{100, 8, 100}, sizesOf(n))
}

func TestWithSizesRefusesDifferentSizesAroundASharedWeight(t *testing.T) {
	_, err := parse(t, layers(tied)).WithSizes(map[string]int64{"input": 100, "output": 99})
	require.EqualError(t, err, `the layer "output" shares "hidden1.weight", but "input" has size 100 and "output" has `+
		`size 99`)
}
