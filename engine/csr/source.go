package csr

import (
	"sync"

	"dsstne/internal/parallel"
)

// Source is the rows of a sparse matrix, wherever they are stored: Matrix, Blocks and Attested hold them, a Dense has
// every cell, Indexed, Slice and Select choose rows of another source, a Product computes them. Any number of
// goroutines may read.
//
// The methods are what only the place of the rows can answer. What can be computed from the answers is written once,
// for every source: Reader makes batches, MaxBatchEntries bounds them, FirstOutside checks values, DeviceData describes
// the rows to a device that keeps a copy. No method returns whole arrays, so a source need not have them: the functions
// read block by block, in the order of the rows.
//
// Values that implement Source are pointers: callers compare them, and use them as keys of maps.
type Source interface {
	// Rows is the number of rows.
	Rows() int64
	// Columns is the number of columns; every index is below it.
	Columns() int64
	// Statistics describes all rows as they were when they were validated.
	Statistics() Statistics
	// RowLength is the number of entries that are stored in a row now, 0 <= row < Rows. If it is not valid or cannot be
	// read, it may be any number: reading the row reports the error.
	RowLength(row int64) int64
	// Read appends the rows to dst, in canonical form, as Matrix.AppendRow does it. A row may appear twice. After a
	// failure dst has the rows before the bad one. Errors name a row by its number in the matrix. Read may overwrite rows.
	Read(rows []int64, dst *Entries) error
	// Use counts a user, who keeps the source from being closed until Unuse; it fails when the source is closed.
	Use() error
	// Unuse ends one successful Use.
	Unuse()
}

// Statistics describes all rows of a source. Chosen rows have the bounds of their source.
type Statistics struct {
	NonZeros         int64   // stored entries, duplicates and stored zeros included
	Bytes            int64   // size of the memory that holds the rows
	Longest          int64   // no row has more stored entries
	Minimum, Maximum float64 // no stored value is outside, NaN aside; 0 if there is none
	HasValues        bool    // false: every stored value is 1
	Canonical        bool    // every row has strictly ascending columns: no duplicates
	AllowNotFinite   bool    // NaN and infinite values are data
}

// onlyOnes reports whether every value of a canonical row is 1.
func (s Statistics) onlyOnes() bool {
	return !s.HasValues || s.Canonical && !s.AllowNotFinite && s.Minimum == 1 && s.Maximum == 1
}

// MayHaveZeros reports whether a zero may be stored.
func (s Statistics) MayHaveZeros() bool { return s.HasValues && s.Minimum <= 0 && s.Maximum >= 0 }

// within reports whether no value of a canonical row can be outside low .. high.
func (s Statistics) within(low, high float64) bool {
	return s.Canonical && !s.AllowNotFinite && s.Minimum >= low && s.Maximum <= high
}

// block holds consecutive rows of a source.
type block struct {
	Entries
	rows []int64
}

// read fills the block with rows first .. end-1 of a source; after a failure it has those before the bad row.
func (b *block) read(s Source, first, end int64) error {
	b.rows = b.rows[:0]
	for row := first; row < end; row++ {
		b.rows = append(b.rows, row)
	}
	b.Reset()
	return s.Read(b.rows, &b.Entries)
}

// blockEntries is about how many entries a thread reads before it looks for more work.
const blockEntries = 1 << 16

// blockRows is how many rows are read at a time, so that a block has about blockEntries entries.
func blockRows(rows, nonZeros int64) int64 {
	return max(1, rows*blockEntries/(nonZeros+rows+1))
}

// eachBlock visits all rows, block by block, on up to threads goroutines (0: one a processor), and returns the error of
// the first block, in order, whose visit fails.
func eachBlock(rows, nonZeros int64, threads int, visit func(first, end int64) error) error {
	size := blockRows(rows, nonZeros)
	return parallel.Do(threads, int((rows+size-1)/size), func(n int) error {
		first := int64(n) * size
		return visit(first, min(first+size, rows))
	})
}

// blocks are for the visits of eachBlock that read rows.
var blocks = sync.Pool{New: func() any { return new(block) }}
