package c

// #include "run.h"
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

func norm(n *kernels.Norm) C.norm_t {
	if n == nil {
		return C.norm_t{}
	}
	return C.norm_t{
		mean: buffer(n.Mean), variance: buffer(n.Variance), scale: buffer(n.Scale), epsilon: C.float(n.Epsilon),
		by_row: flag(n.ByRow),
	}
}

func (o Ops) UnitMoments(op *kernels.UnitMoments, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short}
	a := &C.unit_moments_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), x: buffer(op.X), moments: buffer(op.Moments),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_unit_moments)
}

func (o Ops) RowMoments(op *kernels.RowMoments, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short}
	a := &C.row_moments_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), x: buffer(op.X), mean: buffer(op.Mean),
		variance: buffer(op.Variance),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_row_moments)
}

func (o Ops) NormSums(op *kernels.NormSums, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short}
	a := &C.norm_sums_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), dy: buffer(op.DY), x: buffer(op.X), norm: norm(&op.Norm),
		sums: buffer(op.Sums),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_norm_sums)
}

func (o Ops) NormBackward(op *kernels.NormBackward, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short}
	a := &C.norm_backward_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), whole: C.int64_t(max(1, s.WholeRows())), dy: buffer(op.DY),
		x: buffer(op.X), norm: norm(&op.Norm), scale: call.weights(op.Scale), optimizer: call.optimizer(op.Optimizer, s),
	}
	phases := []unsafe.Pointer{C.run_norm_backward}
	if op.Norm.ByRow {
		phases[0] = C.run_norm_backward_rows
	} else if !op.Constant {
		a.parts, a.ranks = buffer(op.Parts), C.int64_t(op.Ranks)
	}
	if !op.Scale.Locked {
		a.own, phases = buffer(op.Own()), append(phases, C.run_norm_scale)
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, phases...)
}
