package network

import (
	"slices"

	"dsstne/engine/strictjson"
)

// The words of a definition, indexed by the constants they stand for.
var (
	scalingWords     = []string{NoScaling: "none", L2: "l2"}
	initializerWords = []string{XavierUniform: "xavier_uniform", XavierNormal: "xavier_normal", HeUniform: "he_uniform",
		HeNormal: "he_normal", Normal: "normal", Uniform: "uniform", Constant: "constant"}
)

// String is the word of the definition.
func (k InitializerKind) String() string { return initializerWords[k] }

// readWord reads a word, and returns the constant it stands for.
func readWord[K ~int | ~int32](o *strictjson.Object, key string, fallback K, words []string) K {
	return K(slices.Index(words, o.Word(key, words[fallback], words...)))
}
