package network

import (
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
)

// Locked returns the tensors that training leaves as they are, by name. Each of the names is that of a tensor, or that
// of a layer, which stands for all weights that the layer computes with, also one that it shares. An unknown name is
// fault.NotFound; a network in which nothing is left to train is fault.InvalidArgument.
func (n *Network) Locked(names []string) (map[string]bool, error) {
	if len(n.Terms) == 0 {
		return nil, fault.New(fault.InvalidArgument, "the network has no output layer, so there is nothing to train")
	}
	locked := map[string]bool{}
	for i, name := range names {
		tensors, err := n.lockedBy(name)
		if err != nil {
			return nil, fault.Wrap(err, "locked[%d]", i)
		}
		for _, t := range tensors {
			locked[t] = true
		}
	}
	n.lockRunning(locked)
	learns := n.learns(locked)
	if !slices.ContainsFunc(n.Terms, func(t Term) bool { return learns[t.Layer] }) {
		return nil, fault.New(fault.InvalidArgument, "locked: all weights that an output depends on are locked, so there "+
			"is nothing to train; leave out at least one of %q", names)
	}
	return locked, nil
}

// lockedBy lists the tensors that a name of Locked stands for.
func (n *Network) lockedBy(name string) ([]string, error) {
	var known []string
	for i := range n.Layers {
		l := &n.Layers[i]
		if weights := n.weightsOf(i); len(weights) > 0 {
			if l.Name == name {
				return weights, nil
			}
			known = append(known, l.Name)
		} else if l.Name == name {
			return nil, fault.New(fault.InvalidArgument, "%q is %s layer, which has no weights of its own; name a layer "+
				"that it feeds, or a weight", name, withArticle(l.kind.word()))
		}
	}
	for _, t := range n.tensors() {
		if t.Name == name {
			return []string{name}, nil
		}
		known = append(known, t.Name)
	}
	return nil, fault.New(fault.NotFound, "the network has no layer and no weight %q%s", name,
		strictjson.Suggestion(name, known))
}

// weightsOf lists the tensors that a layer computes with.
func (n *Network) weightsOf(i int) (names []string) {
	l := &n.Layers[i]
	for _, s := range l.Sources {
		names = append(names, n.WeightName(i, s))
	}
	if l.Bias {
		names = append(names, l.Name+".bias")
	}
	for _, t := range l.normTensors() {
		names = append(names, l.Name+t.ending)
	}
	return names
}

// learns reports for each layer whether it has weights that are not locked, or depends on a layer that has. The
// gradient with respect to the values of other layers is not needed.
func (n *Network) learns(locked map[string]bool) []bool {
	learns := make([]bool, len(n.Layers))
	for i := range n.Layers {
		running := n.running(i)
		free := func(tensor string) bool { return !locked[tensor] && !slices.Contains(running, tensor) }
		learns[i] = slices.ContainsFunc(n.weightsOf(i), free) ||
			slices.ContainsFunc(n.Layers[i].reading(), func(s int) bool { return learns[s] })
	}
	return learns
}
