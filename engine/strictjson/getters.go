package strictjson

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// String returns a string, or fallback if the key is not given.
func (o *Object) String(key, fallback string) string { return get(o, key, fallback) }

// Bool returns true or false, or fallback if the key is not given.
func (o *Object) Bool(key string, fallback bool) bool { return get(o, key, fallback) }

// Word returns one of the allowed strings, or fallback if the key is not given.
func (o *Object) Word(key, fallback string, allowed ...string) string {
	v := o.take(key)
	if v == nil {
		return fallback
	}
	word, _ := v.(string)
	is := func(one string) bool { return o.report.fold(one) == o.report.fold(word) }
	if i := slices.IndexFunc(allowed, is); i >= 0 {
		return allowed[i]
	}
	o.report.fail(o.at(key), "is %s; it must be one of %s%s", show(v), strings.Join(allowed, ", "),
		didYouMean(word, allowed))
	return fallback
}

// Int returns a whole number in a range, or fallback if the key is not given. 512.0 and 5.12e2 are whole, 512.5 is not.
func (o *Object) Int(key string, fallback int64, allowed Range) int64 {
	return number(o, key, fallback, "an integer", allowed, whole(allowed))
}

// Ints returns the whole numbers of the list at a key; nil if it is not given.
func (o *Object) Ints(key string, allowed Range) []int64 {
	var list []int64
	for i, v := range get[[]any](o, key, nil) {
		list = append(list, numberAs(o, element(o.at(key), i), v, 0, "an integer", allowed, whole(allowed)))
	}
	return list
}

// whole reads a literal that is a whole number in a range.
func whole(allowed Range) func(literal string) (int64, bool) {
	return func(literal string) (int64, bool) {
		if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return n, allowed.contains(float64(n))
		}
		n, accuracy := integer(literal).Int64()
		return n, accuracy == big.Exact && allowed.contains(float64(n))
	}
}

// Uint returns a whole number from 0 to 2^64-1, such as a seed, or fallback if the key is not given.
func (o *Object) Uint(key string, fallback uint64) uint64 {
	return number(o, key, fallback, "an integer from 0 to 18446744073709551615", Any, func(literal string) (uint64, bool) {
		n, accuracy := integer(literal).Uint64()
		return n, accuracy == big.Exact
	})
}

// Float returns a finite number in a range, or fallback if the key is not given.
func (o *Object) Float(key string, fallback float64, allowed Range) float64 {
	return number(o, key, fallback, "a number", allowed, func(literal string) (float64, bool) {
		// An error means that the number is beyond float64; contains refuses the infinity that comes with it.
		x, _ := strconv.ParseFloat(literal, 64)
		return x, allowed.contains(x)
	})
}

// Float32 is Float for numbers that are kept in 32 bits: the rounded number must be in the range too, and a number
// other than zero must not become zero.
func (o *Object) Float32(key string, fallback float32, allowed Range) float32 {
	v := o.take(key)
	if v == nil {
		return fallback
	}
	exact := o.Float(key, float64(fallback), allowed)
	rounded := float32(exact)
	switch {
	case (rounded == 0) != (exact == 0):
		o.report.fail(o.at(key), "is %s, which is too small: 32-bit numbers other than 0 begin at 1.4e-45", show(v))
	case math.IsInf(float64(rounded), 0):
		o.report.fail(o.at(key), "is %s, which is too large: 32-bit numbers end at 3.4e38", show(v))
	case !allowed.contains(float64(rounded)):
		o.report.fail(o.at(key), "is %s; as a 32-bit number that is %v, and it must be a number%v", show(v), rounded, allowed)
	default:
		return rounded
	}
	return fallback
}

// Object returns the object at a key, which is empty if the key is not given.
func (o *Object) Object(key string) *Object { return o.open(o.at(key), get[*members](o, key, nil)) }

// Objects returns the objects of the list at a key, none if it is not given.
func (o *Object) Objects(key string) []*Object {
	var objects []*Object
	for i, v := range get[[]any](o, key, nil) {
		path := element(o.at(key), i)
		objects = append(objects, o.open(path, as[*members](o, path, v, nil)))
	}
	return objects
}

// Strings returns the strings of the list at a key; nil if it is not given, and not nil if the list is empty.
func (o *Object) Strings(key string) []string {
	list := get[[]any](o, key, nil)
	if list == nil {
		return nil
	}
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = as(o, element(o.at(key), i), v, "")
	}
	return texts
}

// get returns the value of a key, or fallback if the key is not given.
func get[T any](o *Object, key string, fallback T) T {
	v := o.take(key)
	if v == nil {
		return fallback
	}
	return as(o, o.at(key), v, fallback)
}

// as returns a value of type T, and reports one of another type, for which it returns fallback.
func as[T any](o *Object, path string, v any, fallback T) T {
	if x, ok := v.(T); ok {
		return x
	}
	o.report.fail(path, "is %s; it must be %v", show(v), typeOf(fallback))
	return fallback
}

// number returns what read makes of the number at a key, or fallback if the key is not given.
func number[T any](
	o *Object, key string, fallback T, kind string, allowed Range, read func(literal string) (T, bool),
) T {
	v := o.take(key)
	if v == nil {
		return fallback
	}
	return numberAs(o, o.at(key), v, fallback, kind, allowed, read)
}

// numberAs is number for a value and its path.
func numberAs[T any](
	o *Object, path string, v any, fallback T, kind string, allowed Range, read func(literal string) (T, bool),
) T {
	if literal, ok := v.(json.Number); ok {
		if n, ok := read(literal.String()); ok {
			return n
		}
	}
	o.report.fail(path, "is %s; it must be %s%v", show(v), kind, allowed)
	return fallback
}

// integer is the exact value of a literal if it is whole, and otherwise infinite.
func integer(literal string) *big.Float {
	const mostBytes, bits = 256, 1024 // enough that no rounding makes a number whole
	mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
	if len(mantissa) <= mostBytes {
		x, _, err := big.ParseFloat(literal, 10, bits, big.ToZero)
		// A number that is too small for big.Float becomes zero.
		if err == nil && x.IsInt() && (x.Sign() != 0 || !strings.ContainsAny(mantissa, "123456789")) {
			return x
		}
	}
	return new(big.Float).SetInf(false)
}
