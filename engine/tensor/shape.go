package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// ByteSize multiplies a shape out; ok is false when a length is negative or the product does not fit.
func ByteSize(element int64, shape []int64) (size int64, ok bool) {
	size = element
	for _, n := range shape {
		if n < 0 {
			return 0, false
		}
		high, low := bits.Mul64(uint64(size), uint64(n))
		if high != 0 || low > math.MaxInt64-8 {
			return 0, false
		}
		size = int64(low)
	}
	return size, true
}

// ShapeText writes a shape as [40981, 256].
func ShapeText(shape []int64) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ")
}
