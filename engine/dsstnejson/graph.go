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
		next := 0
		for next < len(placed) && (placed[next] || f.waits(next, placed)) {
			next++
		}
		if next == len(placed) {
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

// readSharing reads SharedWeights: an object, or a list of one; nil if it is not given.
func readSharing(o *strictjson.Object) *sharing {
	var entry *strictjson.Object
	switch o.Type("SharedWeights") {
	case strictjson.Missing:
		return nil
	case strictjson.ListType:
		list := o.Objects("SharedWeights")
		if len(list) != 1 {
			o.Fail("SharedWeights", noSharing, "has several or no entries")
			return nil
		}
		entry = list[0]
	default:
		entry = o.Object("SharedWeights")
	}
	entry.Require("InputLayer", "SourceInputLayer", "SourceOutputLayer")
	return &sharing{
		entry.String("InputLayer", ""), entry.String("SourceInputLayer", ""), entry.String("SourceOutputLayer", ""),
		entry.Bool("Transposed", false),
	}
}

// share writes the key "shared" of an output.
func (f *file) share(l *layer) {
	s := l.shares
	for _, name := range []string{s.inputLayer, s.sourceInput, s.sourceOutput} {
		if f.find(name) < 0 {
			l.o.Fail("SharedWeights", "names %q; no layer has this name%s", name, strictjson.Suggestion(name, f.names()))
			return
		}
	}
	source, owner := f.find(s.sourceInput), f.layers[f.find(s.sourceOutput)]
	from, into := f.layers[f.find(s.inputLayer)], f.layers[source]
	switch {
	case len(l.sources) != 1 || f.layers[l.sources[0]] != from:
		l.o.Fail("SharedWeights", "has InputLayer %q, which must be the only Source of the layer", from.name)
	case !slices.Contains(owner.sources, source):
		l.o.Fail("SharedWeights", "names a weight from %q to %q, but the first is not a Source of the second", into.name,
			owner.name)
	case into.kind != input || owner.kind != hidden:
		l.o.Fail("SharedWeights", noSharing, "names a weight between other layers")
	case !s.transposed:
		l.o.Fail("SharedWeights", noSharing, "is not Transposed")
	case from.size != owner.size || into.size*l.size != 0 && into.size != l.size:
		l.o.Fail("SharedWeights", "names a weight of %s and %s, which has another shape than that of %s and %s",
			sized(into), sized(owner), sized(l), sized(from))
	}
	l.keys["shared"] = owner.name + ".weight"
	if len(owner.sources) > 1 {
		l.keys["shared"] = owner.name + ".weight." + into.name
	}
}
