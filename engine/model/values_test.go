package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

func TestRowsThatAreSetAreGotBackAndTheOthersStay(t *testing.T) {
	m := create(t, smallDefinition, 1)
	before := append([]byte{}, tensorBytes(t, m, "hidden1.weight")...)
	require.NoError(t, m.SetRows("hidden1.weight", 38, 2, floatBytes(1, 2, 3, 4, 5, 6)))
	got := make([]byte, 36)
	require.NoError(t, m.GetRows("hidden1.weight", 37, 3, got))
	require.Equal(t, append(before[37*12:38*12:38*12], floatBytes(1, 2, 3, 4, 5, 6)...), got)
	require.Equal(t, before[:38*12], tensorBytes(t, m, "hidden1.weight")[:38*12])
}

func TestNoRowsMayBeAskedForAtTheEnd(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.GetRows("hidden1.weight", 40, 0, nil))
	require.NoError(t, m.SetRows("hidden1.weight", 40, 0, nil))
}

func TestRowsOutsideOfATensorAreRefused(t *testing.T) {
	m := create(t, smallDefinition, 1)
	for _, rows := range [][2]int64{{-1, 1}, {0, -1}, {40, 1}, {39, 2}, {0, 41}, {math.MaxInt64, 1}, {1, math.MaxInt64}} {
		err := m.GetRows("hidden1.weight", rows[0], rows[1], make([]byte, 12))
		requireFault(t, err, fault.InvalidArgument, "hidden1.weight has 40 rows")
		err = m.SetRows("hidden1.weight", rows[0], rows[1], make([]byte, 12))
		requireFault(t, err, fault.InvalidArgument, "hidden1.weight has 40 rows")
	}
}

func TestRowsOfAWrongSizeAreRefused(t *testing.T) {
	m := create(t, smallDefinition, 1)
	err := m.GetRows("hidden1.weight", 0, 2, make([]byte, 12))
	requireFault(t, err, fault.InvalidArgument, "2 rows of hidden1.weight", "24 bytes", "12 bytes")
	err = m.SetRows("hidden1.weight", 0, 2, make([]byte, 36))
	requireFault(t, err, fault.InvalidArgument, "24 bytes", "36 bytes")
}

func TestSetRowsNamesThePlaceOfANumberThatIsNotFinite(t *testing.T) {
	m := create(t, smallDefinition, 1)
	before := append([]byte{}, tensorBytes(t, m, "hidden1.weight")...)
	err := m.SetRows("hidden1.weight", 7, 2, floatBytes(1, 2, 3, 4, float32(math.NaN()), 6))
	requireFault(t, err, fault.NotFinite, "hidden1.weight, row 8, column 1")
	require.Equal(t, before, tensorBytes(t, m, "hidden1.weight"))
}

func TestRowsThatAreSetLeaveACopyOfTheModelAsItIs(t *testing.T) {
	m := create(t, smallDefinition, 1)
	c, err := m.Copy()
	require.NoError(t, err)
	before := append([]byte{}, tensorBytes(t, c, "hidden1.weight")...)
	require.NoError(t, m.SetRows("hidden1.weight", 0, 1, floatBytes(1, 2, 3)))
	require.Equal(t, before, tensorBytes(t, c, "hidden1.weight"))
	require.NoError(t, c.Close())
}

func TestNamesOfItemsAreNotSetByRows(t *testing.T) {
	m := create(t, smallDefinition, 1)
	nameItems(t, m)
	for _, name := range []string{itemBytes, itemOffsets} {
		requireFault(t, m.SetRows(name, 0, 0, nil), fault.InvalidArgument, name, "as a whole")
	}
	got := make([]byte, 16)
	require.NoError(t, m.GetRows(itemOffsets, 0, 2, got))
	require.Equal(t, tensorBytes(t, m, itemOffsets)[:16], got)
}

func TestRowsOfATrainedModelAreBusy(t *testing.T) {
	m := create(t, smallDefinition, 1)
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	requireFault(t, m.GetRows("hidden1.bias", 0, 1, make([]byte, 4)), fault.Busy)
	requireFault(t, m.SetRows("hidden1.bias", 0, 1, make([]byte, 4)), fault.Busy)
	unlock()
	require.NoError(t, m.GetRows("hidden1.bias", 0, 1, make([]byte, 4)))
}
