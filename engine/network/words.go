package network

// The words of a definition, indexed by the constants they stand for.
var (
	scalingWords     = []string{NoScaling: "none", L2: "l2"}
	initializerWords = []string{XavierUniform: "xavier_uniform", XavierNormal: "xavier_normal", HeUniform: "he_uniform",
		HeNormal: "he_normal", Normal: "normal", Uniform: "uniform", Constant: "constant"}
)

// String is the word of the definition.
func (k InitializerKind) String() string { return initializerWords[k] }
