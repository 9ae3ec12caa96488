package dsstnejson

import "dsstne/engine/strictjson"

// Layers of Type Pooling that compute with the values of their sources: our merge layers.

// pooling are the functions of pooling layers, with those of merge layers; the others are not supported.
var pooling = []struct{ word, function string }{
	{"MaxOut", "maximum"}, {"DotProduct", "dot"}, {"Cosine", "cosine"}, {"Max", ""}, {"Average", ""}, {"LRN", ""},
	{"LocalResponseNormalization", ""},
}

// readFunction reads the function of a pooling layer.
func (f *file) readFunction(o *strictjson.Object) string {
	o.Require("Function")
	var words []string
	for _, p := range pooling {
		words = append(words, p.word)
	}
	word := o.Word("Function", words[0], words...)
	for _, p := range pooling {
		if p.word != word {
			continue
		}
		if p.function == "" {
			o.Fail("Function", "is %s, which is not supported; of the pooling layers, MaxOut, DotProduct and Cosine are", word)
		}
		if maxOut := f.o.Object("MaxOut"); word == "MaxOut" && maxOut.Has("k") {
			maxOut.Fail("k", "is given, but DSSTNE's layers ignore it: the maximum is over all sources; remove it")
		}
		return p.function
	}
	return ""
}

// refuseForMerges reports keys that have no effect on pooling layers.
func refuseForMerges(o *strictjson.Object, keys ...string) {
	for _, key := range keys {
		o.Refuse(key, "is given, but DSSTNE does not apply it to pooling layers; remove it")
	}
}

// readMerge reads a hidden pooling layer.
func (f *file) readMerge(l *layer) {
	if l.o.Has("Activation") && readActivation(l.o) != "Linear" {
		refuseForMerges(l.o, "Activation")
	}
	refuseForMerges(l.o, "Sparse", "pDropout", "BatchNormalization", "SparsenessPenalty", "WeightInit",
		"SharedWeights", "WeightNorm", "DeltaNorm", "RELUSlope", "Slope", "ELUAlpha", "SELULambda", "Skip")
	l.keys["kind"], l.keys["function"] = "merge", l.merge
	if l.size == 0 {
		delete(l.keys, "size")
	}
}

// mergeBefore makes the merge layer of an output of Type Pooling, which becomes an output with that as its only skip.
func (f *file) mergeBefore(l *layer) fields {
	refuseForMerges(l.o, "WeightInit", "SharedWeights", "WeightNorm", "DeltaNorm", "Skip")
	name := l.name + ".merge"
	l.keys["sources"], l.keys["skips"], l.keys["bias"] = []string{}, []string{name}, false
	delete(l.keys, "initializer")
	return fields{"name": name, "kind": "merge", "function": l.merge, "sources": f.namesOf(l.sources)}
}
