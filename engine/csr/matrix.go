package csr

import (
	"math"
	"sync"
	"unsafe"

	"dsstne/engine/fault"
)

// Parts is what a matrix is made of. Row r owns the entries offsets[r] .. offsets[r+1]-1 of indices and values.
type Parts struct {
	Columns int64

	// One of these holds rows+1 offsets; both empty is a matrix without rows. The first offset need not be 0.
	Offsets32 []int32
	Offsets64 []int64

	// One of these; entries outside the offsets' range are never read.
	Indices32 []int32
	Indices64 []int64

	// At most one of these, as long as the indices; without values every stored value is 1.
	Values32 []float32
	Values64 []float64

	// Release gives the memory back to its owner; called once by Close. May be nil.
	Release func()
}

// Matrix is a sparse matrix in borrowed memory. Reading is safe from any number of goroutines.
type Matrix struct {
	columns   int64
	rows      int64
	nonZeros  int64 // as New saw them
	offsets32 []int32
	offsets64 []int64
	indices32 []int32
	indices64 []int64
	values32  []float32
	values64  []float64
	hasValues bool
	entries   int64 // length of indices: no offset may be beyond it

	summary // filled by Validate

	mu      sync.Mutex // guards what follows
	users   int
	closed  bool
	release func()
}

// New makes a matrix of parts and checks what can be checked without reading every entry: counts, lengths, and the first
// and the last offset. The matrix must be validated before it is used. On failure Release has not been called.
func New(p Parts) (*Matrix, error) {
	if p.Columns < 1 || p.Columns > math.MaxInt32 {
		return nil, fault.New(fault.InvalidArgument, "a matrix has 1 to %d columns, not %d", math.MaxInt32, p.Columns)
	}
	if p.Offsets32 != nil && p.Offsets64 != nil || p.Indices32 != nil && p.Indices64 != nil ||
		p.Values32 != nil && p.Values64 != nil {
		return nil, fault.New(fault.InvalidArgument, "offsets, indices and values are either of 32 or of 64 bits, not both")
	}
	m := &Matrix{
		columns:   p.Columns,
		rows:      max(0, int64(len(p.Offsets32)+len(p.Offsets64))-1),
		offsets32: p.Offsets32, offsets64: p.Offsets64,
		indices32: p.Indices32, indices64: p.Indices64,
		values32: p.Values32, values64: p.Values64,
		hasValues: p.Values32 != nil || p.Values64 != nil,
		entries:   int64(len(p.Indices32) + len(p.Indices64)),
		release:   p.Release,
	}
	if values := int64(len(p.Values32) + len(p.Values64)); m.hasValues && values != m.entries {
		return nil, fault.New(fault.InvalidData, "there are %d indices, but %d values", m.entries, values)
	}
	if m.rows == 0 {
		return m, nil
	}
	first, last := m.offset(0), m.offset(m.rows)
	if first < 0 || last < first || last > m.entries {
		return nil, fault.New(fault.InvalidData, "row offsets run from %d to %d, but there are %d entries", first, last, m.entries)
	}
	m.nonZeros = last - first
	return m, nil
}

// Rows is the number of rows.
func (m *Matrix) Rows() int64 { return m.rows }

// Columns is the number of columns; every index is below it.
func (m *Matrix) Columns() int64 { return m.columns }

// NonZeros is the number of stored entries, duplicates and stored zeros included.
func (m *Matrix) NonZeros() int64 { return m.nonZeros }

// Bytes is the size of the borrowed offsets, indices and values of all rows.
func (m *Matrix) Bytes() int64 {
	offsets := int64(len(m.offsets32)+len(m.offsets64)) * int64(m.OffsetBits()/8)
	return offsets + m.nonZeros*int64((m.IndexBits()+m.ValueBits())/8)
}

// OffsetBits is 32 or 64.
func (m *Matrix) OffsetBits() int { return width(m.offsets64 != nil) }

// IndexBits is 32 or 64.
func (m *Matrix) IndexBits() int { return width(m.indices64 != nil) }

// ValueBits is 32 or 64, or 0 when every stored value is 1.
func (m *Matrix) ValueBits() int {
	if !m.hasValues {
		return 0
	}
	return width(m.values64 != nil)
}

func width(wide bool) int {
	if wide {
		return 64
	}
	return 32
}

// Addresses are those of the first offset and of the index and the value that offset 0 means, in the owner's memory; the
// address of what is not there is nil.
func (m *Matrix) Addresses() (offsets, indices, values unsafe.Pointer) {
	return address(m.offsets32, m.offsets64), address(m.indices32, m.indices64), address(m.values32, m.values64)
}

func address[A, B any](a []A, b []B) unsafe.Pointer {
	if a != nil {
		return unsafe.Pointer(unsafe.SliceData(a))
	}
	return unsafe.Pointer(unsafe.SliceData(b))
}

// RowLength is the number of stored entries of row i, 0 <= i < Rows. A row whose offsets are not valid has none.
func (m *Matrix) RowLength(i int64) int64 {
	begin, end := m.offset(i), m.offset(i+1)
	if begin < 0 || end < begin || end > m.entries {
		return 0
	}
	return end - begin
}

// offset reads offset i as it is now.
func (m *Matrix) offset(i int64) int64 {
	if m.offsets32 != nil {
		return int64(m.offsets32[i])
	}
	return m.offsets64[i]
}

// bounds reads the entries' range of a row as it is now; it is within the entries or an error.
func (m *Matrix) bounds(row int64) (begin, end int64, err error) {
	begin, end = m.offset(row), m.offset(row+1)
	switch {
	case begin < 0:
		err = fault.New(fault.InvalidData, "row %d begins at entry %d: row offsets count from 0", row, begin)
	case end < begin:
		err = fault.New(fault.InvalidData, "row %d begins at entry %d and ends at entry %d: row offsets must not decrease",
			row, begin, end)
	case end > m.entries:
		err = fault.New(fault.InvalidData, "row %d ends at entry %d, but there are %d entries", row, end, m.entries)
	}
	return begin, end, err
}

// Use counts a user, who keeps the matrix from being closed until Unuse; it fails when the matrix is closed.
func (m *Matrix) Use() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fault.New(fault.InvalidState, "the dataset is closed")
	}
	m.users++
	return nil
}

// Unuse ends one successful Use.
func (m *Matrix) Unuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users == 0 {
		panic("csr: Unuse without Use")
	}
	m.users--
}

// Close gives the memory back to its owner, once; closing again does nothing. It is refused with fault.Busy while the
// matrix is in use. A closed matrix must not be read.
func (m *Matrix) Close() error {
	m.mu.Lock()
	if m.users > 0 {
		m.mu.Unlock()
		return fault.New(fault.Busy, "the dataset is in use by open trainers or predictors; close them first")
	}
	release := m.release
	m.closed, m.release = true, nil
	m.mu.Unlock()
	// Outside the lock, because it runs code of the memory's owner.
	if release != nil {
		release()
	}
	return nil
}
