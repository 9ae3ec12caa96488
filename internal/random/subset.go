package random

import (
	"math/bits"
	"slices"
)

// Subset draws some of the numbers 0 .. of - 1. It keeps memory from draw to draw and serves one goroutine at a time.
type Subset struct {
	numbers, sorted []int32
	ends            []int32 // by range of numbers: how many are below its end, while they are sorted
}

// Draw returns n of the numbers, ascending, each set of n of them as likely as any other; it belongs to a row at a
// step. The result is valid until the next draw. Draw panics unless 0 <= n <= of < 2^31.
func (s *Subset) Draw(seed uint64, stream uint32, step, row, of, n int64) []int32 {
	if n < 0 || n > of || of >= 1<<31 {
		panic("random: no such subset")
	}
	if n <= of/2 {
		s.distinct(seed, stream, step, row, of, n)
		return s.numbers
	}
	// The numbers left out are fewer.
	s.distinct(seed, stream, step, row, of, of-n)
	s.sorted = slices.Grow(s.sorted[:0], int(n))
	next := int32(0)
	for _, number := range append(s.numbers, int32(of)) {
		for ; next < number; next++ {
			s.sorted = append(s.sorted, next)
		}
		next = number + 1
	}
	return s.sorted
}

// distinct draws numbers until n are different, and sorts them.
func (s *Subset) distinct(seed uint64, stream uint32, step, row, of, n int64) {
	list := slices.Grow(s.numbers[:0], int(n)+1)
	k0, k1 := uint32(seed), uint32(seed>>32)
	for block := uint32(0); ; {
		for int64(len(list)) < n {
			a, b, c, d := words(k0, k1, block, uint32(row), uint32(step), stream)
			block++
			list = append(list, below(of, a, b))
			if int64(len(list)) < n {
				list = append(list, below(of, c, d))
			}
		}
		s.numbers = list
		s.sort(of)
		if list = slices.Compact(s.numbers); int64(len(list)) == n {
			s.numbers = list
			return
		}
	}
}

// below makes a number below of out of 64 random bits: no number is likelier than another by more than 2^-32.
func below(of int64, low, high uint32) int32 {
	number, _ := bits.Mul64(uint64(high)<<32|uint64(low), uint64(of))
	return int32(number)
}

// sort sorts the numbers, which are spread evenly below of: into about as many ranges as there are numbers, and what is
// left to do is little.
func (s *Subset) sort(of int64) {
	list := s.numbers
	shift := max(0, bits.Len64(uint64(of))-bits.Len64(uint64(len(list))))
	s.ends = slices.Grow(s.ends[:0], int(of>>shift)+1)[:of>>shift+1]
	clear(s.ends)
	for _, number := range list {
		s.ends[number>>shift]++
	}
	end := int32(0)
	for i, count := range s.ends {
		s.ends[i], end = end, end+count
	}
	s.sorted = slices.Grow(s.sorted[:0], len(list))[:len(list)]
	for _, number := range list {
		at := &s.ends[number>>shift]
		s.sorted[*at] = number
		*at++
	}
	for i, number := range s.sorted {
		for ; i > 0 && s.sorted[i-1] > number; i-- {
			s.sorted[i] = s.sorted[i-1]
		}
		s.sorted[i] = number
	}
	copy(list, s.sorted)
}
