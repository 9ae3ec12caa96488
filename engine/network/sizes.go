package network

import (
	"maps"
	"slices"
	"strings"

	"dsstne/internal/fault"
)

// WithSizes returns the network with its "auto" sizes filled from the data: columns by name of the layer. "*input"
// stands for the only input layer, "*output" for the only output layer. Layers that share a weight get each other's
// size. A size that contradicts the definition is fault.InvalidArgument, an unknown layer fault.NotFound.
func (n *Network) WithSizes(sizes map[string]int64) (*Network, error) {
	filled := &Network{Name: n.Name, Layers: slices.Clone(n.Layers), Terms: n.Terms}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		i, err := filled.sizedLayer(name)
		if err != nil {
			return nil, err
		}
		l, size := &filled.Layers[i], sizes[name]
		if size < 1 || size > largest {
			return nil, fault.New(fault.InvalidArgument, "the layer %q cannot have %d columns; a layer has from 1 to %d",
				l.Name, size, int64(largest))
		}
		if l.Size != 0 && l.Size != size {
			return nil, fault.New(fault.InvalidArgument, "the layer %q has size %d in the network's definition, but %d in "+
				`the data; is this the right dataset? a size of "auto" follows the data`, l.Name, l.Size, size)
		}
		l.Size = size
	}
	if err := filled.spreadShared(); err != nil {
		return nil, err
	}
	if reason := filled.skipConflict(); reason != "" {
		return nil, fault.New(fault.InvalidArgument, "%s", reason)
	}
	return filled, nil
}

// sizedLayer returns the index of the layer that a name of WithSizes stands for.
func (n *Network) sizedLayer(name string) (int, error) {
	kind, isOnly := strings.CutPrefix(name, "*")
	if !isOnly {
		return n.Layer(name)
	}
	var of []string
	for _, l := range n.Layers {
		if l.kind.word() == kind {
			of = append(of, l.Name)
		}
	}
	if len(of) != 1 {
		return -1, fault.New(fault.InvalidArgument, "the network has %d %s layers, so it takes a mapping with one matrix or "+
			"size for each of %q", len(of), kind, of)
	}
	return n.Layer(of[0])
}
