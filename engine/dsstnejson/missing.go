package dsstnejson

import "dsstne/engine/strictjson"

// What the engine lacks. An entry goes when the engine can do it, and layer.go or read.go then reads the key.

// missing are the keys of layers that cannot have an effect yet.
var missing = []struct{ key, sentence string }{
	{"Kernel", "is of convolution and pooling layers, which are not supported; remove it"},
	{"KernelStride", "is of convolution and pooling layers, which are not supported; remove it"},
}

// missingTypes are the types of layers that are not supported, by their words.
var missingTypes = map[string]string{
	"Convolutional": "convolution is not supported",
}

// Sentences about what is missing, each used at one place.
const (
	noTargetLayers = "is Target; DSSTNE cannot use such layers, and they are not supported; remove the layer"
	noDeltaBoost   = "is not 1 and 1, which goes with L1, L2, Hinge, L2Hinge and with CrossEntropy of Sigmoid; %s"
	noWeightsData  = "is %q; DSSTNE itself never reads this file; remove the key"
	noZeros        = "is %v, but the loss of a SoftMax output has no part for items without a target; set it to %s"
	noDropout      = "is %v, but only hidden layers can drop units; set it to 0%s"
	noWeightNorm   = "is %v, but the weight is shared; WeightNorm of the layer that has it caps it, so remove it here"
)

// refuseMissing reports the keys of missing.
func refuseMissing(o *strictjson.Object) {
	for _, m := range missing {
		o.Refuse(m.key, "%s", m.sentence)
	}
}
