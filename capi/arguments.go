package main

// #include "abi.h"
import "C"

import (
	"math"
	"unicode/utf8"
	"unsafe"

	"dsstne/internal/fault"
)

// call is a call of an export while its arguments are read: err is the first error, and what is read after it is empty.
// with and open return err instead of running anything.
type call struct {
	name string
	err  error
}

// fail keeps the first error, which is fault.InvalidArgument.
func (c *call) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fault.New(fault.InvalidArgument, format, args...)
	}
}

// textIn copies a string of the caller; null is the empty string.
func (c *call) textIn(text *C.const_char, name string) string {
	if text == nil {
		return ""
	}
	s := C.GoString((*C.char)(text))
	if !utf8.ValidString(s) {
		c.fail("%s is not valid UTF-8", name)
	}
	return s
}

// requiredText is textIn for a string that may be neither null nor empty.
func (c *call) requiredText(text *C.const_char, name string) string {
	notNull(c, text, name)
	return c.notEmpty(c.textIn(text, name), name)
}

// pathIn copies a path, which is any bytes that the operating system takes, and neither null nor empty.
func (c *call) pathIn(text *C.const_char) string {
	const name = "path"
	notNull(c, text, name)
	return c.notEmpty(C.GoString((*C.char)(text)), name)
}

func (c *call) notEmpty(s, name string) string {
	if s == "" {
		c.fail("%s is empty", name)
	}
	return s
}

// optionsIn reads JSON options; null means all defaults.
func optionsIn[T any](c *call, text *C.const_char, read func([]byte) (T, error)) T {
	o, err := read([]byte(c.textIn(text, "options")))
	if c.err == nil {
		c.err = err
	}
	return o
}

// textOut writes what describe returns and a NUL to a buffer of *length bytes if it fits, and always the size it needs
// to *length.
func textOut[T []byte | string](c *call, buffer *C.char, length *C.size_t, describe func() (T, error)) error {
	notNull(c, length, "len")
	if c.err != nil {
		return c.err
	}
	text, err := describe()
	if err != nil {
		return err
	}
	needed := C.size_t(len(text)) + 1
	if buffer != nil && *length >= needed {
		dst := unsafe.Slice((*byte)(unsafe.Pointer(buffer)), needed)
		copy(dst, text)
		dst[len(text)] = 0
	}
	*length = needed
	return nil
}

// notNull refuses a null pointer that a call needs.
func notNull[T any](c *call, pointer *T, name string) {
	if pointer == nil {
		c.fail("%s is null", name)
	}
}

// slice views n elements of the caller's memory. A null pointer is a nil slice, and then n must be 0.
func slice[T any](c *call, pointer *T, n int64, name, countName string) []T {
	switch {
	case n < 0:
		c.fail("%s is %d", countName, n)
	case pointer == nil && n > 0:
		c.fail("%s is null but %s is %d", name, countName, n)
	case n > maxLength:
		c.fail("%s is %d, more than memory can hold", countName, n)
	case pointer != nil:
		return unsafe.Slice(pointer, n)
	}
	return nil
}

// optionalSlice is slice for an argument whose null stands for a meaning of its own, with any n.
func optionalSlice[T any](c *call, pointer *T, n int64, countName string) []T {
	if pointer == nil && n > 0 {
		return nil
	}
	return slice(c, pointer, n, "", countName)
}

// table views n rows of width elements each.
func table[T any](c *call, pointer *T, n, width int64, name, countName, widthName string) []T {
	switch {
	case n < 0 || width < 0:
		c.fail("%s is %d and %s is %d", countName, n, widthName, width)
	case width > 0 && n > math.MaxInt64/width:
		c.fail("%s x %s is %d x %d, more than memory can hold", countName, widthName, n, width)
	default:
		return slice(c, pointer, n*width, name, countName+" x "+widthName)
	}
	return nil
}

// structOut copies filled to the caller's struct, as far as its struct_size, the first field of both, covers.
func structOut[T any](dst, filled *T, size C.uint32_t) {
	n := min(uintptr(size), unsafe.Sizeof(*filled))
	const sizeField = unsafe.Sizeof(C.uint32_t(0))
	if n <= sizeField {
		return
	}
	to := unsafe.Slice((*byte)(unsafe.Pointer(dst)), n)
	from := unsafe.Slice((*byte)(unsafe.Pointer(filled)), n)
	copy(to[sizeField:], from[sizeField:])
}

// checkStruct refuses an out-struct that is null or whose struct_size, its first field, was not set.
func checkStruct[T any](c *call, out *T, name string) {
	const smallest = 8
	notNull(c, out, name)
	if out == nil {
		return
	}
	if size := *(*C.uint32_t)(unsafe.Pointer(out)); size < smallest {
		c.fail("%s.struct_size is %d; set it to the size of the struct before the call", name, size)
	}
}
