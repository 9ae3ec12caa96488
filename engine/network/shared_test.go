package network

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSharingIsStraightOrTransposedAsItFits(t *testing.T) {
	n := parse(t, layers(sharing))
	got := map[string][]Share{}
	for _, l := range n.Layers {
		if l.Shared != nil {
			got[l.Name] = l.Shared
		}
	}
	require.Equal(t, map[string][]Share{
		"s": {{Weight: "b.weight"}}, "back": {{Weight: "square.weight", Transposed: true}},
		"again": {{Weight: "square.weight"}}, "up": {{}, {Weight: "down.weight.s", Transposed: true}},
		"z2": {{Weight: "z.weight"}}, "first": {{Weight: "b.weight", Transposed: true}},
		"second": {{Weight: "b.weight", Transposed: true}, {}}, "third": {{Weight: "second.weight.bought"}},
		"wider": {{Weight: "wide.weight"}},
	}, got)
}

func TestTheCanonicalFormOfSharingIsTheShortestThatIsClear(t *testing.T) {
	text := string(parse(t, layers(sharing)).JSON())
	for _, part := range []string{
		`"shared":"b.weight"`, `"shared":{"weight":"square.weight","transposed":true}`,
		`"shared":{"weight":"square.weight","transposed":false}`,
		`"shared":[{"source":"back","weight":"down.weight.s","transposed":true}]`, `"shared":"second.weight.bought"`,
	} {
		require.Contains(t, text, part)
	}
}

func TestSharedWeightsAreListedWithTheirOwnersAlone(t *testing.T) {
	n, err := parse(t, layers(sharing)).WithSizes(map[string]int64{"bought": 30, "wide": 9})
	require.NoError(t, err)
	var names []string
	list, err := n.Tensors()
	require.NoError(t, err)
	for _, tensor := range list {
		if tensor.Source >= 0 {
			names = append(names, tensor.Name)
		}
	}
	require.Equal(t, []string{
		"b.weight", "down.weight.b", "down.weight.s", "square.weight", "up.weight.again", "z.weight",
		"second.weight.bought", "late.weight", "wide.weight",
	}, names)
}

func TestSizesSpreadThroughSharedWeights(t *testing.T) {
	for _, from := range []string{"bought", "seen", "first", "second", "third"} {
		n, err := parse(t, layers(sharing)).WithSizes(map[string]int64{from: 30, "wider": 9})
		require.NoError(t, err)
		for _, name := range []string{"bought", "seen", "first", "second", "third"} {
			i, err := n.Layer(name)
			require.NoError(t, err)
			require.EqualValues(t, 30, n.Layers[i].Size, "%s from %s", name, from)
		}
		i, err := n.Layer("wide")
		require.NoError(t, err)
		require.EqualValues(t, 9, n.Layers[i].Size)
	}
	_, err := parse(t, layers(sharing)).WithSizes(map[string]int64{"bought": 30, "seen": 31})
	require.EqualError(t, err, `the layer "s" shares "b.weight", but "bought" has size 30 and "seen" has size 31`)
}

func TestLockingALayerLocksTheWeightThatItShares(t *testing.T) {
	locked, err := parse(t, layers(sharing)).Locked([]string{"back"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"square.weight": true, "back.bias": true}, locked)
}

func TestALayerThatUsesAWeightTwiceHasItOnce(t *testing.T) {
	n := parse(t, `{"layers": [`+in+`{"name": "h1", "kind": "hidden", "size": 8}, {"name": "h2", "kind": "hidden", "size": 8}, `+
		`{"name": "output", "kind": "output", "sources": ["h1", "h2"], "shared": [{"source": "h1", "weight": "h1.weight"}, `+
		`{"source": "h2", "weight": "h1.weight"}]}]}`)
	ports := n.Ports()
	require.Equal(t, []string{"h1.weight"}, ports[len(ports)-1].Weights)
}
