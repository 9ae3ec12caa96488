package kernels

import (
	_ "embed"
	"fmt"

	"dsstne/internal/fault"
)

// kindsHeader is the list of kinds that C and CUDA include; kinds_test.go compares it with the words below. It is
// embedded because the Go command does not follow an #include out of a package: without this it would not build package
// kernels/cpu/c again when the list changes.
//
//go:embed kinds.h
var kindsHeader string

// The words that definitions, options and messages use for the kinds, indexed by the constants they stand for.
var (
	ActivationWords = []string{
		Linear: "linear", Sigmoid: "sigmoid", Tanh: "tanh", ReLU: "relu", ELU: "elu", SELU: "selu",
		LeakyReLU: "leaky_relu", Softplus: "softplus", Softsign: "softsign", GELU: "gelu", SiLU: "silu",
	}
	LossWords = []string{
		SigmoidCrossEntropy: "sigmoid", ScaledMarginal: "scaled_marginal", Softmax: "softmax", Squared: "squared",
		Hinge: "hinge", Absolute: "absolute", L2Hinge: "l2_hinge", CosineContrastive: "cosine_contrastive",
	}
	OptimizerWords = []string{
		SGD: "sgd", Momentum: "momentum", Nesterov: "nesterov", RMSProp: "rmsprop", Adam: "adam", AdamW: "adamw",
		AdaGrad: "adagrad", AdaDelta: "adadelta",
	}
	MergeWords  = []string{MergeMaximum: "maximum", MergeDot: "dot", MergeCosine: "cosine"}
	FillWords   = []string{FillConstant: "constant", FillUniform: "uniform", FillNormal: "normal"}
	MetricWords = []string{
		MetricPrecision: "precision", MetricRecall: "recall", MetricTruncatedRecall: "truncated_recall", MetricNDCG: "ndcg",
		MetricHitRate: "hit_rate", MetricMRR: "mrr", MetricMAP: "map", MetricCoverage: "coverage",
	}
	PrecisionWords = []string{Float32: "float32", BFloat16: "bfloat16", TensorFloat32: "tensorfloat32"}
	StorageWords   = []string{StoredFloat32: "float32", StoredFloat16: "float16", StoredBFloat16: "bfloat16"}
)

// Kind is the type of the constants of one list.
type Kind interface {
	~int32
	comparable
	fmt.Stringer
	// list names what the kinds are, and has their words.
	list() (string, []string)
}

func (ActivationKind) list() (string, []string) { return "activation", ActivationWords }
func (LossKind) list() (string, []string)       { return "loss", LossWords }
func (OptimizerKind) list() (string, []string)  { return "optimizer", OptimizerWords }
func (MergeKind) list() (string, []string)      { return "merge", MergeWords }
func (FillKind) list() (string, []string)       { return "fill", FillWords }
func (MetricKind) list() (string, []string)     { return "metric", MetricWords }
func (Precision) list() (string, []string)      { return "precision", PrecisionWords }
func (Storage) list() (string, []string)        { return "storage", StorageWords }

func (k ActivationKind) String() string { return word(k) }
func (k LossKind) String() string       { return word(k) }
func (k OptimizerKind) String() string  { return word(k) }
func (k MergeKind) String() string      { return word(k) }
func (k FillKind) String() string       { return word(k) }
func (k MetricKind) String() string     { return word(k) }
func (p Precision) String() string      { return word(p) }
func (s Storage) String() string        { return word(s) }

func known[K Kind](kind K) bool {
	_, words := kind.list()
	return kind >= 0 && int(kind) < len(words)
}

func word[K Kind](kind K) string {
	_, words := kind.list()
	if !known(kind) {
		return fmt.Sprintf("number %d", int32(kind))
	}
	return words[kind]
}

// CheckKind returns an error if a kind is not in its list. A backend calls it before it passes the kind on by number.
func CheckKind[K Kind](kind K) error {
	if known(kind) {
		return nil
	}
	return unknown(kind)
}

// FunctionOf returns a backend's function for a kind, or an error if it has none.
func FunctionOf[K Kind, F any](functions map[K]F, kind K) (F, error) {
	function, found := functions[kind]
	if !found {
		return function, unknown(kind)
	}
	return function, nil
}

// unknown is a defect of the library: what reads definitions and options accepts only the words of the lists.
func unknown[K Kind](kind K) error {
	what, _ := kind.list()
	return fault.New(fault.Internal, "this device has no %s %s", what, kind)
}
