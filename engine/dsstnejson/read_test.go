package dsstnejson

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dsstne/engine/network"
)

// config reads a file that is right.
func config(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Read([]byte(text), DSSTNE)
	require.NoError(t, err)
	return c
}

// same compares the network of a file with a definition in our dialect.
func same(t *testing.T, text, definition string) {
	t.Helper()
	want, err := network.Parse([]byte(definition))
	require.NoError(t, err)
	require.Equal(t, string(want.JSON()), string(config(t, text).Network.JSON()))
}

const (
	ownIn     = `{"name": "In", "kind": "input"}`
	ownUnits  = `{"name": "Units", "kind": "hidden", "size": 8, "activation": "sigmoid"}`
	ownOut    = `{"name": "Out", "kind": "output"}`
	ownLoss   = `"loss": "sigmoid"`
	benchmark = `{"Version": 0.7, "Name": "AE", "Kind": "FeedForward", "ShuffleIndices": false, "Decay": 0.001,
		"ScaledMarginalCrossEntropy": {"oneTarget": 1.0, "zeroTarget": 0.0, "oneScale": 30.0, "zeroScale": 3.0},
		"Denoising": {"p": 0.2},
		"Layers": [
			{"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true},
			{"Name": "Hidden", "Kind": "Hidden", "Type": "FullyConnected", "Source": "Input", "N": 1024, "pDropout": 0.5,
				"Activation": "Sigmoid", "WeightInit": {"Scheme": "Gaussian", "Scale": 0.01}},
			{"Name": "Output", "Kind": "Output", "Type": "FullyConnected", "DataSet": "gl_output", "N": "auto",
				"Activation": "Sigmoid", "Sparse": true, "WeightInit": {"Scheme": "Gaussian", "Scale": 0.01, "Bias": -10.2}}],
		"ErrorFunction": "ScaledMarginalCrossEntropy"}`
)

// own is a definition in our dialect.
func own(loss string, layers ...string) string {
	return `{"layers": [` + strings.Join(layers, ", ") + `], ` + loss + `}`
}

// ownUnit and ownOutput have further keys.
func ownUnit(keys string) string { return strings.TrimSuffix(ownUnits, "}") + keys + "}" }

func ownOutput(keys string) string { return strings.TrimSuffix(ownOut, "}") + keys + "}" }

func TestTheBenchmarkIsTranslated(t *testing.T) {
	same(t, benchmark, `{"name": "AE", "layers": [
		{"name": "Input", "kind": "input", "denoising": 0.2},
		{"name": "Hidden", "kind": "hidden", "size": 1024, "activation": "sigmoid", "dropout": 0.5,
			"initializer": {"kind": "normal", "scale": 0.01}},
		{"name": "Output", "kind": "output", "initializer": {"kind": "normal", "scale": 0.01, "bias": -10.2}}],
		"loss": {"kind": "scaled_marginal", "one_target": 1, "zero_target": 0, "one_scale": 30, "zero_scale": 3}}`)
}

func TestTheConfigHasWhatIsSaidAboutTrainingAndData(t *testing.T) {
	c := config(t, benchmark)
	c.Network = nil
	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.JSONEq(t, `{"dialect": "dsstne", "network": null,
		"training": {"shuffle": false, "schedule": {"kind": "inverse", "rate": 0.001}},
		"datasets": {"Input": "gl_input", "Output": "gl_output"},
		"words": {"kind": "FeedForward", "loss": "ScaledMarginalCrossEntropy"}}`, string(text))
}

func TestTheWordsOfAFileAreKept(t *testing.T) {
	words := func(keys string) Words { return config(t, text(keys, in, units8, outAuto)).Words }
	require.Equal(t, Words{"FeedForward", "CrossEntropy"}, words(""))
	require.Equal(t, Words{"AutoEncoder", "DataScaledMarginalCrossEntropy"},
		words(`"kind": "autoencoder", "ErrorFunction": "DATAScaledMarginalCrossEntropy"`))
	require.Equal(t, Words{"FeedForward", "CrossEntropy"}, words(`"ErrorFunction": "Cross Entropy"`))
}

func TestShufflingIsTheDefault(t *testing.T) {
	training := config(t, text("", in, units8, outAuto)).Training
	require.True(t, *training.Shuffle)
	require.Nil(t, training.Schedule)
}

func TestAnOwnDefinitionSaysNothingAboutTraining(t *testing.T) {
	c, err := Read([]byte(own(ownLoss, ownIn, ownUnits, ownOut)), Auto)
	require.NoError(t, err)
	require.Equal(t, Native, c.Dialect)
	require.Zero(t, c.Training)
	require.Empty(t, c.Datasets)
	require.Zero(t, c.Words)
}

func TestKindsAndNamesFollowFromTheOrder(t *testing.T) {
	same(t, text("", `{"N": 100}`, `{"N": 8}`, `{"N": 4}`, `{"N": 100}`), own(ownLoss,
		`{"name": "Input0", "kind": "input", "size": 100}`,
		`{"name": "Hidden1", "kind": "hidden", "size": 8, "activation": "sigmoid"}`,
		`{"name": "Hidden2", "kind": "hidden", "size": 4, "activation": "sigmoid"}`,
		`{"name": "Output3", "kind": "output", "size": 100}`))
}

func TestKeysAndWordsMayHaveAnyCase(t *testing.T) {
	same(t, `{"LAYERS": [{"NAME": "In", "KIND": "INPUT", "n": "AUTO"}, {"name": "Units", "kind": "hidden", "N": 8,
		"ACTIVATION": "rectifiedLINEAR", "weightinit": {"SCHEME": "gaussian", "scale": 0.1}}, {"name": "Out", "N": "Auto"}],
		"errorfunction": "cross entropy"}`,
		own(ownLoss, ownIn, `{"name": "Units", "kind": "hidden", "size": 8, "activation": "relu",
			"initializer": {"kind": "normal", "scale": 0.1}}`, ownOut))
}

func TestTheProductOfAListIsTheSize(t *testing.T) {
	require.EqualValues(t, 784, config(t, text("", `{"N": [28, 28, 1]}`, units8, outAuto)).Network.Layers[0].Size)
}

func TestOnlySparseInputsAreDenoised(t *testing.T) {
	same(t, text(`"Denoising": {"p": 0.4}`, `{"Name": "In", "N": "auto", "Sparse": true}`,
		`{"Name": "More", "Kind": "Input", "N": 5}`, `{"Name": "Units", "N": 8, "Source": ["In", "More"]}`, outAuto),
		own(ownLoss, `{"name": "In", "kind": "input", "denoising": 0.4}`, `{"name": "More", "kind": "input", "size": 5}`,
			`{"name": "Units", "kind": "hidden", "size": 8, "activation": "sigmoid", "sources": ["In", "More"]}`, ownOut))
}

func TestThePenaltyOfSparseUnitsIsThatOfTheLayerOrOfTheNetwork(t *testing.T) {
	for name, c := range map[string]struct{ top, unit, sparsity string }{
		"of the network": {`"SparsenessPenalty": {"p": 0.5, "beta": 2}`, `, "Sparse": true`, `{"mean": 0.5, "weight": 2}`},
		"of the layer": {`"SparsenessPenalty": {"p": 0.5, "beta": 2}`,
			`, "Sparse": true, "SparsenessPenalty": {"p": 0.1, "beta": 3}`, `{"mean": 0.1, "weight": 3}`},
		"of both": {`"SparsenessPenalty": {"p": 0.5, "beta": 2}`, `, "Sparse": true, "SparsenessPenalty": {"p": 0.1}`,
			`{"mean": 0.1, "weight": 2}`},
		"without a mean": {`"SparsenessPenalty": {"beta": 2}`, `, "Sparse": true`, `{"mean": 0, "weight": 2}`},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, unit(c.unit, c.top), own(ownLoss, ownIn, `{"name": "Units", "kind": "hidden", "size": 8, `+
				`"activation": "sigmoid", "sparsity": `+c.sparsity+`}`, ownOut))
		})
	}
}

func TestBatchNormalizationIsOurs(t *testing.T) {
	same(t, text("", in, `{"Name": "Units", "N": 8, "BatchNormalization": true, "WeightInit": {"Bias": 3}}`, outAuto),
		own(ownLoss, ownIn, ownUnit(`, "batch_norm": {"epsilon": 1e-5, "momentum": 0.1}`), ownOut))
}

func TestValuesWithoutEffectAreTaken(t *testing.T) {
	same(t, `{"Version": 0.9, "Kind": "AutoEncoder", "WeightsData": "", "LRN": {"k": 2, "n": 5, "alpha": 1e-4,
		"beta": 0.75}, "MaxOut": {"k": 2}, "SparsenessPenalty": {"p": 0.5, "beta": 2}, "DeltaBoost": {"one": 1, "zero": 1},
		"ScaledMarginalCrossEntropy": {"oneScale": 30}, "RELUSlope": 0.1, "ELUAlpha": 0.5, "SELULambda": 1.0,
		"Denoising": {"p": 0}, "Layers": [
		{"Name": "In", "N": "auto", "pDropout": 0, "Type": "FullyConnected"},
		{"Name": "Units", "N": 8, "BatchNormalization": false, "Skip": [], "WeightNorm": 0, "DeltaNorm": 0,
			"SparsenessPenalty": {"p": 0.5, "beta": 3}},
		{"Name": "Out", "N": "auto", "pDropout": 0, "Sparse": true}]}`,
		own(ownLoss, ownIn, ownUnits, ownOut))
}

func TestPoolingLayersAndSkipsAreOurs(t *testing.T) {
	same(t, text("", in, `{"Name": "Units", "N": 8, "Activation": "Tanh"}`,
		`{"Name": "More", "N": 8, "Activation": "Tanh", "Skip": "Units"}`,
		`{"Name": "Most", "Kind": "Hidden", "Type": "Pooling", "Function": "maxout", "Source": ["Units", "More"]}`,
		`{"Name": "Out", "N": 2, "Type": "Pooling", "Function": "Cosine", "Source": ["Most", "Units", "More"]}`),
		own(ownLoss, ownIn, `{"name": "Units", "kind": "hidden", "size": 8, "activation": "tanh"}`,
			`{"name": "More", "kind": "hidden", "size": 8, "activation": "tanh", "skips": ["Units"]}`,
			`{"name": "Most", "kind": "merge", "function": "maximum", "sources": ["Units", "More"]}`,
			`{"name": "Out.merge", "kind": "merge", "function": "cosine", "sources": ["Most", "Units", "More"]}`,
			`{"name": "Out", "kind": "output", "size": 2, "sources": [], "skips": ["Out.merge"], "bias": false}`))
}

func TestLayersMayStandInAnyOrder(t *testing.T) {
	c := config(t, text("", `{"Name": "Out", "Kind": "Output", "Source": "B", "N": "auto"}`,
		`{"Name": "B", "Kind": "Hidden", "Source": "A", "N": 4}`, `{"Name": "A", "Kind": "Hidden", "Source": "In", "N": 8}`,
		`{"Name": "In", "Kind": "Input", "N": "auto"}`))
	var names []string
	for _, l := range c.Network.Layers {
		names = append(names, l.Name)
	}
	require.Equal(t, []string{"In", "A", "B", "Out"}, names)
}

func TestATransposedShareIsATiedWeight(t *testing.T) {
	same(t, text("", in, units8, `{"Name": "Out", "N": "auto", "WeightInit": {"Scheme": "Gaussian", "Bias": -1}`+
		shares("Units", "In", "Units")+`}`),
		own(ownLoss, ownIn, ownUnits, ownOutput(`, "shared": "Units.weight", "initializer": {"bias": -1}`)))
}

func TestAShareOfOneOfSeveralWeightsNamesItsSource(t *testing.T) {
	c := config(t, text("", in, `{"Name": "More", "Kind": "Input", "N": 5}`,
		`{"Name": "Units", "N": 8, "Source": ["In", "More"]}`,
		`{"Name": "Out", "N": "auto"`+shares("Units", "In", "Units")+`}`))
	require.Equal(t, []network.Share{{Weight: "Units.weight.In", Transposed: true}}, c.Network.Layers[3].Shared)
}

// shared is an entry of SharedWeights.
func shared(from, sourceInput, sourceOutput, transposed string) string {
	return `{"InputLayer": "` + from + `", "SourceInputLayer": "` + sourceInput + `", "SourceOutputLayer": "` +
		sourceOutput + `", "Transposed": ` + transposed + `}`
}

func TestSharesAreBetweenLayersOfAllKinds(t *testing.T) {
	c := config(t, text("", in, `{"Name": "More", "Kind": "Input", "N": "auto"}`, `{"Name": "A", "N": 8, "Source": "In"}`,
		`{"Name": "B", "N": 8, "Source": "More", "SharedWeights": `+shared("More", "In", "A", "false")+`}`,
		`{"Name": "C", "N": 5, "Source": ["A", "B"]}`,
		`{"Name": "D", "N": 8, "SharedWeights": [`+shared("C", "B", "C", "true")+`]}`,
		`{"Name": "E", "N": 5, "Source": ["D", "A"], "SharedWeights": [`+shared("D", "C", "D", "true")+`]}`,
		`{"Name": "Out", "N": "auto", "Source": ["D", "E"], "SharedWeights": `+shared("D", "More", "B", "true")+`}`))
	got := map[string][]network.Share{}
	for _, l := range c.Network.Layers {
		if l.Shared != nil {
			got[l.Name] = l.Shared
		}
	}
	require.Equal(t, map[string][]network.Share{
		"B": {{Weight: "A.weight"}}, "D": {{Weight: "C.weight.B", Transposed: true}},
		"E":   {{Weight: "C.weight.B"}, {}},                 // the weight that D shares, transposed twice
		"Out": {{Weight: "A.weight", Transposed: true}, {}}, // the one that B shares
	}, got)
}

func TestALayerComesBehindThoseWhoseWeightsItShares(t *testing.T) {
	c := config(t, text("", in, `{"Name": "Code", "N": 5, "Source": "Units"}`,
		`{"Name": "Other", "N": 8, "Source": "In", "SharedWeights": `+shared("In", "In", "Units", "false")+`}`,
		`{"Name": "Units", "N": 8, "Source": "In"}`, `{"Name": "Out", "N": "auto", "Source": ["Code", "Other"]}`))
	var names []string
	for _, l := range c.Network.Layers {
		names = append(names, l.Name)
	}
	require.Equal(t, []string{"In", "Units", "Code", "Other", "Out"}, names)
}

func TestActivationsAreTranslated(t *testing.T) {
	for theirs, ours := range map[string]string{
		"Sigmoid": "sigmoid", "Tanh": "tanh", "Linear": "linear", "RectifiedLinear": "relu", "ReLU": "relu",
		"ExponentialLinear": "elu", "ELU": "elu", "ScaledExponentialLinear": "selu", "SELU": "selu",
	} {
		t.Run(theirs, func(t *testing.T) {
			same(t, unit(`, "Activation": "`+theirs+`"`, ""), own(ownLoss, ownIn,
				`{"name": "Units", "kind": "hidden", "size": 8, "activation": "`+ours+`"}`, ownOut))
		})
	}
}

func TestLayersHaveSoftMaxAndACapOnTheirGradients(t *testing.T) {
	same(t, unit(`, "Activation": "SoftMax", "DeltaNorm": 0.5`, ""),
		own(ownLoss, ownIn, `{"name": "Units", "kind": "hidden", "size": 8, "activation": "softmax", "delta_norm": 0.5}`,
			ownOut))
	same(t, outputOf(`, "DeltaNorm": 0.5`, ""), own(ownLoss, ownIn, ownUnit(""), ownOutput(`, "delta_norm": 0.5`)))
}

func TestLayersHaveACapOnTheirWeights(t *testing.T) {
	same(t, text("", in, `{"Name": "Units", "N": 8, "WeightNorm": 1.5}`, `{"Name": "Out", "N": "auto", "WeightNorm": 2}`),
		own(ownLoss, ownIn, ownUnit(`, "weight_norm": 1.5`), ownOutput(`, "weight_norm": 2`)))
}

func TestTheConstantsOfSELUMayBeGiven(t *testing.T) {
	c := config(t, unit(`, "Activation": "SELU", "ELUAlpha": 1.6732632`, `"SELULambda": 1.050701, "ELUAlpha": 1`))
	require.Contains(t, string(c.Network.JSON()), `"activation":"selu"`)
}

func TestLossesAreTranslatedWithTheActivationOfTheOutput(t *testing.T) {
	const margins = `"DataScaledMarginalCrossEntropy": {"oneScale": 2}, "ErrorFunction": "`
	const marginal = `{"kind": "scaled_marginal", "one_scale": 2}`
	for name, c := range map[string]struct{ top, activation, loss string }{
		"default":        {``, "Sigmoid", `"sigmoid"`},
		"soft-max":       {`"ErrorFunction": "CrossEntropy"`, "SoftMax", `{"kind": "softmax", "normalize_rows": true}`},
		"marginal":       {margins + `ScaledMarginalCrossEntropy"`, "Sigmoid", marginal},
		"marginal, data": {margins + `DataScaledMarginalCrossEntropy"`, "Sigmoid", marginal},
		"marginal soft-max": {
			margins + `ScaledMarginalCrossEntropy"`, "SoftMax",
			`{"kind": "softmax", "normalize_rows": true, "one_scale": 2, "one_target": 0.9}`,
		},
		"marginal soft-max, data": {
			margins + `DataScaledMarginalCrossEntropy"`, "SoftMax", `{"kind": "softmax", "one_scale": 2, "one_target": 0.9}`,
		},
		"marginal soft-max with zeros as they are": {
			`"ScaledMarginalCrossEntropy": {"oneTarget": 1, "zeroTarget": 0, "oneScale": 1, "zeroScale": 1}, ` +
				`"ErrorFunction": "ScaledMarginalCrossEntropy"`, "SoftMax", `{"kind": "softmax", "normalize_rows": true}`,
		},
		"marginal soft-max with a low target": {
			`"ScaledMarginalCrossEntropy": {"oneTarget": 0.05}, "ErrorFunction": "ScaledMarginalCrossEntropy"`, "SoftMax",
			`{"kind": "softmax", "normalize_rows": true, "one_target": 0.05}`,
		},
		"squared": {`"ErrorFunction": "L2"`, "Linear", `"squared"`},
		"boosted": {
			`"ErrorFunction": "L2", "DeltaBoost": {"one": 20}`, "Linear",
			`{"kind": "squared", "one_scale": 20, "zero_scale": 1}`,
		},
		"boosted sigmoid": {
			`"ErrorFunction": "CrossEntropy", "DeltaBoost": {"zero": 0.5}`, "Sigmoid",
			`{"kind": "sigmoid", "one_scale": 1, "zero_scale": 0.5}`,
		},
		"hinge": {`"ErrorFunction": "Hinge"`, "Linear", `"hinge"`},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, outputOf(`, "Activation": "`+c.activation+`"`, c.top),
				own(`"loss": `+c.loss, ownIn, ownUnits, ownOut))
		})
	}
}

func TestInitialWeightsAreThoseThatWereMeant(t *testing.T) {
	for scheme, want := range map[string]string{
		"Xavier":      `{"kind": "xavier_uniform", "scale": 2, "bias": 0.5}`,
		"Gaussian":    `{"kind": "normal", "scale": 2, "bias": 0.5}`,
		"Uniform":     `{"kind": "uniform", "scale": 2, "bias": 0.5}`,
		"Constant":    `{"kind": "constant", "scale": 2, "bias": 0.5}`,
		"SELU":        `{"kind": "he_normal", "scale": 1.4142135623730951, "bias": 0.5}`,
		"CaffeXavier": `{"kind": "fan_out_uniform", "scale": 2, "bias": 0.5}`,
		"UnitBall":    `{"kind": "unit_norm", "scale": 2, "bias": 0.5}`,
	} {
		t.Run(scheme, func(t *testing.T) {
			same(t, unit(`, "WeightInit": {"Scheme": "`+scheme+`", "Scale": 2, "Bias": 0.5}`, ""),
				own(ownLoss, ownIn, ownUnit(`, "initializer": `+want), ownOut))
		})
	}
}

func TestKeysOfOneDialectTellIt(t *testing.T) {
	ours := own(ownLoss, ownIn, ownUnits, ownOut)
	for name, c := range map[string]struct{ text, dialect string }{
		"ours":                          {ours, Native},
		"a key of DSSTNE's file":        {`{"layers": [{"name": "a"}], "errorfunction": "L2"}`, DSSTNE},
		"a key of DSSTNE's layer":       {`{"layers": [{"name": "a", "n": 5}]}`, DSSTNE},
		"only capitals":                 {`{"Layers": [{"Name": "a", "Kind": "Input"}]}`, DSSTNE},
		"a kind of network":             {`{"kind": "autoencoder", "layers": [{"name": "a"}]}`, DSSTNE},
		"a single layer":                {`{"layers": {"N": 5}}`, DSSTNE},
		"both could read it":            {`{"name": "x", "layers": [{"name": "a", "kind": "input"}]}`, Native},
		"capitals in ours":              {`{"layers": [{"Name": "a", "kind": "input", "size": 5}]}`, Native},
		"a key of neither":              {`{"layers": [{"Size": 5}]}`, Native},
		"layers of another type":        {`{"layers": 5}`, Native},
		"a layer of another type":       {`{"layers": [5]}`, Native},
		"not JSON":                      {`{"N": `, Native},
		"no object":                     {`[]`, Native},
		"another model":                 {`{"kind": "item_weights", "items": 5}`, Native},
		"DSSTNE's in a nested object":   {`{"other": {"ErrorFunction": "L2"}}`, Native},
		"a key of DSSTNE's with a null": {`{"ErrorFunction": null}`, DSSTNE},
	} {
		t.Run(name, func(t *testing.T) {
			theirs, err := detect([]byte(c.text))
			require.NoError(t, err)
			require.Equal(t, c.dialect == DSSTNE, theirs)
		})
	}
}

func TestTheDialectMayBeNamed(t *testing.T) {
	_, err := Read([]byte(benchmark), Native)
	require.EqualError(t, err, `network definition: Version is not a known key; known: name, layers, loss`)
	_, err = Read([]byte(own(ownLoss, ownIn)), DSSTNE)
	require.ErrorContains(t, err, `DSSTNE network: `)
}

func TestATextThatIsTooLongIsRefused(t *testing.T) {
	_, err := Read([]byte(strings.Repeat(" ", 1<<18)+"{}"), DSSTNE)
	require.EqualError(t, err, "the definition has 262,146 bytes; 262,144 are allowed")
}

// Every key that decides about the dialect is one that is read.
func TestTheListsOfKeysAreThoseThatAreRead(t *testing.T) {
	for _, key := range topKeys {
		_, err := Read([]byte(`{"`+key+`": {"unknown": 1}}`), DSSTNE)
		require.NotContains(t, err.Error(), key+" is not a known key")
	}
	for _, k := range layerKeys {
		_, err := Read([]byte(text("", in, `{"N": 8, "`+k.key+`": {"unknown": 1}}`, outAuto)), DSSTNE)
		require.NotContains(t, err.Error(), k.key+" is not a known key")
	}
	_, err := Read([]byte(text(`"unknown": 1`, in, units8, outAuto)), DSSTNE)
	require.ErrorContains(t, err, "is not a known key")
}

// Every block of JSON in the page about DSSTNE is a file.
func TestTheExamplesOfThePageAreValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/dsstne.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		c, err := Read(block[1], Auto)
		require.NoError(t, err, "%s", block[1])
		require.Equal(t, DSSTNE, c.Dialect)
	}
}

// Run as: go test -run - -fuzz FuzzRead -fuzztime 60s -fuzzminimizetime 20x ./engine/dsstnejson

// FuzzRead reads any text in both ways: an error is a message, and a network is one that our dialect can say.
func FuzzRead(f *testing.F) {
	f.Add(benchmark)
	f.Add(text(`"ELUAlpha": 0.5, "LRN": {"k": 1}`, in, units8, `{"N": "auto"`+shares("Units", "In", "Units")+`}`))
	f.Add(text("", `{"N": [2, 3]}`, `{"Name": "A", "N": 8, "Source": ["B", "Input0"]}`, `{"Name": "B", "N": 8}`, outAuto))
	f.Add(own(ownLoss, ownIn, ownUnits, ownOut))
	f.Fuzz(func(t *testing.T, text string) {
		for _, dialect := range []string{Auto, DSSTNE} {
			c, err := Read([]byte(text), dialect)
			if err != nil {
				require.True(t, utf8.ValidString(err.Error()))
				require.NotContains(t, err.Error(), "%!")
				continue
			}
			again, err := Read(c.Network.JSON(), Auto)
			require.NoError(t, err)
			require.Equal(t, Native, again.Dialect)
			require.Equal(t, string(c.Network.JSON()), string(again.Network.JSON()))
		}
	})
}
