//go:build !nocuda && linux && amd64

package driver

/*
#include <cuda.h>
#include <stddef.h>

#cgo noescape dsstne_launch
#cgo nocallback dsstne_launch

// The arguments are one block of bytes, which the driver copies before it returns.
static CUresult dsstne_launch(CUfunction f, const unsigned *n, unsigned shared, CUstream s, void *args, size_t bytes) {
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return cuLaunchKernel(f, n[0], n[1], n[2], n[3], n[4], n[5], shared, s, NULL, extra);
}

// Reasons of a refused image come with the log.
static CUresult dsstne_load(CUmodule *m, const void *image, char *log, size_t size) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)size};
  return cuModuleLoadDataEx(m, image, 2, options, values);
}
*/
import "C"

import (
	"strings"
	"unsafe"
)

// Module is a kernel image that was loaded into a context.
type Module struct{ m C.CUmodule }

// LoadModule loads an image, a cubin or PTX, into the current context.
func LoadModule(image []byte) (Module, error) {
	// PTX is text, which ends with a zero.
	data := C.CBytes(append(image[:len(image):len(image)], 0))
	defer C.free(data)
	var m Module
	log := make([]byte, 2048)
	err := failure("cuModuleLoadDataEx", C.dsstne_load(&m.m, data, (*C.char)(ptr(log)), C.size_t(len(log))))
	if e, ok := err.(*Error); ok {
		if words := strings.Join(strings.Fields(untilZero(log)), " "); words != "" {
			e.Text += ": " + words
		}
	}
	return m, err
}

// Unload gives the module back, if there is one.
func (m Module) Unload() error {
	if m == (Module{}) {
		return nil
	}
	return failure("cuModuleUnload", C.cuModuleUnload(m.m))
}

// Kernel is a function of a module.
type Kernel struct{ f C.CUfunction }

// Function finds a kernel by its name.
func (m Module) Function(name string) (Kernel, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var k Kernel
	err := failure("cuModuleGetFunction", C.cuModuleGetFunction(&k.f, m.m, text))
	if e, ok := err.(*Error); ok {
		e.Text += ": " + name
	}
	return k, err
}

// AllowShared lets launches ask for that much dynamic shared memory a block, beyond the 48 KiB that all may have.
func (k Kernel) AllowShared(bytes int) error {
	return failure("cuFuncSetAttribute",
		C.cuFuncSetAttribute(k.f, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// Dim is an extent of a grid or of a block; 0 means 1.
type Dim struct{ X, Y, Z uint32 }

// Launch runs a kernel in the order of a stream. The arguments are a struct without Go pointers, laid out as the
// kernel's.
func Launch[T any](s Stream, k Kernel, grid, block Dim, sharedBytes int, args *T) error {
	return k.launch(s, grid, block, sharedBytes, unsafe.Pointer(args), unsafe.Sizeof(*args))
}

func (k Kernel) launch(s Stream, grid, block Dim, sharedBytes int, args unsafe.Pointer, size uintptr) error {
	dims := [6]C.uint{
		C.uint(max(1, grid.X)), C.uint(max(1, grid.Y)), C.uint(max(1, grid.Z)),
		C.uint(max(1, block.X)), C.uint(max(1, block.Y)), C.uint(max(1, block.Z)),
	}
	return failure("cuLaunchKernel", C.dsstne_launch(k.f, &dims[0], C.uint(sharedBytes), s.c(), args, C.size_t(size)))
}

// ptr is the address of a buffer for C.
func ptr(buffer []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(buffer)) }

// untilZero is the text in a buffer that C has filled.
func untilZero(buffer []byte) string {
	text, _, _ := strings.Cut(string(buffer), "\x00")
	return text
}
