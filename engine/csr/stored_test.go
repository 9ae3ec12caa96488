package csr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/kernels"
)

// roomFor allocates a matrix that can hold the given number of entries.
func roomFor(t *testing.T, rows, columns, entries int64) *kernels.SparseMatrix {
	m := &kernels.SparseMatrix{Rows: rows, Columns: columns}
	for n, to := range []*kernels.Buffer{&m.Offsets, &m.Indices, &m.Values} {
		b, err := kernels.AllocHost([]int64{2 * (rows + 1), entries, entries}[n])
		require.NoError(t, err)
		t.Cleanup(b.Free)
		*to = b
	}
	return m
}

func TestAStoredMatrixHasTheRowsOfABatchInBothOrders(t *testing.T) {
	for seed := range uint64(20) {
		m := opened(t, randomParts(seed, 30, 17))
		entries := m.Statistics().NonZeros
		byRow, byColumn := roomFor(t, 30, 17, entries), roomFor(t, 17, 30, entries)
		require.NoError(t, csr.Store(m, byRow, byColumn))
		every := make([]int64, 30)
		for row := range every {
			every[row] = int64(row)
		}
		batch := batchOf(t, &csr.Reader{Source: m, Limit: entries}, every...)
		for row, end := range batch.Offsets {
			require.EqualValues(t, end, kernels.View[int64](byRow.Offsets)[row])
		}
		n := len(batch.Indices)
		require.Equal(t, batch.Indices, byRow.Indices.Int32()[:n])
		require.Equal(t, batch.Values, byRow.Values.Float32()[:n])
		starts := kernels.View[int64](byColumn.Offsets)
		require.EqualValues(t, n, starts[17])
		for at, item := range batch.Items {
			first, size := starts[item], starts[item+1]-starts[item]
			require.EqualValues(t, batch.ItemOffsets[at+1]-batch.ItemOffsets[at], size)
			begin, end := batch.ItemOffsets[at], batch.ItemOffsets[at+1]
			require.Equal(t, batch.ItemRows[begin:end], byColumn.Indices.Int32()[first:][:size])
			require.Equal(t, batch.ItemValues[begin:end], byColumn.Values.Float32()[first:][:size])
		}
	}
}
