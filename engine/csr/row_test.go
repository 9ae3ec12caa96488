package csr_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// rowOf is one row in canonical form.
func rowOf(t testing.TB, m *csr.Matrix, row int64) ([]int32, []float32) {
	t.Helper()
	var e csr.Entries
	require.NoError(t, m.AppendRow(&e, row))
	return e.Indices, e.Values
}

// single is a matrix of one row.
func single(indices []int32, values []float32) csr.Parts {
	return csr.Parts{Columns: 100, Offsets32: []int32{0, int32(len(indices))}, Indices32: indices, Values32: values}
}

func TestARowIsReadAsItIsStored(t *testing.T) {
	indices, values := rowOf(t, opened(t, small()), 2)
	require.Equal(t, []int32{0, 2, 9}, indices)
	require.Equal(t, []float32{3, 4, -5}, values)
}

func TestEveryCombinationOfWidthsReadsTheSame(t *testing.T) {
	for mask := range 12 {
		p := small()
		if mask&1 != 0 {
			p.Offsets32, p.Offsets64 = nil, []int64{0, 2, 2, 5}
		}
		if mask&2 != 0 {
			p.Indices32, p.Indices64 = nil, []int64{2, 5, 0, 2, 9}
		}
		want := []float32{3, 4, -5}
		switch mask / 4 {
		case 1:
			p.Values32, p.Values64 = nil, []float64{1, 2, 3, 4, -5}
		case 2:
			p.Values32, want = nil, []float32{1, 1, 1}
		}
		indices, values := rowOf(t, opened(t, p), 2)
		require.Equal(t, []int32{0, 2, 9}, indices)
		require.Equal(t, want, values)
	}
}

func TestUnsortedRowsAreSorted(t *testing.T) {
	indices, values := rowOf(t, opened(t, single([]int32{9, 3, 7}, []float32{1, 2, 3})), 0)
	require.Equal(t, []int32{3, 7, 9}, indices)
	require.Equal(t, []float32{2, 3, 1}, values)
}

func TestDuplicatesAreSummed(t *testing.T) {
	indices, values := rowOf(t, opened(t, single([]int32{9, 3, 9, 9}, []float32{1, 2, 3, 4})), 0)
	require.Equal(t, []int32{3, 9}, indices)
	require.Equal(t, []float32{2, 8}, values)
}

func TestDuplicatesInAMatrixWithoutValuesCountOnce(t *testing.T) {
	m, err := csr.New(csr.Parts{Columns: 9, Offsets32: []int32{0, 4}, Indices32: []int32{7, 2, 7, 7}})
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{}))
	var e csr.Entries
	require.NoError(t, m.AppendRow(&e, 0))
	require.Equal(t, []int32{2, 7}, e.Indices)
	require.Equal(t, []float32{1, 1}, e.Values)
}

func TestSumsOfDuplicatesDoNotDependOnTheirOrder(t *testing.T) {
	_, a := rowOf(t, opened(t, single([]int32{5, 5, 5}, []float32{1e8, 1, -1e8})), 0)
	_, b := rowOf(t, opened(t, single([]int32{5, 5, 5}, []float32{1, -1e8, 1e8})), 0)
	require.Equal(t, a, b)
}

func TestZerosAreDropped(t *testing.T) {
	indices, _ := rowOf(t, opened(t, single([]int32{1, 2, 3}, []float32{0, 1, float32(math.Copysign(0, -1))})), 0)
	require.Equal(t, []int32{2}, indices)
}

func TestDuplicatesThatCancelAreDropped(t *testing.T) {
	indices, _ := rowOf(t, opened(t, single([]int32{1, 2, 1}, []float32{5, 1, -5})), 0)
	require.Equal(t, []int32{2}, indices)
}

func TestRowsAreAppended(t *testing.T) {
	m := opened(t, small())
	var e csr.Entries
	require.NoError(t, m.AppendRow(&e, 0))
	require.NoError(t, m.AppendRow(&e, 1))
	require.NoError(t, m.AppendRow(&e, 0))
	require.Equal(t, []int32{2, 5, 2, 5}, e.Indices)
	require.Equal(t, []float32{1, 2, 1, 2}, e.Values)
}

func TestARowThatIsNotThereIsAnArgumentError(t *testing.T) {
	m := opened(t, small())
	for _, row := range []int64{-1, 3} {
		refusal(t, fault.InvalidArgument, m.AppendRow(&csr.Entries{}, row))
	}
}

func TestTheOwnersMemoryIsNotChanged(t *testing.T) {
	p := single([]int32{9, 3, 9}, []float32{1, 0, 3})
	rowOf(t, opened(t, p), 0)
	require.Equal(t, single([]int32{9, 3, 9}, []float32{1, 0, 3}), p)
}

func TestChangesAfterValidationAreInvalidData(t *testing.T) {
	for name, change := range map[string]func(p csr.Parts){
		"index too large":   func(p csr.Parts) { p.Indices32[0] = 10 },
		"index negative":    func(p csr.Parts) { p.Indices32[1] = -1 },
		"offset too large":  func(p csr.Parts) { p.Offsets32[1] = 6 },
		"offset negative":   func(p csr.Parts) { p.Offsets32[0] = -1 },
		"offsets decrease":  func(p csr.Parts) { p.Offsets32[0] = 3 },
		"value not finite":  func(p csr.Parts) { p.Values32[1] = float32(math.NaN()) },
		"value is infinite": func(p csr.Parts) { p.Values32[1] = float32(math.Inf(-1)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := small()
			m := opened(t, p)
			change(p)
			refusal(t, fault.InvalidData, m.AppendRow(&csr.Entries{}, 0))
		})
	}
}

func TestA64BitIndexThatWasChangedIsInvalidData(t *testing.T) {
	p := csr.Parts{Columns: 10, Offsets32: []int32{0, 1}, Indices64: []int64{3}}
	m := opened(t, p)
	p.Indices64[0] = 1<<32 + 3
	require.Contains(t, refusal(t, fault.InvalidData, m.AppendRow(&csr.Entries{}, 0)), "column 4294967299")
}

func TestAFloat64ThatGrewTooLargeIsInvalidData(t *testing.T) {
	p := csr.Parts{Columns: 10, Offsets32: []int32{0, 1}, Indices32: []int32{3}, Values64: []float64{1}}
	m := opened(t, p)
	p.Values64[0] = -1e40
	require.Contains(t, refusal(t, fault.InvalidData, m.AppendRow(&csr.Entries{}, 0)), "too large for float32")
}

func TestASumTooLargeForFloat32IsInvalidData(t *testing.T) {
	m := opened(t, single([]int32{4, 4}, []float32{3e38, 3e38}))
	require.Contains(t, refusal(t, fault.InvalidData, m.AppendRow(&csr.Entries{}, 0)), "row 0, column 4: the sum")
}

func TestAFailureLeavesTheEntriesAsTheyWere(t *testing.T) {
	p := small()
	m := opened(t, p)
	var e csr.Entries
	require.NoError(t, m.AppendRow(&e, 0))
	p.Indices32[4] = 10
	require.Error(t, m.AppendRow(&e, 2))
	require.Equal(t, []int32{2, 5}, e.Indices)
	require.Equal(t, []float32{1, 2}, e.Values)
}

func TestValuesInsideTheRangeAreNotReported(t *testing.T) {
	_, _, _, found := csr.FirstOutside(opened(t, small()), -5, 4)
	require.False(t, found)
}

func TestTheFirstValueOutsideTheRangeIsReported(t *testing.T) {
	row, column, value, found := csr.FirstOutside(opened(t, small()), 0, 3)
	require.True(t, found)
	require.Equal(t, []any{int64(2), int64(2), 4.0}, []any{row, column, value})
}

func TestASumOfDuplicatesOutsideTheRangeIsReported(t *testing.T) {
	p := single([]int32{4, 8, 4}, []float32{1, 1, 1})
	row, column, value, found := csr.FirstOutside(opened(t, p), 0, 1)
	require.True(t, found)
	require.Equal(t, []any{int64(0), int64(4), 2.0}, []any{row, column, value})
}

func TestNaNIsOutsideOfEveryRange(t *testing.T) {
	m, err := csr.New(single([]int32{4, 8}, []float32{1, float32(math.NaN())}))
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{AllowNotFinite: true}))
	_, column, _, found := csr.FirstOutside(m, math.Inf(-1), math.Inf(1))
	require.True(t, found)
	require.Equal(t, int64(8), column)
}

func TestTheFirstOfManyOutsideIsReportedForAnyNumberOfThreads(t *testing.T) {
	const rows, bad = 300_000, 123_456 // several blocks, all after the first bad one being worse
	p := csr.Parts{Columns: 2, Offsets32: make([]int32, rows+1), Indices32: make([]int32, rows),
		Values32: make([]float32, rows)}
	for i := range rows {
		p.Offsets32[i+1], p.Indices32[i] = int32(i+1), int32(i%2)
		if i >= bad {
			p.Values32[i] = 2
		}
	}
	m := opened(t, p)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, threads := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(threads)
		row, column, value, found := csr.FirstOutside(m, 0, 1)
		require.Equal(t, []any{int64(bad), int64(0), 2.0, true}, []any{row, column, value, found})
	}
}
