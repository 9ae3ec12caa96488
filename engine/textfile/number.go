package textfile

import (
	"math"
	"strconv"
	"unsafe"
)

// exact are the powers of ten that are float32 numbers.
var exact = [...]float32{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10}

// parseNumber reads a decimal number, as [+-]digits[.digits][e[+-]digits] with a digit before or after the point, and
// rounds it to the nearest float32. The kind is kinds if it is a finite one, else NotANumber or NotFinite.
func parseNumber(text []byte) (float32, Kind) {
	i, negative := 0, false
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		negative = text[0] == '-'
		i++
	}
	var mantissa uint64
	digits, after := 0, 0
	point := false
	for ; i < len(text); i++ {
		d := text[i] - '0'
		if d > 9 {
			if text[i] != '.' || point {
				break
			}
			point = true
			continue
		}
		mantissa = mantissa*10 + uint64(d)
		digits++
		if point {
			after++
		}
	}
	const mostDigits = 19 // more may not fit in 64 bits
	if i == len(text) && 0 < digits && digits <= mostDigits && after < len(exact) && (after == 0 || mantissa < 1<<24) {
		value := float32(mantissa) / exact[after] // rounded once: one of the two is exact
		if negative {
			value = -value
		}
		return value, kinds
	}
	if digits == 0 || !isExponent(text[i:]) {
		if isNotFinite(text) {
			return 0, NotFinite
		}
		return 0, NotANumber
	}
	value, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 32)
	if err != nil || math.IsInf(value, 0) {
		return 0, NotFinite // the syntax is right, so it is too large
	}
	return float32(value), kinds
}

// isExponent reports whether a text is empty or e[+-]digits.
func isExponent(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	if text[0]|0x20 != 'e' {
		return false
	}
	text = text[1:]
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return len(text) > 0
}

// isNotFinite reports whether a text names a number that is not finite, as C and Python write them.
func isNotFinite(text []byte) bool {
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	const longest = len("infinity")
	if len(text) > longest {
		return false
	}
	var lower [longest]byte
	for i, c := range text {
		lower[i] = c | 0x20
	}
	word := string(lower[:len(text)])
	return word == "nan" || word == "inf" || word == "infinity"
}
