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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"dsstne/engine/fault"
	"dsstne/kernels"
)

const (
	file   = "libnccl.so.2"
	oldest = 21400 // the first version whose communicators can be non-blocking
)

var load struct {
	sync.Once
	version int
	err     error
}

// Load finds the library: where the system's loader looks, then in the folders that were named for libraries. An error says
// in a sentence why there is none. The answer stays the same for the life of the process.
func Load() error {
	load.Do(func() {
		if reason := open(); reason != "" {
			load.err = fault.New(fault.DeviceUnavailable, "%s", reason)
		}
	})
	return load.err
}

// Version of the loaded library for people: "2.27.3".
func Version() string {
	return fmt.Sprintf("%d.%d.%d", load.version/10000, load.version/100%100, load.version%100)
}

// open opens the library, or says why it could not.
func open() string {
	candidates := []string{file}
	for _, folder := range kernels.LibraryFolders() {
		path := filepath.Join(folder, "nccl", "lib", file)
		if _, err := os.Stat(path); err == nil {
			candidates = append(candidates, path)
		}
	}
	var reason string
	for _, path := range candidates {
		text := make([]byte, 512)
		name := C.CString(path)
		failed := C.dsstne_nccl_open(name, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text))) != 0
		C.free(unsafe.Pointer(name))
		if !failed {
			return tooOld(path)
		}
		words, _, _ := strings.Cut(string(text), "\x00")
		if reason == "" || !strings.Contains(words, "No such file") {
			reason = words
		}
	}
	if strings.Contains(reason, "No such file") {
		return "libnccl.so.2 was not found; the package nvidia-nccl-cu12 has it"
	}
	return "libnccl.so.2 does not load: " + reason
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
