package conformance

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// halves are weights in a storage of 2 bytes, as a rankingCase places them.
type halves struct {
	storage kernels.Storage
	skip    int64 // there is another number before the first
}

// narrow rounds to the nearest number of a storage, of two that are as near to the even one. What is too large becomes
// the largest number, and NaN zero: weights are finite.
func (s halves) narrow(x float32) uint16 {
	most := float32(65504)
	if s.storage == kernels.StoredBFloat16 {
		most = math.Float32frombits(0x7f7f0000)
	}
	if x != x {
		x = 0
	}
	x = min(max(x, -most), most)
	bits := math.Float32bits(x)
	if s.storage == kernels.StoredBFloat16 {
		return uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
	sign, size := uint16(bits>>16)&0x8000, math.Abs(float64(x))
	exponent := max(math.Ilogb(size+math.SmallestNonzeroFloat64), -14) // of float16's last place, but for 10
	places := uint16(math.RoundToEven(math.Ldexp(size, 10-exponent)))
	return sign + uint16(exponent+14)<<10 + places // a leading bit counts in the exponent
}

// place places weights [rows, columns], rounded.
func (s halves) place(p *place, name string, rows, columns int64, values []float32) *kernels.Weights {
	numbers := slices.Repeat([]uint16{0x3c01}, int(s.skip))
	for _, x := range values {
		numbers = append(numbers, s.narrow(x))
	}
	if len(numbers)%2 == 1 {
		numbers = append(numbers, 0x3c02)
	}
	elements := make([]int32, len(numbers)/2)
	for n := range elements {
		elements[n] = int32(uint32(numbers[2*n]) | uint32(numbers[2*n+1])<<16)
	}
	return &kernels.Weights{
		Name: name, Rows: rows, Columns: columns, Storage: s.storage, Skip: s.skip, Value: p.bits(elements),
	}
}

// bits places elements that are no float32 numbers.
func (p *place) bits(elements []int32) kernels.Buffer {
	b := p.alloc(len(elements))
	write(b, 0, kernels.Bits(elements))
	return b
}

// storedCases are some of the other cases with dense sources, with weights of 2 bytes.
func storedCases(topK bool) (cases []opCase) {
	others := rankingCases(topK)
	if topK {
		others = append(others, screeningCases(32)...) // CUDA devices multiply rows of 32 numbers of bfloat16 as they are
	}
	for n, c := range others {
		if stored := *c.(*rankingCase); n%3 == 0 && len(stored.sources) > 0 {
			stored.halves = halves{storage: kernels.StoredFloat16, skip: stored.columns % 2 * int64(n/12%2)}
			if n/6%2 == 0 {
				stored.halves.storage = kernels.StoredBFloat16
			}
			stored.title += ", " + stored.halves.storage.String()
			cases = append(cases, &stored)
		}
	}
	return append(cases, everyNumber(kernels.StoredFloat16, topK), everyNumber(kernels.StoredBFloat16, topK))
}

// everyNumber scores items whose only weight is one of all the finite numbers of a storage: the scores are the numbers.
func everyNumber(storage kernels.Storage, topK bool) *rankingCase {
	c := &rankingCase{title: "every number of " + storage.String(), rows: 1, columns: 1, halves: halves{storage: storage}}
	var w []float32
	for bits := range 1 << 16 {
		if x := storage.Widen(uint16(bits)); x-x == 0 {
			w = append(w, x)
		}
	}
	c.items, c.sources = int64(len(w)), [][2][]float32{{{1}, w}}
	if topK {
		c.k = 300
	}
	return c
}

func TestWeightsOf2BytesAreRoundedToTheNearestNumber(t *testing.T) {
	for _, c := range []struct {
		storage kernels.Storage
		x       float32
		bits    uint16
	}{
		{kernels.StoredFloat16, 1, 0x3c00}, {kernels.StoredFloat16, -1, 0xbc00}, {kernels.StoredFloat16, 0, 0},
		{kernels.StoredFloat16, 1 + 0x1p-11, 0x3c00}, {kernels.StoredFloat16, 1 + 0x3p-11, 0x3c02},
		{kernels.StoredFloat16, 1 + 0x1.01p-11, 0x3c01}, {kernels.StoredFloat16, 2 - 0x1p-12, 0x4000},
		{kernels.StoredFloat16, 0x1p-24, 1}, {kernels.StoredFloat16, 0x1p-25, 0}, {kernels.StoredFloat16, 0x3p-25, 2},
		{kernels.StoredFloat16, 0x1p-14 - 0x1p-26, 0x400}, {kernels.StoredFloat16, 1e9, 0x7bff},
		{kernels.StoredBFloat16, 1, 0x3f80}, {kernels.StoredBFloat16, 1 + 0x1p-8, 0x3f80},
		{kernels.StoredBFloat16, 1 + 0x3p-8, 0x3f82}, {kernels.StoredBFloat16, -0x1p-133, 0x8001},
		{kernels.StoredBFloat16, math.MaxFloat32, 0x7f7f},
	} {
		require.Equal(t, c.bits, halves{storage: c.storage}.narrow(c.x), "%v of %v", c.storage, c.x)
	}
	for _, storage := range []kernels.Storage{kernels.StoredFloat16, kernels.StoredBFloat16} {
		for bits := range 1 << 16 {
			if x := storage.Widen(uint16(bits)); x-x == 0 {
				require.Equal(t, uint16(bits), halves{storage: storage}.narrow(x))
			}
		}
	}
}
