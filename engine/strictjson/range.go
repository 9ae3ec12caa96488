package strictjson

import (
	"math"
	"strconv"
)

// Range is the set of numbers a getter takes. An infinite bound is none.
type Range struct {
	low, high         float64
	lowOpen, highOpen bool // the bound itself is outside
}

// Ranges without parameters. All of them leave out infinity.
var (
	Any         = AtLeast(math.Inf(-1))
	Positive    = Above(0)                               // x > 0
	NotNegative = AtLeast(0)                             // x >= 0
	Fraction    = Range{low: 0, high: 1, highOpen: true} // 0 <= x < 1
)

// AtLeast is x >= low.
func AtLeast(low float64) Range { return Between(low, math.Inf(1)) }

// Above is x > low.
func Above(low float64) Range { return Range{low: low, high: math.Inf(1), lowOpen: true} }

// Between is low <= x <= high.
func Between(low, high float64) Range { return Range{low: low, high: high} }

func (r Range) contains(x float64) bool {
	isFinite := x-x == 0
	return isFinite && (x > r.low || x == r.low && !r.lowOpen) && (x < r.high || x == r.high && !r.highOpen)
}

// String is what follows "a number" or "an integer" in an error message, beginning with a space unless empty.
func (r Range) String() string {
	bound := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	switch {
	case math.IsInf(r.low, -1):
		return ""
	case r.highOpen:
		return " from " + bound(r.low) + " to less than " + bound(r.high)
	case !math.IsInf(r.high, 1):
		return " from " + bound(r.low) + " to " + bound(r.high)
	case r.lowOpen:
		return " above " + bound(r.low)
	}
	return " of at least " + bound(r.low)
}
