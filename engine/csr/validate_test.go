package csr_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// invalid is the message with which Validate refuses a matrix.
func invalid(t *testing.T, p csr.Parts, o csr.ValidateOptions) string {
	t.Helper()
	m, err := csr.New(p)
	require.NoError(t, err)
	return refusal(t, fault.InvalidData, m.Validate(o))
}

func TestAColumnBeyondTheMatrixIsNamed(t *testing.T) {
	p := small()
	p.Indices32[4] = 10
	require.Equal(t, "row 2 holds column 10, but the matrix has 10 columns (0..9); was it built with another item list?",
		invalid(t, p, csr.ValidateOptions{}))
}

func TestANegativeColumnIsNamed(t *testing.T) {
	p := small()
	p.Indices32[0] = -1
	require.Equal(t, "row 0 holds column -1, but the matrix has 10 columns (0..9); columns are counted from 0",
		invalid(t, p, csr.ValidateOptions{}))
}

func TestA64BitColumnIsNotCutTo32Bits(t *testing.T) {
	p := csr.Parts{Columns: 10, Offsets64: []int64{0, 1}, Indices64: []int64{1<<32 + 3}}
	require.Contains(t, invalid(t, p, csr.ValidateOptions{}), "row 0 holds column 4294967299")
}

func TestANotFiniteValueIsNamed(t *testing.T) {
	for text, value := range map[string]float32{"NaN": float32(math.NaN()), "-Inf": float32(math.Inf(-1))} {
		p := small()
		p.Values32[3] = value
		require.Contains(t, invalid(t, p, csr.ValidateOptions{}), "row 2, column 2 holds "+text+"; values must be finite")
	}
}

func TestNotFiniteValuesCanBeAllowed(t *testing.T) {
	p := small()
	p.Values32[3], p.Values32[4] = float32(math.NaN()), float32(math.Inf(1))
	m, err := csr.New(p)
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{AllowNotFinite: true}))
}

func TestAValueTooLargeForFloat32IsNamed(t *testing.T) {
	p := csr.Parts{Columns: 10, Offsets32: []int32{0, 1}, Indices32: []int32{7}, Values64: []float64{1e300}}
	for _, allow := range []bool{false, true} {
		require.Contains(t, invalid(t, p, csr.ValidateOptions{AllowNotFinite: allow}),
			"row 0, column 7 holds 1e+300, which is too large for float32")
	}
}

func TestTheLargestValuesThatRoundToAFiniteFloat32AreAccepted(t *testing.T) {
	below := math.Nextafter(0x1.ffffffp127, 0)
	require.False(t, math.IsInf(float64(float32(below)), 0))
	opened(t, csr.Parts{Columns: 1, Offsets32: []int32{0, 1}, Indices32: []int32{0}, Values64: []float64{below}})
}

func TestDecreasingOffsetsAreNamed(t *testing.T) {
	p := small()
	p.Offsets32[1], p.Offsets32[2] = 3, 2
	require.Equal(t, "row 1 begins at entry 3 and ends at entry 2: row offsets must not decrease",
		invalid(t, p, csr.ValidateOptions{}))
}

func TestAnOffsetBeyondTheEntriesIsNamed(t *testing.T) {
	p := small()
	p.Offsets32[1] = 9
	require.Equal(t, "row 0 ends at entry 9, but there are 5 entries", invalid(t, p, csr.ValidateOptions{}))
}

func TestTheFirstOffendingEntryOfARowIsReported(t *testing.T) {
	p := small()
	p.Values32[2], p.Indices32[3] = float32(math.NaN()), 77
	require.Contains(t, invalid(t, p, csr.ValidateOptions{}), "row 2, column 0 holds NaN")
}

func TestTheFirstOffendingRowIsReportedWithAnyNumberOfThreads(t *testing.T) {
	const rows, bad = 300_000, 123_456
	p := csr.Parts{Columns: 10, Offsets64: make([]int64, rows+1), Indices32: make([]int32, rows)}
	for i := range p.Offsets64 {
		p.Offsets64[i] = int64(i)
	}
	for row := bad; row < rows; row += 7 {
		p.Indices32[row] = 10
	}
	for threads := range 9 {
		require.Contains(t, invalid(t, p, csr.ValidateOptions{Threads: threads}), "row 123456 holds column 10")
	}
}

func TestExtremesAreThoseOfTheStoredValues(t *testing.T) {
	m := opened(t, small())
	require.Equal(t, []float64{-5, 4}, []float64{m.Statistics().Minimum, m.Statistics().Maximum})
}

func TestExtremesOfFloat64AreNotRounded(t *testing.T) {
	m := opened(t, csr.Parts{Columns: 2, Offsets32: []int32{0, 2}, Indices32: []int32{0, 1},
		Values64: []float64{0.1, 0.2}})
	require.Equal(t, []float64{0.1, 0.2}, []float64{m.Statistics().Minimum, m.Statistics().Maximum})
}

func TestExtremesWithoutValuesAreOne(t *testing.T) {
	p := small()
	p.Values32 = nil
	m := opened(t, p)
	require.Equal(t, []float64{1, 1}, []float64{m.Statistics().Minimum, m.Statistics().Maximum})
}

func TestExtremesOfNothingAreZero(t *testing.T) {
	m := opened(t, csr.Parts{Columns: 3, Offsets32: []int32{0, 0, 0}, Indices32: []int32{}})
	require.Equal(t, []float64{0, 0}, []float64{m.Statistics().Minimum, m.Statistics().Maximum})
}

func TestEntriesOutsideTheOffsetsAreNotRead(t *testing.T) {
	opened(t, csr.Parts{Columns: 3, Offsets32: []int32{1, 2}, Indices32: []int32{-7, 2, 99}})
}

func TestTheLongestRowsBoundABatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	lengths, p := []int64{}, csr.Parts{Columns: 3, Offsets64: []int64{0}}
	for range 1000 {
		length := rng.Int64N(20)
		if rng.IntN(50) == 0 {
			length = 4000 + rng.Int64N(9000) // more than one digit of the selection
		}
		lengths = append(lengths, length)
		p.Offsets64 = append(p.Offsets64, p.Offsets64[len(p.Offsets64)-1]+length)
	}
	p.Indices32 = make([]int32, p.Offsets64[1000])
	m := opened(t, p)
	slices.Sort(lengths)
	slices.Reverse(lengths)
	want, got := []int64{0}, []int64{csr.MaxBatchEntries(m, 0)}
	for i, length := range lengths {
		want, got = append(want, want[i]+length), append(got, csr.MaxBatchEntries(m, int64(i+1)))
	}
	require.Equal(t, want, got)
}

func TestABatchOfMoreRowsThanThereAreHoldsEverything(t *testing.T) {
	require.Equal(t, int64(5), csr.MaxBatchEntries(opened(t, small()), 512))
}

func TestABatchOfEmptyRowsHoldsNothing(t *testing.T) {
	m := opened(t, csr.Parts{Columns: 3, Offsets32: make([]int32, 9)})
	require.Zero(t, csr.MaxBatchEntries(m, 3))
}

func TestExtremesAreThoseOfAPlainLoopForAnyBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	special := []uint32{0, 1 << 31, 1, 1<<31 | 1, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000}
	for range 2000 {
		values32, values64 := make([]float32, 5), make([]float64, 5)
		low, high, good := math.Inf(1), math.Inf(-1), true
		for i := range values32 {
			bits := rng.Uint32()
			if rng.IntN(3) == 0 {
				bits = special[rng.IntN(len(special)-rng.IntN(5))]
			}
			values32[i] = math.Float32frombits(bits)
			values64[i] = float64(values32[i])
			good = good && !math.IsNaN(values64[i]) && !math.IsInf(values64[i], 0)
			low, high = min(low, values64[i]), max(high, values64[i])
		}
		for _, p := range []csr.Parts{
			{Columns: 9, Offsets32: []int32{0, 5}, Indices32: []int32{0, 1, 2, 3, 4}, Values32: values32},
			{Columns: 9, Offsets32: []int32{0, 5}, Indices64: []int64{0, 1, 2, 3, 4}, Values64: values64},
		} {
			m, err := csr.New(p)
			require.NoError(t, err)
			err = m.Validate(csr.ValidateOptions{})
			require.Equal(t, good, err == nil, "%v", values32)
			if good {
				require.Equal(t, low, m.Statistics().Minimum)
				require.Equal(t, high, m.Statistics().Maximum)
				require.False(t, math.Signbit(m.Statistics().Minimum) && m.Statistics().Minimum == 0)
			}
		}
	}
}

func TestTheLargestFloat64ThatFitsIsAcceptedAndTheNextIsNot(t *testing.T) {
	const largest = 0x1.ffffffp127 // half a unit above the largest float32
	for _, sign := range []float64{1, -1} {
		for value, fine := range map[float64]bool{math.Nextafter(largest, 0): true, largest: false} {
			m, err := csr.New(csr.Parts{Columns: 1, Offsets32: []int32{0, 1}, Indices32: []int32{0},
				Values64: []float64{sign * value}})
			require.NoError(t, err)
			require.Equal(t, fine, m.Validate(csr.ValidateOptions{}) == nil)
		}
	}
}

func TestDescendingAndEqualColumnsAreNotCanonicalAndFarOnesAreRefused(t *testing.T) {
	for _, columns := range [][]int64{{1, 0}, {3, 3}, {0, 1, 5, 4}} {
		m, err := csr.New(csr.Parts{Columns: 9, Offsets32: []int32{0, int32(len(columns))}, Indices64: columns})
		require.NoError(t, err)
		require.NoError(t, m.Validate(csr.ValidateOptions{}))
		out := new(kernels.SparseBatch)
		require.NoError(t, (&csr.Reader{Source: m}).Batch([]int64{0}, 0, false, out))
		require.True(t, slices.IsSorted(out.Indices))
	}
	for _, bad := range []int64{9, -1, math.MaxInt64, math.MinInt64, 1 << 32} {
		m, err := csr.New(csr.Parts{Columns: 9, Offsets32: []int32{0, 3}, Indices64: []int64{0, bad, 8}})
		require.NoError(t, err)
		require.ErrorContains(t, m.Validate(csr.ValidateOptions{}), fmt.Sprintf("row 0 holds column %d", bad))
	}
}
