package strictjson

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// String returns a string, or fallback if the key is not given.
func (o *Object) String(key, fallback string) string {
	if v := o.expect(key, StringType); v.kind == StringType {
		return v.text
	}
	return fallback
}

// Bool returns true or false, or fallback if the key is not given.
func (o *Object) Bool(key string, fallback bool) bool {
	if v := o.expect(key, BoolType); v.kind == BoolType {
		return v.truth
	}
	return fallback
}

// Word returns one of the allowed strings, or fallback if the key is not given.
func (o *Object) Word(key, fallback string, allowed ...string) string {
	v := o.take(key)
	if v.kind == Missing {
		return fallback
	}
	if v.kind == StringType && slices.Contains(allowed, v.text) {
		return v.text
	}
	hint := ""
	if v.kind == StringType {
		if near := Nearest(v.text, allowed); near != "" {
			hint = "; did you mean " + quote(near) + "?"
		}
	}
	o.report.fail(o.at(key), "is %v; it must be one of %s%s", v, strings.Join(allowed, ", "), hint)
	return fallback
}

// Int returns a whole number in a range, or fallback if the key is not given. 512.0 and 5.12e2 are whole, 512.5 is not.
func (o *Object) Int(key string, fallback int64, allowed Range) int64 {
	v := o.take(key)
	if v.kind == Missing {
		return fallback
	}
	return o.whole(o.at(key), v, fallback, allowed)
}

// Uint returns a whole number from 0 to 2^64-1, such as a seed, or fallback if the key is not given.
func (o *Object) Uint(key string, fallback uint64) uint64 {
	v := o.take(key)
	if v.kind == Missing {
		return fallback
	}
	if v.kind == NumberType {
		if digits, whole := integer(v.text); whole {
			if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
				return n
			}
		}
	}
	o.report.fail(o.at(key), "is %v; it must be an integer from 0 to %d", v, uint64(math.MaxUint64))
	return fallback
}

// Float returns a finite number in a range, or fallback if the key is not given.
func (o *Object) Float(key string, fallback float64, allowed Range) float64 {
	v := o.take(key)
	if v.kind == Missing {
		return fallback
	}
	return o.number(o.at(key), v, fallback, allowed)
}

// Float32 is Float for numbers that are kept in 32 bits: the rounded number must be in the range too, and a number other
// than zero must not become zero.
func (o *Object) Float32(key string, fallback float32, allowed Range) float32 {
	v := o.take(key)
	if v.kind == Missing {
		return fallback
	}
	exact := o.number(o.at(key), v, float64(fallback), allowed)
	rounded := float32(exact)
	if !allowed.contains(float64(rounded)) || (rounded == 0) != (exact == 0) {
		o.report.fail(o.at(key), "is %v; as a 32-bit number that is %v, and it must be a number%v", v, rounded, allowed)
		return fallback
	}
	return rounded
}

// Object returns the object at a key, which is empty if the key is not given.
func (o *Object) Object(key string) *Object {
	return o.open(o.at(key), o.expect(key, ObjectType))
}

// Objects returns the objects of the list at a key, none if it is not given.
func (o *Object) Objects(key string) []*Object {
	var objects []*Object
	for i, v := range o.expect(key, ListType).list {
		path := element(o.at(key), i)
		if v.kind != ObjectType {
			o.report.fail(path, "is %v; it must be %v", v, ObjectType)
		}
		objects = append(objects, o.open(path, v))
	}
	return objects
}

// Strings returns the strings of the list at a key; nil if it is not given, and not nil if the list is empty.
func (o *Object) Strings(key string) []string {
	v := o.expect(key, ListType)
	if v.kind != ListType {
		return nil
	}
	texts := make([]string, len(v.list))
	for i, item := range v.list {
		if item.kind != StringType {
			o.report.fail(element(o.at(key), i), "is %v; it must be %v", item, StringType)
		}
		texts[i] = item.text
	}
	return texts
}

// expect takes the value of a key and reports one of another type, for which it returns a missing value.
func (o *Object) expect(key string, kind Type) value {
	v := o.take(key)
	if v.kind != Missing && v.kind != kind {
		o.report.fail(o.at(key), "is %v; it must be %v", v, kind)
		return value{}
	}
	return v
}

func (o *Object) whole(path string, v value, fallback int64, allowed Range) int64 {
	if v.kind == NumberType {
		if digits, whole := integer(v.text); whole {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && allowed.contains(float64(n)) {
				return n
			}
		}
	}
	o.report.fail(path, "is %v; it must be an integer%v", v, allowed)
	return fallback
}

func (o *Object) number(path string, v value, fallback float64, allowed Range) float64 {
	if v.kind == NumberType {
		// An error means that the number is beyond float64; contains refuses the infinity that comes with it.
		if x, _ := strconv.ParseFloat(v.text, 64); allowed.contains(x) {
			return x
		}
	}
	o.report.fail(path, "is %v; it must be a number%v", v, allowed)
	return fallback
}
