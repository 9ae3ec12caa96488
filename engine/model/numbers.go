package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"dsstne/engine/fault"
)

// byteSize multiplies a shape out; ok is false when a length is negative or the product does not fit.
func byteSize(element int64, shape []int64) (size int64, ok bool) {
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

// firstNotFinite is the position, in elements, of the first NaN or infinity among little-endian float32, or -1.
//
// Such a number has all exponent bits set. Two at a time: masked to the exponents, adding the lowest exponent bit carries
// into the sign's place exactly then, and never beyond it.
func firstNotFinite(floats []byte) int64 {
	const (
		exponents = 0x7f800000_7f800000
		lowest    = 0x00800000_00800000
		signs     = 0x80000000_80000000
		stride    = 64
	)
	at := 0
	for ; at+stride <= len(floats); at += stride {
		p := floats[at : at+stride : at+stride]
		carry := binary.LittleEndian.Uint64(p)&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[8:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[16:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[24:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[32:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[40:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[48:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[56:])&exponents + lowest
		if carry&signs != 0 {
			break
		}
	}
	for ; at+4 <= len(floats); at += 4 {
		if binary.LittleEndian.Uint32(floats[at:])&0x7f800000 == 0x7f800000 {
			return int64(at / 4)
		}
	}
	return -1
}

// notFinite names the place of a number that is not finite: element `at` of the tensor, which is found at value.
func notFinite(t *Tensor, at int64, value []byte) error {
	number := math.Float32frombits(binary.LittleEndian.Uint32(value))
	return fault.New(fault.NotFinite, "%s, row %d, column %d: %v is not finite", t.Name, at/t.columns(), at%t.columns(), number)
}

// grouped writes 20480 as 20,480.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(digits) - 3; i > start; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// shapeText writes a shape as [40981, 256].
func shapeText(shape []int64) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ")
}
