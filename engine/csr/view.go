package csr

import (
	"cmp"
	"sync/atomic"
	"unsafe"

	"dsstne/internal/fault"
)

// RowNumber is a type of the numbers that choose rows.
type RowNumber interface{ int32 | int64 | uint32 }

// view is some rows of a source: those that a list names, or without one consecutive rows.
type view struct {
	Source
	first, rows int64
	list        rowNumbers
	statistics  Statistics
}

// rowNumbers is a list of numbers of one type. It may be borrowed memory, so it is read as it is now.
type rowNumbers interface {
	at(place int64) int64
	bytes() int64
}

type numbersOf[T RowNumber] []T

func (n numbersOf[T]) at(place int64) int64 { return int64(n[place]) }
func (n numbersOf[T]) bytes() int64         { return int64(len(n)) * int64(unsafe.Sizeof(T(0))) }

// Slice is the rows first up to end of a source.
func Slice(s Source, first, end int64) (Source, error) {
	if first < 0 || end < first || end > s.Rows() {
		return nil, fault.New(fault.InvalidArgument, "rows %d to %d were asked for, but the matrix has %d rows", first, end,
			s.Rows())
	}
	return newView(&view{Source: s, first: first, rows: end - first}, 0)
}

// Select is the rows of a source that a list names, in its order. The list may repeat rows and must not change later.
func Select[T RowNumber](s Source, list []T) (Source, error) {
	return newView(&view{Source: s, rows: int64(len(list)), list: numbersOf[T](list)}, 0)
}

// newView checks the rows of a view and counts their entries, on up to threads goroutines (0: one a processor).
func newView(v *view, threads int) (*view, error) {
	v.statistics = v.Source.Statistics()
	var entries atomic.Int64
	err := eachBlock(v.rows, 0, threads, func(first, end int64) error {
		return catchFaults(func() error {
			n := int64(0)
			for row := first; row < end; row++ {
				at := v.at(row)
				if !v.has(at) {
					return fault.New(fault.InvalidArgument, "index[%d] is %d, but the matrix has %d rows, counted from 0", row, at,
						v.Source.Rows())
				}
				n += v.length(row)
			}
			entries.Add(n)
			return nil
		})
	})
	v.statistics.NonZeros = entries.Load()
	if v.list != nil {
		v.statistics.Bytes += v.list.bytes()
	}
	return v, err
}

func (v *view) Rows() int64            { return v.rows }
func (v *view) Statistics() Statistics { return v.statistics }

// RowLength is 1 where the list no longer names a row or cannot be read, so that callers that pass over empty rows read
// the row and get the error.
func (v *view) RowLength(row int64) (n int64) {
	n = 1
	_ = catchFaults(func() error {
		n = v.length(row)
		return nil
	})
	return n
}

// unguarded counts the entries of a row without catching faults, for callers that catch those of many rows at once.
type unguarded interface{ length(row int64) int64 }

func (v *view) length(row int64) int64 {
	at := v.at(row)
	if !v.has(at) {
		return 1
	}
	if s, is := v.Source.(unguarded); is {
		return s.length(at)
	}
	return v.Source.RowLength(at)
}

func (v *view) Read(rows []int64, dst *Entries) error {
	good := 0
	err := catchFaults(func() error {
		for ; good < len(rows); good++ {
			row := rows[good]
			if row < 0 || row >= v.rows {
				return fault.New(fault.InvalidArgument, "row %d was asked for, but there are %d rows", row, v.rows)
			}
			at := v.at(row)
			if !v.has(at) {
				return v.changed(row, at)
			}
			rows[good] = at
		}
		return nil
	})
	entries, ends := len(dst.Indices), len(dst.Ends)
	err = cmp.Or(v.Source.Read(rows[:good], dst), err)
	if dst.limit > 0 && len(dst.Indices) >= dst.limit { // not every source looks
		dst.Indices, dst.Values, dst.Ends = dst.Indices[:entries], dst.Values[:entries], dst.Ends[:ends]
		return fault.New(fault.InvalidData, "rows grew while they were read: the matrix and the index must not be changed "+
			"while they are in use")
	}
	return err
}

// at is the number of a row in the source, as it is now.
func (v *view) at(row int64) int64 {
	if v.list != nil {
		return v.list.at(row)
	}
	return v.first + row
}

// has reports whether the source has a row.
func (v *view) has(row int64) bool { return row >= 0 && row < v.Source.Rows() }

func (v *view) changed(row, at int64) error {
	return fault.New(fault.InvalidData, "index[%d] became %d, but the matrix has %d rows: the index must not be changed "+
		"while it is in use", row, at, v.Source.Rows())
}
