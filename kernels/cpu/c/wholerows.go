package c

/*
#include "run.h"
*/
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

func wholeRows(x kernels.Buffer, units int64, s *kernels.Step) (*call, *C.whole_rows_t) {
	a := &C.whole_rows_t{rows: C.int64_t(s.Rows), units: C.int64_t(units), x: buffer(x)}
	return &call{alone: s.Rows*units < short}, a
}

// SoftmaxRows replaces sums by their soft-max.
func (o Ops) SoftmaxRows(op *kernels.SoftmaxRows, s *kernels.Step) error {
	call, a := wholeRows(op.X, op.Units, s)
	return o.do(call, unsafe.Pointer(a), nil, C.run_softmax_rows)
}

// SoftmaxRowsBackward goes back through a SoftmaxRows.
func (o Ops) SoftmaxRowsBackward(op *kernels.SoftmaxRowsBackward, s *kernels.Step) error {
	call, a := wholeRows(op.DH, op.Units, s)
	a.h, a.shift = buffer(op.H), buffer(op.Shift)
	return o.do(call, unsafe.Pointer(a), nil, C.run_softmax_rows_backward)
}

// CapRows scales rows of a gradient that are too long.
func (o Ops) CapRows(op *kernels.CapRows, s *kernels.Step) error {
	call, a := wholeRows(op.DZ, op.Units, s)
	a.limit = C.double(op.Limit(s))
	return o.do(call, unsafe.Pointer(a), nil, C.run_cap_rows)
}
