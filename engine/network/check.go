package network

import (
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
		n.checkShared(i, objects[i])
		n.checkWeightNorm(i, objects[i])
		n.Layers[i].kind.check(n, i, objects[i])
	}
	checkTensorNames(n, objects)
}

// checkWeightNorm refuses the key on a layer that has no weights.
func (n *Network) checkWeightNorm(i int, o *strictjson.Object) {
	l := &n.Layers[i]
	switch {
	case l.kind.weightNorm() == 0:
	case len(l.Sources) == 0:
		o.Fail(weightNormKey, "is given, but the layer has no sources, so it has no weights that it could limit")
	case l.sharesAll():
		o.Fail(weightNormKey, "is given, but the weight is shared; the weight_norm of the layer that has %s caps it",
			l.Shared[0].Weight)
	}
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
