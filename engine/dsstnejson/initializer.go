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
}

const caffeXavier, unitBall = "CaffeXavier", "UnitBall"

// schemeWords are in the order of messages.
var schemeWords = []string{"Xavier", caffeXavier, "Gaussian", "Uniform", unitBall, "Constant", "SELU"}

// readInitializer reads WeightInit of a layer. size is that of the layer, or 0 if the data determines it.
func readInitializer(layer *strictjson.Object, size int64, shared bool) fields {
	o := layer.Object("WeightInit")
	scheme, scales := o.Word("Scheme", "Xavier", schemeWords...), strictjson.NotNegative
	if scheme == "Constant" {
		scales = strictjson.Any
	}
	scale, bias := o.Float32("Scale", 1, scales), o.Float32("Bias", 0, strictjson.Any)
	to := schemes[scheme]
	switch {
	case scheme == unitBall:
		o.Fail("Scheme", noUnitBall)
	case scheme == caffeXavier && size == 0:
		o.Fail("Scheme", "is CaffeXavier, which needs the size of the layer; give it as N, or use Xavier")
	case scheme == caffeXavier:
		to.kind, to.factor = "uniform", math.Sqrt(3/float64(size))
	}
	if shared { // the weight begins as its owner wants it
		return fields{"bias": bias}
	}
	return fields{"kind": to.kind, "scale": float32(float64(scale) * to.factor), "bias": bias}
}
