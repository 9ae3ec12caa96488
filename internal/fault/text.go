package fault

import "strconv"

// Grouped writes 20480 as 20,480, as messages do.
func Grouped(n int64) string {
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
