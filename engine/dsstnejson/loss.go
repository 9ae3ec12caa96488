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

// valueLosses are ours for the losses that go with every activation but soft-max.
var valueLosses = map[string]string{"L1": "absolute", "L2": "squared", "L2Hinge": "l2_hinge", "Hinge": "hinge"}

// logitLosses are the keys of ours for a loss and the activation that it goes with. A pair that is not here is an error
// that lists what is.
var logitLosses = map[string]map[string]fields{
	"CrossEntropy": {
		"Sigmoid": {"kind": "sigmoid"},
		// DSSTNE divides a row of ones by their number.
		"SoftMax": {"kind": "softmax", "normalize_rows": true},
	},
	marginalKey:     {"Sigmoid": {"kind": "scaled_marginal"}},
	dataMarginalKey: {"Sigmoid": {"kind": "scaled_marginal"}},
}

// readLoss returns DSSTNE's word for the loss of a file.
func readLoss(o *strictjson.Object) string {
	if word := o.Word("ErrorFunction", "CrossEntropy", lossWords...); word != "Cross Entropy" {
		return word
	}
	return "CrossEntropy"
}

// output adds the keys of an output layer, and returns those of its loss.
func (f *file) output(o *strictjson.Object, activation string, p parameters, layer fields) fields {
	if kind, found := valueLosses[f.loss]; found && activation != "SoftMax" {
		keys, refusal := activations[activation](p)
		if refusal != "" {
			o.Fail("Activation", "%s %s", activation, refusal)
		}
		maps.Copy(layer, keys)
		loss := fields{"kind": kind}
		maps.Copy(loss, f.boosts)
		return loss
	}
	loss := maps.Clone(logitLosses[f.loss][activation])
	if loss == nil {
		text := "is %s"
		if !o.Has("Activation") {
			text += ", the default"
		}
		possible := "any other activation"
		if pairs := logitLosses[f.loss]; pairs != nil {
			possible = listed(slices.Sorted(maps.Keys(pairs)), "or") + " only"
		}
		if losses := lossesOf(activation); losses != nil {
			possible += ", and " + activation + " goes with " + listed(losses, "or")
		}
		o.Fail("Activation", text+"; with the ErrorFunction %s an output can have %s", activation, f.loss, possible)
		return nil
	}
	switch loss["kind"] {
	case "scaled_marginal":
		f.refuseBoosts("the numbers of scaled marginal cross entropy are oneScale and zeroScale")
		maps.Copy(loss, f.margins)
	case "softmax":
		f.refuseBoosts("soft-max compares all items of a row")
	default:
		maps.Copy(loss, f.boosts)
	}
	return loss
}

// readBoosts reads DeltaBoost as keys of our loss, if it has an effect.
func readBoosts(o *strictjson.Object) fields {
	boost := o.Object("DeltaBoost")
	one, zero := boost.Float32("one", 1, strictjson.NotNegative), boost.Float32("zero", 1, strictjson.NotNegative)
	if one == 0 && zero == 0 {
		boost.Fail("zero", "is 0, and one is, too, so that nothing counts")
	}
	if one == 1 && zero == 1 {
		return nil
	}
	return fields{"one_scale": one, "zero_scale": zero}
}

// refuseBoosts reports a DeltaBoost that a loss does not take.
func (f *file) refuseBoosts(why string) {
	if f.boosts != nil {
		f.o.Fail("DeltaBoost", noDeltaBoost, why)
	}
}

// lossesOf names the losses with which an output can have an activation.
func lossesOf(activation string) (losses []string) {
	_, refusal := activations[activation](parameters{})
	ofValues := refusal == "" && activation != "SoftMax"
	for _, loss := range lossWords {
		if valueLosses[loss] != "" && ofValues || logitLosses[loss][activation] != nil {
			losses = append(losses, loss)
		}
	}
	return losses
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
