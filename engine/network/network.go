package network

import (
	"slices"

	"dsstne/engine/fault"
	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// Kind says what a layer is for.
type Kind int

// Input layers take rows of a dataset, hidden layers compute, output layers score items.
const (
	Input Kind = iota
	Hidden
	Output
)

// Scaling is what happens to a row of an input layer before anything else.
type Scaling int

// L2 divides a row by its Euclidean norm; a row of zeros stays.
const (
	NoScaling Scaling = iota
	L2
)

// Layer is one layer of a network; fields that its kind has no use for are zero.
type Layer struct {
	Name    string
	Kind    Kind
	Size    int64 // columns of the dataset (input and output) or units (hidden); 0 = "auto", filled by WithSizes
	Sources []int // indices of earlier layers; not nil but empty on an output that is only a bias

	Activation kernels.Activation // hidden
	Bias       bool               // hidden and output
	Dropout    float32            // hidden: share of the units that training drops, 0 <= p < 1

	Scaling   Scaling // input
	Denoising float32 // input: share of the stored entries that training drops, 0 <= p < 1

	Temperature float32 // output: divisor of cosine logits; 0 = the logits are dot products
	Shared      string  // output: name of the tensor that is its weight too; empty = it has its own

	Initializer Initializer // hidden and output
}

// InitializerKind names a distribution of initial weights.
type InitializerKind int

// The distributions, with s = Scale and f, g = the fan-in and fan-out of a tensor.
const (
	XavierUniform InitializerKind = iota // uniform in -r .. r, r = s sqrt(6 / (f + g))
	XavierNormal                         // normal, deviation s sqrt(2 / (f + g))
	HeUniform                            // uniform in -r .. r, r = s sqrt(6 / f)
	HeNormal                             // normal, deviation s sqrt(2 / f)
	Normal                               // normal, deviation s
	Uniform                              // uniform in -s .. s
	Constant                             // s
)

// Initializer says how the weights and the bias of a layer begin.
type Initializer struct {
	Kind  InitializerKind
	Scale float32
	Bias  float32 // every element of the bias
}

// Term is the loss of one output layer.
type Term struct {
	Layer int // index of the output
	Loss  kernels.Loss
}

// Network is a checked definition. Terms holds one entry for each output, in the order of the layers.
type Network struct {
	Name   string
	Layers []Layer
	Terms  []Term
}

// Layer returns the index of the layer with a name, or fault.NotFound naming the nearest.
func (n *Network) Layer(name string) (int, error) {
	for i := range n.Layers {
		if n.Layers[i].Name == name {
			return i, nil
		}
	}
	return -1, fault.New(fault.NotFound, "the network has no layer %q%s", name, strictjson.Suggestion(name, names(n.Layers)))
}

// names lists the names of layers.
func names(layers []Layer) []string {
	list := make([]string, len(layers))
	for i := range layers {
		list[i] = layers[i].Name
	}
	return list
}

// clone copies a network, so that the copy's layers can be changed.
func (n *Network) clone() *Network {
	c := &Network{Name: n.Name, Layers: slices.Clone(n.Layers), Terms: slices.Clone(n.Terms)}
	for i := range c.Layers {
		c.Layers[i].Sources = slices.Clone(c.Layers[i].Sources)
	}
	return c
}
