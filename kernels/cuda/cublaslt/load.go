//go:build !nocuda && linux && amd64

package cublaslt

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra
#include <stdlib.h>
#include "loader.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// libraries for the driver's version: one for CUDA 13 needs a driver for it.
func libraries(driver int) []kernels.LibraryFile {
	list := []kernels.LibraryFile{{Name: "libcublasLt.so.12", Folder: "cublas/lib"}}
	if driver >= 13000 {
		list = append(list, kernels.LibraryFile{Name: "libcublasLt.so.13", Folder: "cu13/lib"})
	}
	return list
}

var load struct {
	sync.Once
	err error
}

// Load finds the library: where the system's loader looks, then in the folders that were named for libraries. An error says
// in a sentence why there is none. The answer stays the same for the life of the process.
func Load(driver int) error {
	load.Do(func() {
		if reason := kernels.OpenLibrary(libraries(driver), "nvidia-cublas-cu12", open); reason != "" {
			load.err = fault.New(fault.DeviceUnavailable, "%s", reason)
		}
	})
	return load.err
}

// Version of the loaded library for people: "12.9.1".
func Version() string {
	v := int(C.dsstne_lt_version())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// open opens a library, or says why it could not.
func open(path string) string {
	text := make([]byte, 512)
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if C.dsstne_lt_open(name, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text))) == 0 {
		return ""
	}
	words, _, _ := strings.Cut(string(text), "\x00")
	return words
}

// failure is what a function of the library says, nil if it succeeded.
func failure(what string, status C.int) error {
	if status == 0 {
		return nil
	}
	kind := fault.DeviceFailed
	if status == 3 { // CUBLAS_STATUS_ALLOC_FAILED
		kind = fault.OutOfMemory
	}
	return fault.New(kind, "%s: %s", what, fmt.Sprintf("%s (status %d)", C.GoString(C.dsstne_lt_words(status)), int(status)))
}
