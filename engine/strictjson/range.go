package strictjson

import (
	"math"
	"strconv"
)

// Range is the set of numbers a getter takes.
type Range struct {
	low, high           float64
	lowOpen, highOpen   bool // the bound itself is outside
	lowGiven, highGiven bool
}

// Ranges without parameters. All of them leave out infinity.
var (
	Any         = Range{}
	Positive    = Above(0)                                                                // x > 0
	NotNegative = AtLeast(0)                                                              // x >= 0
	Fraction    = Range{low: 0, high: 1, highOpen: true, lowGiven: true, highGiven: true} // 0 <= x < 1
)

// AtLeast is x >= low.
func AtLeast(low float64) Range { return Range{low: low, lowGiven: true} }

// Above is x > low.
func Above(low float64) Range { return Range{low: low, lowGiven: true, lowOpen: true} }

// Between is low <= x <= high.
func Between(low, high float64) Range {
	return Range{low: low, high: high, lowGiven: true, highGiven: true}
}

func (r Range) contains(x float64) bool {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return false
	}
	if r.lowGiven && (x < r.low || r.lowOpen && x == r.low) {
		return false
	}
	return !r.highGiven || (x < r.high || !r.highOpen && x == r.high)
}

// String is what follows "a number" or "an integer" in an error message, beginning with a space unless empty.
func (r Range) String() string {
	bound := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	switch {
	case r.lowGiven && r.highGiven && r.highOpen:
		return " from " + bound(r.low) + " to less than " + bound(r.high)
	case r.lowGiven && r.highGiven:
		return " from " + bound(r.low) + " to " + bound(r.high)
	case r.lowGiven && r.lowOpen:
		return " above " + bound(r.low)
	case r.lowGiven:
		return " of at least " + bound(r.low)
	}
	return ""
}
