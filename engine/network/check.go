package network

import (
	"cmp"
	"fmt"
	"slices"

	"dsstne/engine/strictjson"
)

// check applies the rules about several layers, and reports at the objects that the layers were read from.
func check(n *Network, document *strictjson.Object, objects []*strictjson.Object) {
	if !slices.ContainsFunc(n.Layers, func(l Layer) bool { return !l.Reads() }) {
		document.Fail("layers", "has neither a hidden nor an output layer; a network needs at least one of them")
	}
	if len(n.Terms) == 0 && document.Type("loss") != strictjson.Missing &&
		(document.Type("loss") != strictjson.ListType || len(document.Objects("loss")) > 0) {
		document.Fail("loss", "is given, but the network has no output layer")
	}
	for i := range n.Layers {
		n.Layers[i].kind.check(n, i, objects[i])
	}
	checkTensorNames(n, objects)
}

// checkShared decides whether a layer can use another's weight.
func (n *Network) checkShared(i int, o *strictjson.Object) {
	l := &n.Layers[i]
	if len(l.Sources) != 1 {
		o.Fail("shared", "is %q, which needs exactly one source, but the layer has %d", l.Shared, len(l.Sources))
		return
	}
	owner, source := n.owner(l.Shared)
	if owner < 0 {
		o.Fail("shared", "is %q; no earlier layer has this weight from an input layer%s", l.Shared,
			strictjson.Suggestion(l.Shared, n.shareable()))
		return
	}
	for j := range i {
		if n.Layers[j].Shared == l.Shared {
			o.Fail("shared", "is %q, which the output %q shares already; a weight has one gradient, so one output can share it",
				l.Shared, n.Layers[j].Name)
			return
		}
	}
	if reason := n.shapeConflict(i, owner, source); reason != "" {
		o.Fail("shared", "is %q, but %s", l.Shared, reason)
	}
}

// owner finds the hidden layer and the input layer of a weight by its name, or -1 and -1.
func (n *Network) owner(name string) (layer, source int) {
	for i := range n.Layers {
		for _, s := range n.Layers[i].Sources {
			if n.canShare(i, s) && n.WeightName(i, s) == name {
				return i, s
			}
		}
	}
	return -1, -1
}

// canShare reports whether an output may use the weight between a layer and a source.
func (n *Network) canShare(layer, source int) bool {
	l := &n.Layers[layer]
	return n.Layers[source].Reads() && l.kind.heads() == 1 && !l.Scores()
}

// shareable lists the weights that owner finds.
func (n *Network) shareable() []string {
	var list []string
	for i := range n.Layers {
		for _, s := range n.Layers[i].Sources {
			if n.canShare(i, s) {
				list = append(list, n.WeightName(i, s))
			}
		}
	}
	return list
}

// shapeConflict explains why an output cannot use the weight between two layers. Empty: it can, or sizes are unknown.
func (n *Network) shapeConflict(output, owner, source int) string {
	out := &n.Layers[output]
	return cmp.Or(conflict(&n.Layers[owner], &n.Layers[out.Sources[0]]), conflict(&n.Layers[source], out))
}

// conflict explains that two layers whose sizes should be equal differ.
func conflict(a, b *Layer) string {
	if a.Size == b.Size || a.Size == 0 || b.Size == 0 {
		return ""
	}
	return fmt.Sprintf("%q has size %d and %q has size %d", a.Name, a.Size, b.Name, b.Size)
}

// checkTensorNames refuses layer names with which two tensors would have the same name, which dots make possible.
func checkTensorNames(n *Network, objects []*strictjson.Object) {
	owners := map[string]int{}
	for _, t := range n.tensors() {
		if first, taken := owners[t.Name]; taken {
			objects[t.Layer].Fail("name", "is %q, so that a tensor would be named %q, like one of the layer %q",
				n.Layers[t.Layer].Name, t.Name, n.Layers[first].Name)
		}
		owners[t.Name] = t.Layer
	}
}
