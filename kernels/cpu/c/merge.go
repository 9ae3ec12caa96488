package c

/*
#include "run.h"
*/
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

func (c *call) merge(op *kernels.Merge, s *kernels.Step) *C.merge_t {
	list := make([]C.merge_source_t, len(op.Sources))
	for n, source := range op.Sources {
		list[n] = C.merge_source_t{h: buffer(source.H), dh: buffer(source.DH), accumulate: flag(source.Accumulate)}
	}
	c.alone = s.Rows*op.Units*int64(len(list)) < short
	return &C.merge_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), kind: number(c, op.Kind), sources: C.int32_t(len(list)),
		source: pinned[C.merge_source_t](c, list),
	}
}

// Merge computes with the values of several layers.
func (o Ops) Merge(op *kernels.Merge, s *kernels.Step) error {
	call := &call{}
	a := call.merge(op, s)
	a.out = buffer(op.Out)
	return o.do(call, unsafe.Pointer(a), nil, C.run_merge)
}

// MergeBackward goes back through a Merge.
func (o Ops) MergeBackward(op *kernels.MergeBackward, s *kernels.Step) error {
	call := &call{}
	a := call.merge(op.Merge, s)
	a.dout = buffer(op.DOut)
	return o.do(call, unsafe.Pointer(a), nil, C.run_merge_backward)
}

// Skip hands values on.
func (o Ops) Skip(op *kernels.Skip, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short}
	a := &C.skip_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), stride: C.int64_t(op.Stride), first: C.int64_t(op.First),
		in: buffer(op.In), out: buffer(op.Out), accumulate: flag(op.Accumulate),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_skip)
}
