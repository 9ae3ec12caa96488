package dsstnejson

import (
	"maps"
	"slices"

	"dsstne/engine/strictjson"
)

// lossWords are the values of ErrorFunction.
var lossWords = []string{
	"L1", "L2", "L2Hinge", "Hinge", "CrossEntropy", marginalKey, dataMarginalKey, "Cross Entropy",
}

// outputs translate the loss of a file and the activation of an output layer. A pair that is not here is an error that
// lists what is.
var outputs = map[string]map[string]outputKeys{
	"CrossEntropy": {
		"Sigmoid": {loss: fields{"kind": "sigmoid"}},
		// DSSTNE divides a row of ones by their number.
		"SoftMax": {loss: fields{"kind": "softmax", "normalize_rows": true}},
	},
	marginalKey:     {"Sigmoid": {loss: fields{"kind": "scaled_marginal"}}},
	dataMarginalKey: {"Sigmoid": {loss: fields{"kind": "scaled_marginal"}}},
	"L2":            {"Linear": {loss: fields{"kind": "squared"}}},
	"Hinge":         {"Linear": {loss: fields{"kind": "hinge"}}},
	"L1":            {},
	"L2Hinge":       {},
}

// outputKeys are the keys that an output and its loss have in our dialect.
type outputKeys struct{ layer, loss fields }

// readLoss returns DSSTNE's word for the loss of a file.
func readLoss(o *strictjson.Object) string {
	if word := o.Word("ErrorFunction", "CrossEntropy", lossWords...); word != "Cross Entropy" {
		return word
	}
	return "CrossEntropy"
}

// output adds the keys of an output layer, and returns those of its loss.
func (f *file) output(o *strictjson.Object, activation string, layer fields) fields {
	keys, found := outputs[f.loss][activation]
	if !found {
		text := "is %s"
		if !o.Has("Activation") {
			text += ", the default"
		}
		o.Fail("Activation", text+"; with the ErrorFunction %s an output can have %s%s", activation, f.loss,
			possible(slices.Sorted(maps.Keys(outputs[f.loss]))), elsewhere(activation))
		return nil
	}
	maps.Copy(layer, keys.layer)
	loss := maps.Clone(keys.loss)
	if loss["kind"] == "scaled_marginal" {
		maps.Copy(loss, f.margins)
	}
	return loss
}

func possible(activations []string) string {
	if len(activations) == 0 {
		return "no activation yet"
	}
	return listed(activations, "or") + " only"
}

// elsewhere names the losses with which an output can have an activation.
func elsewhere(activation string) string {
	var losses []string
	for _, loss := range lossWords {
		if _, found := outputs[loss][activation]; found {
			losses = append(losses, loss)
		}
	}
	if len(losses) == 0 {
		return ""
	}
	return ", and " + activation + " goes with " + listed(losses, "or")
}

// readMargins reads the numbers of scaled marginal cross entropy as keys of our loss.
func readMargins(o *strictjson.Object) fields {
	m := o.Object(only(o, marginalKey, dataMarginalKey))
	probability := strictjson.Between(0, 1)
	one, zero := m.Float32("oneTarget", 0.9, probability), m.Float32("zeroTarget", 0.1, probability)
	if zero >= one {
		m.Fail("zeroTarget", "is %v; it must be less than oneTarget, %v", zero, one)
	}
	return fields{
		"one_scale": m.Float32("oneScale", 1, strictjson.NotNegative), "one_target": one,
		"zero_scale": m.Float32("zeroScale", 1, strictjson.NotNegative), "zero_target": zero,
	}
}
