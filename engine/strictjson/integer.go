package strictjson

import (
	"strconv"
	"strings"
)

// mostDigits is more than a 64-bit integer has, with room for leading zeros.
const mostDigits = 64

// integer rewrites the literal of a number without point and exponent, exactly: "5.12e2" and "512.0" become "512". It fails
// when the number is not whole, or far beyond 64 bits.
func integer(literal string) (string, bool) {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(rest), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", true
	}
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil {
			return "", false
		}
	}
	// The value is digits times ten to the power of shift.
	shift := exponent - len(fraction)
	switch {
	case shift > mostDigits || len(digits) > 4*mostDigits:
		return "", false
	case shift >= 0:
		digits += strings.Repeat("0", shift)
	case shift <= -len(digits) || strings.Trim(digits[len(digits)+shift:], "0") != "":
		return "", false
	default:
		digits = digits[:len(digits)+shift]
	}
	if negative {
		digits = "-" + digits
	}
	return digits, true
}
