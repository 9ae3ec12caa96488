package network

import (
	"fmt"
	"slices"
	"strings"

	"dsstne/engine/strictjson"
)

// sources reads the layers that feed a layer; the default is the layer before.
func (r *reader) sources(o *strictjson.Object, l *Layer, earlier []Layer) []int {
	if !o.Has("sources") {
		return r.defaultSource(o, l, earlier)
	}
	sources := r.layers(o, "sources", l, earlier)
	for i, source := range sources {
		if kind := earlier[source].kind; !l.kind.accepts(kind) {
			o.FailAt("sources", i, "is %q, %s layer; %s", earlier[source].Name, withArticle(kind.word()), feeders(l.kind))
		}
	}
	return sources
}

// layers reads a list of names of earlier layers.
func (r *reader) layers(o *strictjson.Object, key string, l *Layer, earlier []Layer) []int {
	names := o.Strings(key)
	if o.Err() != nil || r.incomplete {
		return nil
	}
	list := make([]int, 0, len(names))
	for i, name := range names {
		found := slices.Index(r.known[:len(earlier)], name)
		if found < 0 {
			r.failUnknown(o, key, i, name, l, earlier)
			return nil
		}
		if slices.Contains(list, found) {
			o.FailAt(key, i, "is %q for the second time", name)
		}
		list = append(list, found)
	}
	return list
}

func (r *reader) defaultSource(o *strictjson.Object, l *Layer, earlier []Layer) []int {
	last := len(earlier) - 1
	switch {
	case r.incomplete:
		return nil
	case last < 0:
		o.Fail("sources", "is not given and there is no layer before this one; the first layer is an input layer as a rule")
		return nil
	case !l.kind.accepts(earlier[last].kind):
		o.Fail("sources", "must be given, because the layer before, %q, is %s layer; %s", earlier[last].Name,
			withArticle(earlier[last].kind.word()), feeders(l.kind))
		return nil
	}
	return []int{last}
}

// failUnknown reports a source that is not an earlier layer.
func (r *reader) failUnknown(o *strictjson.Object, key string, i int, name string, l *Layer, earlier []Layer) {
	switch {
	case name == l.Name:
		o.FailAt(key, i, "is %q, the layer itself; %s are earlier layers", name, key)
	case slices.Contains(r.known, name):
		o.FailAt(key, i, "is %q, which comes later; %s are earlier layers", name, key)
	default:
		var candidates []string
		for j := range earlier {
			if l.kind.accepts(earlier[j].kind) {
				candidates = append(candidates, earlier[j].Name)
			}
		}
		o.FailAt(key, i, "is %q; no earlier layer has this name%s", name, strictjson.Suggestion(name, candidates))
	}
}

// feeders says which kinds of layers a kind accepts as sources.
func feeders(of kind) string {
	var words []string
	for _, make := range kinds {
		if source := make(); of.accepts(source) {
			words = append(words, source.word())
		}
	}
	return fmt.Sprintf("the sources of %s layer are %s layers", withArticle(of.word()), listed(words, "or"))
}

func withArticle(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}
