package csr

import "dsstne/internal/fault"

// Slice is the rows first up to end of a source.
func Slice(s Source, first, end int64) (Source, error) {
	if first < 0 || end < first || end > s.Rows() {
		return nil, fault.New(fault.InvalidArgument, "rows %d to %d were asked for, but the matrix has %d rows", first, end, s.Rows())
	}
	v := &slice{Source: s, first: first, rows: end - first, statistics: s.Statistics()}
	v.statistics.NonZeros = nonZeros(v)
	return v, nil
}

type slice struct {
	Source
	first, rows int64
	statistics  Statistics
}

func (v *slice) Rows() int64               { return v.rows }
func (v *slice) Statistics() Statistics    { return v.statistics }
func (v *slice) RowLength(row int64) int64 { return v.Source.RowLength(v.first + row) }

func (v *slice) Read(rows []int64, dst *Entries) error {
	for i := range rows {
		rows[i] += v.first
	}
	return v.Source.Read(rows, dst)
}

// Select is the rows of a source that a list names, in the order of the list, which may repeat them. The list must not be
// changed afterwards.
func Select(s Source, list []int64) (Source, error) {
	for i, row := range list {
		if row < 0 || row >= s.Rows() {
			return nil, fault.New(fault.InvalidArgument, "rows[%d] is %d, but the matrix has %d rows", i, row, s.Rows())
		}
	}
	v := &selection{Source: s, list: list, statistics: s.Statistics()}
	v.statistics.NonZeros = nonZeros(v)
	v.statistics.Bytes += 8 * int64(len(list))
	return v, nil
}

type selection struct {
	Source
	list       []int64
	statistics Statistics
}

func (v *selection) Rows() int64               { return int64(len(v.list)) }
func (v *selection) Statistics() Statistics    { return v.statistics }
func (v *selection) RowLength(row int64) int64 { return v.Source.RowLength(v.list[row]) }

func (v *selection) Read(rows []int64, dst *Entries) error {
	for i, row := range rows {
		rows[i] = v.list[row]
	}
	return v.Source.Read(rows, dst)
}

// nonZeros counts the stored entries of a source.
func nonZeros(s Source) (n int64) {
	for row := range s.Rows() {
		n += s.RowLength(row)
	}
	return n
}
