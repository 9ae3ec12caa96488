package main

// #include "abi.h"
import "C"

import (
	"math"
	"unicode/utf8"
	"unsafe"

	"dsstne/engine/options"
	"dsstne/internal/fault"
)

// textIn copies a text of the caller; null is the empty text.
func textIn(text *C.const_char, name string) (string, error) {
	if text == nil {
		return "", nil
	}
	s := C.GoString((*C.char)(text))
	if !utf8.ValidString(s) {
		return "", fault.New(fault.InvalidArgument, "%s is not valid UTF-8", name)
	}
	return s, nil
}

// optionsIn reads JSON options; null means all defaults.
func optionsIn[T any](text *C.const_char, read func([]byte) (T, error)) (o T, err error) {
	s, err := textIn(text, "options")
	if err != nil {
		return o, err
	}
	return read([]byte(s))
}

// rankingIn reads the JSON options of a call that ranks some items.
func rankingIn(text *C.const_char, items []int32, read func([]byte, []int32) (options.Ranking, error)) (options.Ranking, error) {
	return optionsIn(text, func(s []byte) (options.Ranking, error) { return read(s, items) })
}

// requiredText is textIn for a text that may be neither null nor empty.
func requiredText(text *C.const_char, name string) (string, error) {
	if text == nil {
		return "", isNull(name)
	}
	s, err := textIn(text, name)
	if err == nil && s == "" {
		err = fault.New(fault.InvalidArgument, "%s is empty", name)
	}
	return s, err
}

// textOut writes text and its NUL to a buffer of *length bytes if it fits, and always the size it needs to *length.
func textOut(text []byte, buffer *C.char, length *C.size_t) {
	needed := C.size_t(len(text)) + 1
	if buffer != nil && *length >= needed {
		dst := unsafe.Slice((*byte)(unsafe.Pointer(buffer)), needed)
		copy(dst, text)
		dst[len(text)] = 0
	}
	*length = needed
}

// notNull refuses a null pointer that a call needs.
func notNull[T any](pointer *T, name string) error {
	if pointer == nil {
		return isNull(name)
	}
	return nil
}

func isNull(name string) error { return fault.New(fault.InvalidArgument, "%s is null", name) }

// first returns the first error of a list of checks.
func first(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// slice views n elements of the caller's memory. A null pointer is a nil slice, and then n must be 0.
func slice[T any](pointer *T, n int64, name, countName string) ([]T, error) {
	switch {
	case n < 0:
		return nil, fault.New(fault.InvalidArgument, "%s is %d", countName, n)
	case pointer == nil && n > 0:
		return nil, fault.New(fault.InvalidArgument, "%s is null but %s is %d", name, countName, n)
	case pointer == nil:
		return nil, nil
	case n > math.MaxInt64/int64(unsafe.Sizeof(*pointer)):
		return nil, fault.New(fault.InvalidArgument, "%s is %d, more than memory can hold", countName, n)
	}
	return unsafe.Slice(pointer, n), nil
}

// optionalSlice is slice for an argument whose null stands for a meaning of its own, with any n.
func optionalSlice[T any](pointer *T, n int64, countName string) ([]T, error) {
	if pointer == nil && n > 0 {
		return nil, nil
	}
	return slice(pointer, n, "", countName)
}

// table views n rows of width elements each.
func table[T any](pointer *T, n, width int64, name, countName, widthName string) ([]T, error) {
	if n < 0 || width < 0 {
		return nil, fault.New(fault.InvalidArgument, "%s is %d and %s is %d", countName, n, widthName, width)
	}
	if width > 0 && n > math.MaxInt64/width {
		return nil, fault.New(fault.InvalidArgument, "%s x %s is %d x %d, more than memory can hold",
			countName, widthName, n, width)
	}
	return slice(pointer, n*width, name, countName+" x "+widthName)
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

// checkStruct refuses an out-struct that is null or whose struct_size was not set.
func checkStruct(size *C.uint32_t, name string) error {
	const smallest = 8
	switch {
	case size == nil:
		return isNull(name)
	case *size < smallest:
		return fault.New(fault.InvalidArgument, "%s.struct_size is %d; set it to the size of the struct before the call",
			name, *size)
	}
	return nil
}
