package dsstnejson

import (
	"slices"
	"strings"

	"dsstne/engine/strictjson"
)

// connect reads the sources of a layer. Its own rules are about two layers; order applies those about all.
func (f *file) connect(i int) {
	l := f.layers[i]
	if l.o.Err() != nil { // the layer it means may be the one with the error
		return
	}
	l.skips = f.readLayers(l, "Skip", func(int) {})
	if !l.o.Has("Source") {
		if i == 0 {
			l.o.Fail("Source", "is not given, and there is no layer before this one")
			return
		}
		f.addSource(l, i-1, "is not given, so the source is %q, the layer before, but that")
		return
	}
	read := f.readLayers(l, "Source", func(source int) { f.addSource(l, source, "is %q, which") })
	if len(read) == 0 && l.o.Err() == nil {
		l.o.Fail("Source", "is empty; the layer needs at least one")
	}
}

// readLayers reads the names of other layers, and calls add for each.
func (f *file) readLayers(l *layer, key string, add func(layer int)) (list []int) {
	for _, name := range names(l.o, key) {
		found := f.find(name)
		switch {
		case l.o.Err() != nil:
		case found < 0:
			l.o.Fail(key, "is %q; no layer has this name%s", name, strictjson.Suggestion(name, f.names()))
		case f.layers[found] == l:
			l.o.Fail(key, "is %q, the layer itself", name)
		case slices.Contains(list, found):
			l.o.Fail(key, "is %q for the second time", name)
		default:
			list = append(list, found)
			add(found)
		}
	}
	return list
}

func (f *file) namesOf(layers []int) []string {
	list := make([]string, len(layers))
	for n, layer := range layers {
		list[n] = f.layers[layer].name
	}
	return list
}

// addSource adds a source, if layers of its kind can be one; text begins the message.
func (f *file) addSource(l *layer, source int, text string) {
	from := f.layers[source]
	if from.kind == output {
		l.o.Fail("Source", text+" is an output layer; other layers cannot use its scores", from.name)
	}
	l.sources = append(l.sources, source)
}

// find is the index of a layer, or -1.
func (f *file) find(name string) int {
	return slices.IndexFunc(f.layers, func(l *layer) bool { return l.name == name })
}

func (f *file) names() (list []string) {
	for _, l := range f.layers {
		list = append(list, l.name)
	}
	return list
}

// order returns the layers so that sources come first, as our dialect wants it, and otherwise as in the file.
func (f *file) order() []*layer {
	ordered := make([]*layer, 0, len(f.layers))
	placed := make([]bool, len(f.layers))
	for range f.layers {
		next := f.next(placed, true)
		if next < 0 {
			next = f.next(placed, false)
		}
		if next < 0 {
			f.failCycle(placed)
			return nil
		}
		placed[next] = true
		ordered = append(ordered, f.layers[next])
	}
	if !slices.ContainsFunc(ordered, func(l *layer) bool { return l.kind != input }) {
		f.o.Fail("Layers", "has neither a hidden nor an output layer; a network needs at least one of them")
	}
	return ordered
}

// next is the first layer that can be placed, -1 for none; shares: it does not share the weight of one that is not.
func (f *file) next(placed []bool, shares bool) int {
	for i, l := range f.layers {
		waits := placed[i] || f.waits(i, placed)
		for _, s := range l.shares {
			owner := f.find(s.sourceOutput)
			waits = waits || shares && owner >= 0 && !placed[owner]
		}
		if !waits {
			return i
		}
	}
	return -1
}

// waits reports whether a layer has a source that is not placed.
func (f *file) waits(i int, placed []bool) bool {
	return slices.ContainsFunc(f.layers[i].reading(), func(s int) bool { return !placed[s] })
}

// reading lists the layers that a layer depends on.
func (l *layer) reading() []int { return slices.Concat(l.sources, l.skips) }

// failCycle names the layers of a cycle. Each layer that was not placed has a source that was not.
func (f *file) failCycle(placed []bool) {
	var path []int
	at := slices.Index(placed, false)
	for !slices.Contains(path, at) {
		path = append(path, at)
		sources := f.layers[at].reading()
		at = sources[slices.IndexFunc(sources, func(s int) bool { return !placed[s] })]
	}
	cycle := append(path[slices.Index(path, at):], at)
	slices.Reverse(cycle) // from sources to what they feed
	var names []string
	for _, i := range cycle {
		names = append(names, f.layers[i].name)
	}
	f.layers[cycle[0]].o.Fail("Source", "closes a cycle: %s; a layer must not depend on itself",
		strings.Join(names, " -> "))
}

// sharing is an entry of SharedWeights.
type sharing struct {
	inputLayer, sourceInput, sourceOutput string
	transposed                            bool
}

// readSharing reads SharedWeights: an object or a list of them, one for each source whose weight is shared.
func readSharing(o *strictjson.Object) (list []sharing) {
	var entries []*strictjson.Object
	switch o.Type("SharedWeights") {
	case strictjson.Missing:
	case strictjson.ListType:
		entries = o.Objects("SharedWeights")
	default:
		entries = []*strictjson.Object{o.Object("SharedWeights")}
	}
	for _, entry := range entries {
		entry.Require("InputLayer", "SourceInputLayer", "SourceOutputLayer")
		list = append(list, sharing{
			entry.String("InputLayer", ""), entry.String("SourceInputLayer", ""), entry.String("SourceOutputLayer", ""),
			entry.Bool("Transposed", false),
		})
	}
	return list
}

// sharesAll reports whether every weight of a layer is that of another one.
func (l *layer) sharesAll() bool { return len(l.shares) > 0 && len(l.shares) >= len(l.sources) }

// share writes the key "shared" of a layer.
func (f *file) share(l *layer, earlier []*layer) {
	var list []fields
	for n := range l.shares {
		s := &l.shares[n]
		for _, other := range l.shares[:n] {
			if other.inputLayer == s.inputLayer {
				l.o.Fail("SharedWeights", "has InputLayer %q twice", s.inputLayer)
				return
			}
		}
		if !f.owns(l, s, earlier) {
			return
		}
		owner, into := f.layers[f.find(s.sourceOutput)], s.sourceInput
		weight := owner.name + ".weight"
		if len(owner.sources) > 1 {
			weight += "." + into
		}
		list = append(list, fields{"source": s.inputLayer, "weight": weight, "transposed": s.transposed})
	}
	if l.keys["shared"] = any(list); len(l.sources) == 1 {
		l.keys["shared"] = list[0]
	}
}

// owns looks for the layers between which a shared weight is, and reports what is wrong. A weight that is itself a
// shared one is that of its owner.
func (f *file) owns(l *layer, s *sharing, earlier []*layer) bool {
	for _, name := range []string{s.inputLayer, s.sourceInput, s.sourceOutput} {
		if f.find(name) < 0 {
			l.o.Fail("SharedWeights", "names %q; no layer has this name%s", name, strictjson.Suggestion(name, f.names()))
			return false
		}
	}
	from, into, owner := f.find(s.inputLayer), f.find(s.sourceInput), f.layers[f.find(s.sourceOutput)]
	a, b, c, d := f.layers[into], owner, f.layers[from], l
	if s.transposed {
		c, d = d, c
	}
	differ := func(x, y *layer) bool { return x.size*y.size != 0 && x.size != y.size }
	switch {
	case !slices.Contains(l.sources, from):
		l.o.Fail("SharedWeights", "has InputLayer %q, which is not a Source of the layer", s.inputLayer)
	case owner.merge != "":
		l.o.Fail("SharedWeights", "names a weight from %q to %q, but the second is a pooling layer, which has no weights",
			s.sourceInput, owner.name)
	case !slices.Contains(owner.sources, into):
		l.o.Fail("SharedWeights", "names a weight from %q to %q, but the first is not a Source of the second",
			s.sourceInput, owner.name)
	case owner == l:
		l.o.Fail("SharedWeights", "names a weight of the layer itself; others can share it")
	case !slices.Contains(earlier, owner):
		l.o.Fail("SharedWeights", "names a weight of %q, which does not come before the layer; let %q name the weight of %q",
			owner.name, owner.name, l.name)
	case differ(a, c) || differ(b, d):
		l.o.Fail("SharedWeights", "names a weight from %s to %s, which has another shape than that from %s to %s%s",
			sized(a), sized(b), sized(f.layers[from]), sized(l), map[bool]string{true: " transposed"}[s.transposed])
	default:
		for _, other := range owner.shares {
			if other.inputLayer == s.sourceInput { // which is resolved, because its layer is an earlier one
				s.sourceInput, s.sourceOutput = other.sourceInput, other.sourceOutput
				s.transposed = s.transposed != other.transposed
			}
		}
		return true
	}
	return false
}
