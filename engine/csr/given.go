package csr

import (
	"math"

	"dsstne/internal/fault"
)

// Row is the entries of one row in canonical form.
type Row struct {
	Indices []int32
	Values  []float32
}

// Row is row i of those that were read.
func (e *Entries) Row(i int) Row {
	begin := 0
	if i > 0 {
		begin = e.Ends[i-1]
	}
	return Row{e.Indices[begin:e.Ends[i]], e.Values[begin:e.Ends[i]]}
}

// Given is rows that change from batch to batch. They were read from another source, and so checked, before Set gives
// them. It says how much there can be at once, so that a program has room for any batch.
type Given struct {
	lease
	columns, rows, entries int64
	list                   []Row
}

// NewGiven has room for up to rows rows at a time, which have up to entries stored entries together.
func NewGiven(columns, rows, entries int64) *Given {
	return &Given{columns: columns, rows: rows, entries: entries}
}

// Set makes the list the first rows, until the next call; rows behind them are empty. Nobody reads meanwhile.
func (g *Given) Set(list []Row) { g.list = list }

// Rows is how many rows there can be at a time.
func (g *Given) Rows() int64 { return g.rows }

// Columns is the number of columns.
func (g *Given) Columns() int64 { return g.columns }

// Statistics bounds all rows that can be given.
func (g *Given) Statistics() Statistics {
	return Statistics{
		NonZeros: g.entries, Bytes: 8 * g.entries, Longest: min(g.columns, g.entries), Minimum: -math.MaxFloat32,
		Maximum: math.MaxFloat32, HasValues: true, Canonical: true,
	}
}

// RowLength is the number of entries of a row that is given now.
func (g *Given) RowLength(row int64) int64 {
	if row >= int64(len(g.list)) {
		return 0
	}
	return int64(len(g.list[row].Indices))
}

// Read copies rows that are given now.
func (g *Given) Read(rows []int64, dst *Entries) error {
	for _, row := range rows {
		if row < 0 || row >= g.rows {
			return fault.New(fault.InvalidArgument, "row %d was asked for, but there are %d rows", row, g.rows)
		}
		if row < int64(len(g.list)) {
			dst.Indices = append(dst.Indices, g.list[row].Indices...)
			dst.Values = append(dst.Values, g.list[row].Values...)
		}
		dst.Ends = append(dst.Ends, len(dst.Indices))
	}
	return nil
}
