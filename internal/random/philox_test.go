package random

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The vectors are those of the Random123 library that comes with the paper, file kat_vectors, "philox4x32 10".
func TestPhiloxGivesThePublishedVectors(t *testing.T) {
	for _, known := range []struct {
		name          string
		key           uint64
		counter, want [4]uint32
	}{
		{"zeros", 0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{"ones", 1<<64 - 1, [4]uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{"digits of pi", 0x299f31d0_a4093822, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		t.Run(known.name, func(t *testing.T) {
			require.Equal(t, known.want, Philox(known.key, known.counter))
		})
	}
}

var sink32 float32
var sink64 int64

func BenchmarkUniform(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		sink32 += Uniform(1, StreamDropout, 3, 4, int64(i))
	}
}

func BenchmarkFillUniform1024(b *testing.B) {
	dst := make([]float32, 1024)
	b.SetBytes(4 * 1024)
	for b.Loop() {
		FillUniform(dst, 1, StreamInit, 3, -1, 1)
	}
}

func BenchmarkFillNormal1024(b *testing.B) {
	dst := make([]float32, 1024)
	b.SetBytes(4 * 1024)
	for b.Loop() {
		FillNormal(dst, 1, StreamInit, 3, 0, 1)
	}
}

func BenchmarkPermutationAt(b *testing.B) {
	p := NewPermutation(1, 2, 300_000) // 2^19 is 1.7 times as many
	for i := int64(0); b.Loop(); i++ {
		sink64 += p.At(i % 300_000)
	}
}
