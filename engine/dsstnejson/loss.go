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
	marginalKey: {
		"Sigmoid": {"kind": "scaled_marginal"},
		"SoftMax": {"kind": "softmax", "normalize_rows": true}, // as with CrossEntropy
	},
	dataMarginalKey: {
		"Sigmoid": {"kind": "scaled_marginal"},
		"SoftMax": {"kind": "softmax"}, // whose values DSSTNE does not divide
	},
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
		maps.Copy(loss, f.margins.ofSigmoid())
	case "softmax":
		f.refuseBoosts("soft-max compares all items of a row")
		if f.loss != "CrossEntropy" {
			maps.Copy(loss, f.margins.ofSoftmax())
		}
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

// margins are the numbers of scaled marginal cross entropy.
type margins struct {
	o                                          *strictjson.Object
	oneScale, zeroScale, oneTarget, zeroTarget float32
}

func readMargins(o *strictjson.Object) margins {
	m := margins{o: o.Object(only(o, marginalKey, dataMarginalKey))}
	m.oneTarget = m.o.Float32("oneTarget", 0.9, strictjson.Between(0, 1))
	m.zeroTarget = m.o.Float32("zeroTarget", 0.1, strictjson.Between(0, 1))
	m.oneScale = m.o.Float32("oneScale", 1, strictjson.NotNegative)
	m.zeroScale = m.o.Float32("zeroScale", 1, strictjson.NotNegative)
	if m.o.Has("zeroTarget") {
		m.checkTargets()
	}
	return m
}

func (m *margins) checkTargets() {
	if m.zeroTarget >= m.oneTarget {
		m.o.Fail("zeroTarget", "is %v; it must be less than oneTarget, %v", m.zeroTarget, m.oneTarget)
	}
}

// ofSigmoid are keys of our loss on a sigmoid.
func (m *margins) ofSigmoid() fields {
	if !m.o.Has("zeroTarget") {
		m.checkTargets()
	}
	return fields{
		"one_scale": m.oneScale, "one_target": m.oneTarget, "zero_scale": m.zeroScale, "zero_target": m.zeroTarget,
	}
}

// ofSoftmax are keys of our loss on a soft-max. A file may spell out numbers of zeros that leave a soft-max as it is,
// or the default: the scale 1, and the targets 0 and 0.1.
func (m *margins) ofSoftmax() fields {
	if m.zeroScale != 1 {
		m.o.Fail("zeroScale", noZeros, m.zeroScale, "1")
	}
	if m.o.Has("zeroTarget") && m.zeroTarget != 0 && m.zeroTarget != 0.1 {
		m.o.Fail("zeroTarget", noZeros, m.zeroTarget, "0")
	}
	const nothing = "is 0, so that nothing counts"
	if m.oneScale == 0 {
		m.o.Fail("oneScale", nothing)
	} else if m.oneTarget == 0 {
		m.o.Fail("oneTarget", nothing)
	}
	return fields{"one_scale": m.oneScale, "one_target": m.oneTarget}
}
