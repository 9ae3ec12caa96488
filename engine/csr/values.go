package csr

import (
	"math"
	"unsafe"

	"dsstne/internal/fault"
)

// Values are the stored values of a matrix as numbers of another type than float32 and float64. A batch has them as
// float32: the nearest float64, scaled and rounded, so integers of more than 24 bits may lose bits.
type Values interface {
	len() int64
	bits() int
	at(i int64) float64
	// check is checkValues for values first .. end-1; it counts them from first.
	check(first, end int64, allow bool, s *Statistics) (bad int)
	// copyTo copies values from first on.
	copyTo(dst []float32, first int64)
	// scaled is the values of other numbers, or nil if the numbers are not integers.
	scaled(by affine) Values
}

// affine is what becomes of a stored number before it is rounded to float32: number * scale + offset.
type affine struct{ scale, offset float64 }

var identity = affine{scale: 1}

// of is the value of a number. Both operations round, on every processor.
func (a affine) of(number float64) float64 { return float64(number*a.scale) + a.offset }

// notScaled is the error about numbers that are not integers.
func notScaled() error {
	return fault.New(fault.InvalidArgument,
		"scale and offset are for integers, and the matrix has values of another type or none; compute with them instead")
}

// ValuesOf views numbers.
func ValuesOf[T Number](numbers []T) Values { return valuesOf[T]{numbers, identity} }

type valuesOf[T Number] struct {
	numbers []T
	affine
}

func (v valuesOf[T]) len() int64         { return int64(len(v.numbers)) }
func (v valuesOf[T]) bits() int          { return 8 * int(unsafe.Sizeof(T(0))) }
func (v valuesOf[T]) at(i int64) float64 { return v.of(float64(v.numbers[i])) }

func (v valuesOf[T]) check(first, end int64, allow bool, s *Statistics) (bad int) {
	for i, number := range v.numbers[first:end] {
		if !s.include(v.of(float64(number)), allow) {
			return i
		}
	}
	return -1
}

func (v valuesOf[T]) copyTo(dst []float32, first int64) {
	for i, number := range v.numbers[first : first+int64(len(dst))] {
		dst[i] = float32(v.of(float64(number)))
	}
}

func (v valuesOf[T]) scaled(by affine) Values {
	if !isInteger[T]() {
		return nil
	}
	return valuesOf[T]{v.numbers, by}
}

// isInteger reports whether a type has no fractions.
func isInteger[T Number]() bool {
	one, two := T(1), T(2)
	return one/two == 0
}

// HalvesOf views numbers of float16, given as their bits.
func HalvesOf(bits []uint16) Values { return halves(bits) }

type halves []uint16

func (h halves) len() int64         { return int64(len(h)) }
func (h halves) bits() int          { return 16 }
func (h halves) at(i int64) float64 { return float64(half(h[i])) }

func (h halves) check(first, end int64, allow bool, s *Statistics) (bad int) {
	for i, bits := range h[first:end] {
		if !s.include(float64(half(bits)), allow) {
			return i
		}
	}
	return -1
}

func (h halves) copyTo(dst []float32, first int64) {
	for i, bits := range h[first : first+int64(len(dst))] {
		dst[i] = half(bits)
	}
}

func (halves) scaled(affine) Values { return nil }

// include widens the extremes by a value, if it may be stored.
func (s *Statistics) include(value float64, allow bool) bool {
	if !fits(value, allow) {
		return false
	}
	if value < s.Minimum {
		s.Minimum = value + 0 // no negative zero
	}
	if value > s.Maximum {
		s.Maximum = value + 0
	}
	return true
}

// half is the number that the bits of a float16 mean: a sign, 5 bits of exponent and 10 of fraction.
func half(bits uint16) float32 {
	sign, exponent, fraction := uint32(bits>>15), uint32(bits>>10&31), uint32(bits&1023)
	switch exponent {
	case 0: // zero, or a number below the smallest normal one
		small := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(small) | sign<<31)
	case 31: // infinite or NaN
		return math.Float32frombits(sign<<31 | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign<<31 | (exponent+112)<<23 | fraction<<13)
}
