package csr_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

func TestAnIndexedSourceKeepsItsSourceOpenUntilItIsClosed(t *testing.T) {
	m := opened(t, small())
	x, err := csr.NewIndexed(m, []uint32{2, 0, 2}, 1)
	require.NoError(t, err)
	refusal(t, fault.Busy, m.Close())
	require.NoError(t, x.Use())
	refusal(t, fault.Busy, x.Close())
	x.Unuse()
	require.NoError(t, x.Close())
	require.NoError(t, m.Close())
	_, err = csr.NewIndexed(m, []int32{0}, 1)
	refusal(t, fault.InvalidState, err)
}

func TestARefusedIndexLeavesItsSourceFree(t *testing.T) {
	m := opened(t, small())
	for _, row := range []int64{-1, 3, 1 << 40} {
		list := make([]int64, 200_000)
		list[100_000], list[150_000] = row, -7
		_, err := csr.NewIndexed(m, list, 3)
		require.Contains(t, refusal(t, fault.InvalidArgument, err), "index[100000] is ")
	}
	_, err := csr.NewIndexed(m, []uint32{1<<32 - 1}, 1)
	require.Contains(t, refusal(t, fault.InvalidArgument, err), "index[0] is 4294967295, but the matrix has 3 rows")
	require.NoError(t, m.Close())
}

func TestAnIndexThatChangesIsAnErrorAndNoCrash(t *testing.T) {
	for _, changed := range []int32{-1, 3, 1<<31 - 1} {
		m := opened(t, small())
		list := []int32{0, 1, 2, 0, 1, 2}
		x, err := csr.NewIndexed(m, list, 1)
		require.NoError(t, err)
		data, err := csr.DeviceData(x, 0, x.Columns(), false)
		require.NoError(t, err)
		require.NotNil(t, data.Index)
		list[3] = changed
		r, batch := &csr.Reader{Source: x}, new(kernels.SparseBatch)
		require.Contains(t, refusal(t, fault.InvalidData, r.Batch([]int64{2, 3}, 1, true, batch)), "index[3] became ")
		require.Empty(t, batch.Indices)
		require.EqualValues(t, 1, x.RowLength(3))
		require.Contains(t, refusal(t, fault.InvalidData, data.Index(func([]int64) error { return nil })), "index[3] became ")
		e := new(csr.Entries)
		refusal(t, fault.InvalidData, x.Read([]int64{0, 3}, e))
		require.Len(t, e.Ends, 1) // the rows before it are there
	}
}

func TestALongerRowThanWasPlannedForIsAnError(t *testing.T) {
	short := csr.Parts{Columns: 9, Offsets32: []int32{0, 1, 9}, Indices32: []int32{0, 0, 1, 2, 3, 4, 5, 6, 7}}
	unit := csr.Parts{Columns: 9, Offsets32: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Indices32: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}}
	product, err := csr.NewProduct(opened(t, short), opened(t, unit), 1)
	require.NoError(t, err)
	for _, base := range []csr.Source{opened(t, short), product} { // a product does not look for room itself
		list := []int64{0, 0, 1}
		x, err := csr.NewIndexed(base, list, 1)
		require.NoError(t, err)
		list[0] = 1
		r := &csr.Reader{Source: x, Limit: 8}
		refusal(t, fault.InvalidData, r.Batch([]int64{0, 1}, 1, true, new(kernels.SparseBatch)))
	}
}

func TestADeviceKeepsTheRowsThatAnIndexRepeatsOnce(t *testing.T) {
	m := opened(t, small())
	kept := func(s csr.Source) (int64, int64, []int64) {
		data, err := csr.DeviceData(s, 0, s.Columns(), false)
		require.NoError(t, err)
		var rows []int64
		if data.Index != nil {
			require.NoError(t, data.Index(func(part []int64) error {
				rows = append(rows, part...)
				return nil
			}))
		}
		require.EqualValues(t, s.Rows(), data.Listed)
		return data.Rows, data.Entries, rows
	}
	list := make([]int64, 100_000)
	for i := range list {
		list[i] = int64(i) % 3
	}
	x, err := csr.NewIndexed(m, list, 1)
	require.NoError(t, err)
	rows, entries, index := kept(x)
	require.EqualValues(t, []int64{m.Rows(), m.Statistics().NonZeros}, []int64{rows, entries})
	require.Equal(t, list, index)

	shifted := slices.Repeat([]int32{5, 99_999}, 40_000)
	of, err := csr.NewIndexed(x, shifted, 1)
	require.NoError(t, err)
	rows, entries, index = kept(of)
	require.EqualValues(t, []int64{m.Rows(), m.Statistics().NonZeros}, []int64{rows, entries})
	require.Equal(t, slices.Repeat([]int64{2, 0}, 40_000), index)

	few, err := csr.NewIndexed(m, []int64{2, 1}, 1) // copies of these are smaller than all rows
	require.NoError(t, err)
	rows, entries, index = kept(few)
	require.EqualValues(t, []int64{2, few.Statistics().NonZeros}, []int64{rows, entries})
	require.Nil(t, index)
}
