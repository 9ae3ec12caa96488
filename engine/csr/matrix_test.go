package csr_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// small is the matrix
//
//	row 0: 2 -> 1, 5 -> 2
//	row 1: empty
//	row 2: 0 -> 3, 2 -> 4, 9 -> -5
func small() csr.Parts {
	return csr.Parts{Columns: 10, Offsets32: []int32{0, 2, 2, 5}, Indices32: []int32{2, 5, 0, 2, 9},
		Values32: []float32{1, 2, 3, 4, -5}}
}

// opened is a validated matrix.
func opened(t testing.TB, p csr.Parts) *csr.Matrix {
	t.Helper()
	m, err := csr.New(p)
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{}))
	return m
}

// refusal is the message of an error of the given kind.
func refusal(t testing.TB, kind fault.Kind, err error) string {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind, fault.KindOf(err), err.Error())
	return err.Error()
}

func TestMoreColumnsThanAnInt32CountsAreRefused(t *testing.T) {
	p := small()
	p.Columns = math.MaxInt32 + 1
	_, err := csr.New(p)
	require.Contains(t, refusal(t, fault.InvalidArgument, err), "1 to 2147483647 columns, not 2147483648")
}

func TestAMatrixWithoutColumnsIsRefused(t *testing.T) {
	p := small()
	p.Columns = 0
	_, err := csr.New(p)
	refusal(t, fault.InvalidArgument, err)
}

func TestBothWidthsOfOneArrayAreRefused(t *testing.T) {
	p := small()
	p.Indices64 = []int64{1, 2, 3, 4, 5}
	_, err := csr.New(p)
	refusal(t, fault.InvalidArgument, err)
}

func TestALastOffsetBeyondTheEntriesIsRefused(t *testing.T) {
	p := small()
	p.Offsets32[3] = 6
	_, err := csr.New(p)
	require.Contains(t, refusal(t, fault.InvalidData, err), "from 0 to 6, but there are 5 entries")
}

func TestANegativeFirstOffsetIsRefused(t *testing.T) {
	p := small()
	p.Offsets32[0] = -1
	_, err := csr.New(p)
	refusal(t, fault.InvalidData, err)
}

func TestValuesMustBeAsManyAsIndices(t *testing.T) {
	p := small()
	p.Values32 = p.Values32[:4]
	_, err := csr.New(p)
	require.Contains(t, refusal(t, fault.InvalidData, err), "5 indices, but 4 values")
}

func TestARefusedMatrixIsNotReleased(t *testing.T) {
	p, released := small(), 0
	p.Columns, p.Release = 0, func() { released++ }
	_, err := csr.New(p)
	require.Error(t, err)
	require.Zero(t, released)
}

func TestShapesAreReported(t *testing.T) {
	m := opened(t, small())
	require.Equal(t, []int64{3, 10, 5, 2, 0, 3},
		[]int64{m.Rows(), m.Columns(), m.Statistics().NonZeros, m.RowLength(0), m.RowLength(1), m.RowLength(2)})
}

func TestBytesAreThoseOfTheArrays(t *testing.T) {
	require.Equal(t, int64(4*4+5*4+5*4), opened(t, small()).Statistics().Bytes)
}

func TestWidthsAreReported(t *testing.T) {
	m := opened(t, csr.Parts{Columns: 3, Offsets64: []int64{0, 1}, Indices32: []int32{1}, Values64: []float64{1}})
	l := m.Layout()
	require.Equal(t, []int{64, 32, 64}, []int{l.OffsetBits, l.IndexBits, l.ValueBits})
}

func TestAddressesAreTheOwners(t *testing.T) {
	p := small()
	l := opened(t, p).Layout()
	require.Equal(t, []unsafe.Pointer{unsafe.Pointer(&p.Offsets32[0]), unsafe.Pointer(&p.Indices32[0]),
		unsafe.Pointer(&p.Values32[0])}, []unsafe.Pointer{l.Offsets, l.Indices, l.Values})
}

func TestNoValuesHaveNoAddress(t *testing.T) {
	p := small()
	p.Values32 = nil
	require.Nil(t, opened(t, p).Layout().Values)
}

func TestNoOffsetsAreZeroRows(t *testing.T) {
	require.Zero(t, opened(t, csr.Parts{Columns: 3}).Rows())
}

func TestCloseIsRefusedWhileTheMatrixIsInUse(t *testing.T) {
	m := opened(t, small())
	require.NoError(t, m.Use())
	require.NoError(t, m.Use()) // a trainer that binds it to two layers
	message := refusal(t, fault.Busy, m.Close())
	require.Equal(t, "the dataset is in use by open trainers, predictors or datasets made of it; close them first", message)
}

func TestCloseWorksAfterTheLastUser(t *testing.T) {
	m := opened(t, small())
	require.NoError(t, m.Use())
	require.NoError(t, m.Use())
	m.Unuse()
	m.Unuse()
	require.NoError(t, m.Close())
}

func TestMemoryIsReleasedExactlyOnce(t *testing.T) {
	p, released := small(), 0
	p.Release = func() { released++ }
	m := opened(t, p)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	require.Equal(t, 1, released)
}

func TestARefusedCloseReleasesNothing(t *testing.T) {
	p, released := small(), 0
	p.Release = func() { released++ }
	m := opened(t, p)
	require.NoError(t, m.Use())
	require.Error(t, m.Close())
	require.Zero(t, released)
}

func TestAClosedMatrixCannotBeUsed(t *testing.T) {
	m := opened(t, small())
	require.NoError(t, m.Close())
	refusal(t, fault.InvalidState, m.Use())
}

func TestUnuseWithoutUsePanics(t *testing.T) {
	m := opened(t, small())
	require.Panics(t, m.Unuse)
}
