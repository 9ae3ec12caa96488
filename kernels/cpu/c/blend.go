package c

// #include "run.h"
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

// The constants of kernels.h and of the package kernels are the same.
var (
	_ = [1]int{}[C.MAX_PARTS-kernels.MaxParts]
	_ = [1]int{}[C.MOMENT_LANES-kernels.MomentLanes]
)

func (o Ops) Moments(op *kernels.Moments, s *kernels.Step) error {
	call, stored := &call{alone: s.Rows*op.Items < short}, s.Sparse[op.Stored]
	a := &C.moments_t{
		rows: C.int64_t(s.Rows), items: C.int64_t(op.Items), scores: buffer(op.Scores), first: C.int64_t(op.First),
		stored_offsets: call.ints(stored.Offsets), stored_items: call.ints(stored.Indices), out: of[C.double](op.Out),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_moments)
}

func (o Ops) Blend(op *kernels.Blend, s *kernels.Step) error {
	parts := int64(len(op.Parts))
	call := &call{alone: s.Rows*op.Items*parts < short}
	a := &C.blend_t{
		rows: C.int64_t(s.Rows), items: C.int64_t(op.Items), parts: C.int32_t(parts), out: buffer(op.Out),
	}
	means, factors := make([]float64, s.Rows*parts), make([]float64, s.Rows*parts)
	for p := range op.Parts {
		a.scores[p] = buffer(op.Parts[p].Scores)
		for u := range s.Rows {
			at := u*parts + int64(p)
			means[at], factors[at] = op.Standard(&op.Parts[p], op.Weights.Float32()[p], u)
		}
	}
	a.means, a.factors = pinned[C.double](call, means), pinned[C.double](call, factors)
	return o.do(call, unsafe.Pointer(a), nil, C.run_blend)
}
