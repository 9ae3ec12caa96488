package model

import (
	"encoding/json"
	"maps"
	"slices"

	"dsstne/engine/blend"
	"dsstne/engine/dsstnejson"
	"dsstne/engine/factors"
	"dsstne/engine/itemweights"
	"dsstne/engine/network"
	"dsstne/engine/program"
	"dsstne/engine/ridge"
	"dsstne/engine/spectral"
	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/engine/vectors"
	"dsstne/internal/fault"
)

// Form is how a model scores. It is a definition that is never changed once it is made.
type Form interface {
	// Ports are the layers as users of the model see them.
	Ports() []program.Port
	// Specs are the tensors, in the order of the model file.
	Specs() ([]tensor.Spec, error)
	// Matrices are the matrices among them.
	Matrices() []program.Matrix
	// Computation makes programs; bind completes a layer's feed by the dataset that is bound to it.
	Computation(bind func(*program.Feed)) program.Computation
	// Check returns an error if tensors do not fit each other. Nothing else reads them before it has returned nil.
	Check(find func(name string) (*tensor.Tensor, error)) error
	// JSON is the complete definition, of which ReadForm makes the same form.
	JSON() []byte
}

// ReadForm reads a definition: one that names no kind is a network's, in our dialect or DSSTNE's. sizes are those that
// it leaves open, by layer.
func ReadForm(definition []byte, sizes map[string]int64) (Form, error) {
	if err := network.CheckLength(definition); err != nil {
		return nil, err
	}
	var kind struct{ Kind *string }
	// What is not JSON is for the reader of a network to report. DSSTNE's files have kinds of networks.
	if json.Unmarshal(definition, &kind) != nil || kind.Kind == nil || dsstnejson.IsKind(*kind.Kind) {
		config, err := dsstnejson.Read(definition, dsstnejson.Auto)
		if err != nil {
			return nil, err
		}
		return config.Network.WithSizes(sizes)
	}
	word := *kind.Kind
	parse, known := kinds[word]
	if !known {
		return nil, fault.New(fault.InvalidArgument, "kind: %q is unknown%s; a network's definition has no kind", word,
			strictjson.Suggestion(word, slices.Sorted(maps.Keys(kinds))))
	}
	if len(sizes) > 0 {
		return nil, fault.New(fault.InvalidArgument, `sizes is given, but the definition of %q has no size "auto", `+
			"and such a model is not trained", word)
	}
	return parse(definition)
}

// kinds are the forms that are no networks, by the word of their definition.
var kinds = map[string]func([]byte) (Form, error){
	itemweights.Kind: func(text []byte) (Form, error) { return itemweights.Parse(text) },
	ridge.Kind:       func(text []byte) (Form, error) { return ridge.Parse(text) },
	spectral.Kind:    func(text []byte) (Form, error) { return spectral.Parse(text) },
	factors.Kind:     func(text []byte) (Form, error) { return factors.Parse(text) },
	vectors.Kind:     func(text []byte) (Form, error) { return vectors.Parse(text) },
}

func init() { // not above, since its parts are forms themselves
	kinds[blend.Kind] = func(text []byte) (Form, error) {
		return blend.Parse(text, func(part []byte) (blend.Model, error) { return ReadForm(part, nil) })
	}
}

// Bounded is a Form that bounds the rows of a batch, or the devices.
type Bounded interface {
	// Bounds are the most rows of a batch, and where scores can be computed.
	Bounds() (rows int64, on program.Reach)
}

// Form is how the model scores.
func (m *Model) Form() Form { return m.form }

// Network is the definition of a model that is a network, and nil for other forms. It must not be changed.
func (m *Model) Network() *network.Network {
	net, _ := m.form.(*network.Network)
	return net
}

// Check returns an error if the tensors do not fit each other, as the form wants it. The caller has the right to read.
func (m *Model) Check() error {
	changes := m.Changes() + 1
	if m.checked.Load() == changes {
		return nil
	}
	if err := m.form.Check(m.Tensor); err != nil {
		return err
	}
	m.checked.Store(changes)
	return nil
}
