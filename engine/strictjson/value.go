package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Type is the type of a JSON value.
type Type int

// The types. Missing stands for keys that are absent or null.
const (
	Missing Type = iota
	BoolType
	NumberType
	StringType
	ListType
	ObjectType
)

// String is the type with its article, as in "it must be a number".
func (t Type) String() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[t]
}

// value is a parsed JSON value; which fields count follows from kind.
type value struct {
	kind    Type
	truth   bool
	text    string // of a string; the literal of a number
	list    []value
	keys    []string // of an object, in the order of the text
	members map[string]value
}

// longest is how many bytes of a value stand in an error message.
const longest = 60

// String shows a value in an error message.
func (v value) String() string {
	switch v.kind {
	case BoolType:
		return strconv.FormatBool(v.truth)
	case NumberType:
		return shorten(v.text)
	case StringType:
		return quote(v.text)
	case ListType, ObjectType:
		return v.kind.String()
	}
	return "null"
}

// quote shows a string as JSON does, shortened.
func quote(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	// A string can always be encoded.
	_ = encoder.Encode(shorten(text))
	return string(bytes.TrimSpace(out.Bytes()))
}

// shorten cuts a text that is too long for a message.
func shorten(text string) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
