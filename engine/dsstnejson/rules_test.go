package dsstnejson

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

const (
	in      = `{"Name": "In", "N": "auto", "DataSet": "gl_input", "Sparse": true}`
	units8  = `{"Name": "Units", "N": 8}`
	outAuto = `{"Name": "Out", "N": "auto", "DataSet": "gl_output"}`
)

// text is a file with keys and layers.
func text(keys string, layers ...string) string {
	if keys != "" {
		keys += ", "
	}
	return `{` + keys + `"Layers": [` + strings.Join(layers, ", ") + `]}`
}

// inputs, unit and outputOf are files whose input, hidden or output layer has further keys.
func inputs(keys, top string) string {
	return text(top, `{"Name": "In", "N": "auto"`+keys+`}`, units8, outAuto)
}

func unit(keys, top string) string {
	return text(top, in, `{"Name": "Units", "N": 8`+keys+`}`, outAuto)
}

func outputOf(keys, top string) string {
	return text(top, in, units8, `{"Name": "Out", "N": "auto"`+keys+`}`)
}

// shares is the key by which an output with the source from shares the weight between two layers.
func shares(from, sourceInput, sourceOutput string) string {
	return `, "SharedWeights": {"InputLayer": "` + from + `", "SourceInputLayer": "` + sourceInput +
		`", "SourceOutputLayer": "` + sourceOutput + `", "Transposed": true}`
}

// TestRulesAreEnforced holds a broken file for every rule, and the message that follows "DSSTNE network: ".
func TestRulesAreEnforced(t *testing.T) {
	many, names := []string{in}, []string{}
	for n := range 65 {
		name := fmt.Sprintf(`"U%d"`, n)
		many = append(many, `{"Name": `+name+`, "N": 2, "Source": "In"}`)
		names = append(names, name)
	}
	many = append(many, `{"Name": "Out", "N": "auto", "Source": [`+strings.Join(names, ", ")+`]}`)
	for name, c := range map[string]struct{ text, want string }{
		"empty": {``, `the text is empty`},
		"not JSON": {
			`{"Layers": [}`,
			`line 1, column 13: not valid JSON: invalid character '}' looking for beginning of value`,
		},
		"not an object":        {`[1]`, `the text is a list; it must be an object, as in {"key": 1}`},
		"no layers":            {`{"ErrorFunction": "L2"}`, `Layers is missing`},
		"layers of wrong type": {`{"Layers": 3}`, `Layers is 3; it must be a list`},
		"layer of wrong type":  {`{"Layers": ["In"]}`, `Layers[0] is "In"; it must be an object`},
		"no layer at all": {`{"Layers": []}`,
			`Layers has neither a hidden nor an output layer; a network needs at least one of them`},
		"only an input": {`{"Layers": {"N": "auto"}}`,
			`Layers has neither a hidden nor an output layer; a network needs at least one of them`},
		"unknown key": {
			text(`"ErorFunction": "L2"`, in, units8, outAuto),
			`ErorFunction is not a known key; did you mean "ErrorFunction"?`,
		},
		"a key that only documentation knows": {
			text(`"RepetitionDecay": 0.5`, in, units8, outAuto),
			`RepetitionDecay is not a known key; known: Version, Name, Kind, WeightsData, ErrorFunction, ` +
				`ScaledMarginalCrossEntropy, DataScaledMarginalCrossEntropy, RELUSlope, Slope, ELUAlpha, SELULambda, ` +
				`Denoising, ...`,
		},
		"unknown key of a layer": {
			unit(`, "Activaton": "Tanh"`, ""),
			`layer "Units": Activaton is not a known key; did you mean "Activation"?`,
		},
		"unknown key inside a layer": {
			unit(`, "WeightInit": {"Schem": "Gaussian"}`, ""),
			`layer "Units": WeightInit.Schem is not a known key; did you mean "Scheme"?`,
		},
		"unknown key of the penalty": {
			text(`"SparsenessPenalty": {"p": 0.5, "bta": 2}`, in, units8, outAuto),
			`SparsenessPenalty.bta is not a known key; did you mean "beta"?`,
		},
		"key twice": {`{"Name": "a", "Name": "b"}`, `Name is given twice`},
		"key twice in other letters": {
			`{"Name": "a", "NAME": "b", "Layers": []}`,
			`NAME is given twice, the first time as "Name"`,
		},
		"key of a layer twice in other letters": {
			text("", `{"N": "auto", "n": 5}`),
			`Layers[0].n is given twice, the first time as "N"`,
		},
		"old version": {
			text(`"Version": 0.5`, in, units8, outAuto),
			`Version is 0.5; DSSTNE reads files of version 0.7 and later`,
		},
		"version as text":    {text(`"Version": "0.7"`, in, units8, outAuto), `Version is "0.7"; it must be a number`},
		"name of wrong type": {text(`"Name": 5`, in, units8, outAuto), `Name is 5; it must be a string`},
		"unknown kind of network": {
			text(`"Kind": "Recurrent"`, in, units8, outAuto),
			`Kind is "Recurrent"; it must be one of FeedForward, AutoEncoder`,
		},
		"weights": {
			text(`"WeightsData": "weights.nc"`, in, units8, outAuto),
			`WeightsData is "weights.nc"; DSSTNE itself never reads this file; remove the key`,
		},
		"unknown loss": {
			text(`"ErrorFunction": "CrossEntropi"`, in, units8, outAuto),
			`ErrorFunction is "CrossEntropi"; it must be one of L1, L2, L2Hinge, Hinge, CrossEntropy, ` +
				`ScaledMarginalCrossEntropy, DataScaledMarginalCrossEntropy, Cross Entropy; did you mean ` +
				`"CrossEntropy"?`,
		},
		"loss of wrong type": {
			text(`"ErrorFunction": ["L2"]`, in, units8, outAuto),
			`ErrorFunction is a list; it must be one of L1, L2, L2Hinge, Hinge, CrossEntropy, ` +
				`ScaledMarginalCrossEntropy, DataScaledMarginalCrossEntropy, Cross Entropy`,
		},
		"shuffling as a number": {
			text(`"ShuffleIndices": 1`, in, units8, outAuto),
			`ShuffleIndices is 1; it must be true or false`,
		},
		"negative decay": {
			text(`"Decay": -0.1`, in, units8, outAuto),
			`Decay is -0.1; it must be a number of at least 0`,
		},
		"denoising of 1": {
			text(`"Denoising": {"p": 1}`, in, units8, outAuto),
			`Denoising.p is 1; it must be a number from 0 to less than 1`,
		},
		"denoising as a number": {
			text(`"Denoising": 0.5`, in, units8, outAuto),
			`Denoising is 0.5; it must be an object`,
		},
		"boost of soft-max": {
			outputOf(`, "Activation": "SoftMax"`, `"DeltaBoost": {"one": 20}`),
			`DeltaBoost is not 1 and 1, which goes with L1, L2, Hinge, L2Hinge and with CrossEntropy of Sigmoid; soft-max ` +
				`compares all items of a row`,
		},
		"boost of margins": {
			text(`"DeltaBoost": {"zero": 0.5}, "ErrorFunction": "ScaledMarginalCrossEntropy"`, in, units8, outAuto),
			`DeltaBoost is not 1 and 1, which goes with L1, L2, Hinge, L2Hinge and with CrossEntropy of Sigmoid; the numbers ` +
				`of scaled marginal cross entropy are oneScale and zeroScale`,
		},
		"boost of nothing": {
			text(`"DeltaBoost": {"one": 0, "zero": 0}`, in, units8, outAuto),
			`DeltaBoost.zero is 0, and one is, too, so that nothing counts`,
		},
		"targets in the wrong order": {
			text(`"ScaledMarginalCrossEntropy": {"zeroTarget": 0.95}`, in, units8, outAuto),
			`ScaledMarginalCrossEntropy.zeroTarget is 0.95; it must be less than oneTarget, 0.9`,
		},
		"target above 1": {
			text(`"ScaledMarginalCrossEntropy": {"oneTarget": 1.5}`, in, units8, outAuto),
			`ScaledMarginalCrossEntropy.oneTarget is 1.5; it must be a number from 0 to 1`,
		},
		"scales twice": {
			text(`"ScaledMarginalCrossEntropy": {"oneScale": 2}, "DataScaledMarginalCrossEntropy": {"oneScale": 2}`,
				in, units8, outAuto),
			`DataScaledMarginalCrossEntropy is given beside ScaledMarginalCrossEntropy, which means the same; ` +
				`give one of them`,
		},
		"slope twice": {
			text(`"RELUSlope": 0.1, "Slope": 0.1`, in, units8, outAuto),
			`Slope is given beside RELUSlope, which means the same; give one of them`,
		},
		"normalization twice": {
			text(`"LRN": {"k": 2}, "LocalResponseNormalization": {"k": 2}`, in, units8, outAuto),
			`LocalResponseNormalization is given beside LRN, which means the same; give one of them`,
		},
		"normalization of wrong type": {
			text(`"LRN": {"k": "2"}`, in, units8, outAuto),
			`LRN.k is "2"; it must be a number`,
		},
		"too many layers": {
			text("", slices.Repeat([]string{`{"N": 1}`}, 257)...),
			`Layers has 257 layers; a network has at most 256`,
		},
		"name empty": {text("", `{"Name": "", "N": "auto"}`, units8, outAuto), `Layers[0].Name is empty`},
		"name with a space": {
			text("", `{"Name": "My Input", "N": "auto"}`, units8, outAuto),
			`Layers[0].Name is "My Input"; names are made of letters A to Z and a to z, digits, and the signs _ .` +
				` -`,
		},
		"name too long": {
			text("", `{"Name": "`+strings.Repeat("a", 101)+`", "N": "auto"}`, units8, outAuto),
			`Layers[0].Name has 101 bytes; a name has at most 100`,
		},
		"name taken": {
			text("", in, `{"Name": "In", "N": 8}`, outAuto),
			`Layers[1].Name is "In", the name of Layers[0] too; every layer needs its own`,
		},
		"default name taken": {
			text("", `{"Name": "Hidden1", "N": "auto"}`, `{"N": 8}`, outAuto),
			`Layers[1].Name is "Hidden1", the name of Layers[0] too; every layer needs its own`,
		},
		"name of a layer of wrong type": {
			text("", `{"Name": 3, "N": "auto"}`, units8, outAuto),
			`Layers[0].Name is 3; it must be a string`,
		},
		"unknown kind": {
			unit(`, "Kind": "Hiden"`, ""),
			`layer "Units": Kind is "Hiden"; it must be one of Input, Hidden, Output, Target; did you mean ` +
				`"Hidden"?`,
		},
		"target layer": {
			outputOf(`, "Kind": "Target"`, ""),
			`layer "Out": Kind is Target; DSSTNE cannot use such layers, and they are not supported; remove the ` +
				`layer`,
		},
		"unknown type": {
			unit(`, "Type": "Dense"`, ""),
			`layer "Units": Type is "Dense"; it must be one of FullyConnected, Convolutional, Pooling`,
		},
		"convolution": {
			unit(`, "Type": "Convolutional", "Kernel": [3, 3]`, ""),
			`layer "Units": Type is Convolutional; convolution is not supported`,
		},
		"pooling": {
			unit(`, "Type": "Pooling", "Function": "Max"`, ""),
			`layer "Units": Function is Max, which is not supported; of the pooling layers, MaxOut, DotProduct and Cosine are`,
		},
		"pooling without a function": {unit(`, "Type": "Pooling"`, ""), `layer "Units": Function is missing`},
		"activation of a pooling layer": {
			unit(`, "Type": "Pooling", "Function": "MaxOut", "Activation": "Sigmoid"`, ""),
			`layer "Units": Activation is given, but DSSTNE does not apply it to pooling layers; remove it`,
		},
		"weights of an output of products": {
			text("", in, units8, `{"Name": "More", "N": 8, "Kind": "Hidden", "Source": "In"}`,
				`{"Name": "Out", "Type": "Pooling", "Function": "Cosine", "Source": ["Units", "More"], "WeightInit": {}}`),
			`layer "Out": WeightInit is given, but DSSTNE does not apply it to pooling layers; remove it`,
		},
		"products with an input": {
			text("", in, units8, `{"Name": "Dot", "Kind": "Hidden", "Type": "Pooling", "Function": "DotProduct", `+
				`"Source": ["In", "Units"]}`, outAuto),
			`layer "Dot": Source[0] is "In", an input layer; the sources of a merge layer are hidden, variational or merge layers`,
		},
		"size of a pooling layer": {
			text("", in, units8, `{"Name": "Most", "N": 7, "Kind": "Hidden", "Type": "Pooling", "Function": "MaxOut"}`, outAuto),
			`layer "Most": N is 7, but "maximum" of 1 layers of 8 units has 8; leave it out`,
		},
		"number of sources of a max-out": {
			text(`"MaxOut": {"k": 2}`, in, units8, `{"Name": "Most", "Kind": "Hidden", "Type": "Pooling", "Function": "MaxOut"}`,
				outAuto),
			`MaxOut.k is given, but DSSTNE's layers ignore it: the maximum is over all sources; remove it`,
		},
		"kernel": {
			unit(`, "Kernel": 3`, ""),
			`layer "Units": Kernel is of convolution and pooling layers, which are not supported; remove it`,
		},
		"kernel stride": {
			unit(`, "KernelStride": 3`, ""),
			`layer "Units": KernelStride is of convolution and pooling layers, which are not supported; remove it`,
		},
		"function": {
			unit(`, "Function": "DotProduct"`, ""),
			`layer "Units": Function is given, but only layers of Type Pooling have it`,
		},
		"size missing": {text("", in, `{"Name": "Units"}`, outAuto), `layer "Units": N is missing`},
		"size of 0": {
			text("", in, `{"Name": "Units", "N": 0}`, outAuto),
			`layer "Units": N is 0; it must be an integer from 1 to 2147483647`,
		},
		"size that is not whole": {
			text("", in, `{"Name": "Units", "N": 8.5}`, outAuto),
			`layer "Units": N is 8.5; it must be an integer from 1 to 2147483647`,
		},
		"size as text": {
			text("", in, `{"Name": "Units", "N": "8"}`, outAuto),
			`layer "Units": N is "8"; it must be a number, a list of numbers or "auto"`,
		},
		"size auto of units": {
			text("", in, `{"Name": "Units", "N": "auto"}`, outAuto),
			`layer "Units": N is "auto", which is for layers that meet the data; a hidden layer needs its number ` +
				`of units`,
		},
		"size in a list": {
			text("", in, `{"Name": "Units", "N": [8, 0]}`, outAuto),
			`layer "Units": N[1] is 0; it must be an integer from 1 to 2147483647`,
		},
		"size of five numbers": {
			text("", in, `{"Name": "Units", "N": [1, 2, 3, 4, 5]}`, outAuto),
			`layer "Units": N has 5 numbers; it must have from 1 to 4`,
		},
		"size of no numbers": {
			text("", in, `{"Name": "Units", "N": []}`, outAuto),
			`layer "Units": N has 0 numbers; it must have from 1 to 4`,
		},
		"size of a large product": {
			text("", in, `{"Name": "Units", "N": [65536, 65536]}`, outAuto),
			`layer "Units": N has a product that is too large; a layer has at most 2147483647 columns or units`,
		},
		"size of wrong type": {
			text("", in, `{"Name": "Units", "N": true}`, outAuto),
			`layer "Units": N is true; it must be an integer from 1 to 2147483647`,
		},
		"sparse as text": {
			inputs(`, "Sparse": "true"`, ""),
			`layer "In": Sparse is "true"; it must be true or false`,
		},
		"dropout of an input": {
			inputs(`, "pDropout": 0.2`, ""),
			`layer "In": pDropout is 0.2, but only hidden layers can drop units; set it to 0; the top-level key ` +
				`Denoising drops entries of sparse inputs`,
		},
		"dropout of an output": {
			outputOf(`, "pDropout": 0.2`, ""),
			`layer "Out": pDropout is 0.2, but only hidden layers can drop units; set it to 0`,
		},
		"dropout of 1": {
			unit(`, "pDropout": 1`, ""),
			`layer "Units": pDropout is 1; it must be a number from 0 to less than 1`,
		},
		"data of wrong type": {inputs(`, "DataSet": 3`, ""), `layer "In": DataSet is 3; it must be a string`},
		"data of units": {
			unit(`, "DataSet": "gl_input"`, ""),
			`layer "Units": DataSet is given, but only Input and Output layers have it`,
		},
		"source of an input": {
			inputs(`, "Source": "Units"`, ""),
			`layer "In": Source is given, but only Hidden and Output layers have it`,
		},
		"activation of an input": {
			inputs(`, "Activation": "Tanh"`, ""),
			`layer "In": Activation is given, but only Hidden and Output layers have it`,
		},
		"initial weights of an input": {
			inputs(`, "WeightInit": {"Scheme": "Gaussian"}`, ""),
			`layer "In": WeightInit is given, but only Hidden and Output layers have it`,
		},
		"batch normalization of wrong type": {
			unit(`, "BatchNormalization": 1`, ""),
			`layer "Units": BatchNormalization is 1; it must be true or false`,
		},
		"batch normalization of an output": {
			outputOf(`, "BatchNormalization": false`, ""),
			`layer "Out": BatchNormalization is given, but only Hidden layers have it`,
		},
		"skip of an input": {
			unit(`, "Skip": "In"`, ""),
			`layer "Units": Skip[0] is "In", an input layer; only layers with units have values that can be added`,
		},
		"skip of another size": {
			text("", in, units8, `{"Name": "More", "N": 7, "Kind": "Hidden", "Skip": "Units"}`, outAuto),
			`layer "More": Skip[0] does not fit: "More" has size 7 and "Units" has size 8`,
		},
		"unknown skip": {unit(`, "Skip": "Nowhere"`, ""), `layer "Units": Skip is "Nowhere"; no layer has this name; known: In, Units, Out`},
		"skip of wrong type": {
			unit(`, "Skip": 3`, ""),
			`layer "Units": Skip is a number; it must be a name or a list of names`,
		},
		"negative weight norm": {
			unit(`, "WeightNorm": -1.5`, ""),
			`layer "Units": WeightNorm is -1.5; it must be a number of at least 0`,
		},
		"weight norm of a shared weight": {
			text("", in, units8, `{"Name": "Out", "N": "auto", "WeightNorm": 2`+shares("Units", "In", "Units")+`}`),
			`layer "Out": WeightNorm is 2, but the weight is shared; WeightNorm of the layer that has it caps it, so ` +
				`remove it here`,
		},
		"negative delta norm": {
			outputOf(`, "DeltaNorm": -1`, ""),
			`layer "Out": DeltaNorm is -1; it must be a number of at least 0`,
		},
		"negative penalty": {
			unit(`, "SparsenessPenalty": {"beta": -1}`, ""),
			`layer "Units": SparsenessPenalty.beta is -1; it must be a number of at least 0`,
		},
		"unknown activation": {
			unit(`, "Activation": "Sigmod"`, ""),
			`layer "Units": Activation is "Sigmod"; it must be one of Sigmoid, Tanh, Linear, RectifiedLinear, ` +
				`LeakyRectifiedLinear, ExponentialLinear, ScaledExponentialLinear, SoftPlus, SoftSign, SoftMax, ` +
				`RELUMax, LinearMax, RELU, LRELU, ELU, SELU; did you mean "Sigmoid"?`,
		},
		"activation of wrong type": {
			unit(`, "Activation": 3`, ""),
			`layer "Units": Activation is 3; it must be one of Sigmoid, Tanh, Linear, RectifiedLinear, ` +
				`LeakyRectifiedLinear, ExponentialLinear, ScaledExponentialLinear, SoftPlus, SoftSign, SoftMax, ` +
				`RELUMax, LinearMax, RELU, LRELU, ELU, SELU`,
		},
		"units that DSSTNE computes as linear": {
			unit(`, "Activation": "RELUMax"`, ""),
			`layer "Units": Activation RELUMax is not supported; use Linear, which DSSTNE computes instead`,
		},
		"hidden soft-max with dropout": {
			unit(`, "Activation": "SoftMax", "pDropout": 0.5`, ""),
			`layer "Units": pDropout is given, but the values of the activation "softmax" add up to 1, which dropped units ` +
				`would change; put dropout on another layer`,
		},
		"negative slope of the network": {
			unit(`, "Activation": "LRELU"`, `"Slope": -0.5`),
			`layer "Units": Activation LeakyRectifiedLinear has RELUSlope -0.5; it must be at least 0`,
		},
		"negative alpha of a layer": {
			unit(`, "Activation": "ELU", "ELUAlpha": -0.5`, ""),
			`layer "Units": Activation ExponentialLinear has ELUAlpha -0.5; it must be at least 0`,
		},
		"lambda of SELU": {
			unit(`, "Activation": "SELU", "SELULambda": 2`, ""),
			`layer "Units": Activation ScaledExponentialLinear has SELULambda 2, but only 1.0507 is supported`,
		},
		"alpha of SELU": {
			unit(`, "Activation": "SELU", "ELUAlpha": 1`, ""),
			`layer "Units": Activation ScaledExponentialLinear has ELUAlpha 1, but only 1.67326 is supported; it ` +
				`belongs to ScaledExponentialLinear too`,
		},
		"slope of wrong type": {unit(`, "Slope": "0.1"`, ""), `layer "Units": Slope is "0.1"; it must be a number`},
		"output activation and loss": {
			outputOf(`, "Activation": "Tanh"`, ""),
			`layer "Out": Activation is Tanh; with the ErrorFunction CrossEntropy an output can have Sigmoid or ` +
				`SoftMax only, and Tanh goes with L1, L2, L2Hinge or Hinge`,
		},
		"output activation with another loss": {
			outputOf(`, "Activation": "SoftMax"`, `"ErrorFunction": "L2"`),
			`layer "Out": Activation is SoftMax; with the ErrorFunction L2 an output can have any other activation, and ` +
				`SoftMax goes with CrossEntropy, ScaledMarginalCrossEntropy or DataScaledMarginalCrossEntropy`,
		},
		"output activation that no loss goes with": {
			outputOf(`, "Activation": "RELUMax"`, `"ErrorFunction": "CrossEntropy"`),
			`layer "Out": Activation is RELUMax; with the ErrorFunction CrossEntropy an output can have Sigmoid or ` +
				`SoftMax only`,
		},
		"output activation that is refused": {
			outputOf(`, "Activation": "LinearMax"`, `"ErrorFunction": "L1"`),
			`layer "Out": Activation LinearMax is not supported; use Linear, which DSSTNE computes instead`,
		},
		"soft-max with a scale of zeros": {
			outputOf(`, "Activation": "SoftMax"`, `"ErrorFunction": "ScaledMarginalCrossEntropy", `+
				`"ScaledMarginalCrossEntropy": {"zeroScale": 0.5}`),
			`ScaledMarginalCrossEntropy.zeroScale is 0.5, but the loss of a SoftMax output has no part for items without a ` +
				`target; set it to 1`,
		},
		"soft-max with a target of zeros": {
			outputOf(`, "Activation": "SoftMax"`, `"ErrorFunction": "DataScaledMarginalCrossEntropy", `+
				`"DataScaledMarginalCrossEntropy": {"zeroTarget": 0.25}`),
			`DataScaledMarginalCrossEntropy.zeroTarget is 0.25, but the loss of a SoftMax output has no part for items ` +
				`without a target; set it to 0`,
		},
		"soft-max of which nothing counts": {
			outputOf(`, "Activation": "SoftMax"`, `"ErrorFunction": "ScaledMarginalCrossEntropy", `+
				`"ScaledMarginalCrossEntropy": {"oneScale": 0}`),
			`ScaledMarginalCrossEntropy.oneScale is 0, so that nothing counts`,
		},
		"soft-max below a target of 0": {
			outputOf(`, "Activation": "SoftMax"`, `"ErrorFunction": "ScaledMarginalCrossEntropy", `+
				`"ScaledMarginalCrossEntropy": {"oneTarget": 0}`),
			`ScaledMarginalCrossEntropy.oneTarget is 0, so that nothing counts`,
		},
		"targets in the wrong order by default": {
			text(`"ScaledMarginalCrossEntropy": {"oneTarget": 0.05}, "ErrorFunction": "ScaledMarginalCrossEntropy"`, in,
				units8, outAuto),
			`ScaledMarginalCrossEntropy.zeroTarget is 0.1; it must be less than oneTarget, 0.05`,
		},
		"unknown scheme": {
			unit(`, "WeightInit": {"Scheme": "Glorot"}`, ""),
			`layer "Units": WeightInit.Scheme is "Glorot"; it must be one of Xavier, CaffeXavier, Gaussian, ` +
				`Uniform, UnitBall, Constant, SELU`,
		},
		"negative scale": {
			unit(`, "WeightInit": {"Scheme": "Gaussian", "Scale": -1}`, ""),
			`layer "Units": WeightInit.Scale is -1; it must be a number of at least 0`,
		},
		"bias of wrong type": {
			outputOf(`, "WeightInit": {"Bias": "-10.2"}`, ""),
			`layer "Out": WeightInit.Bias is "-10.2"; it must be a number`,
		},
		"unknown source": {
			unit(`, "Source": "Inn"`, ""),
			`layer "Units": Source is "Inn"; no layer has this name; did you mean "In"?`,
		},
		"source of wrong type": {
			unit(`, "Source": 0`, ""),
			`layer "Units": Source is a number; it must be a name or a list of names`,
		},
		"no source":    {unit(`, "Source": []`, ""), `layer "Units": Source is empty; the layer needs at least one`},
		"source twice": {unit(`, "Source": ["In", "In"]`, ""), `layer "Units": Source is "In" for the second time`},
		"source is the layer": {
			unit(`, "Source": "Units"`, ""),
			`layer "Units": Source is "Units", the layer itself`,
		},
		"source in other letters": {
			unit(`, "Source": "in"`, ""),
			`layer "Units": Source is "in"; no layer has this name; did you mean "In"?`,
		},
		"units from an output": {
			text("", in, units8, `{"Name": "Out", "N": "auto", "Kind": "Output"}`,
				`{"Name": "More", "N": 4, "Source": "Out", "Kind": "Hidden"}`),
			`layer "More": Source is "Out", which is an output layer; other layers cannot use its scores`,
		},
		"units from the layer before, an output": {
			text("", in, units8, `{"Name": "Out", "Kind": "Output", "N": "auto"}`,
				`{"Name": "Last", "N": "auto"}`),
			`layer "Last": Source is not given, so the source is "Out", the layer before, but that is an output ` +
				`layer; other layers cannot use its scores`,
		},
		"first layer without a source": {
			text("", `{"Name": "Units", "Kind": "Hidden", "N": 8}`, outAuto),
			`layer "Units": Source is not given, and there is no layer before this one`,
		},
		"cycle": {
			text("", in, `{"Name": "A", "N": 8, "Source": ["In", "C"]}`,
				`{"Name": "B", "N": 8}`, `{"Name": "C", "N": 8}`,
				`{"Name": "Out", "N": "auto"}`),
			`layer "A": Source closes a cycle: A -> B -> C -> A; a layer must not depend on itself`,
		},
		"65 sources": {text("", many...), `layer "Out": Source has 65 layers; an output takes at most 64`},
		"two tensors of one name": {
			text("", in, `{"Name": "bias", "Kind": "Input", "N": 5}`,
				`{"Name": "A", "N": 8, "Source": ["In", "bias"]}`,
				`{"Name": "A.weight", "N": 8}`, outAuto),
			`layer "A.weight": Name is "A.weight", so that a tensor would be named "A.weight.bias", like one of ` +
				`the layer "A"`,
		},
		"sharing with itself": {
			unit(shares("In", "In", "Units"), ""),
			`layer "Units": SharedWeights names a weight of the layer itself; others can share it`,
		},
		"sharing with a later layer": {
			text("", in, `{"Name": "A", "N": 8`+shares("In", "A", "B")+`}`, `{"Name": "B", "N": 6}`, outAuto),
			`layer "A": SharedWeights names a weight of "B", which does not come before the layer; let "B" name the weight ` +
				`of "A"`,
		},
		"sharing with a pooling layer": {
			text("", in, units8, `{"Name": "M", "Kind": "Hidden", "Type": "Pooling", "Function": "MaxOut", "Source": "Units"}`,
				`{"Name": "Out", "N": "auto"`+shares("M", "Units", "M")+`}`),
			`layer "Out": SharedWeights names a weight from "Units" to "M", but the second is a pooling layer, which has no ` +
				`weights`,
		},
		"sharing for a source twice": {
			outputOf(`, "SharedWeights": [{"InputLayer": "Units", "SourceInputLayer": "In", "SourceOutputLayer": "Units", `+
				`"Transposed": true}, {"InputLayer": "Units", "SourceInputLayer": "In", "SourceOutputLayer": "Units"}]`, ""),
			`layer "Out": SharedWeights has InputLayer "Units" twice`,
		},
		"sharing with a key missing": {
			outputOf(`, "SharedWeights": {"InputLayer": "Units", "SourceInputLayer": "In"}`, ""),
			`layer "Out": SharedWeights.SourceOutputLayer is missing`,
		},
		"sharing with an unknown layer": {
			outputOf(shares("Units", "Input", "Units"), ""),
			`layer "Out": SharedWeights names "Input"; no layer has this name; known: In, Units, Out`,
		},
		"sharing with another input": {
			outputOf(shares("In", "In", "Units"), ""),
			`layer "Out": SharedWeights has InputLayer "In", which is not a Source of the layer`,
		},
		"sharing of no weight": {
			outputOf(shares("Units", "Units", "In"), ""),
			`layer "Out": SharedWeights names a weight from "Units" to "In", but the first is not a Source of the` +
				` second`,
		},
		"sharing between units and items": {
			text("", in, units8, `{"Name": "More", "N": 8}`, `{"Name": "Out", "N": 8`+shares("More", "Units", "More")+`}`),
			`layer "Out": SharedWeights is "More.weight", a weight from 8 units to 8 units, but the layer needs one from 8 ` +
				`units to 8 items; items fit items only`,
		},
		"sharing as it is": {
			outputOf(`, "SharedWeights": {"InputLayer": "Units", "SourceInputLayer": "In", "SourceOutputLayer": "Units"}`,
				""),
			`layer "Out": SharedWeights is "Units.weight", which fits only transposed`,
		},
		"sharing of another shape": {
			text("", `{"Name": "In", "N": 100}`, units8,
				`{"Name": "Out", "N": 50`+shares("Units",
					"In", "Units")+`}`),
			`layer "Out": SharedWeights names a weight from "In" (100) to "Units" (8), which has another shape than that ` +
				`from "Units" (8) to "Out" (50) transposed`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(c.text), DSSTNE)
			require.EqualError(t, err, "DSSTNE network: "+c.want)
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
		})
	}
}

func TestAMixtureOfDialectsNamesAKeyOfEach(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a loss of each": {
			`{"ErrorFunction": "L2", "loss": "softmax", "layers": []}`,
			`"ErrorFunction" is a key of DSSTNE's network files, and "loss" is one of dsstne's own definitions; ` +
				`use the keys of one of them only`,
		},
		"a size of each": {
			`{"layers": [{"name": "input", "kind": "input", "size": 5}, {"name": "hidden", "kind": "hidden", "N": 8}]}`,
			`"layers[1].N" is a key of DSSTNE's network files, and "layers[0].size" is one of dsstne's own ` +
				`definitions; use the keys of one of them only`,
		},
		"our definition with a key of DSSTNE's": {
			`{"layers": [{"name": "input", "kind": "input", "size": 5, "type": "FullyConnected"}]}`,
			`"layers[0].type" is a key of DSSTNE's network files, and "layers[0].size" is one of dsstne's own ` +
				`definitions; use the keys of one of them only`,
		},
		"our denoising in a file of DSSTNE's": {
			`{"Denoising": {"p": 0.5}, "Layers": [{"N": "auto", "denoising": 0.5}]}`,
			`"Denoising" is a key of DSSTNE's network files, and "Layers[0].denoising" is one of dsstne's own ` +
				`definitions; use the keys of one of them only`,
		},
		"a kind of network in our definition": {
			`{"kind": "autoencoder", "layers": [{"name": "input", "kind": "input", "size": 5}]}`,
			`"kind" is a key of DSSTNE's network files, and "layers[0].size" is one of dsstne's own definitions; ` +
				`use the keys of one of them only`,
		},
		"an object as layers": {
			`{"Layers": {"N": 5, "initializer": {}}}`,
			`"Layers[0].N" is a key of DSSTNE's network files, and "Layers[0].initializer" is one of dsstne's own` +
				` definitions; use the keys of one of them only`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(c.text), Auto)
			require.EqualError(t, err, "network definition: "+c.want)
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
		})
	}
}
