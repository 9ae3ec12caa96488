package csr

import (
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"
	"unsafe"
)

// InFile says where the arrays of Parts lie in a file, as bytes from its beginning. The slices of the Parts, which are
// empty then, say of which types they are. Numbers have the least significant byte first, and offsets lie at a multiple
// of their size.
type InFile struct {
	File                     *File
	Rows, Entries            int64
	Offsets, Indices, Values int64
}

// File reads the arrays of matrices, by system calls. A mapping would be as quick, but a page of a file that another
// process has shortened is a SIGBUS, which ends the process if Go does not handle the signal: another part of the
// process may have taken it over, as Python's faulthandler does.
type File struct {
	reader io.ReaderAt
	pages  [filePages]atomic.Pointer[filePage] // of offsets; page n is at n % filePages, or another one is
}

// Pages of offsets, 2 MiB in all, serve a batch of random rows, which asks for each offset several times. A page holds
// few, as random rows need no others of their page.
const filePages, pageBytes = 4096, 512

// filePage does not change once others can see it.
type filePage struct {
	number int64
	size   int // less than pageBytes at the end of the file
	bytes  [pageBytes]byte
}

// NewFile makes a File of what reads it.
func NewFile(reader io.ReaderAt) *File { return &File{reader: reader} }

// unread is the panic of a read that has failed, which catchFaults takes for a fault of a mapped file.
type unread struct{}

// Read fills dst with the bytes from at on. It fails with fault.InvalidData.
func (f *File) Read(dst []byte, at int64) error {
	if _, err := f.reader.ReadAt(dst, at); err != nil && len(dst) > 0 {
		return errUnread
	}
	return nil
}

// offset reads offset n of an array at a place of the file.
func (f *File) offset(array, n int64, long bool) int64 {
	size := int64(4)
	if long {
		size = 8
	}
	at := array + n*size
	slot := &f.pages[at/pageBytes%filePages]
	page := slot.Load()
	if page == nil || page.number != at/pageBytes {
		page = &filePage{number: at / pageBytes}
		page.size, _ = f.reader.ReadAt(page.bytes[:], page.number*pageBytes) // at the end of the file with an error
		slot.Store(page)
	}
	bytes := page.bytes[at%pageBytes:]
	switch {
	case at%pageBytes+size > int64(page.size):
		slot.Store(nil) // the next reader tries again
		panic(unread{})
	case long:
		return int64(binary.LittleEndian.Uint64(bytes))
	}
	return int64(int32(binary.LittleEndian.Uint32(bytes)))
}

// fileRows is consecutive rows of a file, in memory.
type fileRows struct {
	Matrix
	offsets                   []int64
	indexMemory, valuesMemory []uint64
}

var fileRowsPool = sync.Pool{New: func() any { return new(fileRows) }}

// inMemory visits rows first .. end-1 where they are in memory, as rows from .. to-1 of parts: of m, or of what is read
// from its file, piece by piece.
func (m *Matrix) inMemory(first, end int64, visit func(part *Matrix, from, to int64) error) error {
	if m.parts.InFile == nil {
		return visit(m, first, end)
	}
	f := fileRowsPool.Get().(*fileRows)
	defer fileRowsPool.Put(f)
	for first < end {
		if err := f.load(m, first, end); err != nil {
			return err
		}
		if err := visit(&f.Matrix, 0, f.rows); err != nil {
			return err
		}
		first += f.rows
	}
	return nil
}

// load reads rows from first on, up to end, to a row whose offsets are not valid, or to about blockEntries entries.
func (f *fileRows) load(m *Matrix, first, end int64) error {
	if err := m.checkRange(first); err != nil {
		return err
	}
	at, begin := m.parts.InFile, m.offset(first)
	f.offsets = append(f.offsets[:0], 0)
	for row, last := first, begin; row < min(end, m.rows) && last-begin < blockEntries; row++ {
		next := m.offset(row + 1)
		if err := m.checkBounds(row, last, next); err != nil {
			if row > first {
				break
			}
			return err
		}
		f.offsets, last = append(f.offsets, next-begin), next
	}
	f.rows = int64(len(f.offsets)) - 1
	f.entries = f.offsets[f.rows]
	f.statistics = m.statistics
	p := Parts{
		Columns: m.parts.Columns, Unsigned: m.parts.Unsigned, Offsets64: f.offsets, firstRow: m.parts.firstRow + first,
	}
	p.Indices32 = numbersAt(at.File, at.Indices, begin, f.entries, m.parts.Indices32, &f.indexMemory)
	p.Indices64 = numbersAt(at.File, at.Indices, begin, f.entries, m.parts.Indices64, &f.indexMemory)
	p.Values32 = numbersAt(at.File, at.Values, begin, f.entries, m.parts.Values32, &f.valuesMemory)
	p.Values64 = numbersAt(at.File, at.Values, begin, f.entries, m.parts.Values64, &f.valuesMemory)
	f.parts = p
	return nil
}

// numbersAt reads n numbers of an array, from number first on, unless the array is of another type: kind is nil then.
func numbersAt[T any](f *File, array, first, n int64, kind []T, memory *[]uint64) []T {
	if kind == nil {
		return nil
	}
	var one T
	size := int64(unsafe.Sizeof(one))
	*memory = resize(*memory, int(n*size/8)+1)
	list := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(*memory))), n)
	if f.Read(bytesOf(list), array+first*size) != nil {
		panic(unread{})
	}
	return list
}
