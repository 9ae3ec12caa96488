package csr

import (
	"math"
	"slices"

	"dsstne/internal/fault"
)

// Entries are stored entries of one or more rows: column and value.
type Entries struct {
	Indices []int32
	Values  []float32
	Ends    []int // by row that Source.Read has appended: where its entries end
	Zeros   bool  // zeros that are stored are entries, too

	limit int      // one more than the stored entries that the rows have together; 0: any number
	keys  []uint64 // room to sort a row
	aside *Entries // room for a row that may need less than there is left
}

// Reset empties e and keeps its memory.
func (e *Entries) Reset() { e.Indices, e.Values, e.Ends = e.Indices[:0], e.Values[:0], e.Ends[:0] }

// Read appends rows to dst, see Source.
func (m *Matrix) Read(rows []int64, dst *Entries) error {
	return catchFaults(func() error {
		for len(rows) > 0 {
			n := 1 // rows that follow one another, which a file can read together
			for n < len(rows) && rows[n] == rows[0]+int64(n) {
				n++
			}
			if err := m.inMemory(rows[0], rows[0]+int64(n), func(part *Matrix, from, to int64) error {
				return part.appendRows(dst, from, to)
			}); err != nil {
				return err
			}
			rows = rows[n:]
		}
		return nil
	})
}

func (m *Matrix) appendRows(dst *Entries, first, end int64) error {
	for row := first; row < end; row++ {
		if err := m.AppendRow(dst, row); err != nil {
			return err
		}
		dst.Ends = append(dst.Ends, len(dst.Indices))
	}
	return nil
}

// AppendRow appends the entries of a row of a matrix in memory: columns ascending, duplicates summed (in a matrix
// without values, where an entry only says that a column is there, counted once), zeros dropped unless dst.Zeros,
// values rounded to float32. The bits of a sum do not depend on the order in which duplicates are stored. Everything is
// checked again, in a private copy: fault.InvalidData means that the matrix was changed since Validate (or never
// validated). On failure dst is as it was.
func (m *Matrix) AppendRow(dst *Entries, row int64) error {
	if err := m.checkRange(row); err != nil {
		return err
	}
	begin, end, err := m.bounds(row)
	if err != nil {
		return err
	}
	at, n := len(dst.Indices), int(end-begin)
	if dst.limit > 0 && at+n >= dst.limit {
		return fault.New(fault.InvalidData, "row %d grew while it was read: "+
			"the matrix must not be changed while it is in use", m.parts.firstRow+row)
	}
	dst.Indices = slices.Grow(dst.Indices, n)[:at+n]
	dst.Values = slices.Grow(dst.Values, n)[:at+n]
	indices, values := dst.Indices[at:], dst.Values[at:]
	m.copyEntries(indices, values, begin)

	order, bad := inspect(indices, values, uint32(m.parts.Columns), m.statistics.AllowNotFinite)
	if bad >= 0 {
		dst.Indices, dst.Values = dst.Indices[:at], dst.Values[:at]
		if uint32(indices[bad]) >= uint32(m.parts.Columns) {
			return m.indexError(row, begin+int64(bad))
		}
		return m.valueError(row, begin+int64(bad))
	}
	kept := n
	if order.unsorted {
		kept = dst.sortRow(indices, values, m.statistics.HasValues)
	}
	if !dst.Zeros && (order.unsorted || order.zeros) {
		kept = dropZeros(indices[:kept], values[:kept])
	}
	dst.Indices, dst.Values = dst.Indices[:at+kept], dst.Values[:at+kept]
	if order.unsorted && !m.statistics.AllowNotFinite {
		if i := firstNotFinite(values[:kept]); i >= 0 {
			column := indices[i]
			dst.Indices, dst.Values = dst.Indices[:at], dst.Values[:at]
			return fault.New(fault.InvalidData, "row %d, column %d: the sum of the values stored there is too large for "+
				"float32; scale the values down", m.parts.firstRow+row, column)
		}
	}
	return nil
}

func (m *Matrix) checkRange(row int64) error {
	if row < 0 || row >= m.rows {
		return fault.New(fault.InvalidArgument, "row %d was asked for, but the matrix has %d rows", row, m.rows)
	}
	return nil
}

// copyEntries reads each entry once. A 64-bit index that is not a 31-bit number becomes -1, which no check lets pass.
func (m *Matrix) copyEntries(indices []int32, values []float32, begin int64) {
	end := begin + int64(len(indices))
	if m.parts.Indices64 != nil {
		for i, column := range m.parts.Indices64[begin:end] {
			if uint64(column) > math.MaxInt32 {
				column = -1
			}
			indices[i] = int32(column)
		}
	} else {
		copy(indices, m.parts.Indices32[begin:end])
	}
	switch {
	case m.parts.Others != nil:
		m.parts.Others.copyTo(values, begin)
	case m.parts.Values64 != nil:
		for i, value := range m.parts.Values64[begin:end] {
			values[i] = float32(value)
		}
	case m.parts.Values32 != nil:
		copy(values, m.parts.Values32[begin:end])
	default:
		for i := range values {
			values[i] = 1
		}
	}
}

// disorder is what keeps a row from being canonical.
type disorder struct {
	unsorted bool // columns do not ascend strictly
	zeros    bool // zeros are stored
}

// inspect checks private copies and finds the first entry that is not valid, or -1.
func inspect(indices []int32, values []float32, columns uint32, allow bool) (order disorder, bad int) {
	previous := int32(-1)
	for i, column := range indices {
		if uint32(column) >= columns {
			return order, i
		}
		value := values[i]
		// x - x is 0 for finite numbers only.
		if value-value != 0 && !allow {
			return order, i
		}
		if column <= previous {
			order.unsorted = true
		}
		if value == 0 {
			order.zeros = true
		}
		previous = column
	}
	return order, -1
}

func firstNotFinite(values []float32) int {
	return slices.IndexFunc(values, func(v float32) bool { return v-v != 0 })
}

// sortRow sorts by column and merges duplicates, by adding them or by keeping one. It returns how many are left.
func (e *Entries) sortRow(indices []int32, values []float32, sum bool) int {
	// The value is part of the key, so equal rows give equal bits however they are stored.
	e.keys = slices.Grow(e.keys[:0], len(indices))
	for i, column := range indices {
		e.keys = append(e.keys, uint64(column)<<32|uint64(math.Float32bits(values[i])))
	}
	slices.Sort(e.keys)
	kept := 0
	for _, key := range e.keys {
		column, value := int32(key>>32), math.Float32frombits(uint32(key))
		if kept > 0 && indices[kept-1] == column {
			if sum {
				values[kept-1] += value
			}
			continue
		}
		indices[kept], values[kept] = column, value
		kept++
	}
	return kept
}

func dropZeros(indices []int32, values []float32) int {
	kept := 0
	for i, value := range values {
		if value != 0 {
			indices[kept], values[kept] = indices[i], value
			kept++
		}
	}
	return kept
}
