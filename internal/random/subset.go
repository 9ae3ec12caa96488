package random

import (
	"math/bits"
	"slices"
)

// Subset is n of the numbers 0 .. of - 1, ascending, each set of n of them as likely as any other; it belongs to a row
// at a step. dst's memory is used again if it is large enough. It panics unless 0 <= n <= of < 2^31.
func Subset(dst []int32, seed uint64, stream uint32, step, row, of, n int64) []int32 {
	if n < 0 || n > of || of >= 1<<31 {
		panic("random: no such subset")
	}
	if n <= of/2 {
		return distinct(dst, seed, stream, step, row, of, n)
	}
	// The numbers left out are fewer.
	missing := distinct(dst, seed, stream, step, row, of, of-n)
	all, next := make([]int32, 0, n), int32(0)
	for _, number := range append(missing, int32(of)) {
		for ; next < number; next++ {
			all = append(all, next)
		}
		next = number + 1
	}
	return append(dst[:0], all...)
}

// distinct draws numbers until n are different, and sorts them.
func distinct(dst []int32, seed uint64, stream uint32, step, row, of, n int64) []int32 {
	dst = slices.Grow(dst[:0], int(n))
	k0, k1 := uint32(seed), uint32(seed>>32)
	for block := uint32(0); ; {
		for int64(len(dst)) < n {
			a, b, c, d := words(k0, k1, block, uint32(row), uint32(step), stream)
			block++
			dst = append(dst, below(of, a, b))
			if int64(len(dst)) < n {
				dst = append(dst, below(of, c, d))
			}
		}
		slices.Sort(dst)
		if dst = slices.Compact(dst); int64(len(dst)) == n {
			return dst
		}
	}
}

// below makes a number below of out of 64 random bits: no number is likelier than another by more than 2^-32.
func below(of int64, low, high uint32) int32 {
	number, _ := bits.Mul64(uint64(high)<<32|uint64(low), uint64(of))
	return int32(number)
}
