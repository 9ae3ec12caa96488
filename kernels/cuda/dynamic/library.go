//go:build !nocuda && linux && amd64

// Package dynamic opens libraries while the program runs.
package dynamic

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// Opens a library; the loader's words are of the same thread, and the caller frees them.
static void *open_library(const char *path, char **words) {
  dlerror();
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *reason = library ? NULL : dlerror();
  *words = reason ? strdup(reason) : NULL;
  return library;
}

// Looks up functions, and returns the first that is missing; only the first `required` must be there.
static const char *find(void *library, const char *const *names, void **slots, size_t count, size_t required) {
  for (size_t i = 0; i < count; i++)
    if (!(slots[i] = dlsym(library, names[i])) && i < required) return names[i];
  return NULL;
}
*/
import "C"

import (
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Open opens a library at a path or, given a bare name, where the system's loader looks, and returns its handle. If
// that fails, the reason says why.
func Open(path string) (handle unsafe.Pointer, reason string) {
	name, words := C.CString(path), (*C.char)(nil)
	defer C.free(unsafe.Pointer(name))
	if handle = C.open_library(name, &words); handle != nil {
		return handle, ""
	}
	if words == nil {
		return nil, "it cannot be opened"
	}
	defer C.free(unsafe.Pointer(words))
	return nil, C.GoString(words)
}

// Functions are the functions that a library is opened for: an array of C strings, and one of pointers to functions in
// the same order. Hint ends the message about a function that is missing.
type Functions struct {
	Names, Slots unsafe.Pointer
	Count        int
	Optional     int // how many of the last may be missing
	Hint         string
}

// Find opens one of several libraries, as kernels.OpenLibrary does, and looks up its functions. Then check may refuse
// the library. The error says in a sentence why there is none.
func (f Functions) Find(files []kernels.LibraryFile, provider string, check func(path string) (reason string)) error {
	reason := kernels.OpenLibrary(files, provider, func(path string) string {
		handle, reason := Open(path)
		if reason != "" {
			return reason
		}
		missing := C.find(handle, (**C.char)(f.Names), (*unsafe.Pointer)(f.Slots), C.size_t(f.Count),
			C.size_t(f.Count-f.Optional))
		if missing != nil {
			C.dlclose(handle)
			return "it has no function " + C.GoString(missing) + f.Hint
		}
		return check(path)
	})
	if reason != "" {
		return fault.New(fault.DeviceUnavailable, "%s", reason)
	}
	return nil
}
