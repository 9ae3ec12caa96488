package dsstnejson

import (
	"math"

	"dsstne/engine/strictjson"
)

// schemes translate WeightInit.Scheme: our kind, and the factor from DSSTNE's Scale to ours.
var schemes = map[string]struct {
	kind   string
	factor float64
}{
	"Xavier":   {"xavier_uniform", 1},
	"Gaussian": {"normal", 1},
	"Uniform":  {"uniform", 1},
	"Constant": {"constant", 1},
	"SELU":     {"he_normal", math.Sqrt(0.5)}, // variance 1 / fan-in
	// fan-in in Caffe, fan-out in DSSTNE
	"CaffeXavier": {"fan_out_uniform", 1},
	"UnitBall":    {"unit_norm", 1},
}

// schemeWords are in the order of messages.
var schemeWords = []string{"Xavier", "CaffeXavier", "Gaussian", "Uniform", "UnitBall", "Constant", "SELU"}

// readInitializer reads WeightInit of a layer.
func readInitializer(layer *strictjson.Object, shared bool) fields {
	o := layer.Object("WeightInit")
	scheme, scales := o.Word("Scheme", "Xavier", schemeWords...), strictjson.NotNegative
	if scheme == "Constant" {
		scales = strictjson.Any
	}
	scale, bias := o.Float32("Scale", 1, scales), o.Float32("Bias", 0, strictjson.Any)
	to := schemes[scheme]
	if shared { // the weight begins as its owner wants it
		return fields{"bias": bias}
	}
	return fields{"kind": to.kind, "scale": float32(float64(scale) * to.factor), "bias": bias}
}
