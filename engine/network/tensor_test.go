package network

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// tensors lists the tensors of a definition whose sizes are all given.
func tensors(t *testing.T, text string) []Tensor {
	t.Helper()
	list, err := parse(t, text).Tensors()
	require.NoError(t, err)
	return list
}

func TestTensorsOfAnAutoencoder(t *testing.T) {
	xavier := math.Sqrt(6.0 / 108)
	weight := func(name string, touched bool) program.Tensor {
		return program.Tensor{Name: name, Rows: 100, Columns: 8, ByItem: true, Touched: touched, Decays: true}
	}
	hidden1 := weight("hidden1.weight", true)
	hidden1.NormByColumn = true
	bias := func(name string, units int64, byItem bool) program.Tensor {
		return program.Tensor{Name: name, Rows: units, Columns: 1, ByItem: byItem}
	}
	require.Equal(t, []Tensor{
		{Tensor: hidden1, Layer: 1, Source: 0, Fill: kernels.FillUniform, Scale: xavier},
		{Tensor: bias("hidden1.bias", 8, false), Layer: 1, Source: Bias, Fill: kernels.FillConstant},
		{Tensor: weight("output.weight", false), Layer: 2, Source: 1, Fill: kernels.FillUniform, Scale: xavier},
		{Tensor: bias("output.bias", 100, true), Layer: 2, Source: Bias, Fill: kernels.FillConstant},
	}, tensors(t, layers(in+hidden+out)))
}

func TestAWeightBetweenHiddenLayersHasARowForEachOfItsUnits(t *testing.T) {
	list := tensors(t, layers(in+hidden+`{"name": "hidden2", "kind": "hidden", "size": 5}, `+out))
	require.Equal(t, []int64{5, 8}, []int64{list[2].Rows, list[2].Columns})
}

func TestWeightsOfSeveralSourcesAreNamedAfterThem(t *testing.T) {
	var names []string
	for _, tensor := range tensors(t, layers(in+`{"name": "tags", "kind": "input", "size": 3},
		{"name": "hidden1", "kind": "hidden", "size": 8, "sources": ["tags", "input"]}, `+out)) {
		names = append(names, tensor.Name)
	}
	require.Equal(t, []string{"hidden1.weight.tags", "hidden1.weight.input", "hidden1.bias", "output.weight",
		"output.bias"}, names)
}

func TestASharedWeightIsListedOnce(t *testing.T) {
	var names []string
	for _, tensor := range tensors(t, layers(in+hidden+`{"name": "output", "kind": "output", "size": 100, "shared": `+
		`"hidden1.weight"}`)) {
		names = append(names, tensor.Name)
	}
	require.Equal(t, []string{"hidden1.weight", "hidden1.bias", "output.bias"}, names)
}

func TestALayerWithoutBiasHasNoBiasTensor(t *testing.T) {
	require.Len(t, tensors(t, layers(in+`{"name": "hidden1", "kind": "hidden", "size": 8, "bias": false}, `+out)), 3)
}

func TestAnOutputOfBiasOnlyHasOneTensor(t *testing.T) {
	list := tensors(t, layers(`{"name": "output", "kind": "output", "size": 100, "sources": []}`))
	require.Equal(t, "output.bias", list[0].Name)
	require.Len(t, list, 1)
}

func TestTheBiasBeginsWithItsConstant(t *testing.T) {
	list := tensors(t, layers(in+hidden+`{"name": "output", "kind": "output", "size": 100, "initializer": {"kind": `+
		`"normal", "bias": -10.2}}`))
	require.Equal(t, kernels.FillConstant, list[3].Fill)
	require.InDelta(t, -10.2, list[3].Scale, 1e-6)
}

func TestWeightNameResolvesSharing(t *testing.T) {
	n := parse(t, layers(in+hidden+`{"name": "output", "kind": "output", "size": 100, "shared": "hidden1.weight"}`))
	require.Equal(t, "hidden1.weight", n.WeightName(2, 1))
}

func TestTensorsNeedEverySize(t *testing.T) {
	_, err := parse(t, layers(auto)).Tensors()
	require.EqualError(t, err, `the layer "input" has size "auto"; its size must be given before the model is made`)
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}
