package csr_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// storedType is some values as numbers of a type, and as float64.
type storedType struct {
	name   string
	values csr.Values
	as     []float64
	bits   int
}

func storedAs[T csr.Number](numbers []T) storedType {
	s := storedType{name: fmt.Sprintf("%T", numbers), values: csr.ValuesOf(numbers), bits: 8 * int(unsafe.Sizeof(T(0)))}
	for _, number := range numbers {
		s.as = append(s.as, float64(number))
	}
	return s
}

// everyType has n values of each type that is not in Parts, small and extreme ones.
func everyType(n int) []storedType {
	rng := rand.New(rand.NewPCG(3, 9))
	bits := make([]uint64, n)
	for i := range bits {
		bits[i] = rng.Uint64() >> (rng.IntN(8) * 8) // of any size, also 0
	}
	halves := storedType{name: "float16", bits: 16}
	var list []uint16
	for _, b := range bits {
		if b>>10&31 == 31 { // not finite
			b ^= 1 << 10
		}
		list, halves.as = append(list, uint16(b)), append(halves.as, halfOf(uint16(b)))
	}
	halves.values = csr.HalvesOf(list)
	return []storedType{
		storedAs(narrowed[int8](bits)), storedAs(narrowed[uint8](bits)), storedAs(narrowed[int16](bits)),
		storedAs(narrowed[uint16](bits)), storedAs(narrowed[int32](bits)), storedAs(narrowed[uint32](bits)),
		storedAs(narrowed[int64](bits)), storedAs(narrowed[uint64](bits)), halves,
	}
}

func narrowed[T csr.Number](bits []uint64) (numbers []T) {
	for _, b := range bits {
		numbers = append(numbers, T(b))
	}
	return numbers
}

// halfOf is what the bits of a float16 mean, by their definition.
func halfOf(bits uint16) float64 {
	sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&1023)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

func TestStoredTypesHaveTheBitsOfTheSameNumbersInFloat64(t *testing.T) {
	for seed := range uint64(5) {
		p := randomParts(seed, 40, 300)
		n := len(p.Indices32)
		for _, s := range everyType(n) {
			t.Run(s.name, func(t *testing.T) {
				want, got := p, p
				want.Values32, want.Values64 = nil, s.as
				got.Values32, got.Others = nil, s.values
				m, viewed := opened(t, want), opened(t, got)
				a, b := m.Statistics(), viewed.Statistics()
				a.Bytes, b.Bytes = 0, 0
				require.Equal(t, a, b)
				require.Equal(t, s.bits, viewed.Layout().ValueBits)
				require.Nil(t, viewed.Layout().Values)
				require.Less(t, viewed.Statistics().Bytes, m.Statistics().Bytes+1)
				for _, zeros := range []bool{false, true} {
					x, y := csr.Entries{Zeros: zeros}, csr.Entries{Zeros: zeros}
					require.NoError(t, m.Read(upTo(m.Rows()), &x))
					require.NoError(t, viewed.Read(upTo(m.Rows()), &y))
					require.Equal(t, x.Indices, y.Indices)
					require.Equal(t, x.Ends, y.Ends)
					for i := range x.Values {
						require.Equal(t, math.Float32bits(x.Values[i]), math.Float32bits(y.Values[i]))
					}
				}
			})
		}
	}
}

func TestEveryFloat16IsReadExactly(t *testing.T) {
	all := make([]uint16, 1<<16)
	p := csr.Parts{Columns: 1 << 16, Offsets32: []int32{0, 1 << 16}, Indices32: make([]int32, 1<<16)}
	for i := range all {
		all[i], p.Indices32[i] = uint16(i), int32(i)
	}
	p.Others = csr.HalvesOf(all)
	m, err := csr.New(p)
	require.NoError(t, err)
	require.Contains(t, refusal(t, fault.InvalidData, m.Validate(csr.ValidateOptions{})), "column 31744 holds +Inf")
	require.NoError(t, m.Validate(csr.ValidateOptions{AllowNotFinite: true}))
	e := csr.Entries{Zeros: true}
	require.NoError(t, m.Read([]int64{0}, &e))
	for i, value := range e.Values {
		want := halfOf(uint16(i))
		if math.IsNaN(want) {
			require.True(t, value != value)
			continue
		}
		require.Equal(t, float32(want), value, i)
		require.Equal(t, i>>15 == 1, math.Signbit(float64(value)), i) // of zero, too
	}
}

func TestValuesOfTwoTypesAndTooFewOfThemAreRefused(t *testing.T) {
	p := small()
	p.Others = csr.ValuesOf(make([]int8, len(p.Indices32)))
	_, err := csr.New(p)
	require.Contains(t, refusal(t, fault.InvalidArgument, err), "not of two")
	p.Values32, p.Others = nil, csr.ValuesOf([]int8{1})
	_, err = csr.New(p)
	require.Contains(t, refusal(t, fault.InvalidData, err), "but 1 values")
}

func TestScaledIntegersAreReadAsTheNumbersThatTheyStandFor(t *testing.T) {
	for _, s := range everyType(60) {
		t.Run(s.name, func(t *testing.T) {
			for _, by := range [][2]float64{{1.0 / 256, 0}, {-3, 0.5}, {1e-30, -1e-3}} {
				got := csr.Parts{Columns: 60, Offsets32: []int32{0, 20, 20, 60}, Others: s.values}
				want := csr.Parts{Columns: 60, Offsets32: got.Offsets32}
				for i, number := range s.as {
					got.Indices32 = append(got.Indices32, int32(i))
					want.Values64 = append(want.Values64, float64(number*by[0])+by[1])
				}
				want.Indices32 = got.Indices32
				m, err := csr.New(got)
				require.NoError(t, err)
				if err = m.Scale(by[0], by[1]); s.name == "float16" {
					require.Contains(t, refusal(t, fault.InvalidArgument, err), "scale and offset are for integers")
					continue
				}
				require.NoError(t, err)
				require.NoError(t, m.Validate(csr.ValidateOptions{}))
				expected := opened(t, want)
				a, b := m.Statistics(), expected.Statistics()
				a.Bytes, b.Bytes = 0, 0
				require.Equal(t, b, a)
				for _, zeros := range []bool{false, true} {
					x, y := csr.Entries{Zeros: zeros}, csr.Entries{Zeros: zeros}
					require.NoError(t, expected.Read(upTo(3), &x))
					require.NoError(t, m.Read(upTo(3), &y))
					require.Equal(t, x, y)
				}
			}
		})
	}
}

func TestOnlyIntegersAreScaled(t *testing.T) {
	p := small()
	m, err := csr.New(p)
	require.NoError(t, err)
	require.Contains(t, refusal(t, fault.InvalidArgument, m.Scale(2, 0)), "scale and offset are for integers")
	d, err := csr.NewDense([]float32{1, 2}, 2, nil)
	require.NoError(t, err)
	require.Contains(t, refusal(t, fault.InvalidArgument, d.Scale(2, 0)), "scale and offset are for integers")
}

func TestAScaledValueThatIsTooLargeIsRefused(t *testing.T) {
	p := csr.Parts{Columns: 9, Offsets32: []int32{0, 1, 2}, Indices32: []int32{3, 7}, Others: csr.ValuesOf([]int8{1, 7})}
	m, err := csr.New(p)
	require.NoError(t, err)
	require.NoError(t, m.Scale(1e38, 0))
	text := refusal(t, fault.InvalidData, m.Validate(csr.ValidateOptions{}))
	require.Contains(t, text, "row 1, column 7 holds 7e+38, which is too large for float32")
}
