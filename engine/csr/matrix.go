package csr

import (
	"math"
	"runtime/debug"
	"unsafe"

	"dsstne/internal/fault"
)

// Parts is what a matrix is made of. Row r owns the entries offsets[r] .. offsets[r+1]-1 of indices and values.
type Parts struct {
	Columns int64

	// One of these holds rows+1 offsets; both empty is a matrix without rows. The first offset need not be 0.
	Offsets32 []int32
	Offsets64 []int64

	// One of these; entries outside the offsets' range are never read. Unsigned: Indices32 holds uint32.
	Indices32 []int32
	Indices64 []int64
	Unsigned  bool

	// At most one of these, as long as the indices; without values every stored value is 1.
	Values32 []float32
	Values64 []float64
	Others   Values // of other types; in memory only

	// If it is not nil, the arrays are in a file.
	InFile *InFile

	// Release gives the memory back to its owner; called once by Close. May be nil.
	Release func()

	firstRow int64 // what messages call row 0
}

// Matrix is a sparse matrix in borrowed memory or in a file. Reading is safe from any number of goroutines.
type Matrix struct {
	lease
	parts   Parts
	rows    int64
	entries int64 // length of indices: no offset may be beyond it

	statistics Statistics // the number of entries and their size as New saw them; Validate adds the others
}

// New makes a matrix of parts and checks what can be checked without reading every entry: counts, lengths, and the
// first and the last offset. The matrix must be validated before it is used. On failure Release has not been called.
func New(p Parts) (*Matrix, error) {
	if err := checkColumns(p.Columns); err != nil {
		return nil, err
	}
	if p.Offsets32 != nil && p.Offsets64 != nil || p.Indices32 != nil && p.Indices64 != nil ||
		p.Values32 != nil && p.Values64 != nil || p.Others != nil && (p.Values32 != nil || p.Values64 != nil) {
		return nil, fault.New(fault.InvalidArgument, "offsets, indices and values are each of one type, not of two")
	}
	m := &Matrix{
		parts:   p,
		rows:    max(0, int64(len(p.Offsets32)+len(p.Offsets64))-1),
		entries: int64(len(p.Indices32) + len(p.Indices64)),
	}
	m.release, m.statistics.HasValues = p.Release, p.Values32 != nil || p.Values64 != nil || p.Others != nil
	if p.InFile != nil {
		m.rows, m.entries = p.InFile.Rows, p.InFile.Entries
	} else if values := p.values(); m.statistics.HasValues && values != m.entries {
		return nil, fault.New(fault.InvalidData, "there are %d indices, but %d values", m.entries, values)
	}
	layout := m.Layout()
	if m.rows == 0 {
		return m, nil
	}
	m.statistics.Bytes = (m.rows + 1) * int64(layout.OffsetBits/8)
	var first, last int64
	err := catchFaults(func() error {
		first, last = m.offset(0), m.offset(m.rows)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if first < 0 || last < first || last > m.entries {
		return nil, fault.New(fault.InvalidData, "row offsets run from %d to %d, but there are %d entries", first, last,
			m.entries)
	}
	m.statistics.NonZeros = last - first
	m.statistics.Bytes += m.statistics.NonZeros * int64((layout.IndexBits+layout.ValueBits)/8)
	return m, nil
}

// Scale makes the values number * scale + offset of the stored integers; call it before Validate.
func (m *Matrix) Scale(scale, offset float64) error {
	if m.parts.Others == nil {
		return notScaled()
	}
	others := m.parts.Others.scaled(affine{scale, offset})
	if others == nil {
		return notScaled()
	}
	m.parts.Others = others
	return nil
}

// values is how many values there are in memory.
func (p *Parts) values() int64 {
	if p.Others != nil {
		return p.Others.len()
	}
	return int64(len(p.Values32) + len(p.Values64))
}

func checkColumns(columns int64) error {
	if columns < 1 || columns > math.MaxInt32 {
		return fault.New(fault.InvalidArgument, "a matrix has 1 to %d columns, not %d", math.MaxInt32, columns)
	}
	return nil
}

// Rows is the number of rows.
func (m *Matrix) Rows() int64 { return m.rows }

// Columns is the number of columns; every index is below it.
func (m *Matrix) Columns() int64 { return m.parts.Columns }

// Statistics describes all rows as they were when they were validated.
func (m *Matrix) Statistics() Statistics { return m.statistics.ofValues() }

// Layout is the widths of the numbers that a matrix is made of, and where they lie in the owner's memory.
type Layout struct {
	OffsetBits int // 32 or 64; 0 in a dense matrix
	IndexBits  int // 32 or 64; 0 in a dense matrix
	ValueBits  int // 8, 16, 32 or 64, or 0 when every stored value is 1

	// The first offset, and the index and the value that offset 0 means; nil is what is not there. Values of a sparse
	// matrix have an address if they are float32 or float64.
	Offsets, Indices, Values unsafe.Pointer
}

// Layout is how the matrix is stored.
func (m *Matrix) Layout() Layout {
	p := &m.parts
	l := Layout{
		OffsetBits: width(p.Offsets64 != nil), IndexBits: width(p.Indices64 != nil),
		Offsets: address(p.Offsets32, p.Offsets64), Indices: address(p.Indices32, p.Indices64),
		Values: address(p.Values32, p.Values64),
	}
	switch {
	case p.Others != nil:
		l.ValueBits = p.Others.bits() // without an address, because the bits do not tell the type
	case m.statistics.HasValues:
		l.ValueBits = width(p.Values64 != nil)
	}
	return l
}

func width(wide bool) int {
	if wide {
		return 64
	}
	return 32
}

func address[A, B any](a []A, b []B) unsafe.Pointer {
	if a != nil {
		return unsafe.Pointer(unsafe.SliceData(a))
	}
	return unsafe.Pointer(unsafe.SliceData(b))
}

// RowLength is the number of stored entries of row i, 0 <= i < Rows. A row whose offsets are not valid has none; one
// whose offsets cannot be read has 1, so that callers that pass over empty rows read it and get the error.
func (m *Matrix) RowLength(i int64) (n int64) {
	before := debug.SetPanicOnFault(true) // catchFaults without its closure, because this is called for every row
	defer func() {
		debug.SetPanicOnFault(before)
		if isFault(recover()) {
			n = 1
		}
	}()
	return m.length(i)
}

func (m *Matrix) length(i int64) int64 {
	begin, end := m.offset(i), m.offset(i+1)
	if begin < 0 || end < begin || end > m.entries {
		return 0
	}
	return end - begin
}

// offset reads offset i as it is now.
func (m *Matrix) offset(i int64) int64 {
	switch {
	case m.parts.InFile != nil:
		return m.parts.InFile.File.offset(m.parts.InFile.Offsets, i, m.parts.Offsets64 != nil)
	case m.parts.Offsets32 != nil:
		return int64(m.parts.Offsets32[i])
	}
	return m.parts.Offsets64[i]
}

// bounds reads the entries' range of a row as it is now; it is within the entries or an error.
func (m *Matrix) bounds(row int64) (begin, end int64, err error) {
	begin, end = m.offset(row), m.offset(row+1)
	return begin, end, m.checkBounds(row, begin, end)
}

// checkBounds checks the entries' range of a row.
func (m *Matrix) checkBounds(row, begin, end int64) error {
	row += m.parts.firstRow
	switch {
	case begin < 0:
		return fault.New(fault.InvalidData, "row %d begins at entry %d: row offsets count from 0", row, begin)
	case end < begin:
		return fault.New(fault.InvalidData, "row %d begins at entry %d and ends at entry %d: row offsets must not decrease",
			row, begin, end)
	case end > m.entries:
		return fault.New(fault.InvalidData, "row %d ends at entry %d, but there are %d entries", row, end, m.entries)
	}
	return nil
}
