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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"dsstne/engine/fault"
	"dsstne/kernels"
)

// library is a file that may be loaded, and where NVIDIA's packages have it.
type library struct{ file, folder string }

// libraries for the driver's version, the newest first: one for CUDA 13 needs a driver for it.
func libraries(driver int) []library {
	twelve := library{"libcublasLt.so.12", "cublas/lib"}
	if driver < 13000 {
		return []library{twelve}
	}
	return []library{twelve, {"libcublasLt.so.13", "cu13/lib"}}
}

var load struct {
	sync.Once
	err error
}

// Load finds the library: where the system's loader looks, then in the folders that were named for libraries. An error says
// in a sentence why there is none. The answer stays the same for the life of the process.
func Load(driver int) error {
	load.Do(func() {
		if reason := open(driver); reason != "" {
			load.err = fault.New(fault.DeviceUnavailable, "%s", reason)
		}
	})
	return load.err
}

// Version of the loaded library, as it counts: 120900.
func Version() int { return int(C.dsstne_lt_version()) }

// open opens the library, or says why it could not.
func open(driver int) string {
	var candidates []string
	for _, l := range libraries(driver) {
		candidates = append(candidates, l.file)
	}
	for _, folder := range kernels.LibraryFolders() {
		for _, l := range libraries(driver) {
			path := filepath.Join(folder, l.folder, l.file)
			if _, err := os.Stat(path); err == nil {
				candidates = append(candidates, path)
			}
		}
	}
	var reason string
	for _, path := range candidates {
		text := make([]byte, 512)
		name := C.CString(path)
		failed := C.dsstne_lt_open(name, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text))) != 0
		C.free(unsafe.Pointer(name))
		if !failed {
			return ""
		}
		words, _, _ := strings.Cut(string(text), "\x00")
		if reason == "" || !strings.Contains(words, "No such file") {
			reason = words
		}
	}
	if strings.Contains(reason, "No such file") {
		return "libcublasLt was not found; the package nvidia-cublas-cu12 has it"
	}
	return "libcublasLt does not load: " + reason
}

// failure is what a function of the library says, nil if it succeeded.
func failure(what string, status C.int) error {
	if status == 0 {
		return nil
	}
	kind := fault.Internal
	if status == 3 { // CUBLAS_STATUS_ALLOC_FAILED
		kind = fault.OutOfMemory
	}
	return fault.New(kind, "%s: %s", what, fmt.Sprintf("%s (status %d)", C.GoString(C.dsstne_lt_words(status)), int(status)))
}
