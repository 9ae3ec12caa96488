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
	all      = []string{input, hidden, output}
	withData = []string{input, output}
	inside   = []string{hidden}
	weighted = []string{hidden, output}
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
	{"Kind", all},
	{"Type", all},
	{"Name", all},
	{"Sparse", all},
	{"N", all},
	{"pDropout", all},
	{"DataSet", withData},
	{"Source", weighted},
	{"Kernel", weighted},
	{"KernelStride", weighted},
	{"BatchNormalization", inside},
	{"SparsenessPenalty", inside},
	{"Function", weighted},
	{"Skip", weighted},
	{"Activation", weighted},
	{"RELUSlope", weighted},
	{"Slope", weighted},
	{"ELUAlpha", weighted},
	{"SELULambda", weighted},
	{"WeightNorm", weighted},
	{"DeltaNorm", weighted},
	{"WeightInit", weighted},
	{"SharedWeights", weighted},
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
