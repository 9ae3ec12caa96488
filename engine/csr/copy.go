package csr

import (
	"slices"

	"dsstne/internal/fault"
)

// copiedRows is how many rows are read at a time.
const copiedRows = 1024

// BoundRows writes where the entries of rows end at the latest if they are copied one after the other: offsets[0] is 0,
// and offsets[n+1] is for rows[n].
func BoundRows(s Source, rows, offsets []int64) error {
	offsets[0] = 0
	for n, row := range rows {
		if err := checkRow(s, row); err != nil {
			return err
		}
		offsets[n+1] = offsets[n] + min(max(0, s.RowLength(row)), s.Columns())
	}
	return nil
}

// CopyRows copies rows, in canonical form, one after the other; the arrays must have room for what BoundRows says.
// offsets[n] to offsets[n+1]-1 are the entries of rows[n].
func CopyRows(s Source, rows, offsets []int64, indices []int32, values []float32) error {
	var e Entries
	var wanted []int64
	offsets[0] = 0
	for part := range slices.Chunk(rows, copiedRows) {
		wanted = append(wanted[:0], part...) // the caller's may change, and Read may overwrite its rows
		for _, row := range wanted {
			if err := checkRow(s, row); err != nil {
				return err
			}
		}
		e.Reset()
		if err := s.Read(wanted, &e); err != nil {
			return err
		}
		at := offsets[0]
		if int64(len(e.Indices)) > min(int64(len(indices)), int64(len(values)))-at {
			return fault.New(fault.InvalidArgument, "the rows have more entries than the arrays have room for, %s",
				fault.Grouped(int64(min(len(indices), len(values)))))
		}
		copy(indices[at:], e.Indices)
		copy(values[at:], e.Values)
		for n, end := range e.Ends {
			offsets[n+1] = at + int64(end)
		}
		offsets = offsets[len(e.Ends):]
	}
	return nil
}

func checkRow(s Source, row int64) error {
	if row < 0 || row >= s.Rows() {
		return fault.New(fault.InvalidArgument, "row %d was asked for, but the dataset has %d rows", row, s.Rows())
	}
	return nil
}
