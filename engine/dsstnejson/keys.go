package dsstnejson

import (
	"strings"

	"dsstne/engine/strictjson"
)

// Kinds of layers.
const (
	input  = "Input"
	hidden = "Hidden"
	output = "Output"
	target = "Target"
)

var (
	any3    = []string{input, hidden, output}
	data    = []string{input, output}
	units   = []string{hidden}
	trained = []string{hidden, output}
)

// topKeys are the keys of a file. read.go reads them.
var topKeys = []string{
	"Version", "Name", "Kind", "WeightsData", "LRN", "LocalResponseNormalization", "MaxOut", "SparsenessPenalty",
	"Denoising", "DeltaBoost", marginalKey, dataMarginalKey, "ShuffleIndices", "RELUSlope", "Slope", "ELUAlpha",
	"SELULambda", "Decay", "ErrorFunction", "Layers",
}

const (
	marginalKey     = "ScaledMarginalCrossEntropy"
	dataMarginalKey = "DataScaledMarginalCrossEntropy"
)

// layerKeys are the keys of a layer, with the kinds of layers that have them. layer.go reads them.
var layerKeys = []struct {
	key   string
	kinds []string
}{
	{"Kind", any3},
	{"Type", any3},
	{"Name", any3},
	{"Sparse", any3},
	{"N", any3},
	{"pDropout", any3},
	{"DataSet", data},
	{"Source", trained},
	{"Kernel", trained},
	{"KernelStride", trained},
	{"BatchNormalization", units},
	{"SparsenessPenalty", units},
	{"Function", trained},
	{"Skip", trained},
	{"Activation", trained},
	{"RELUSlope", trained},
	{"Slope", trained},
	{"ELUAlpha", trained},
	{"SELULambda", trained},
	{"WeightNorm", trained},
	{"DeltaNorm", trained},
	{"WeightInit", trained},
	{"SharedWeights", trained},
}

// only returns the one of two keys with the same meaning that an object has, and the first if it has neither.
func only(o *strictjson.Object, first, second string) string {
	hasFirst, hasSecond := o.Has(first), o.Has(second)
	if hasFirst && hasSecond {
		o.Fail(second, "is given beside %s, which means the same; give one of them", first)
	}
	if hasSecond {
		return second
	}
	return first
}

// listed joins words as in "a, b or c".
func listed(words []string, last string) string {
	n := len(words)
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
}
