package csr_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
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
	require.Equal(t, []float64{-5, 4}, []float64{m.Minimum(), m.Maximum()})
}

func TestExtremesOfFloat64AreNotRounded(t *testing.T) {
	m := opened(t, csr.Parts{Columns: 2, Offsets32: []int32{0, 2}, Indices32: []int32{0, 1}, Values64: []float64{0.1, 0.2}})
	require.Equal(t, []float64{0.1, 0.2}, []float64{m.Minimum(), m.Maximum()})
}

func TestExtremesWithoutValuesAreOne(t *testing.T) {
	p := small()
	p.Values32 = nil
	m := opened(t, p)
	require.Equal(t, []float64{1, 1}, []float64{m.Minimum(), m.Maximum()})
}

func TestExtremesOfNothingAreZero(t *testing.T) {
	m := opened(t, csr.Parts{Columns: 3, Offsets32: []int32{0, 0, 0}, Indices32: []int32{}})
	require.Equal(t, []float64{0, 0}, []float64{m.Minimum(), m.Maximum()})
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
	want, got := []int64{0}, []int64{m.MaxBatchEntries(0)}
	for i, length := range lengths {
		want, got = append(want, want[i]+length), append(got, m.MaxBatchEntries(int64(i+1)))
	}
	require.Equal(t, want, got)
}

func TestABatchOfMoreRowsThanThereAreHoldsEverything(t *testing.T) {
	require.Equal(t, int64(5), opened(t, small()).MaxBatchEntries(512))
}

func TestABatchOfEmptyRowsHoldsNothing(t *testing.T) {
	m := opened(t, csr.Parts{Columns: 3, Offsets32: make([]int32, 9)})
	require.Zero(t, m.MaxBatchEntries(3))
}
