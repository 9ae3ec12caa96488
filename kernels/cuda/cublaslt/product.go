//go:build !nocuda && linux && amd64

// Package cublaslt multiplies matrices with NVIDIA's cuBLASLt, which is opened when a device is, if it is installed.
// Everything that a product needs is made before a step; running the product only puts work into a stream, which may be
// captured. Its algorithm is the first that the library proposes: it follows from shapes, device and version, and gives
// the same bits every time.
package cublaslt

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra
#include "cublaslt.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
	"dsstne/kernels/cuda/dynamic"
)

// Load finds the library: where the system's loader looks, then in the folders that were named for libraries. An error
// says in a sentence why there is none. The answer stays the same for the life of the process.
func Load() error { return load() }

var load = sync.OnceValue(func() error {
	files := []kernels.LibraryFile{{Name: "libcublasLt.so.12", Folder: "cublas/lib"}}
	if driver.Version() >= 13000 { // which the library for CUDA 13 needs
		files = append(files, kernels.LibraryFile{Name: "libcublasLt.so.13", Folder: "cu13/lib"})
	}
	f := dynamic.Functions{Names: unsafe.Pointer(C.function_names()), Slots: C.function_slots(), Count: C.COUNT}
	return f.Find(files, "nvidia-cublas-cu12", func(string) string { return "" })
})

// Version of the loaded library for people: "12.9.1".
func Version() string {
	v := int(C.lt_version())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// failure is the error for a status of the library, nil for success.
func failure(what string, status C.int) error {
	if status == 0 {
		return nil
	}
	kind := fault.DeviceFailed
	if status == 3 { // CUBLAS_STATUS_ALLOC_FAILED
		kind = fault.OutOfMemory
	}
	return fault.New(kind, "%s: %s (status %d)", what, C.GoString(C.lt_words(status)), int(status))
}

// Handle is the library's state for a context, and the products that were made in it.
type Handle struct {
	h        unsafe.Pointer
	products map[Shape]*C.product
	refused  map[Shape]bool // the library does not support them
	gaveUp   time.Time      // when Plan last gave up waiting for the library
}

// Shape is a product D = op(A) op(B) + beta D of matrices that are stored column by column: op(A) is M x K. Sums are in
// float32.
type Shape struct {
	Precision                 kernels.Precision // bfloat16: A and B are of it; otherwise they are float32
	Narrow                    bool              // D is of bfloat16; otherwise it is float32
	TransposeA, TransposeB    bool
	M, N, K                   int64
	StrideA, StrideB, StrideD int64 // elements from column to column
	Alignment                 int64 // of all addresses, in bytes
}

// New makes a handle in the current context. The library must have been loaded.
func New() (*Handle, error) {
	h := &Handle{products: map[Shape]*C.product{}, refused: map[Shape]bool{}}
	if err := failure("cublasLtCreate", C.lt_create(&h.h)); err != nil {
		return nil, err
	}
	return h, nil
}

// Close gives everything back, if there is a handle.
func (h *Handle) Close() error {
	if h == nil {
		return nil
	}
	for _, p := range h.products {
		C.lt_forget(p)
	}
	h.products = nil
	return failure("cublasLtDestroy", C.lt_destroy(h.h))
}

// How long, and how often, Plan asks for a product again when the library fails. Some versions of the library fail
// while anybody in the process captures a stream (CUDA 13.3), so the wait is for the capture to end. If it does not
// end, the calls that follow within `pause` do not wait once more.
const (
	patience = 5 * time.Second
	pause    = time.Second
	interval = 20 * time.Millisecond
)

// Plan makes a product ready that may use the given bytes of workspace, and reports whether the library supports it. It
// plans every shape once, with one workspace. Only that the library does not support a shape is remembered: how an op
// is computed follows from it. After any other failure Plan asks again, and returns an error when its patience ends.
func (h *Handle) Plan(s Shape, workspace int64) (supported bool, err error) {
	if h.products[s] != nil || h.refused[s] {
		return !h.refused[s], nil
	}
	const bfloat16 = 14                                     // cudaDataType
	input, output, compute := C.int(0), C.int(0), C.int(68) // float32; cublasComputeType_t
	switch s.Precision {
	case kernels.BFloat16:
		input = bfloat16
	case kernels.TensorFloat32:
		compute = 77
	}
	if s.Narrow {
		output = bfloat16
	}
	shape := C.product_shape{
		input: input, output: output, compute: compute,
		transpose_a: C._Bool(s.TransposeA), transpose_b: C._Bool(s.TransposeB),
		m: C.uint64_t(s.M), n: C.uint64_t(s.N), k: C.uint64_t(s.K), stride_a: C.int64_t(s.StrideA),
		stride_b: C.int64_t(s.StrideB), stride_d: C.int64_t(s.StrideD), alignment: C.uint32_t(s.Alignment),
	}
	p := new(C.product)
	end := time.Now().Add(patience)
	if time.Since(h.gaveUp) < pause {
		end = time.Now()
	}
	for {
		var what *C.char
		status := C.lt_plan(h.h, &shape, C.uint64_t(workspace), p, &what)
		switch {
		case status == 0:
			h.products[s] = p
			return true, nil
		case status == C.NOT_SUPPORTED:
			h.refused[s] = true
			return false, nil
		case time.Now().After(end):
			h.gaveUp = time.Now()
			err := failure(C.GoString(what), status)
			return false, fault.New(fault.KindOf(err), "%v. Some versions of the library fail while a stream of the process "+
				"is captured: end the capture, then try again", err)
		}
		time.Sleep(interval)
	}
}

// Multiply puts a product into a stream, with the workspace that it was planned with.
func (h *Handle) Multiply(s Shape, a, b driver.Address, beta float32, d driver.Address, workspace driver.Address,
	bytes int64, stream driver.Stream) error {
	if supported, err := h.Plan(s, bytes); err != nil || !supported {
		return cmp.Or(err, failure("cublasLtMatmul", C.NOT_SUPPORTED))
	}
	status := C.lt_run(h.h, h.products[s], C.uint64_t(a), C.uint64_t(b), C.float(beta), C.uint64_t(d),
		C.uint64_t(workspace), C.size_t(bytes), stream.Handle())
	return failure("cublasLtMatmul", status)
}
