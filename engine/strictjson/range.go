package strictjson

import (
	"math"
	"strconv"
)

// Range is the set of numbers a getter takes.
type Range struct {
	low, high float64
	text      string // what follows "a number" or "an integer" in an error message, beginning with a space unless empty
}

// Ranges without parameters.
var (
	Any         = Range{-math.MaxFloat64, math.MaxFloat64, ""}                      // finite
	Positive    = Range{math.SmallestNonzeroFloat64, math.MaxFloat64, " above 0"}   // x > 0
	NotNegative = AtLeast(0)                                                        // x >= 0
	Fraction    = Range{high: math.Nextafter(1, 0), text: " from 0 to less than 1"} // 0 <= x < 1
)

// AtLeast is x >= low.
func AtLeast(low float64) Range { return Range{low, math.MaxFloat64, " of at least " + bound(low)} }

// Between is low <= x <= high.
func Between(low, high float64) Range {
	return Range{low, high, " from " + bound(low) + " to " + bound(high)}
}

// Meaning is the range with an explanation for error messages.
func (r Range) Meaning(words string) Range {
	r.text += " (" + words + ")"
	return r
}

func bound(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func (r Range) contains(x float64) bool { return x >= r.low && x <= r.high }

func (r Range) String() string { return r.text }
