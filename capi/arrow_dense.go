package main

import (
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"

	"dsstne/engine/arrowfile"
	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// denseLayout is an array that is a dense matrix: rows of columns cells.
type denseLayout struct {
	cellKind
	rows, columns int64
	cells         unsafe.Pointer // the first; nil if an array without rows has none
}

// cellKind is a type of cells.
type cellKind struct {
	size int64
	open func(cells unsafe.Pointer, n, columns int64, release func()) (*csr.Dense, error)
}

// cellKinds are the types of cells by the format of Arrow.
var cellKinds = map[string]cellKind{
	"c": kindOf[int8](), "s": kindOf[int16](), "i": kindOf[int32](), "l": kindOf[int64](), "f": kindOf[float32](),
	"C": kindOf[uint8](), "S": kindOf[uint16](), "I": kindOf[uint32](), "L": kindOf[uint64](), "g": kindOf[float64](),
}

func kindOf[T csr.Number]() cellKind {
	return cellKind{
		size: int64(unsafe.Sizeof(T(0))),
		open: func(cells unsafe.Pointer, n, columns int64, release func()) (*csr.Dense, error) {
			return csr.NewDense(unsafe.Slice((*T)(cells), n), columns, release)
		},
	}
}

// denseType reports whether a type is that of a dense matrix, and checks its cells.
func denseType(list *arrowfile.Type) (l *denseLayout, dense bool, err error) {
	size, dense := strings.CutPrefix(list.Format, "+w:")
	if !dense {
		return nil, false, nil
	}
	columns, err := strconv.ParseInt(size, 10, 64)
	if err != nil || columns < 0 || columns > math.MaxInt32 {
		return nil, true, fault.New(fault.InvalidData, "a fixed-size list of %q cells is no matrix; it has 1 to %d columns",
			size, math.MaxInt32)
	}
	if len(list.Children) != 1 {
		return nil, true, fault.New(fault.InvalidData, "the list type has %d children instead of 1", len(list.Children))
	}
	cell := list.Children[0]
	kind, known := cellKinds[cell.Format]
	if !known || list.Dictionary || cell.Dictionary || len(cell.Children) > 0 {
		return nil, true, fault.New(fault.InvalidData, "the cells of the fixed-size list are of type %s: %s", cell.Name(),
			arrowfile.Accepted)
	}
	return &denseLayout{cellKind: kind, columns: columns}, true, nil
}

// find checks the array and finds its cells.
func (l *denseLayout) find(list *arrayNode) error {
	if err := checkNode(list, "the list", 1, 1); err != nil {
		return err
	}
	cells := list.children[0]
	if err := checkNode(cells, "the array of cells", 2, 0); err != nil {
		return err
	}
	// Divided, because a product of what is asked for might overflow.
	if l.columns > 0 && list.offset+list.length > cells.length/l.columns {
		return fault.New(fault.InvalidData, "the array of cells has length %d, but the list has offset %d and %d rows of %d",
			cells.length, list.offset, list.length, l.columns)
	}
	if row, null := firstNull(list.buffers[0], list.offset, list.length); null {
		return fault.New(fault.InvalidData, "row %d is null; use a row of zeros instead", row)
	}
	first := cells.offset + list.offset*l.columns
	if i, null := firstNull(cells.buffers[0], first, list.length*l.columns); null {
		return fault.New(fault.InvalidData, "row %d, column %d is null; use 0 instead", i/l.columns, i%l.columns)
	}
	l.rows = list.length
	if cells.buffers[1] != nil {
		l.cells = unsafe.Add(cells.buffers[1], first*l.size)
	}
	return nil
}

// numbers is the cells, as bytes.
func (l *denseLayout) numbers() (unsafe.Pointer, int64, arrow.DataType) {
	return l.cells, l.rows * l.columns * l.size, arrow.PrimitiveTypes.Uint8
}

func (l *denseLayout) matrix(cells unsafe.Pointer, columns int64, release func()) (imported, error) {
	if columns != l.columns {
		return nil, fault.New(fault.InvalidArgument, "the rows have %d cells, but columns is %d", l.columns, columns)
	}
	return l.open(cells, l.rows*l.columns, columns, release)
}
