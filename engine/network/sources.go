package network

import (
	"slices"

	"dsstne/engine/strictjson"
)

// sources reads the layers that feed a layer; the default is the layer before.
func (r *reader) sources(o *strictjson.Object, l *Layer, earlier []Layer) []int {
	if !o.Has("sources") {
		return r.defaultSource(o, l, earlier)
	}
	names := o.Strings("sources")
	if o.Err() != nil || r.incomplete {
		return nil
	}
	sources := make([]int, 0, len(names))
	for i, name := range names {
		source := slices.Index(r.known[:len(earlier)], name)
		if source < 0 {
			r.failUnknown(o, i, name, l, earlier)
			return nil
		}
		if slices.Contains(sources, source) {
			o.FailAt("sources", i, "is %q for the second time", name)
		}
		if !canFeed(earlier[source].Kind, l.Kind) {
			o.FailAt("sources", i, "is %q, an %v layer; %s", name, earlier[source].Kind, feeders(l.Kind))
		}
		sources = append(sources, source)
	}
	if len(sources) == 0 && l.Kind == Hidden {
		o.Fail("sources", "is empty; a hidden layer needs at least one")
	}
	return sources
}

func (r *reader) defaultSource(o *strictjson.Object, l *Layer, earlier []Layer) []int {
	last := len(earlier) - 1
	switch {
	case r.incomplete:
		return nil
	case last < 0:
		o.Fail("sources", "is not given and there is no layer before this one; the first layer is an input layer as a rule")
		return nil
	case !canFeed(earlier[last].Kind, l.Kind):
		o.Fail("sources", "must be given, because the layer before, %q, is an %v layer; %s", earlier[last].Name,
			earlier[last].Kind, feeders(l.Kind))
		return nil
	}
	return []int{last}
}

// failUnknown reports a source that is not an earlier layer.
func (r *reader) failUnknown(o *strictjson.Object, i int, name string, l *Layer, earlier []Layer) {
	switch {
	case name == l.Name:
		o.FailAt("sources", i, "is %q, the layer itself; sources are earlier layers", name)
	case slices.Contains(r.known, name):
		o.FailAt("sources", i, "is %q, which comes later; sources are earlier layers", name)
	default:
		var candidates []string
		for j := range earlier {
			if canFeed(earlier[j].Kind, l.Kind) {
				candidates = append(candidates, earlier[j].Name)
			}
		}
		o.FailAt("sources", i, "is %q; no earlier layer has this name%s", name, strictjson.Suggestion(name, candidates))
	}
}

// canFeed tells whether a layer of one kind may be the source of another: an output's weight is laid out for dense hidden
// vectors, so an input cannot feed it directly.
func canFeed(source, layer Kind) bool {
	return source == Hidden || source == Input && layer == Hidden
}

// feeders says what canFeed allows.
func feeders(layer Kind) string {
	if layer == Hidden {
		return "the sources of a hidden layer are input or hidden layers"
	}
	return "the sources of an output layer are hidden layers"
}
