package csr

import "dsstne/kernels"

// Store copies a source into two matrices that have room for all of its entries: by row, and transposed. Rows are
// sorted, duplicates added, and zeros left out.
func Store(s Source, byRow, byColumn *kernels.SparseMatrix) error {
	statistics := s.Statistics()
	data := &deviceData{
		source: s, end: int32(s.Columns()), most: statistics.NonZeros, onlyOnes: statistics.onlyOnes(), size: blockEntries,
	}
	offsets, indices, values := kernels.View[int64](byRow.Offsets), byRow.Indices.Int32(), byRow.Values.Float32()
	starts := kernels.View[int64](byColumn.Offsets)
	row, at := 0, int64(0)
	err := data.blocks(false, func(b kernels.DataBlock) error {
		for _, length := range b.Lengths {
			offsets[row+1] = offsets[row] + int64(length)
			row++
		}
		copy(indices[at:], b.Indices)
		for n := range b.Indices {
			value := float32(1)
			if !data.onlyOnes {
				value = b.Values[n]
			}
			values[at+int64(n)] = value
			starts[b.Indices[n]+1]++
		}
		at += int64(len(b.Indices))
		return nil
	})
	if err != nil {
		return err
	}
	for column := range byColumn.Rows {
		starts[column+1] += starts[column]
	}
	// While entries are put in place, starts[c] is where the next one of column c goes: at last, where c ends.
	rows, transposed := byColumn.Indices.Int32(), byColumn.Values.Float32()
	for row := range byRow.Rows {
		for e := offsets[row]; e < offsets[row+1]; e++ {
			to := starts[indices[e]]
			starts[indices[e]]++
			rows[to], transposed[to] = int32(row), values[e]
		}
	}
	copy(starts[1:], starts[:byColumn.Rows])
	starts[0] = 0
	return nil
}
