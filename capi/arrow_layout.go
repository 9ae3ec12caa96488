package main

import (
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"

	"dsstne/engine/arrowfile"
	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// arrayNode is a copy of a struct ArrowArray.
type arrayNode struct {
	length, nullCount, offset int64
	buffers                   []unsafe.Pointer
	dictionary                bool
	children                  []*arrayNode
}

// Depth and width of the deepest and widest array that is a matrix: list, struct, and its two fields.
const (
	maxDepth    = 3
	maxChildren = 2
	maxBuffers  = 2
)

// maxLength is beyond the address space of any machine, and small enough that no size computed from it overflows.
const maxLength = 1 << 44

// matrixLayout is the type of a matrix and its arrays. values is nil for a list of indices.
type matrixLayout struct {
	arrowfile.Layout
	list, entry, indices, values *arrayNode // entry is the struct, and without one an array as long as the indices
}

// The formats of column indices in memory (int32, int64, uint32), and of values (floats of 16 to 64 bits, integers).
const (
	indexFormats = "ilI"
	valueFormats = "efgcCsSiIlL"
)

// layoutOf checks that an array is a matrix by its type, and that its structs say what Arrow asks of that type, as far
// as that shows without reading the entries.
func layoutOf(schema *arrowfile.Type, array *arrayNode) (*matrixLayout, error) {
	layout, err := arrowfile.LayoutOf(schema, indexFormats, valueFormats)
	if err != nil {
		return nil, err
	}
	if err := checkNode(array, "the list", 2, 1); err != nil {
		return nil, err
	}
	l := &matrixLayout{Layout: layout, list: array, indices: array.children[0]}
	l.entry = &arrayNode{length: l.indices.length, buffers: []unsafe.Pointer{nil}}
	if l.Pairs {
		l.entry = array.children[0]
		if err := checkNode(l.entry, "the struct", 1, 2); err != nil {
			return nil, err
		}
		l.indices, l.values = l.entry.children[0], l.entry.children[1]
		if err := l.checkColumn(l.values, "the value array"); err != nil {
			return nil, err
		}
	}
	if err := l.checkColumn(l.indices, "the index array"); err != nil {
		return nil, err
	}
	return l, l.checkRows()
}

// checkNode checks the counts of one array.
func checkNode(a *arrayNode, what string, buffers, children int) error {
	switch {
	case a.length < 0 || a.offset < 0 || a.length > maxLength || a.offset > maxLength:
		return fault.New(fault.InvalidData, "%s has length %d and offset %d", what, a.length, a.offset)
	case a.nullCount < -1 || a.nullCount > a.length:
		return fault.New(fault.InvalidData, "%s has length %d and %d nulls", what, a.length, a.nullCount)
	case len(a.buffers) != buffers:
		return fault.New(fault.InvalidData, "%s has %d buffers instead of %d", what, len(a.buffers), buffers)
	case len(a.children) != children:
		return fault.New(fault.InvalidData, "%s has %d children instead of %d", what, len(a.children), children)
	case a.dictionary:
		return fault.New(fault.InvalidData, "%s has a dictionary", what)
	case a.nullCount > 0 && a.buffers[0] == nil:
		return fault.New(fault.InvalidData, "%s has %d nulls but no validity bitmap", what, a.nullCount)
	case a.length > 0 && buffers > 1 && a.buffers[1] == nil:
		return fault.New(fault.InvalidData, "%s has length %d but no data", what, a.length)
	}
	return nil
}

// checkColumn checks the indices or the values, which are at least as long as the struct they are a field of.
func (l *matrixLayout) checkColumn(a *arrayNode, what string) error {
	if err := checkNode(a, what, 2, 0); err != nil {
		return err
	}
	if a.length < l.entry.offset+l.entry.length {
		return fault.New(fault.InvalidData, "%s has length %d, but the struct around it has offset %d and length %d",
			what, a.length, l.entry.offset, l.entry.length)
	}
	return nil
}

// checkRows checks the first and the last offset and refuses nulls in everything between them.
func (l *matrixLayout) checkRows() error {
	if l.list.length == 0 {
		return nil
	}
	if row, null := firstNull(l.list.buffers[0], l.list.offset, l.list.length); null {
		return fault.New(fault.InvalidData, "row %d is null; use an empty row instead", row)
	}
	first, last := l.offset(0), l.offset(l.list.length)
	if first < 0 || last < first || last > l.entry.length {
		return fault.New(fault.InvalidData, "row offsets run from %d to %d, but there are %d entries", first, last,
			l.entry.length)
	}
	for _, part := range []struct {
		array *arrayNode
		first int64
		null  string
	}{
		{l.entry, first, "an entry that is null; leave it out"},
		{l.indices, l.entry.offset + first, "a column that is null; leave the entry out"},
		{l.values, l.entry.offset + first, "a value that is null; leave the entry out"},
	} {
		if part.array == nil {
			continue
		}
		if i, null := firstNull(part.array.buffers[0], part.array.offset+part.first, last-first); null {
			return fault.New(fault.InvalidData, "row %d holds %s", l.rowOf(first+i), part.null)
		}
	}
	return nil
}

// numbers is the row offsets.
func (l *matrixLayout) numbers() (unsafe.Pointer, int64, arrow.DataType) {
	if l.LongOffsets {
		return l.offsets(), l.list.length + 1, arrow.PrimitiveTypes.Int64
	}
	return l.offsets(), l.list.length + 1, arrow.PrimitiveTypes.Int32
}

func (l *matrixLayout) matrix(offsets unsafe.Pointer, columns int64, release func()) (imported, error) {
	p := l.parts(offsets)
	p.Columns, p.Release = columns, release
	return csr.New(p)
}

// parts points at the arrays of the matrix; its row offsets are where Arrow Go shows them.
func (l *matrixLayout) parts(offsets unsafe.Pointer) csr.Parts {
	field := func(a *arrayNode, size int64) unsafe.Pointer {
		if a == nil || a.buffers[1] == nil {
			return nil
		}
		return unsafe.Add(a.buffers[1], (a.offset+l.entry.offset)*size)
	}
	kind := valueKinds[l.Value] // of nothing if there are no values
	values := field(l.values, kind.size)
	p := l.Parts(l.list.length+1, l.entry.length, offsets, field(l.indices, width(l.LongIndices)), values)
	if kind.view != nil {
		p.Others = kind.view(values, l.entry.length)
	}
	return p
}

// valueKind is a type of values. view is nil for those that csr.Parts has slices of.
type valueKind struct {
	size int64
	view func(at unsafe.Pointer, n int64) csr.Values
}

// valueKinds are the types of values by the format of Arrow.
var valueKinds = map[string]valueKind{
	"f": {size: 4}, "g": {size: 8}, "e": {2, viewed(csr.HalvesOf)},
	"c": {1, viewed(csr.ValuesOf[int8])}, "C": {1, viewed(csr.ValuesOf[uint8])},
	"s": {2, viewed(csr.ValuesOf[int16])}, "S": {2, viewed(csr.ValuesOf[uint16])},
	"i": {4, viewed(csr.ValuesOf[int32])}, "I": {4, viewed(csr.ValuesOf[uint32])},
	"l": {8, viewed(csr.ValuesOf[int64])}, "L": {8, viewed(csr.ValuesOf[uint64])},
}

func viewed[T any](of func([]T) csr.Values) func(unsafe.Pointer, int64) csr.Values {
	return func(at unsafe.Pointer, n int64) csr.Values {
		if at == nil {
			n = 0 // an empty array may have no memory
		}
		return of(unsafe.Slice((*T)(at), n))
	}
}

// offsets is the place of the first row offset, nil if a list without rows has none.
func (l *matrixLayout) offsets() unsafe.Pointer {
	if l.list.length == 0 {
		return l.list.buffers[1]
	}
	return unsafe.Add(l.list.buffers[1], l.list.offset*width(l.LongOffsets))
}

// offset reads the row offset of row i, 0 <= i <= length.
func (l *matrixLayout) offset(i int64) int64 {
	at := unsafe.Add(l.offsets(), i*width(l.LongOffsets))
	if l.LongOffsets {
		return *(*int64)(at)
	}
	return int64(*(*int32)(at))
}

func width(long bool) int64 {
	if long {
		return 8
	}
	return 4
}

// rowOf finds the row of an entry, for an error message.
func (l *matrixLayout) rowOf(entry int64) int64 {
	row := int64(0)
	for row < l.list.length-1 && l.offset(row+1) <= entry {
		row++
	}
	return row
}

// firstNull finds the first of n bits from bit begin on that is not set. Without a bitmap nothing is null.
func firstNull(bitmap unsafe.Pointer, begin, n int64) (int64, bool) {
	if bitmap == nil {
		return 0, false
	}
	for i := int64(0); i < n; {
		bit := begin + i
		valid := *(*byte)(unsafe.Add(bitmap, bit/8))
		if bit%8 == 0 && valid == 0xff {
			i += 8 // the bits beyond n in the last byte do not matter
			continue
		}
		if valid>>(bit%8)&1 == 0 {
			return i, true
		}
		i++
	}
	return 0, false
}
