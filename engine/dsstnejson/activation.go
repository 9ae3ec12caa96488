package dsstnejson

import (
	"fmt"
	"math"

	"dsstne/engine/strictjson"
)

// fields are keys of our dialect with their values.
type fields = map[string]any

// activationWords are DSSTNE's words, in the order of messages. shortActivations are other spellings.
var activationWords = []string{
	"Sigmoid", "Tanh", "Linear", "RectifiedLinear", "LeakyRectifiedLinear", "ExponentialLinear",
	"ScaledExponentialLinear", "SoftPlus", "SoftSign", "SoftMax", "RELUMax", "LinearMax", "RELU", "LRELU", "ELU", "SELU",
}

var shortActivations = map[string]string{
	"RELU": "RectifiedLinear", "LRELU": "LeakyRectifiedLinear", "ELU": "ExponentialLinear",
	"SELU": "ScaledExponentialLinear",
}

// activations translate the activation of a hidden layer, or of an output with a loss of values (loss.go), to the keys
// of ours, or say why there is none. Soft-plus and soft-sign are what they are called, not linear as in DSSTNE.
var activations = map[string]func(parameters) (keys fields, refusal string){
	"Sigmoid":                 plain("sigmoid"),
	"Tanh":                    plain("tanh"),
	"Linear":                  plain("linear"),
	"RectifiedLinear":         plain("relu"),
	"LeakyRectifiedLinear":    leaky,
	"ExponentialLinear":       elu,
	"ScaledExponentialLinear": selu,
	"SoftPlus":                plain("softplus"),
	"SoftSign":                plain("softsign"),
	"SoftMax":                 plain("softmax"),
	"RELUMax":                 lacks("is not supported; use Linear, which DSSTNE computes instead"),
	"LinearMax":               lacks("is not supported; use Linear, which DSSTNE computes instead"),
}

// alphaDropout are the activations with which DSSTNE drops units by alpha dropout.
var alphaDropout = map[string]bool{"ExponentialLinear": true, "ScaledExponentialLinear": true}

func plain(word string) func(parameters) (fields, string) {
	return func(parameters) (fields, string) { return fields{"activation": word}, "" }
}

func lacks(sentence string) func(parameters) (fields, string) {
	return func(parameters) (fields, string) { return nil, sentence }
}

func elu(p parameters) (fields, string) { return withAlpha("elu", "alpha", "ELUAlpha", p.alpha) }

// leaky has the slope 0.01 where none is given. DSSTNE's 1 makes it linear.
func leaky(p parameters) (fields, string) {
	return withAlpha("leaky_relu", "slope", "RELUSlope", p.slope)
}

func withAlpha(word, key, theirs string, value *float32) (fields, string) {
	keys := fields{"activation": word}
	if value == nil {
		return keys, ""
	}
	if *value < 0 {
		return nil, fmt.Sprintf("has %s %v; it must be at least 0", theirs, *value)
	}
	keys[key] = *value
	return keys, ""
}

// selu has the constants of Klambauer et al. (2017). DSSTNE's alpha of 1 where none is given is an oversight.
func selu(p parameters) (fields, string) {
	const lambda, alpha, near = 1.0507, 1.67326, 1e-3
	if p.lambda != nil && math.Abs(float64(*p.lambda)-lambda) > near {
		return nil, fmt.Sprintf("has SELULambda %v, but only %v is supported", *p.lambda, lambda)
	}
	if p.alpha != nil && math.Abs(float64(*p.alpha)-alpha) > near {
		return nil, fmt.Sprintf("has ELUAlpha %v, but only %v is supported; it belongs to ScaledExponentialLinear too",
			*p.alpha, alpha)
	}
	return fields{"activation": "selu"}, ""
}

// parameters are those of activations; nil = not given.
type parameters struct{ slope, alpha, lambda *float32 }

// readParameters reads parameters; those not given are those of the network.
func readParameters(o *strictjson.Object, network parameters) parameters {
	p := network
	read := func(key string, to **float32) {
		if o.Has(key) {
			value := o.Float32(key, 0, strictjson.Any)
			*to = &value
		}
	}
	read(only(o, "RELUSlope", "Slope"), &p.slope)
	read("ELUAlpha", &p.alpha)
	read("SELULambda", &p.lambda)
	return p
}

// readActivation returns DSSTNE's word for the activation of a layer.
func readActivation(o *strictjson.Object) string {
	word := o.Word("Activation", "Sigmoid", activationWords...)
	if long, short := shortActivations[word]; short {
		return long
	}
	return word
}
