package network

import (
	"fmt"
	"slices"

	"dsstne/engine/program"
	"dsstne/engine/schedule"
	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Layer is one layer of a network. What it does is a matter of its kind (kind.go).
type Layer struct {
	Name    string
	Size    int64 // columns of a dataset, or units; 0 = "auto", filled by WithSizes
	Sources []int // indices of earlier layers; not nil but empty on a layer that is only a bias
	Skips   []int // indices of earlier layers whose values it reads without a weight

	// Layers with weights:
	Bias        bool
	Shared      []Share // by source; nil = it has all weights of its own
	Initializer Initializer

	kind kind
}

// reading lists the layers that the layer depends on.
func (l *Layer) reading() []int { return slices.Concat(l.Sources, l.Skips) }

// Reads reports whether the layer takes the rows of a dataset in training and inference.
func (l *Layer) Reads() bool { return l.kind.reads() }

// Scores reports whether the layer gives scores to items. In training it takes targets.
func (l *Layer) Scores() bool { return l.kind.scores() }

// Scaled reports whether the rows that the layer reads are divided by their L2 norm.
func (l *Layer) Scaled() bool {
	var f program.Feed
	l.kind.feed(&f)
	return f.Scaled
}

// Temperature divides the cosine logits of the layer; 0 if it has dot products, or is not an output.
func (l *Layer) Temperature() float32 {
	output, _ := l.kind.(*outputLayer)
	if output == nil {
		return 0
	}
	return output.temperature
}

// InitializerKind names a distribution of initial weights.
type InitializerKind int

// The distributions, with s = Scale and f, g = the fan-in and fan-out of a tensor.
const (
	XavierUniform InitializerKind = iota // uniform in -r .. r, r = s sqrt(6 / (f + g))
	XavierNormal                         // normal, deviation s sqrt(2 / (f + g))
	HeUniform                            // uniform in -r .. r, r = s sqrt(6 / f)
	HeNormal                             // normal, deviation s sqrt(2 / f)
	FanOutUniform                        // uniform in -r .. r, r = s sqrt(3 / g), as in Caffe
	UnitNorm                             // each unit's weights have a random direction and the length s
	Normal                               // normal, deviation s
	Uniform                              // uniform in -s .. s
	Constant                             // s
)

var initializerWords = []string{
	XavierUniform: "xavier_uniform", XavierNormal: "xavier_normal", HeUniform: "he_uniform", HeNormal: "he_normal",
	FanOutUniform: "fan_out_uniform", UnitNorm: "unit_norm", Normal: "normal", Uniform: "uniform", Constant: "constant",
}

// String is the word of the definition.
func (k InitializerKind) String() string { return initializerWords[k] }

// Initializer says how the weights and the bias of a layer begin.
type Initializer struct {
	Kind  InitializerKind
	Scale float32
	Bias  float32 // every element of the bias
}

// Term is a part of the loss: that of one output layer, with a weight that may change from step to step.
type Term struct {
	Layer    int // index of the output
	Loss     kernels.Loss
	Schedule schedule.Schedule // factor of the weight
	// StoredOnly: only the stored entries of the target count, and a step reads and updates their items alone.
	StoredOnly bool
	// Negatives are items without a target that are drawn in each step for each stored entry. If there are any, these and
	// the stored entries alone count.
	Negatives int64
}

// touchesEntries reports whether a step touches the items of entries only.
func (t *Term) touchesEntries() bool { return t.StoredOnly || t.Negatives > 0 }

// WholeRows says why a device needs all entries of a row of the targets; empty: it does not.
func (n *Network) WholeRows() string {
	for _, t := range n.Terms {
		if t.touchesEntries() && t.Loss.Compares() {
			return fmt.Sprintf("the loss of %q compares the entries of a row", n.Layers[t.Layer].Name)
		}
	}
	return ""
}

// termOf is the term of an output.
func (n *Network) termOf(output int) Term {
	return n.Terms[slices.IndexFunc(n.Terms, func(t Term) bool { return t.Layer == output })]
}

// penaltyTerm is the number of the term of a layer's penalty: those come behind the terms of the outputs.
func (n *Network) penaltyTerm(layer int) int {
	term := len(n.Terms)
	for i := range layer {
		if _, is := n.Layers[i].kind.penalty(); is {
			term++
		}
	}
	return term
}

// TermFactors are the factors of the terms' weights at a step, counted from 1, see Schedule.At; nil if no term has a
// schedule.
func (n *Network) TermFactors(step, stepsPerEpoch int64) []float32 {
	var schedules []schedule.Schedule
	for _, t := range n.Terms {
		schedules = append(schedules, t.Schedule)
	}
	for i := range n.Layers {
		if s, is := n.Layers[i].kind.penalty(); is {
			schedules = append(schedules, s)
		}
	}
	if !slices.ContainsFunc(schedules, func(s schedule.Schedule) bool { return !s.IsConstant() }) {
		return nil
	}
	factors := make([]float32, len(schedules))
	for i, s := range schedules {
		factors[i] = float32(s.At(step, stepsPerEpoch))
	}
	return factors
}

// Network is a checked definition. Terms holds one entry for each output, in the order of the layers.
type Network struct {
	Name   string
	Layers []Layer
	Terms  []Term
}

// before reports for each layer whether it is one of some layers, or such a layer depends on it.
func (n *Network) before(some func(i int) bool) []bool {
	found := make([]bool, len(n.Layers))
	for i := len(n.Layers) - 1; i >= 0; i-- {
		if found[i] = found[i] || some(i); found[i] {
			for _, source := range n.Layers[i].reading() {
				found[source] = true
			}
		}
	}
	return found
}

// Layer returns the index of the layer with a name, or fault.NotFound naming the nearest.
func (n *Network) Layer(name string) (int, error) {
	names := make([]string, len(n.Layers))
	for i := range n.Layers {
		names[i] = n.Layers[i].Name
	}
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return -1, fault.New(fault.NotFound, "the network has no layer %q%s", name, strictjson.Suggestion(name, names))
}
