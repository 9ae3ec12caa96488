package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// A value is nil, a bool, a json.Number, a string, an []any that is not nil, or *members.

// members are those of an object.
type members struct {
	keys   []string       // in the order of the text, as written
	values map[string]any // by report.fold of the key
}

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

func typeOf(v any) Type {
	switch v.(type) {
	case bool:
		return BoolType
	case json.Number:
		return NumberType
	case string:
		return StringType
	case []any:
		return ListType
	case *members:
		return ObjectType
	}
	return Missing
}

// longest is how many bytes of a value stand in an error message.
const longest = 60

// show is a value in an error message.
func show(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return shorten(v.String())
	case string:
		return quote(v)
	}
	return typeOf(v).String()
}

// quote shows a string as JSON does, shortened.
func quote(text string) string {
	out, _ := Marshal(shorten(text)) // a string can always be encoded
	return string(out)
}

// Marshal is json.Marshal, but leaves <, > and & readable.
func Marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
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
