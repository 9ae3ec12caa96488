//go:build !nocuda && linux && amd64

package cublaslt

// #include "loader.h"
import "C"

import (
	"unsafe"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// Handle is the library's state for a context, and the products that were made in it.
type Handle struct {
	h        C.dsstne_lt_handle
	products map[Shape]*C.dsstne_lt_product
	refused  map[Shape]error // what cannot be planned stays so: how an op is computed, and in what memory, follows from it
}

// Shape is a product D = op(A) op(B) + beta D of matrices that are stored column by column, D in float32: op(A) is M x K.
type Shape struct {
	Precision                 kernels.Precision // bfloat16: A and B are of it; otherwise they are float32
	TransposeA, TransposeB    bool
	M, N, K                   int64
	StrideA, StrideB, StrideD int64 // elements from column to column
	Alignment                 int64 // of all addresses, in bytes
}

// New makes a handle in the current context. The library must have been loaded.
func New() (*Handle, error) {
	h := &Handle{products: map[Shape]*C.dsstne_lt_product{}, refused: map[Shape]error{}}
	var what *C.char
	status := C.dsstne_lt_create(&h.h, &what)
	if err := failure(C.GoString(what), status); err != nil {
		return nil, err
	}
	return h, nil
}

// Close gives everything back.
func (h *Handle) Close() error {
	for _, p := range h.products {
		C.dsstne_lt_forget(p)
	}
	h.products = nil
	return failure("cublasLtDestroy", C.dsstne_lt_destroy(h.h))
}

// Plan makes a product ready that may use so many bytes of workspace. Every shape is planned once, with one workspace.
func (h *Handle) Plan(s Shape, workspace int64) error {
	if h.products[s] != nil || h.refused[s] != nil {
		return h.refused[s]
	}
	// cudaDataType and cublasComputeType_t
	input, compute := C.int(0), C.int(68)
	switch s.Precision {
	case kernels.BFloat16:
		input = 14
	case kernels.TensorFloat32:
		compute = 77
	}
	shape := C.dsstne_lt_shape{
		input: input, compute: compute, transpose_a: flag(s.TransposeA), transpose_b: flag(s.TransposeB), m: C.uint64_t(s.M),
		n: C.uint64_t(s.N), k: C.uint64_t(s.K), stride_a: C.int64_t(s.StrideA), stride_b: C.int64_t(s.StrideB),
		stride_d: C.int64_t(s.StrideD), alignment: C.uint32_t(s.Alignment),
	}
	p := new(C.dsstne_lt_product)
	var what *C.char
	status := C.dsstne_lt_plan(h.h, &shape, C.uint64_t(workspace), p, &what)
	if err := failure(C.GoString(what), status); err != nil {
		h.refused[s] = err
		return err
	}
	h.products[s] = p
	return nil
}

// Multiply puts a product into a stream, which was planned with at least as much workspace.
func (h *Handle) Multiply(s Shape, a, b driver.Address, beta float32, d driver.Address, workspace driver.Address, bytes int64,
	stream driver.Stream) error {
	if err := h.Plan(s, bytes); err != nil {
		return err
	}
	status := C.dsstne_lt_run(h.h, h.products[s], C.uint64_t(a), C.uint64_t(b), C.float(beta), C.uint64_t(d), C.uint64_t(workspace),
		C.size_t(bytes), unsafe.Pointer(stream.Handle()))
	return failure("cublasLtMatmul", status)
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
