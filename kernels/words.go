package kernels

// The words that definitions, options and messages use for the kinds, indexed by the constants they stand for.
var (
	ActivationWords = []string{Linear: "linear", Sigmoid: "sigmoid", Tanh: "tanh", ReLU: "relu"}
	LossWords       = []string{SigmoidCrossEntropy: "sigmoid", ScaledMarginal: "scaled_marginal", Softmax: "softmax", Squared: "squared"}
	PrecisionWords  = []string{Float32: "float32", BFloat16: "bfloat16", TensorFloat32: "tensorfloat32"}
	OptimizerWords  = []string{SGD: "sgd", Momentum: "momentum", Nesterov: "nesterov", RMSProp: "rmsprop", Adam: "adam", AdamW: "adamw"}
)

func (a Activation) String() string    { return ActivationWords[a] }
func (k LossKind) String() string      { return LossWords[k] }
func (p Precision) String() string     { return PrecisionWords[p] }
func (k OptimizerKind) String() string { return OptimizerWords[k] }
