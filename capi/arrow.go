package main

/*
#cgo CFLAGS: -I${SRCDIR}/../include
#include <stdlib.h>
#include <string.h>
#include "dsstne.h"

// An import is the caller's array after it was moved, and a tree of arrays of our own that shows the same buffers. The tree
// holds only what was checked, so nothing that the import trusts comes from outside, and its release callback always
// marks itself released, whatever the caller's callback does.
struct import {
  struct ArrowArray owner;
  struct ArrowArray list, entry, indices, values;
  struct ArrowArray *list_children[1], *entry_children[2];
  const void *list_buffers[2], *entry_buffers[1], *indices_buffers[2], *values_buffers[2];
  int64_t nothing[1];
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

static void set_node(struct ArrowArray *node, const void **buffers, int64_t n_buffers, struct ArrowArray **children,
                     int64_t n_children) {
  node->buffers = buffers;
  node->n_buffers = n_buffers;
  node->children = children;
  node->n_children = n_children;
  node->release = dsstne_release_array;
}

// Moves the array into a new import of a list of structs, or of a list of indices; null, and nothing moved, without memory.
static struct import *new_import(struct ArrowArray *array, int structs) {
  struct import *import = calloc(1, sizeof *import);
  if (import == NULL) return NULL;
  import->owner = *array;
  array->release = NULL;
  import->list_children[0] = structs ? &import->entry : &import->indices;
  import->entry_children[0] = &import->indices;
  import->entry_children[1] = &import->values;
  set_node(&import->list, import->list_buffers, 2, import->list_children, 1);
  set_node(&import->entry, import->entry_buffers, 1, import->entry_children, 2);
  set_node(&import->indices, import->indices_buffers, 2, NULL, 0);
  set_node(&import->values, import->values_buffers, 2, NULL, 0);
  import->list.release = release_import;
  import->list.private_data = import;
  return import;
}

static size_t format_length(const char *format) { return strnlen(format, 64); }
*/
import "C"

import (
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/cdata"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// importMatrix moves from both structs and gives a matrix over the same memory, not validated yet. The schema is released
// before it returns; the array at once on failure, and by the matrix's Close on success. A struct that is null or released
// already is an error and left alone.
func importMatrix(cSchema *C.struct_ArrowSchema, cArray *C.struct_ArrowArray, columns int64) (*csr.Matrix, error) {
	// After a success the array is moved from, and this releases the schema only.
	defer discardArrow(cSchema, cArray)
	layout, err := readArrow(cSchema, cArray)
	if err != nil {
		return nil, err
	}
	imported, err := layout.importArray(cArray)
	if err != nil {
		return nil, err
	}
	parts := partsOf(imported)
	parts.Columns, parts.Release = columns, imported.Release
	matrix, err := csr.New(parts)
	if err != nil {
		imported.Release()
		return nil, err
	}
	return matrix, nil
}

// discardArrow releases what is not released yet, and marks it so even if its own callback forgets to.
func discardArrow(cSchema *C.struct_ArrowSchema, cArray *C.struct_ArrowArray) {
	C.discard_schema(cSchema)
	C.discard_array(cArray)
}

// readArrow copies and checks both structs.
func readArrow(cSchema *C.struct_ArrowSchema, cArray *C.struct_ArrowArray) (*matrixLayout, error) {
	schema, err := readSchema(cSchema, 1)
	if err != nil {
		return nil, err
	}
	array, err := readArray(cArray, 1)
	if err != nil {
		return nil, err
	}
	return layoutOf(schema, array)
}

func readSchema(c *C.struct_ArrowSchema, depth int) (*schemaNode, error) {
	if c == nil || c.release == nil {
		return nil, fault.New(fault.InvalidArgument, "the Arrow schema is null or released already; a schema can be used only once")
	}
	if c.format == nil {
		return nil, fault.New(fault.InvalidData, "an Arrow schema has no format")
	}
	node := &schemaNode{
		format:     C.GoStringN(c.format, C.int(C.format_length(c.format))),
		dictionary: c.dictionary != nil,
	}
	children, err := childrenOf(c.children, int64(c.n_children), depth, "schema")
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		childNode, err := readSchema(child, depth+1)
		if err != nil {
			return nil, err
		}
		node.children = append(node.children, childNode)
	}
	return node, nil
}

func readArray(c *C.struct_ArrowArray, depth int) (*arrayNode, error) {
	if c == nil || c.release == nil {
		return nil, fault.New(fault.InvalidArgument, "the Arrow array is null or released already; an array can be used only once")
	}
	node := &arrayNode{
		length:     int64(c.length),
		nullCount:  int64(c.null_count),
		offset:     int64(c.offset),
		dictionary: c.dictionary != nil,
	}
	n, pointers := int64(c.n_buffers), c.buffers
	if n < 0 || n > maxBuffers || n > 0 && pointers == nil {
		return nil, fault.New(fault.InvalidData, "an Arrow array has %d buffers; %s", n, accepted)
	}
	node.buffers = append(node.buffers, unsafe.Slice(pointers, n)...)
	children, err := childrenOf(c.children, int64(c.n_children), depth, "array")
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		childNode, err := readArray(child, depth+1)
		if err != nil {
			return nil, err
		}
		node.children = append(node.children, childNode)
	}
	return node, nil
}

// childrenOf is the list of pointers to the children of a struct.
func childrenOf[T any](pointers **T, n int64, depth int, what string) ([]*T, error) {
	if n < 0 || n > maxChildren || n > 0 && (pointers == nil || depth == maxDepth) {
		return nil, fault.New(fault.InvalidData, "an Arrow %s has %d children on level %d; %s", what, n, depth, accepted)
	}
	return unsafe.Slice(pointers, n), nil
}

// importArray moves the array into the import.
func (l *matrixLayout) importArray(cArray *C.struct_ArrowArray) (arrow.Array, error) {
	structs := C.int(0)
	if l.entry != nil {
		structs = 1
	}
	imp := C.new_import(cArray, structs)
	if imp == nil {
		return nil, fault.New(fault.OutOfMemory, "no memory to import a matrix")
	}
	// Arrow lets an empty array have no buffer, even a list, which has an offset all the same.
	nothing := unsafe.Pointer(&imp.nothing)
	setNode(&imp.list, imp.list_buffers[:], l.list, nothing)
	setNode(&imp.indices, imp.indices_buffers[:], l.indices, nothing)
	if l.entry != nil {
		setNode(&imp.entry, imp.entry_buffers[:], l.entry, nil)
		setNode(&imp.values, imp.values_buffers[:], l.values, nothing)
	}
	imported, err := cdata.ImportCArrayWithType((*cdata.CArrowArray)(unsafe.Pointer(&imp.list)), l.dataType())
	if err != nil {
		// Not reached, as all was checked; how much of it is released now cannot be told, so a leak is the safe choice.
		return nil, fault.From(fault.Internal, err, "the import of a checked array failed")
	}
	return imported, nil
}

// setNode shows a checked array without its bitmap, as it has no nulls. nothing stands in for the data of one that has none.
func setNode(c *C.struct_ArrowArray, buffers []unsafe.Pointer, a *arrayNode, nothing unsafe.Pointer) {
	c.length, c.offset = C.int64_t(a.length), C.int64_t(a.offset)
	if a.length == 0 {
		c.offset = 0
	}
	if len(buffers) > 1 {
		buffers[1] = a.buffers[1]
		if buffers[1] == nil {
			buffers[1] = nothing
		}
	}
}

// dataType is the type as Arrow Go knows it. It is made here and not read from the schema, whose names and metadata are not
// needed.
func (l *matrixLayout) dataType() arrow.DataType {
	var element, value arrow.DataType = arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32
	if l.longIndices {
		element = arrow.PrimitiveTypes.Int64
	}
	if l.doubles {
		value = arrow.PrimitiveTypes.Float64
	}
	if l.entry != nil {
		element = arrow.StructOf(arrow.Field{Name: "index", Type: element}, arrow.Field{Name: "value", Type: value})
	}
	if l.longOffsets {
		return arrow.LargeListOf(element)
	}
	return arrow.ListOf(element)
}

// partsOf points at the buffers of an imported array.
func partsOf(imported arrow.Array) csr.Parts {
	var parts csr.Parts
	var element arrow.Array
	first, rows := imported.Data().Offset(), imported.Len()
	switch list := imported.(type) {
	case *array.List:
		parts.Offsets32, element = list.Offsets()[first:first+rows+1], list.ListValues()
	case *array.LargeList:
		parts.Offsets64, element = list.Offsets()[first:first+rows+1], list.ListValues()
	}
	if entry, ok := element.(*array.Struct); ok {
		switch values := entry.Field(1).(type) {
		case *array.Float32:
			parts.Values32 = typed(values.Float32Values(), values)
		case *array.Float64:
			parts.Values64 = typed(values.Float64Values(), values)
		}
		element = entry.Field(0)
	}
	switch indices := element.(type) {
	case *array.Int32:
		parts.Indices32 = typed(indices.Int32Values(), indices)
	case *array.Int64:
		parts.Indices64 = typed(indices.Int64Values(), indices)
	}
	return parts
}

// typed makes the values of an array without memory, which Arrow Go shows as nil, an empty slice at the array's address:
// csr.New takes the type from the slice that is not nil.
func typed[T any](values []T, a arrow.Array) []T {
	if values != nil {
		return values
	}
	data := a.Data().Buffers()[1].Bytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), 0)
}
