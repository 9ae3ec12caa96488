package random

import (
	"fmt"
	"math/bits"
)

// rounds of the Feistel network. Four make a pseudo-random permutation of a large set; small ones need more to look it.
const rounds = 8

// Permutation is a random order of 0..n-1 that is computed, not stored: a Feistel network over the next power of two,
// from which values beyond n-1 are sent through again until they fall inside (fewer than two passes on average).
type Permutation struct {
	n     int64
	left  uint64 // mask of the upper half of the network, shifted down
	right uint64 // mask of the lower half, of as many bits or one more
	shift int    // bits of the lower half
	keys  [rounds]uint64
}

// NewPermutation returns the order that belongs to a seed and an epoch. It panics when n is negative or above 2^62.
func NewPermutation(seed uint64, epoch, n int64) Permutation {
	if n < 0 || n > 1<<62 {
		panic(fmt.Sprintf("random: no permutation of %d elements", n))
	}
	width := bits.Len64(uint64(max(n-1, 0)))
	p := Permutation{n: n, shift: (width + 1) / 2}
	p.left, p.right = 1<<(width/2)-1, 1<<p.shift-1
	for i := 0; i < rounds; i += 2 {
		words := Philox(seed, [4]uint32{uint32(epoch), uint32(epoch >> 32), uint32(i), StreamShuffle})
		p.keys[i] = uint64(words[1])<<32 | uint64(words[0])
		p.keys[i+1] = uint64(words[3])<<32 | uint64(words[2])
	}
	return p
}

// At returns the element at position i, 0 <= i < n; it panics outside.
func (p Permutation) At(i int64) int64 {
	if i < 0 || i >= p.n {
		panic(fmt.Sprintf("random: position %d of a permutation of %d elements", i, p.n))
	}
	for {
		left, right := uint64(i)>>p.shift, uint64(i)&p.right
		for round := 0; round < rounds; round += 2 {
			left ^= mix(right^p.keys[round]) & p.left
			right ^= mix(left^p.keys[round+1]) & p.right
		}
		if i = int64(left<<p.shift | right); i < p.n {
			return i
		}
	}
}

// mix is the finalizer of MurmurHash3: every bit of x changes every bit of the result with probability one half.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xFF51AFD7ED558CCD
	x = (x ^ x>>33) * 0xC4CEB9FE1A85EC53
	return x ^ x>>33
}
