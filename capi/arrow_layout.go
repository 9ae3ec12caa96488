package main

import (
	"unsafe"

	"dsstne/internal/fault"
)

// schemaNode and arrayNode are copies of the structs of the Arrow C Data Interface. Each field is read from the caller's
// struct once, so what was checked is what is used.
type schemaNode struct {
	format     string
	dictionary bool
	children   []*schemaNode
}

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

// matrixLayout says which of the accepted types an array has, and where its parts are. values is nil for a list of indices.
type matrixLayout struct {
	longOffsets bool // 64-bit offsets
	longIndices bool
	doubles     bool // 64-bit values
	list        *arrayNode
	entry       *arrayNode // the struct; nil for a list of indices
	indices     *arrayNode
	values      *arrayNode
}

const accepted = "a matrix is list<struct<index, value>> or list<index>, with index int32 or int64 and value float32 or float64"

// layoutOf checks that an array is a matrix by its type, and that it is what Arrow says an array of that type is, as far as
// can be seen without reading the entries. What it lets pass cannot trip the import.
func layoutOf(schema *schemaNode, array *arrayNode) (*matrixLayout, error) {
	layout, err := typeOf(schema)
	if err != nil {
		return nil, err
	}
	layout.list = array
	if err := checkNode(array, "the list", 2, 1); err != nil {
		return nil, err
	}
	child := array.children[0]
	if layout.entry != nil {
		if err := checkNode(child, "the struct", 1, 2); err != nil {
			return nil, err
		}
		layout.entry, layout.indices, layout.values = child, child.children[0], child.children[1]
	} else {
		layout.indices = child
	}
	if err := checkColumn(layout.indices, layout.entry, "the index array"); err != nil {
		return nil, err
	}
	if layout.values != nil {
		if err := checkColumn(layout.values, layout.entry, "the value array"); err != nil {
			return nil, err
		}
	}
	return layout, layout.checkRows()
}

// typeOf reads the format strings; entry and values of the result are not nil where the type has them.
func typeOf(schema *schemaNode) (*matrixLayout, error) {
	layout := new(matrixLayout)
	switch schema.format {
	case "+l":
	case "+L":
		layout.longOffsets = true
	default:
		return nil, fault.New(fault.InvalidData, "the array has format %q: %s", schema.format, accepted)
	}
	if len(schema.children) != 1 {
		return nil, fault.New(fault.InvalidData, "the list type has %d children instead of 1", len(schema.children))
	}
	index := schema.children[0]
	if index.format == "+s" {
		if len(index.children) != 2 {
			return nil, fault.New(fault.InvalidData, "the struct type has %d fields instead of 2: %s", len(index.children), accepted)
		}
		value := index.children[1]
		switch value.format {
		case "f":
		case "g":
			layout.doubles = true
		default:
			return nil, fault.New(fault.InvalidData, "the values have format %q: %s", value.format, accepted)
		}
		if value.dictionary || len(value.children) != 0 {
			return nil, fault.New(fault.InvalidData, "the values must be plain numbers, without dictionary or children")
		}
		layout.entry, layout.values = new(arrayNode), new(arrayNode)
		if index.dictionary {
			return nil, fault.New(fault.InvalidData, "the struct type must not have a dictionary")
		}
		index = index.children[0]
	}
	switch index.format {
	case "i":
	case "l":
		layout.longIndices = true
	default:
		return nil, fault.New(fault.InvalidData, "the indices have format %q: %s", index.format, accepted)
	}
	if index.dictionary || len(index.children) != 0 || schema.dictionary {
		return nil, fault.New(fault.InvalidData, "the indices must be plain numbers, without dictionary or children")
	}
	return layout, nil
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

// checkColumn checks the indices or the values, which must be as long as the struct they are a field of, if any.
func checkColumn(a, parent *arrayNode, what string) error {
	if err := checkNode(a, what, 2, 0); err != nil {
		return err
	}
	if parent != nil && a.length < parent.offset+parent.length {
		return fault.New(fault.InvalidData, "%s has length %d, but the struct around it has offset %d and length %d",
			what, a.length, parent.offset, parent.length)
	}
	return nil
}

// checkRows checks the first and the last offset and refuses nulls in all that lies between them.
func (l *matrixLayout) checkRows() error {
	if l.list.length == 0 {
		return nil
	}
	if row, null := firstNull(l.list.buffers[0], l.list.offset, l.list.length); null {
		return fault.New(fault.InvalidData, "row %d is null; use an empty row instead", row)
	}
	entries, what := l.indices.length, "indices"
	if l.entry != nil {
		entries, what = l.entry.length, "entries"
	}
	first, last := l.offset(0), l.offset(l.list.length)
	if first < 0 || last < first || last > entries {
		return fault.New(fault.InvalidData, "row offsets run from %d to %d, but there are %d %s", first, last, entries, what)
	}
	shift := int64(0)
	if l.entry != nil {
		shift = l.entry.offset
		if i, null := firstNull(l.entry.buffers[0], l.entry.offset+first, last-first); null {
			return fault.New(fault.InvalidData, "row %d holds an entry that is null; leave it out", l.rowOf(first+i))
		}
	}
	if i, null := firstNull(l.indices.buffers[0], l.indices.offset+shift+first, last-first); null {
		return fault.New(fault.InvalidData, "row %d holds a column that is null; leave the entry out", l.rowOf(first+i))
	}
	if l.values == nil {
		return nil
	}
	if i, null := firstNull(l.values.buffers[0], l.values.offset+shift+first, last-first); null {
		return fault.New(fault.InvalidData, "row %d holds a value that is null; leave the entry out", l.rowOf(first+i))
	}
	return nil
}

// offset reads the row offset of row i, 0 <= i <= length.
func (l *matrixLayout) offset(i int64) int64 {
	if l.longOffsets {
		return *(*int64)(unsafe.Add(l.list.buffers[1], (l.list.offset+i)*8))
	}
	return int64(*(*int32)(unsafe.Add(l.list.buffers[1], (l.list.offset+i)*4)))
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
