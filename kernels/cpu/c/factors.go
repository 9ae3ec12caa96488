package c

// #include "run.h"
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

// longs pins Go's numbers for the length of the call.
func (c *call) longs(s []int64) *C.int64_t { return pinned[C.int64_t](c, s) }

func (o Ops) LeastSquares(op *kernels.LeastSquares, s *kernels.Step) error {
	first, end, offsets, indices, values := op.Rows(s)
	if first == end {
		return nil
	}
	ridge := make([]float32, end-first)
	for r := range ridge {
		ridge[r] = op.RidgeOf(offsets[first+int64(r)+1] - offsets[first+int64(r)])
	}
	call := &call{layer: "a row's factors", alone: (offsets[end]-offsets[first])*op.Width < short/8}
	a := &C.least_squares_t{
		factors: buffer(op.Factors), width: C.int64_t(op.Width), squares: buffer(op.Squares), offsets: buffer(op.Offsets),
		row_offsets: call.longs(offsets), indices: call.ints(indices), values: call.floats(values),
		first: C.int64_t(first), end: C.int64_t(end), unobserved: C.float(op.Unobserved), weight: C.float(op.Weight),
		center: C.float(op.Center), ridge: call.floats(ridge), out: buffer(op.Out), bias: buffer(op.Bias),
		workspace: buffer(op.Workspace),
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_least_squares)
}

func (o Ops) PrincipalAxes(op *kernels.PrincipalAxes, s *kernels.Step) error {
	if op.Idle(s) {
		return nil
	}
	a := &C.axes_t{
		factors: buffer(op.Factors), rows: C.int64_t(op.Rows), width: C.int64_t(op.Width), squares: buffer(op.Squares),
		workspace: buffer(op.Workspace),
	}
	call := &call{layer: "the squares of the factors"}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_axes_sum, C.run_axes_find, C.run_axes_turn)
}
