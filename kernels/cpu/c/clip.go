package c

/*
#include "run.h"
*/
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

// ClipNorm shortens the gradients of all weights.
func (o Ops) ClipNorm(op *kernels.ClipNorm, _ *kernels.Step) error {
	call := &call{alone: op.Count < short}
	const block = 1 << 16 // CLIP_BLOCK of written.h
	a := &C.clip_t{
		gradients: buffer(op.Gradients), count: C.int64_t(op.Count), limit: C.float(op.Limit),
		squares: pinned[C.double](call, make([]float64, (op.Count+block-1)/block)),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_clip_sum, C.run_clip_scale)
}

// capping is the arguments of an op that caps a weight.
func capping(w *kernels.Weights, norms kernels.Buffer) (*call, *C.cap_weight_t) {
	return &call{alone: w.Rows*w.Columns < short}, &C.cap_weight_t{
		value: buffer(w.Value), rows: C.int64_t(w.Rows), columns: C.int64_t(w.Columns), norms: buffer(norms),
	}
}

// squaresOf is the number of blocks of rows whose squares ColumnNorms adds up apart: it has few sums in wide weights.
func squaresOf(w *kernels.Weights) int64 { return max(1, min(64, (1<<16)/max(1, w.Columns))) }

// ColumnNorms computes the norms of columns.
func (o Ops) ColumnNorms(op *kernels.ColumnNorms, _ *kernels.Step) error {
	call, a := capping(op.Weight, op.Norms)
	a.squares, a.blocks = of[C.double](op.Workspace), C.int64_t(squaresOf(op.Weight))
	return o.do(call, unsafe.Pointer(a), nil, C.run_column_squares, C.run_column_norms)
}

// CapWeight scales vectors of a weight that are too long.
func (o Ops) CapWeight(op *kernels.CapWeight, _ *kernels.Step) error {
	call, a := capping(op.Weight, op.Norms)
	a.ranks, a.most = C.int64_t(op.Ranks), C.double(op.Cap)
	if op.Ranks == 0 {
		return o.do(call, unsafe.Pointer(a), nil, C.run_cap_weight_rows)
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_cap_weight_columns)
}
