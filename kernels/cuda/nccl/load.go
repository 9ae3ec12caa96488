//go:build !nocuda && linux && amd64

package nccl

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

// oldest is the first version whose communicators can be non-blocking.
const oldest = 21400

var load struct {
	sync.Once
	version int
	err     error
}

// Load finds the library: where the system's loader looks, then in the folders that were named for libraries. An error says
// in a sentence why there is none. The answer stays the same for the life of the process.
func Load() error {
	load.Do(func() {
		files := []kernels.LibraryFile{{Name: "libnccl.so.2", Folder: "nccl/lib"}}
		if reason := kernels.OpenLibrary(files, "nvidia-nccl-cu12", open); reason != "" {
			load.err = fault.New(fault.DeviceUnavailable, "%s", reason)
		}
	})
	return load.err
}

// Version of the loaded library for people: "2.27.3".
func Version() string {
	return fmt.Sprintf("%d.%d.%d", load.version/10000, load.version/100%100, load.version%100)
}

// open opens a library, or says why it is of no use.
func open(path string) string {
	text := make([]byte, 512)
	name := C.CString(path)
	failed := C.dsstne_nccl_open(name, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text))) != 0
	C.free(unsafe.Pointer(name))
	if failed {
		words, _, _ := strings.Cut(string(text), "\x00")
		return words
	}
	return tooOld(path)
}

// tooOld looks at the version of the library that was opened.
func tooOld(path string) string {
	var version C.int
	if code := C.dsstne_nccl_version(&version); code != 0 {
		return fmt.Sprintf("%s does not tell its version (error %d)", path, code)
	}
	if load.version = int(version); load.version < oldest {
		return fmt.Sprintf("%s is version %s, and 2.14 or newer is needed", path, Version())
	}
	return ""
}
