package main

// #include "abi.h"
import "C"

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"dsstne/internal/fault"
)

// statuses maps kinds of errors to the ABI's codes. It is written out, although the numbers agree, because the compiler
// then notices when one side loses a member.
var statuses = map[fault.Kind]C.dsstne_status{
	fault.OK:                C.DSSTNE_OK,
	fault.InvalidArgument:   C.DSSTNE_INVALID_ARGUMENT,
	fault.InvalidHandle:     C.DSSTNE_INVALID_HANDLE,
	fault.InvalidState:      C.DSSTNE_INVALID_STATE,
	fault.InvalidData:       C.DSSTNE_INVALID_DATA,
	fault.NotFound:          C.DSSTNE_NOT_FOUND,
	fault.IO:                C.DSSTNE_IO,
	fault.CorruptFile:       C.DSSTNE_CORRUPT_FILE,
	fault.Unsupported:       C.DSSTNE_UNSUPPORTED,
	fault.OutOfMemory:       C.DSSTNE_OUT_OF_MEMORY,
	fault.DeviceUnavailable: C.DSSTNE_DEVICE_UNAVAILABLE,
	fault.DeviceFailed:      C.DSSTNE_DEVICE_FAILED,
	fault.Cancelled:         C.DSSTNE_CANCELLED,
	fault.Busy:              C.DSSTNE_BUSY,
	fault.NotFinite:         C.DSSTNE_NOT_FINITE,
	fault.Internal:          C.DSSTNE_INTERNAL,
}

// report turns an error into a status and, if out is not null, fills as much of it as the caller's struct_size covers.
func report(out *C.dsstne_error, err error) C.dsstne_status {
	if err == nil {
		return C.DSSTNE_OK
	}
	status, known := statuses[fault.KindOf(err)]
	if !known || status == C.DSSTNE_OK {
		status = C.DSSTNE_INTERNAL
	}
	if out == nil {
		return status
	}
	size := uintptr(out.struct_size)
	if size >= unsafe.Offsetof(out.message) {
		out.status = C.int32_t(status)
	}
	if size >= unsafe.Sizeof(*out) {
		out.system_error = C.int32_t(fault.Errno(err))
	}
	if size > unsafe.Offsetof(out.message) {
		room := min(size-unsafe.Offsetof(out.message), unsafe.Sizeof(out.message))
		message := unsafe.Slice((*byte)(unsafe.Pointer(&out.message)), room)
		text := truncated(strings.ToValidUTF8(err.Error(), "\uFFFD"), int(room)-1) // a path may be no UTF-8
		copy(message, text)
		message[len(text)] = 0
	}
	return status
}

// truncated cuts text to at most n bytes without cutting a character in two, and without a NUL inside.
func truncated(text string, n int) string {
	for i := range len(text) {
		if text[i] == 0 {
			text = text[:i]
			break
		}
	}
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
