package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

func TestRowsAreReplacedAndTheOthersStay(t *testing.T) {
	m := create(t, smallDefinition, 1)
	w, err := m.Tensor("output.weight")
	require.NoError(t, err)
	want := append([]float32{}, w.Float32()...)
	changes := m.Changes()
	copy(want[3*38:], []float32{1, 2, 3, 4, 5, 6})
	require.NoError(t, m.SetRows("output.weight", 38, want[3*38:], 3))
	require.Equal(t, want, w.Float32())
	require.NotEqual(t, changes, m.Changes())
	require.NoError(t, m.SetRows("output.weight", 40, nil, 3))
}

func TestRowsOfACopyAreItsOwn(t *testing.T) {
	m := create(t, smallDefinition, 1)
	other, err := m.Copy()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	w, err := m.Tensor("output.weight")
	require.NoError(t, err)
	before := append([]float32{}, w.Float32()...)
	require.NoError(t, other.SetRows("output.weight", 0, []float32{7, 7, 7}, 3))
	require.Equal(t, before, w.Float32())
}

func TestRowsThatDoNotFitAreRefusedAndChangeNothing(t *testing.T) {
	m := create(t, smallDefinition, 1)
	w, err := m.Tensor("output.weight")
	require.NoError(t, err)
	before := append([]float32{}, w.Float32()...)
	bad := []float32{1, 2, 3, 4, float32(math.NaN()), 6}
	requireFault(t, m.SetRows("output.weight", 7, bad, 3), fault.NotFinite, "output.weight, row 8, column 1: NaN")
	requireFault(t, m.SetRows("output.weight", 39, make([]float32, 6), 3), fault.InvalidArgument,
		"output.weight has 40 rows; 2 rows from row 39 on do not fit")
	requireFault(t, m.SetRows("output.weight", -1, make([]float32, 3), 3), fault.InvalidArgument, "do not fit")
	requireFault(t, m.SetRows("output.weight", math.MaxInt64, make([]float32, 3), 3), fault.InvalidArgument, "do not fit")
	requireFault(t, m.SetRows("output.weight", 0, make([]float32, 4), 2), fault.InvalidArgument,
		"output.weight has 3 columns, but the rows have 2")
	requireFault(t, m.SetRows("output.wait", 0, nil, 3), fault.NotFound, `did you mean "output.weight"?`)
	require.Equal(t, before, w.Float32())
}
