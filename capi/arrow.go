package main

/*
#cgo CFLAGS: -I${SRCDIR}/../include
#include <stdlib.h>
#include <string.h>
#include "dsstne.h"

// An import is the caller's array after it was moved, and an array of our own that shows one array of numbers. Arrow Go
// imports the second: nothing that it trusts comes from outside, and the release callback always marks itself released,
// whatever the caller's callback does.
struct import {
  struct ArrowArray owner, numbers;
  const void *buffers[2];
  int64_t nothing;  // stands in for the numbers of an empty list, which may have no buffer
};

static void discard_array(struct ArrowArray *array) {
  if (array == NULL || array->release == NULL) return;
  array->release(array);
  array->release = NULL;
}

static void discard_schema(struct ArrowSchema *schema) {
  if (schema == NULL || schema->release == NULL) return;
  schema->release(schema);
  schema->release = NULL;
}

static void release_import(struct ArrowArray *array) {
  struct import *import = array->private_data;
  array->release = NULL;
  discard_array(&import->owner);
  free(import);
}

// Moves the array into a new import and returns what shows n numbers; NULL, and nothing is moved, if memory is refused.
static struct ArrowArray *new_import(struct ArrowArray *array, const void *numbers, int64_t n) {
  struct import *import = calloc(1, sizeof *import);
  if (import == NULL) return NULL;
  import->owner = *array;
  array->release = NULL;
  import->buffers[1] = numbers == NULL ? &import->nothing : numbers;
  import->numbers = (struct ArrowArray){.length = n, .n_buffers = 2, .buffers = import->buffers,
                                        .release = release_import, .private_data = import};
  return &import->numbers;
}

static size_t format_length(const char *format) { return strnlen(format, 64); }
*/
import "C"

import (
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/cdata"

	"dsstne/engine/arrowfile"
	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// importMatrix moves from both structs and returns a matrix over the same memory, not validated yet. The schema is
// released before it returns; the array at once on failure, and by the matrix's Close on success. A struct that is null
// or already released is an error and left alone.
func importMatrix(cSchema *C.struct_ArrowSchema, cArray *C.struct_ArrowArray, columns int64) (imported, error) {
	// After a success the array is moved from, and this releases the schema only.
	defer discardArrow(cSchema, cArray)
	schema, err := readSchema(cSchema, 1)
	if err != nil {
		return nil, err
	}
	layout, err := readLayout(schema, cArray)
	if err != nil {
		return nil, err
	}
	at, n, kind := layout.numbers()
	shown := C.new_import(cArray, at, C.int64_t(n))
	if shown == nil {
		return nil, fault.New(fault.OutOfMemory, "no memory to import a matrix")
	}
	array, err := cdata.ImportCArrayWithType((*cdata.CArrowArray)(unsafe.Pointer(shown)), kind)
	if err != nil {
		// Not reached, as all was checked. How much of it is released now is unknown, so a leak is the safe choice.
		return nil, fault.From(fault.Internal, err, "the import of a checked array failed")
	}
	numbers := array.Data().Buffers()[1].Bytes()
	matrix, err := layout.matrix(unsafe.Pointer(unsafe.SliceData(numbers)), columns, array.Release)
	if err != nil {
		array.Release()
		return nil, err
	}
	return matrix, nil
}

// imported is a matrix over the memory of an array.
type imported interface {
	matrix
	Scale(scale, offset float64) error
	Validate(csr.ValidateOptions) error
}

// layout is an array whose type and structs were checked.
type layout interface {
	// numbers is one of its arrays of numbers: where it begins, which may be nil if it is empty, its length and type.
	numbers() (unsafe.Pointer, int64, arrow.DataType)
	// matrix makes a matrix of the array, with numbers where Arrow Go shows them.
	matrix(numbers unsafe.Pointer, columns int64, release func()) (imported, error)
}

func readLayout(schema *arrowfile.Type, cArray *C.struct_ArrowArray) (layout, error) {
	// First of all the type: arrays of other types have other numbers of buffers.
	cells, dense, err := denseType(schema)
	if err == nil && !dense {
		_, err = arrowfile.LayoutOf(schema, indexFormats, valueFormats)
	}
	if err != nil {
		return nil, err
	}
	array, err := readArray(cArray, 1)
	if err != nil {
		return nil, err
	}
	if dense {
		return cells, cells.find(array)
	}
	return layoutOf(schema, array)
}

// discardArrow releases what is not released yet, and marks it so even if its own callback forgets to.
func discardArrow(cSchema *C.struct_ArrowSchema, cArray *C.struct_ArrowArray) {
	C.discard_schema(cSchema)
	C.discard_array(cArray)
}

// readSchema copies the type of an array. It reads each field of a struct once, so what was checked is what is used.
func readSchema(c *C.struct_ArrowSchema, depth int) (node *arrowfile.Type, err error) {
	if c == nil || c.release == nil {
		return nil, fault.New(fault.InvalidArgument,
			"the Arrow schema is null or released already; a schema can be used only once")
	}
	if c.format == nil {
		return nil, fault.New(fault.InvalidData, "an Arrow schema has no format")
	}
	node = &arrowfile.Type{
		Format:     C.GoStringN(c.format, C.int(C.format_length(c.format))),
		Dictionary: c.dictionary != nil,
	}
	node.Children, err = readChildren(c.children, int64(c.n_children), depth, "schema", readSchema)
	return node, err
}

// readArray copies an array without its numbers, as readSchema does.
func readArray(c *C.struct_ArrowArray, depth int) (node *arrayNode, err error) {
	if c == nil || c.release == nil {
		return nil, fault.New(fault.InvalidArgument,
			"the Arrow array is null or released already; an array can be used only once")
	}
	n, pointers := int64(c.n_buffers), c.buffers
	if n < 0 || n > maxBuffers || n > 0 && pointers == nil {
		return nil, fault.New(fault.InvalidData, "an Arrow array has %d buffers; %s", n, arrowfile.Accepted)
	}
	node = &arrayNode{
		length:     int64(c.length),
		nullCount:  int64(c.null_count),
		offset:     int64(c.offset),
		dictionary: c.dictionary != nil,
		buffers:    slices.Clone(unsafe.Slice(pointers, n)),
	}
	node.children, err = readChildren(c.children, int64(c.n_children), depth, "array", readArray)
	return node, err
}

// readChildren copies the children of a struct on level depth.
func readChildren[Struct, Node any](pointers **Struct, n int64, depth int, what string,
	read func(*Struct, int) (*Node, error)) ([]*Node, error) {
	if n < 0 || n > maxChildren || n > 0 && (pointers == nil || depth == maxDepth) {
		return nil, fault.New(fault.InvalidData, "an Arrow %s has %d children on level %d; %s", what, n, depth,
			arrowfile.Accepted)
	}
	var nodes []*Node
	for _, child := range unsafe.Slice(pointers, n) {
		node, err := read(child, depth+1)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
