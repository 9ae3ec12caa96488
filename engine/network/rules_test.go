package network

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// TestRulesAreEnforced holds a broken definition for every rule, and the message that follows "network definition: ".
func TestRulesAreEnforced(t *testing.T) {
	const hidden2 = `{"name": "hidden2", "kind": "hidden", "size": 8}, `
	const units = `it must be an integer from 1 to 2147483647`
	const schemes = `xavier_uniform, xavier_normal, he_uniform, he_normal, fan_out_uniform, unit_norm, normal, uniform, constant`
	const kinds = `sigmoid, scaled_marginal, softmax, squared, hinge, absolute, l2_hinge, cosine_contrastive, bpr`
	const more = `{"name": "more", "kind": "output", "sources": ["hidden1"]}`
	units65, names65 := "", []string{}
	for n := range 65 {
		units65 += fmt.Sprintf(`{"name": "u%d", "kind": "hidden", "sources": ["input"], "size": 2}, `, n+1)
		names65 = append(names65, fmt.Sprintf(`"u%d"`, n+1))
	}
	input := func(rest string) string {
		return layers(`{"name": "input", "kind": "input"` + rest + `}, ` + hidden + out)
	}
	deep := func(rest string) string {
		return layers(in + hidden + `{"name": "square", "kind": "hidden", "size": 8}, {"name": "h3", "kind": "hidden", ` +
			`"size": 8` + rest + `}, ` + out)
	}
	unit := func(rest string) string {
		return layers(in + `{"name": "hidden1", "kind": "hidden"` + rest + `}, ` + out)
	}
	variational := func(rest string) string {
		return layers(in + `{"name": "z", "kind": "variational"` + rest + `}, ` + out)
	}
	output := func(rest string) string {
		return layers(in + hidden + `{"name": "output", "kind": "output"` + rest + `}`)
	}
	loss := func(text string) string { return `{"layers": [` + in + hidden + out + `], "loss": ` + text + `}` }
	net := func(key, kind string) string {
		return `{"layers": [` + in + hidden + `{"name": "output", "kind": "output", ` + key + `}], "loss": ` + kind + `}`
	}
	losses := func(text string) string {
		return `{"layers": [` + in + hidden + out + `, ` + more + `], "loss": ` + text + `}`
	}
	for name, c := range map[string]struct{ text, want string }{
		"no layers":           {`{}`, `layers is missing`},
		"unknown key":         {`{"layer": [], "loss": "softmax"}`, `layer is not a known key; did you mean "layers"?`},
		"layers not a list":   {`{"layers": {}}`, `layers is an object; it must be a list`},
		"layer not an object": {`{"layers": ["input"]}`, `layers[0] is "input"; it must be an object`},
		"only an input": {layers(`{"name": "input", "kind": "input"}`),
			`layers has neither a hidden nor an output layer; a network needs at least one of them`},
		"no layer at all": {layers(``),
			`layers has neither a hidden nor an output layer; a network needs at least one of them`},
		"a loss without an output": {
			`{"layers": [` + in + `{"name": "hidden1", "kind": "hidden", "size": 8}], "loss": "softmax"}`,
			`loss is given, but the network has no output layer`},
		"losses without an output": {
			`{"layers": [` + in + `{"name": "hidden1", "kind": "hidden", "size": 8}], "loss": [{"layer": "hidden1"}]}`,
			`loss is given, but the network has no output layer`},

		"name missing": {layers(`{"kind": "input"}, ` + hidden + out), `layers[0].name is missing`},
		"name misspelled": {layers(`{"nmae": "input", "kind": "input"}, ` + hidden + out),
			`layers[0].nmae is not a known key; did you mean "name"?`},
		"name empty": {layers(`{"name": "", "kind": "input"}`), `layers[0].name is empty`},
		"name with space": {layers(`{"name": "a b", "kind": "input"}`),
			`layers[0].name is "a b"; names are made of letters A to Z and a to z, digits, and the signs _ . -`},
		"name too long": {layers(`{"name": "` + strings.Repeat("a", 101) + `", "kind": "input"}`),
			`layers[0].name has 101 bytes; a name has at most 100`},
		"too many layers": {layers(strings.Repeat(hidden, 256) + out), `layers has 257 layers; a network has at most 256`},
		"name taken": {layers(in + hidden + `{"name": "input", "kind": "output"}`),
			`layers[2].name is "input", which is the name of layers[0] too; every layer needs its own`},
		"kind missing": {layers(in + `{"name": "hidden1", "size": 8}, ` + out), `layers[1].kind is missing`},
		"kind misspelled": {layers(in + `{"name": "hidden1", "kid": "hidden", "size": 8}, ` + out),
			`layers[1].kid is not a known key; did you mean "kind"?`},
		"kind unknown": {layers(in + `{"name": "hidden1", "kind": "hiden", "size": 8}, ` + out),
			`layers[1].kind is "hiden"; it must be one of input, hidden, variational, merge, output; did you mean "hidden"?`},

		"input size zero": {input(`, "size": 0`), `layers[0].size is 0; ` + units},
		"input size fraction": {input(`, "size": 512.5`),
			`layers[0].size is 512.5; ` + units},
		"input size too large": {input(`, "size": 2147483648`),
			`layers[0].size is 2147483648; ` + units},
		"input size word": {input(`, "size": "atuo"`),
			`layers[0].size is "atuo"; it must be one of auto; did you mean "auto"?`},
		"input scaling": {input(`, "scaling": "L2"`),
			`layers[0].scaling is "L2"; it must be one of none, l2; did you mean "l2"?`},
		"input denoising of 1": {input(`, "denoising": 1`),
			`layers[0].denoising is 1; it must be a number from 0 to less than 1`},
		"input denoising below": {input(`, "denoising": -0.5`),
			`layers[0].denoising is -0.5; it must be a number from 0 to less than 1`},
		"input unknown key": {input(`, "denosing": 0.5`),
			`layers[0].denosing is not a known key; did you mean "denoising"?`},
		"input sources": {input(`, "sources": []`),
			`layers[0].sources is given, but an input layer takes its rows from a dataset`},
		"input dropout": {input(`, "dropout": 0.5`),
			`layers[0].dropout is given, but an input layer has none; its entries are dropped by "denoising"`},
		"input activation": {input(`, "activation": "tanh"`),
			`layers[0].activation is given, but only hidden and output layers have it`},
		"input bias": {input(`, "bias": true`),
			`layers[0].bias is given, but only hidden, variational and output layers have it`},
		"input initializer": {input(`, "initializer": {}`),
			`layers[0].initializer is given, but only hidden, variational and output layers have it`},
		"input temperature": {input(`, "temperature": 1`),
			`layers[0].temperature is given, but only output layers have it`},
		"input shared": {input(`, "shared": "x"`), `layers[0].shared is given, but only hidden, variational and ` +
			`output layers have it`},

		"hidden size missing": {unit(``), `layers[1].size is missing`},
		"hidden size auto": {unit(`, "size": "auto"`),
			`layers[1].size is "auto", which is for layers that meet the data; a hidden layer needs its number of units`},
		"hidden size negative": {unit(`, "size": -8`),
			`layers[1].size is -8; ` + units},
		"hidden size text": {unit(`, "size": "8"`),
			`layers[1].size is "8"; ` + units},
		"hidden activation": {unit(`, "size": 8, "activation": "tahn"`),
			`layers[1].activation is "tahn"; it must be one of linear, sigmoid, tanh, relu, elu, selu, ` +
				`leaky_relu, softplus, softsign, gelu, silu, softmax; did you mean "tanh"?`},
		"hidden dropout of 1": {unit(`, "size": 8, "dropout": 1.0`),
			`layers[1].dropout is 1.0; it must be a number from 0 to less than 1`},
		"sparsity without a mean": {unit(`, "size": 8, "sparsity": {"weight": 1}`), `layers[1].sparsity.mean is missing`},
		"sparsity with another key": {unit(`, "size": 8, "sparsity": {"mean": 0.1, "beta": 1}`),
			`layers[1].sparsity.beta is not a known key; known: mean, weight`},
		"a mean above 1": {unit(`, "size": 8, "sparsity": {"mean": 1.5}`),
			`layers[1].sparsity.mean is 1.5; it must be a number from 0 to 1`},
		"a negative sparsity": {unit(`, "size": 8, "sparsity": {"mean": 0.5, "weight": -1}`),
			`layers[1].sparsity.weight is -1; it must be a number of at least 0`},
		"alpha dropout of a tanh": {unit(`, "size": 8, "alpha_dropout": 0.1`),
			`layers[1].alpha_dropout is given, but the activation is "tanh"; with another than "elu" and "selu" use dropout`},
		"two dropouts": {unit(`, "size": 8, "activation": "selu", "dropout": 0.1, "alpha_dropout": 0.1`),
			`layers[1].alpha_dropout is given, and dropout is, too; a layer has one of them`},
		"variational size missing": {variational(``), `layers[1].size is missing`},
		"variational size auto": {variational(`, "size": "auto"`),
			`layers[1].size is "auto", which is for layers that meet the data; a variational layer needs its number of units`},
		"variational activation": {variational(`, "size": 8, "activation": "tanh"`),
			`layers[1].activation is given, but the units of a variational layer are drawn from a normal distribution; it ` +
				`belongs on the hidden layers around it`},
		"variational batch_norm": {variational(`, "size": 8, "batch_norm": true`),
			`layers[1].batch_norm is given, but the units of a variational layer are drawn from a normal distribution; it ` +
				`belongs on the hidden layers around it`},
		"divergence as a number": {variational(`, "size": 8, "kl": 0.2`), `layers[1].kl is 0.2; it must be an object`},
		"divergence below 0": {variational(`, "size": 8, "kl": {"weight": -1}`),
			`layers[1].kl.weight is -1; it must be a number of at least 0`},
		"divergence of a hidden layer": {unit(`, "size": 8, "kl": {"weight": 1}`),
			`layers[1].kl is given, but only variational layers have it`},
		"shared with a variational layer": {
			layers(in + `{"name": "z", "kind": "variational", "size": 8}, {"name": "output", "kind": "output", ` +
				`"shared": "z.weight"}`),
			`layers[2].shared is "z.weight", but the weight leads to 16 sums of "z" and "z" has size 8`},
		"sparsity as a number":   {unit(`, "size": 8, "sparsity": 0.5`), `layers[1].sparsity is 0.5; it must be an object`},
		"batch_norm as a number": {unit(`, "size": 8, "batch_norm": 1`), `layers[1].batch_norm is 1; it must be an object`},
		"batch_norm without room": {unit(`, "size": 8, "batch_norm": {"epsilon": 0}`),
			`layers[1].batch_norm.epsilon is 0; it must be a number from 0.000000000001 to 1`},
		"batch_norm that overshoots": {unit(`, "size": 8, "batch_norm": {"momentum": 1.5}`),
			`layers[1].batch_norm.momentum is 1.5; it must be a number from 0 to 1`},
		"layer_norm with momentum": {unit(`, "size": 8, "layer_norm": {"momentum": 0.5}`),
			`layers[1].layer_norm.momentum is not a known key; known: epsilon`},
		"both norms": {unit(`, "size": 8, "layer_norm": true, "batch_norm": {}`),
			`layers[1].layer_norm is given beside batch_norm; a layer has one of them`},
		"batch_norm of an output": {output(`, "batch_norm": true`),
			`layers[2].batch_norm is given, but an output layer has none; it belongs on the hidden layers before it`},
		"sparsity of an output": {output(`, "sparsity": {"mean": 0.5}`),
			`layers[2].sparsity is given, but an output layer has none; it belongs on the hidden layers before it`},
		"hidden dropout nearly 1": {unit(`, "size": 8, "dropout": 0.99999999999`),
			`layers[1].dropout is 0.99999999999; as a 32-bit number that is 1, and it must be a number from 0 to less than 1`},
		"soft-max with dropout": {unit(`, "size": 8, "activation": "softmax", "dropout": 0.1`),
			`layers[1].dropout is given, but the values of the activation "softmax" add up to 1, which dropped units would ` +
				`change; put dropout on another layer`},
		"soft-max with alpha dropout": {unit(`, "size": 8, "activation": "softmax", "alpha_dropout": 0.1`),
			`layers[1].alpha_dropout is given, but the activation is "softmax"; with another than "elu" and "selu" use dropout`},
		"negative delta_norm": {unit(`, "size": 8, "delta_norm": -1`),
			`layers[1].delta_norm is -1; it must be a number of at least 0`},
		"delta_norm of cosine logits": {output(`, "delta_norm": 1, "temperature": 0.5`),
			`layers[2].delta_norm is 1, but the layer has cosine logits (temperature), whose gradient it cannot limit`},
		"delta_norm of stored entries": {
			`{"layers": [{"name": "in", "kind": "input"}, {"name": "h", "kind": "hidden", "size": 8},
				{"name": "out", "kind": "output", "delta_norm": 1}], "loss": {"kind": "squared", "stored_only": true}}`,
			`layers[2].delta_norm is 1, but a loss of stored entries or negatives has no gradient of all items`},
		"negative weight_norm": {unit(`, "size": 8, "weight_norm": -1`),
			`layers[1].weight_norm is -1; it must be a number of at least 0`},
		"weight_norm as a word": {output(`, "weight_norm": "auto"`),
			`layers[2].weight_norm is "auto"; it must be a number of at least 0`},
		"weight_norm of a shared weight": {output(`, "shared": "hidden1.weight", "weight_norm": 1`),
			`layers[2].weight_norm is given, but the weight is shared; the weight_norm of the layer that has ` +
				`hidden1.weight caps it`},
		"weight_norm without weights": {output(`, "sources": [], "weight_norm": 1`),
			`layers[2].weight_norm is given, but the layer has no sources, so it has no weights that it could limit`},
		"input weight_norm": {input(`, "weight_norm": 1`),
			`layers[0].weight_norm is given, but only hidden and output layers have it`},
		"variational weight_norm": {variational(`, "size": 8, "weight_norm": 1`),
			`layers[1].weight_norm is given, but the units of a variational layer are drawn from a normal distribution; it ` +
				`belongs on the hidden layers around it`},
		"hidden bias": {unit(`, "size": 8, "bias": 0`), `layers[1].bias is 0; it must be true or false`},
		"hidden unknown key": {unit(`, "size": 8, "activaton": "tanh"`),
			`layers[1].activaton is not a known key; did you mean "activation"?`},
		"hidden scaling": {unit(`, "size": 8, "scaling": "l2"`),
			`layers[1].scaling is given, but only input layers have it`},
		"hidden denoising": {unit(`, "size": 8, "denoising": 0.5`),
			`layers[1].denoising is given, but only input layers have it`},
		"hidden temperature": {unit(`, "size": 8, "temperature": 1`),
			`layers[1].temperature is given, but only output layers have it`},
		"hidden shared": {unit(`, "size": 8, "shared": "x"`),
			`layers[1].shared is "x"; no earlier layer has this weight`},
		"initializer kind": {unit(`, "size": 8, "initializer": {"kind": "xavier"}`),
			`layers[1].initializer.kind is "xavier"; it must be one of ` + schemes + `; did you mean "xavier_normal"?`},
		"initializer scale": {unit(`, "size": 8, "initializer": {"scale": -1}`),
			`layers[1].initializer.scale is -1; it must be a number of at least 0`},
		"initializer scale huge": {unit(`, "size": 8, "initializer": {"scale": 1e39}`),
			`layers[1].initializer.scale is 1e39, which is too large: 32-bit numbers end at 3.4e38`},
		"initializer unknown key": {unit(`, "size": 8, "initializer": {"scael": 1}`),
			`layers[1].initializer.scael is not a known key; did you mean "scale"?`},
		"initializer without bias": {unit(`, "size": 8, "bias": false, "initializer": {"bias": 1}`),
			`layers[1].initializer.bias is 1, but the layer has no bias`},

		"output size": {output(`, "size": true`),
			`layers[2].size is true; ` + units},
		"output activation": {output(`, "activation": "sigmoid"`),
			`layers[2].activation is "sigmoid", but the loss "softmax" has the activation "softmax"; other ` +
				`activations go with the losses squared, hinge, absolute, l2_hinge, cosine_contrastive`},
		"output activation of scaled marginal": {net(`"activation": "tanh"`, `"scaled_marginal"`),
			`layers[2].activation is "tanh", but the loss "scaled_marginal" has the activation "sigmoid"; other ` +
				`activations go with the losses squared, hinge, absolute, l2_hinge, cosine_contrastive`},
		"output soft-max without its loss": {net(`"activation": "softmax"`, `"squared"`),
			`layers[2].activation is "softmax", which only the loss "softmax" has; the loss is "squared"`},
		"output slope without its activation": {net(`"slope": 0.1`, `"squared"`),
			`layers[2].slope is given, but only the activation "leaky_relu" has it`},
		"hidden slope of another activation": {unit(`, "size": 8, "activation": "relu", "slope": 0.1`),
			`layers[1].slope is given, but only the activation "leaky_relu" has it`},
		"hidden alpha of another activation": {unit(`, "size": 8, "alpha": 0.1`),
			`layers[1].alpha is given, but only the activation "elu" has it`},
		"hidden slope below 0": {unit(`, "size": 8, "activation": "leaky_relu", "slope": -0.1`),
			`layers[1].slope is -0.1; it must be a number of at least 0`},
		"output dropout": {output(`, "dropout": 0.5`),
			`layers[2].dropout is given, but an output layer has none; it belongs on the hidden layers before it`},
		"output scaling": {output(`, "scaling": "l2"`),
			`layers[2].scaling is given, but only input layers have it`},
		"output denoising": {output(`, "denoising": 0`),
			`layers[2].denoising is given, but only input layers have it`},
		"output temperature": {output(`, "temperature": -0.1`),
			`layers[2].temperature is -0.1; it must be a number of at least 0`},
		"output temperature tiny": {output(`, "temperature": 1e-60`),
			`layers[2].temperature is 1e-60, which is too small: 32-bit numbers other than 0 begin at 1.4e-45`},
		"temperature, no source": {output(`, "temperature": 0.1, "sources": []`),
			`layers[2].temperature is 0.1, which needs exactly one source, but the layer has 0`},
		"nothing to learn": {output(`, "bias": false, "sources": []`),
			`layers[2].sources is empty and there is no bias, so the layer has nothing to learn`},
		"shared unknown": {output(`, "shared": "hiden1.weight"`),
			`layers[2].shared is "hiden1.weight"; no earlier layer has this weight; did you mean ` +
				`"hidden1.weight"?`},
		"too many sources": {layers(in + units65 +
			`{"name": "output", "kind": "output", "sources": [` + strings.Join(names65, ", ") + `]}`),
			`layers[66].sources has 65 layers; an output takes at most 64`},
		"shared with a later layer": {
			layers(in + `{"name": "h", "kind": "hidden", "size": 8, "shared": "hidden1.weight"}, ` + hidden + out),
			`layers[1].shared is "hidden1.weight"; no earlier layer has this weight`},
		"shared with a layer that shares": {
			layers(tied + `, {"name": "more", "kind": "output", "sources": ["hidden1"], "shared": "output.weight"}`),
			`layers[3].shared is "output.weight"; no earlier layer has this weight; known: hidden1.weight`},
		"shared by a merge": {
			layers(in + hidden + `{"name": "m", "kind": "merge", "function": "maximum", "sources": ["hidden1"], ` +
				`"shared": "hidden1.weight"}, ` + out),
			`layers[2].shared is given, but only hidden, variational and output layers have it`},
		"shared square": {deep(`, "shared": "square.weight"`),
			`layers[3].shared is "square.weight", which fits as it is and transposed; say which, as in ` +
				`{"weight": "square.weight", "transposed": true}`},
		"shared of other shapes": {
			layers(in + hidden + `{"name": "h2", "kind": "hidden", "size": 5}, {"name": "h3", "kind": "hidden", "size": 7, ` +
				`"shared": "h2.weight"}, ` + out),
			`layers[3].shared is "h2.weight", a weight from 8 units to 5 units, but the layer needs one from 5 units to 7 ` +
				`units or, transposed, from 7 units to 5 units`},
		"shared straight, not transposed": {
			layers(in + hidden + `{"name": "h2", "kind": "hidden", "size": 5}, {"name": "h3", "kind": "hidden", "size": 8, ` +
				`"shared": {"weight": "h2.weight", "transposed": false}}, ` + out),
			`layers[3].shared.weight is "h2.weight", which fits only transposed`},
		"shared transposed, not straight": {
			layers(in + hidden + `{"name": "h2", "kind": "hidden", "size": 5, "sources": ["input"]}, {"name": "h3", "kind": ` +
				`"hidden", "size": 8, "sources": ["input"], "shared": {"weight": "hidden1.weight", "transposed": true}}, ` + out),
			`layers[3].shared.weight is "hidden1.weight", which fits only as it is, not transposed`},
		"shared transposed between items": {
			layers(in + `{"name": "first", "kind": "output", "size": 100, "sources": ["input"]}, {"name": "output", "kind": ` +
				`"output", "size": 100, "sources": ["input"], "shared": {"weight": "first.weight", "transposed": true}}`),
			`layers[2].shared.weight is "first.weight", which fits only as it is, not transposed`},
		"shared as a number": {deep(`, "shared": 3`),
			`layers[3].shared is a number; it must be the name of a weight, an object or a list of objects`},
		"shared beside a layer without a kind": {`{"layers": [{"name": "input"}, ` + hidden +
			`{"name": "output", "kind": "output", "sources": ["hidden1"], "shared": [{"source": "hidden1", "weight": "w"}]}]}`,
			`layers[0].kind is missing`},
		"shared as an empty list": {deep(`, "shared": []`), `layers[3].shared is an empty list; leave it out if the layer ` +
			`shares no weight`},
		"shared without a weight":   {deep(`, "shared": {}`), `layers[3].shared.weight is missing`},
		"shared with an empty name": {deep(`, "shared": {"weight": ""}`), `layers[3].shared.weight is empty`},
		"shared with another key": {deep(`, "shared": {"weight": "square.weight", "transpose": true}`),
			`layers[3].shared.transpose is not a known key; did you mean "transposed"?`},
		"shared for no source": {deep(`, "shared": [{"source": "squares", "weight": "square.weight"}]`),
			`layers[3].shared[0].source is "squares", which is not a source of the layer; did you mean "square"?`},
		"shared for a source twice": {deep(`, "shared": [{"source": "square", "weight": "square.weight"}, {"source": "square", ` +
			`"weight": "square.weight"}]`),
			`layers[3].shared[1].source is "square" for the second time`},
		"shared for which source": {deep(`, "sources": ["square", "hidden1"], "shared": [{"weight": "square.weight"}]`),
			`layers[3].shared[0].source is missing`},
		"shared object for two sources": {deep(`, "sources": ["square", "hidden1"], "shared": {"weight": "square.weight"}`),
			`layers[3].shared is "square.weight", which needs exactly one source, but the layer has 2; a list of objects ` +
				`with "source" and "weight" says which of them share`},
		"shared list with an unknown weight": {deep(`, "sources": ["square", "hidden1"], "shared": [{"source": "hidden1", ` +
			`"weight": "sqare.weight"}]`),
			`layers[3].shared[0].weight is "sqare.weight"; no earlier layer has this weight; did you mean "square.weight"?`},
		"shared with no source": {output(`, "shared": "hidden1.weight", "sources": []`),
			`layers[2].shared is "hidden1.weight", which needs exactly one source, but the layer has 0`},
		"shared of another size": {output(`, "shared": "hidden1.weight", "size": 99`),
			`layers[2].shared is "hidden1.weight", but "input" has size 100 and "output" has size 99`},
		"shared with a kind": {output(`, "shared": "hidden1.weight", "initializer": {"kind": "normal"}`),
			`layers[2].initializer.kind is given, but the weight is shared and begins as hidden1.weight does`},
		"shared with a scale": {output(`, "shared": "hidden1.weight", "initializer": {"scale": 1}`),
			`layers[2].initializer.scale is given, but the weight is shared and begins as hidden1.weight does`},
		"shared between hiddens": {layers(in + hidden + `{"name": "hidden2", "kind": "hidden", "size": 100}, ` +
			`{"name": "output", "kind": "output", "size": 8, "shared": "hidden2.weight"}`),
			`layers[3].shared is "hidden2.weight", a weight from 8 units to 100 units, but the layer needs one from 100 units ` +
				`to 8 items; items fit items only`},
		"shared with other units": {layers(in + hidden + `{"name": "hidden2", "kind": "hidden", "size": 9}, ` +
			`{"name": "output", "kind": "output", "size": 100, "shared": "hidden1.weight"}`),
			`layers[3].shared is "hidden1.weight", but "hidden1" has size 8 and "hidden2" has size 9`},
		"two sources and cosine": {
			layers(in + hidden + hidden2 + `{"name": "output", "kind": "output", "temperature": 0.5, "sources": ["hidden1", ` +
				`"hidden2"]}`),
			`layers[3].temperature is 0.5, which needs exactly one source, but the layer has 2`},
		"two sources and a sharing": {
			layers(in + hidden + hidden2 + `{"name": "output", "kind": "output", "shared": "hidden1.weight", "sources": ` +
				`["hidden1", "hidden2"]}`),
			`layers[3].shared is "hidden1.weight", which needs exactly one source, but the layer has 2; a list of objects ` +
				`with "source" and "weight" says which of them share`},

		"source unknown": {output(`, "sources": ["hiden1"]`),
			`layers[2].sources[0] is "hiden1"; no earlier layer has this name; did you mean "hidden1"?`},
		"source itself": {unit(`, "size": 8, "sources": ["hidden1"]`),
			`layers[1].sources[0] is "hidden1", the layer itself; sources are earlier layers`},
		"source later": {unit(`, "size": 8, "sources": ["input", "output"]`),
			`layers[1].sources[1] is "output", which comes later; sources are earlier layers`},
		"source twice": {unit(`, "size": 8, "sources": ["input", "input"]`),
			`layers[1].sources[1] is "input" for the second time`},
		"source of wrong type": {unit(`, "size": 8, "sources": [0]`), `layers[1].sources[0] is 0; it must be a string`},
		"sources not a list": {unit(`, "size": 8, "sources": "input"`),
			`layers[1].sources is "input"; it must be a list`},
		"hidden without sources": {unit(`, "size": 8, "sources": []`),
			`layers[1].sources is empty; a hidden layer needs at least one`},
		"hidden first": {layers(hidden + out),
			`layers[0].sources is not given and there is no layer before this one; the first layer is an input layer as a rule`},
		"no scale at all": {loss(`{"kind": "squared", "one_scale": 0, "zero_scale": 0}`),
			`loss.zero_scale is 0, and one_scale is, too, so that nothing counts`},
		"scale below 0": {loss(`{"kind": "squared", "zero_scale": -1}`), `loss.zero_scale is -1; it must be a number of at ` +
			`least 0`},
		"scale of pairs": {loss(`{"kind": "bpr", "one_scale": 2}`), `loss.one_scale is given, but the loss "bpr" does not ` +
			`have it`},
		"skip of an input": {output(`, "skips": ["input"]`),
			`layers[2].skips[0] is "input", an input layer; only layers with units have values that can be added`},
		"skip of another size": {
			layers(in + hidden + `{"name": "h2", "kind": "hidden", "size": 7, "skips": ["hidden1"]}, ` + out),
			`layers[2].skips[0] does not fit: "h2" has size 7 and "hidden1" has size 8`},
		"skip beside cosines": {output(`, "skips": ["hidden1"], "temperature": 0.1`),
			`layers[2].skips is given, but the layer has cosine logits (temperature), to which nothing is added`},
		"skip at stored entries": {net(`"skips": ["hidden1"]`, `{"kind": "squared", "stored_only": true}`),
			`layers[2].skips is given, but a loss of stored entries or negatives takes sources only`},
		"merge without a function": {layers(in + hidden + `{"name": "m", "kind": "merge", "sources": ["hidden1"]}, ` + out),
			`layers[2].function is missing`},
		"merge of an input": {
			layers(in + hidden + `{"name": "m", "kind": "merge", "function": "dot", "sources": ["input", "hidden1"]}, ` + out),
			`layers[2].sources[0] is "input", an input layer; the sources of a merge layer are hidden, variational or merge ` +
				`layers`},
		"products of one layer": {
			layers(in + hidden + `{"name": "m", "kind": "merge", "function": "cosine", "sources": ["hidden1"]}, ` + out),
			`layers[2].sources has 1 layers; "cosine" takes from 2 to 64`},
		"merge of sizes": {
			layers(in + hidden + `{"name": "h2", "kind": "hidden", "size": 7}, {"name": "m", "kind": "merge", ` +
				`"function": "maximum", "sources": ["hidden1", "h2"]}, ` + out),
			`layers[3].sources[1] does not fit: "hidden1" has size 8 and "h2" has size 7`},
		"activation of a merge": {
			layers(in + hidden + `{"name": "m", "kind": "merge", "function": "maximum", "sources": ["hidden1"], ` +
				`"activation": "tanh"}, ` + out),
			`layers[2].activation is given, but a merge layer computes with values as they are; it belongs on the layers ` +
				`around it`},
		"cosines of an input": {output(`, "sources": ["input"], "temperature": 0.1`),
			`layers[2].temperature is 0.1, but the source "input" is an input layer; cosine logits compare items with a hidden ` +
				`layer`},
		"weight shared by an input": {output(`, "sources": ["input"], "shared": "hidden1.weight"`),
			`layers[2].shared is "hidden1.weight", a weight from 100 items to 8 units, but the layer needs one from 100 items ` +
				`to items; items fit items only`},
		"stored entries by an input": {
			net(`"sources": ["input", "hidden1"]`, `{"kind": "squared", "stored_only": true}`),
			`layers[2].sources has "input", an input layer, but a loss of stored entries or negatives takes hidden layers ` +
				`only; put one between them`},
		"weight of an output": {
			layers(in + out + `, {"name": "h", "kind": "hidden", "size": 8, "sources": ["input"]}, ` +
				`{"name": "more", "kind": "output", "shared": "output.weight"}`),
			`layers[3].shared is "output.weight", a weight from 100 items to 100 items, but the layer needs one from 8 units ` +
				`to items; items fit items only`},
		"output after an output": {layers(in + hidden + out + `, {"name": "more", "kind": "output"}`),
			`layers[3].sources must be given, because the layer before, "output", is an output layer; the sources of an ` +
				`output layer are input, hidden, variational or merge layers`},
		"hidden from an output": {
			layers(in + hidden + out + `, {"name": "h", "kind": "hidden", "size": 8, "sources": ["output"]}`),
			`layers[3].sources[0] is "output", an output layer; the sources of a hidden layer are input, hidden, ` +
				`variational or merge layers`},
		"two tensors of one name": {layers(in + `{"name": "bias", "kind": "input"}, ` +
			`{"name": "a", "kind": "hidden", "size": 8, "sources": ["input", "bias"]}, ` +
			`{"name": "a.weight", "kind": "hidden", "size": 8}, ` +
			`{"name": "output", "kind": "output"}`),
			`layers[3].name is "a.weight", so that a tensor would be named "a.weight.bias", like one of the layer "a"`},

		"loss word": {loss(`"sofmax"`),
			`loss is "sofmax"; it must be one of ` + kinds + `; did you mean "softmax"?`},
		"loss of wrong type": {loss(`3`), `loss is a number; it must be a word, an object or a list of objects`},
		"loss kind": {loss(`{"kind": "sigmod"}`),
			`loss.kind is "sigmod"; it must be one of ` + kinds + `; did you mean "sigmoid"?`},
		"loss unknown key": {loss(`{"wieght": 1}`), `loss.wieght is not a known key; did you mean "weight"?`},
		"loss weight":      {loss(`{"weight": -1}`), `loss.weight is -1; it must be a number of at least 0`},
		"loss layer unknown": {loss(`{"layer": "outptu"}`),
			`loss.layer is "outptu"; no output layer has this name; did you mean "output"?`},
		"loss layer no output": {loss(`{"layer": "hidden1"}`),
			`loss.layer is "hidden1"; no output layer has this name; known: output`},
		"normalize_rows": {loss(`{"kind": "sigmoid", "normalize_rows": true}`),
			`loss.normalize_rows is given, but only the loss "softmax" has it`},
		"one_scale of nothing": {loss(`{"one_scale": 0}`), `loss.one_scale is 0, so that nothing counts`},
		"one_target of nothing": {loss(`{"one_target": 0, "one_scale": 2}`),
			`loss.one_target is 0, so that nothing counts`},
		"one_target of soft-max": {loss(`{"one_target": 1.5}`), `loss.one_target is 1.5; it must be a number from 0 to 1`},
		"one_target of cosines": {loss(`{"kind": "cosine_contrastive", "one_target": 0.5}`),
			`loss.one_target is given, but the loss "cosine_contrastive" does not have it`},
		"zero_scale": {loss(`[{"zero_scale": 1}]`),
			`loss[0].zero_scale is given, but the loss "softmax" has no loss of items without a target`},
		"zero_target": {loss(`{"one_target": 0.9, "zero_target": 0.1}`),
			`loss.zero_target is given, but the loss "softmax" has no loss of items without a target`},
		"one_target and negatives": {loss(`{"one_target": 0.9, "negatives": 2}`),
			`loss.one_target is given, but negatives are, too, and the loss "softmax" takes one of the two only`},
		"one_scale and negatives": {loss(`{"one_scale": 3, "negatives": 2}`),
			`loss.one_scale is given, but negatives are, too, and the loss "softmax" takes one of the two only`},
		"one_target": {loss(`{"kind": "scaled_marginal", "one_target": 1.5}`),
			`loss.one_target is 1.5; it must be a number from 0 to 1`},
		"targets the wrong way": {loss(`{"kind": "scaled_marginal", "zero_target": 0.95}`),
			`loss.zero_target is 0.95; it must be less than one_target, 0.9`},
		"loss without layer": {losses(`{"kind": "softmax"}`), `loss.layer is missing`},
		"second loss of a layer": {losses(`[{"layer": "more"}, {"layer": "more"}]`),
			`loss[1] is a second loss for the layer "more"; every output has one`},
		"second loss of the only": {loss(`[{"kind": "softmax"}, {"kind": "sigmoid"}]`),
			`loss[1] is a second loss for the layer "output"; every output has one`},
		"loss entry of wrong type": {losses(`["softmax"]`), `loss[0] is "softmax"; it must be an object`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			require.EqualError(t, err, "network definition: "+c.want)
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
		})
	}
}
