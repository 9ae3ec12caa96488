package csr

import "dsstne/internal/fault"

// view is some rows of a source: those that a list names, or without one consecutive rows.
type view struct {
	Source
	first, rows int64
	list        []int64
	statistics  Statistics
}

// Slice is the rows first up to end of a source.
func Slice(s Source, first, end int64) (Source, error) {
	if first < 0 || end < first || end > s.Rows() {
		return nil, fault.New(fault.InvalidArgument, "rows %d to %d were asked for, but the matrix has %d rows", first, end,
			s.Rows())
	}
	return newView(s, first, end-first, nil), nil
}

// Select is the rows of a source that a list names, in its order. The list may repeat rows and must not change later.
func Select(s Source, list []int64) (Source, error) {
	for i, row := range list {
		if row < 0 || row >= s.Rows() {
			return nil, fault.New(fault.InvalidArgument, "rows[%d] is %d, but the matrix has %d rows", i, row, s.Rows())
		}
	}
	return newView(s, 0, int64(len(list)), list), nil
}

func newView(s Source, first, rows int64, list []int64) *view {
	v := &view{Source: s, first: first, rows: rows, list: list, statistics: s.Statistics()}
	v.statistics.NonZeros = 0
	for row := range rows {
		v.statistics.NonZeros += v.RowLength(row)
	}
	v.statistics.Bytes += 8 * int64(len(list))
	return v
}

func (v *view) Rows() int64               { return v.rows }
func (v *view) Statistics() Statistics    { return v.statistics }
func (v *view) RowLength(row int64) int64 { return v.Source.RowLength(v.at(row)) }

func (v *view) Read(rows []int64, dst *Entries) error {
	for i, row := range rows {
		rows[i] = v.at(row)
	}
	return v.Source.Read(rows, dst)
}

// at is the number of a row in the source.
func (v *view) at(row int64) int64 {
	if v.list != nil {
		return v.list[row]
	}
	return v.first + row
}
