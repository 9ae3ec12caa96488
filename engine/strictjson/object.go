package strictjson

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dsstne/internal/fault"
)

// Object is a JSON object that is being read, never nil: a missing one reads as empty. It belongs to one goroutine.
type Object struct {
	report *report
	path   string // "layers[2]"; empty for the document
	titled bool   // path is what Title has set
	members
	asked    []string  // keys that some getter knows
	required []string  // keys that must be there
	opened   []*Object // objects inside this one that were read
}

// report is what the objects of a document share.
type report struct {
	what   string
	folded bool // keys and words may be in any letter case
	first  error
}

// fold is what keys are compared by.
func (r *report) fold(key string) string {
	if r.folded {
		return strings.ToLower(key)
	}
	return key
}

// Has reports whether a key is given with a value other than null. Asking makes the key a known one.
func (o *Object) Has(key string) bool { return o.Type(key) != Missing }

// Type is the type of a key's value, for keys that take several; Missing if it is absent or null.
func (o *Object) Type(key string) Type { return typeOf(o.take(key)) }

// Keys lists the keys given, in the order of the text, those with the value null too.
func (o *Object) Keys() []string { return slices.Clone(o.keys) }

// Asked reports whether a getter has asked for a key.
func (o *Object) Asked(key string) bool {
	return slices.ContainsFunc(o.asked, func(asked string) bool { return o.report.fold(asked) == o.report.fold(key) })
}

// Title replaces the path of the object in messages, where people know it by a name: `layer "Hidden1"`. The path of a
// key is then `layer "Hidden1": key`.
func (o *Object) Title(title string) { o.path, o.titled = title, true }

// Path is where the object stands in its document: "layers[2]", or empty for the document itself.
func (o *Object) Path() string { return o.path }

// Require makes Done report the first of these keys that is not given.
func (o *Object) Require(keys ...string) {
	o.required = append(o.required, keys...)
}

// Refuse reports a key that is known, but has no meaning here; the reason follows fmt.Sprintf.
func (o *Object) Refuse(key, reason string, args ...any) {
	if o.value(key) != nil {
		o.Fail(key, reason, args...)
		return
	}
	// Known, but not worth listing among the valid keys.
	delete(o.values, o.report.fold(key))
}

// RefuseOthers refuses those of some keys that nobody has asked for: they have no meaning for what was read.
func (o *Object) RefuseOthers(what string, keys ...string) {
	for _, key := range keys {
		if !o.Asked(key) {
			o.Refuse(key, "has no meaning for %s", what)
		}
	}
}

// Fail reports an error of the caller's own at a key of this object, or at the object itself if key is empty. The
// message, which follows fmt.Sprintf, comes after the path: Fail("size", "is %d; the data has %d columns", a, b).
func (o *Object) Fail(key, format string, args ...any) { o.report.fail(o.at(key), format, args...) }

// FailAt is Fail for element i of the list at a key.
func (o *Object) FailAt(key string, i int, format string, args ...any) {
	o.report.fail(element(o.at(key), i), format, args...)
}

// Err is the first error so far, without looking for unknown and missing keys.
func (o *Object) Err() error { return o.report.first }

// Done returns the first error of the whole document, or else the first key, in this object or those read from it, that
// no getter asked for, and then the first required key that is missing.
func (o *Object) Done() error {
	// In this order: after a wrong value the caller may not ask for everything, and a missing key is often a misspelt one.
	if o.report.first == nil {
		o.checkUnknown()
	}
	if o.report.first == nil {
		o.checkMissing()
	}
	return o.report.first
}

func (o *Object) checkUnknown() {
	for _, key := range o.keys {
		if _, there := o.values[o.report.fold(key)]; there && !o.Asked(key) {
			o.report.fail(o.at(key), "is not a known key%s", Suggestion(key, o.asked))
			return
		}
	}
	for _, child := range o.opened {
		child.checkUnknown()
	}
}

func (o *Object) checkMissing() {
	for _, key := range o.required {
		if o.value(key) == nil {
			o.report.fail(o.at(key), "is missing")
			return
		}
	}
	for _, child := range o.opened {
		child.checkMissing()
	}
}

// take marks a key as known and returns its value.
func (o *Object) take(key string) any {
	if !slices.Contains(o.asked, key) {
		o.asked = append(o.asked, key)
	}
	return o.value(key)
}

func (o *Object) value(key string) any { return o.values[o.report.fold(key)] }

// open makes an object; nil makes an empty one.
func (o *Object) open(path string, m *members) *Object {
	child := &Object{report: o.report, path: path}
	if m != nil {
		child.members = *m
	}
	o.opened = append(o.opened, child)
	return child
}

// at is the path of a key.
func (o *Object) at(key string) string {
	if key == "" {
		return o.path
	}
	if !plain(key) {
		key = strconv.Quote(shorten(key))
	}
	switch {
	case o.path == "":
		return key
	case o.titled:
		return o.path + ": " + key
	}
	return o.path + "." + key
}

// element is the path of element i of a list.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// plain reports whether a key needs no quotes in a path.
func plain(key string) bool {
	for _, r := range key {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return key != "" && len(key) <= longest
}

// fail keeps the first error.
func (r *report) fail(path, format string, args ...any) {
	if r.first == nil {
		if path != "" {
			path += " "
		}
		r.first = fault.New(fault.InvalidArgument, "%s: %s%s", r.what, path, fmt.Sprintf(format, args...))
	}
}
