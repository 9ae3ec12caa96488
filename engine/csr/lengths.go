package csr

import "math/bits"

// selectBits is how many bits of a row length one pass of MaxBatchEntries decides.
const selectBits = 12

// MaxBatchEntries is the number of stored entries of the rows longest rows together: what a batch of that many
// different rows can hold at most. A batch that repeats rows can hold more.
func MaxBatchEntries(s Source, rows int64) int64 {
	statistics, all := s.Statistics(), s.Rows()
	if rows >= all {
		return statistics.NonZeros
	}
	if rows <= 0 {
		return 0
	}
	if known, is := s.(recorded); is {
		return known.longestRows(rows)
	}
	lengthOf := s.RowLength
	if u, is := s.(unguarded); is {
		lengthOf = u.length // one guard for all rows is cheaper
	}
	// Radix selection of the rows-th largest length, highest digit first: memory does not grow with the matrix.
	var threshold, above, sum int64 // lengths above the digits decided so far: how many, and their sum
	digits := (bits.Len64(uint64(statistics.Longest)) - 1) / selectBits
	for shift := selectBits * digits; shift >= 0; shift -= selectBits {
		var count, total [1 << selectBits]int64
		_ = catchFaults(func() error { // whoever reads the rows gets the error
			for i := range all {
				// Clipped, because the offsets may have been changed since they were validated.
				length := min(lengthOf(i), statistics.Longest)
				if length>>(shift+selectBits) == threshold {
					digit := length >> shift & (1<<selectBits - 1)
					count[digit]++
					total[digit] += length
				}
			}
			return nil
		})
		digit := int64(1<<selectBits - 1)
		for ; digit > 0 && above+count[digit] < rows; digit-- {
			above += count[digit]
			sum += total[digit]
		}
		threshold = threshold<<selectBits | digit
	}
	return sum + (rows-above)*threshold
}
