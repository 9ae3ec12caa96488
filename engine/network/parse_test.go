package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// parse reads a definition that is right.
func parse(t *testing.T, text string) *Network {
	t.Helper()
	n, err := Parse([]byte(text))
	require.NoError(t, err)
	return n
}

// layers wraps layers into a definition.
func layers(text string) string { return `{"layers": [` + text + `]}` }

const (
	in     = `{"name": "input", "kind": "input", "size": 100}, `
	hidden = `{"name": "hidden1", "kind": "hidden", "size": 8}, `
	out    = `{"name": "output", "kind": "output", "size": 100}`
)

func TestDefaultsAreFilledIn(t *testing.T) {
	n := parse(t, layers(`{"name": "input", "kind": "input"}, {"name": "hidden1", "kind": "hidden", "size": 8}, `+
		`{"name": "output", "kind": "output"}`))
	require.Equal(t, &Network{
		Layers: []Layer{
			{Name: "input", kind: &inputLayer{}},
			{Name: "hidden1", kind: &hiddenLayer{activation: kernels.Activation{Kind: kernels.Tanh}}, Size: 8, Sources: []int{0}, Bias: true,
				Initializer: Initializer{Kind: XavierUniform, Scale: 1}},
			{Name: "output", kind: &outputLayer{}, Sources: []int{1}, Bias: true, Initializer: Initializer{Kind: XavierUniform,
				Scale: 1}},
		},
		Terms: []Term{{Layer: 2, Loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1}}},
	}, n)
}

func TestEveryKeyIsRead(t *testing.T) {
	n := parse(t, `{"name": "all", "layers": [
		{"name": "input", "kind": "input", "size": 100, "scaling": "l2", "denoising": 0.5},
		{"name": "more", "kind": "input", "size": "auto"},
		{"name": "hidden1", "kind": "hidden", "sources": ["more", "input"], "size": 8.0, "activation": "relu",
			"dropout": 0.25,
			"bias": false, "initializer": {"kind": "constant", "scale": -0.5}},
		{"name": "output", "kind": "output", "sources": ["hidden1"], "size": 100, "temperature": 0.1,
			"shared": "hidden1.weight.input", "initializer": {"bias": -10.2}}],
		"loss": {"kind": "scaled_marginal", "weight": 2, "one_scale": 30, "zero_scale": 3, "one_target": 1,
			"zero_target": 0}}`)
	require.Equal(t, &Network{
		Name: "all",
		Layers: []Layer{
			{Name: "input", kind: &inputLayer{scaling: L2, denoising: 0.5}, Size: 100},
			{Name: "more", kind: &inputLayer{}},
			{Name: "hidden1", kind: &hiddenLayer{activation: kernels.Activation{Kind: kernels.ReLU}, dropout: 0.25}, Size: 8, Sources: []int{1, 0},
				Initializer: Initializer{Kind: Constant, Scale: -0.5}},
			{Name: "output", kind: &outputLayer{temperature: 0.1}, Size: 100, Sources: []int{2}, Bias: true,
				Shared:      []Share{{Weight: "hidden1.weight.input", Transposed: true}},
				Initializer: Initializer{Kind: XavierUniform, Scale: 1, Bias: -10.2}},
		},
		Terms: []Term{{Layer: 3, Loss: kernels.Loss{Kind: kernels.ScaledMarginal, Weight: 2, OneScale: 30, ZeroScale: 3,
			OneTarget: 1}}},
	}, n)
}

func TestAnExplicitEmptyListOfSourcesIsAnOutputOfBiasOnly(t *testing.T) {
	n := parse(t, layers(`{"name": "output", "kind": "output", "sources": []}`))
	require.Equal(t, []int{}, n.Layers[0].Sources)
}

func TestTheTargetsOfASoftmaxCountWithAFactorAndUpToALimit(t *testing.T) {
	for text, want := range map[string]kernels.Loss{
		`{"one_scale": 1, "one_target": 1}`: {Kind: kernels.Softmax, Weight: 1},
		`{"one_target": 0.9}`:               {Kind: kernels.Softmax, Weight: 1, OneScale: 1, OneTarget: 0.9},
		`{"one_scale": 30, "normalize_rows": true}`: {
			Kind: kernels.Softmax, Weight: 1, NormalizeRows: true, OneScale: 30, OneTarget: 1,
		},
	} {
		n := parse(t, `{"layers": [`+in+hidden+out+`], "loss": `+text+`}`)
		require.Equal(t, []Term{{Layer: 2, Loss: want}}, n.Terms, text)
		require.Equal(t, n, parse(t, string(n.JSON())), text)
	}
}

func TestAWordAsLossIsForEveryOutput(t *testing.T) {
	n := parse(t, `{"layers": [`+in+hidden+out+`, {"name": "more", "kind": "output", "sources": ["hidden1"]}], `+
		`"loss": "squared"}`)
	squared := kernels.Loss{Kind: kernels.Squared, Weight: 1}
	require.Equal(t, []Term{{Layer: 2, Loss: squared}, {Layer: 3, Loss: squared}}, n.Terms)
}

func TestLossTermsFollowTheOrderOfTheLayers(t *testing.T) {
	n := parse(t, `{"layers": [`+in+hidden+out+`, {"name": "more", "kind": "output", "sources": ["hidden1"]}],
		"loss": [{"layer": "more", "kind": "sigmoid"}, {"layer": "output", "kind": "softmax", "normalize_rows": true}]}`)
	require.Equal(t, []Term{{Layer: 2, Loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1, NormalizeRows: true}},
		{Layer: 3, Loss: kernels.Loss{Kind: kernels.SigmoidCrossEntropy, Weight: 1}}}, n.Terms)
}

func TestAnOutputThatTheLossesDoNotNameHasSoftmax(t *testing.T) {
	n := parse(t, `{"layers": [`+in+hidden+out+`, {"name": "more", "kind": "output", "sources": ["hidden1"]}],
		"loss": [{"layer": "more", "kind": "sigmoid"}]}`)
	require.Equal(t, Term{Layer: 2, Loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1}}, n.Terms[0])
}

func TestALossInAListOfOneNeedsNoLayer(t *testing.T) {
	n := parse(t, `{"layers": [`+in+hidden+out+`], "loss": [{"kind": "sigmoid"}]}`)
	require.Equal(t, kernels.SigmoidCrossEntropy, n.Terms[0].Loss.Kind)
}

func TestScaledMarginalHasItsDefaults(t *testing.T) {
	n := parse(t, `{"layers": [`+in+hidden+out+`], "loss": "scaled_marginal"}`)
	require.Equal(t, kernels.Loss{Kind: kernels.ScaledMarginal, Weight: 1, OneScale: 1, ZeroScale: 1, OneTarget: 0.9,
		ZeroTarget: 0.1}, n.Terms[0].Loss)
}

func TestLayerFindsAName(t *testing.T) {
	i, err := parse(t, layers(in+hidden+out)).Layer("hidden1")
	require.NoError(t, err)
	require.Equal(t, 1, i)
}

func TestLayerNamesTheNearest(t *testing.T) {
	_, err := parse(t, layers(in+hidden+out)).Layer("inptu")
	require.EqualError(t, err, `the network has no layer "inptu"; did you mean "input"?`)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestConstantsShowTheirWords(t *testing.T) {
	require.Equal(t, "he_normal", HeNormal.String())
}

func TestTheWeightOfALossMayFollowASchedule(t *testing.T) {
	n := parse(t, `{"layers": [`+in+hidden+out+`, {"name": "more", "kind": "output", "sources": ["hidden1"]}],
		"loss": [{"layer": "more", "weight": 0.5, "schedule": {"kind": "linear", "steps": 4, "minimum": 0.5}}]}`)
	require.Equal(t, []float32{1, 1}, n.TermFactors(1, 7))
	require.Equal(t, []float32{1, 0.75}, n.TermFactors(3, 7))
	require.Equal(t, []float32{1, 0.5}, n.TermFactors(100, 7))
	require.Equal(t, n, parse(t, string(n.JSON())))
	require.Contains(t, string(n.JSON()),
		`"weight":0.5,"schedule":{"kind":"linear","minimum":0.5,"steps":4,"warmup_steps":0}`)
	require.Nil(t, parse(t, layers(in+hidden+out)).TermFactors(1, 7))
}

func TestTheWeightOfADivergenceMayFollowASchedule(t *testing.T) {
	n := parse(t, layers(in+hidden+`{"name": "z", "kind": "variational", "size": 3, "kl": {"weight": 0.2,
		"schedule": {"kind": "constant", "warmup_steps": 4}}}, `+out))
	require.Equal(t, []float32{1, 0.25}, n.TermFactors(1, 7))
	require.Equal(t, []float32{1, 1}, n.TermFactors(5, 7))
	tensors, err := n.Tensors()
	require.NoError(t, err)
	require.Equal(t, []int64{6, 8}, []int64{tensors[2].Rows, tensors[2].Columns}, "means and log-variances")
	require.Equal(t, []int64{6, 1}, []int64{tensors[3].Rows, tensors[3].Columns})
}

func TestAnOutputHasAnActivation(t *testing.T) {
	read := func(output, loss string) *Network {
		n, err := Parse([]byte(`{"layers": [{"name": "input", "kind": "input"}, {"name": "h", "kind": "hidden", "size": 2},
			{"name": "output", "kind": "output"` + output + `}], "loss": "` + loss + `"}`))
		require.NoError(t, err)
		again, err := Parse(n.JSON())
		require.NoError(t, err)
		require.Equal(t, n, again)
		return n
	}
	leaky := kernels.Activation{Kind: kernels.LeakyReLU, Alpha: 0.01}
	require.Equal(t, leaky, read(`, "activation": "leaky_relu"`, "absolute").Terms[0].Loss.Activation)
	leaky.Alpha = 0.5
	require.Equal(t, leaky, read(`, "activation": "leaky_relu", "slope": 0.5`, "l2_hinge").Terms[0].Loss.Activation)
	elu := kernels.Activation{Kind: kernels.ELU, Alpha: 1}
	require.Equal(t, elu, read(`, "activation": "elu"`, "hinge").Terms[0].Loss.Activation)

	// What a loss has anyway may be said, and makes no other network.
	require.Equal(t, read(``, "softmax"), read(`, "activation": "softmax"`, "softmax"))
	require.Equal(t, read(``, "scaled_marginal"), read(`, "activation": "sigmoid"`, "scaled_marginal"))
	require.Equal(t, read(``, "squared"), read(`, "activation": "linear"`, "squared"))
	require.NotEqual(t, read(``, "squared"), read(`, "activation": "sigmoid"`, "squared"))
}
