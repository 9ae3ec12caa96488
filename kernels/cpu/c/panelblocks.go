package c

// #include "run.h"
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

var _ = [1]int{}[C.BLOCK_WIDTH-kernels.BlockWidth]

func (o Ops) PanelGram(op *kernels.PanelGram, _ *kernels.Step) error {
	a := &C.panel_gram_t{
		rows: C.int64_t(op.Rows), as: C.int64_t(op.As), bs: C.int64_t(op.Bs), a: buffer(op.A), b: buffer(op.B),
		out: of[C.double](op.Out), parts: of[C.double](op.Workspace),
		groups: C.int64_t(C.gram_groups(C.int64_t(op.Rows), C.int64_t(op.As*op.Bs))),
	}
	return o.do(&call{}, unsafe.Pointer(a), nil, C.run_panel_gram, C.run_panel_gram_add)
}

func (o Ops) PanelProduct(op *kernels.PanelProduct, _ *kernels.Step) error {
	a := &C.panel_blocks_t{
		rows: C.int64_t(op.Rows), ins: C.int64_t(op.Ins), outs: C.int64_t(op.Outs), in: buffer(op.In),
		matrix: buffer(op.Matrix), out: buffer(op.Out), add: flag(op.Add), in_place: flag(op.InPlace),
		workspace: buffer(op.Workspace),
	}
	return o.do(&call{}, unsafe.Pointer(a), nil, C.run_panel_product_blocks)
}

// panelWorkspace is the scratch memory of a PanelGram or a PanelProduct.
func (o Ops) panelWorkspace(op any) int64 {
	const area = kernels.BlockWidth * kernels.BlockWidth
	switch op := op.(type) {
	case *kernels.PanelGram:
		pairs := op.As * op.Bs
		return 2 * area * pairs * (int64(C.gram_groups(C.int64_t(op.Rows), C.int64_t(pairs))) - 1)
	case *kernels.PanelProduct:
		if op.InPlace {
			return area * op.Ins * int64(o.Workers)
		}
	}
	return 0
}

func (o Ops) RowsToBlocks(op *kernels.RowsToBlocks, s *kernels.Step) error {
	call := &call{}
	b, rows := s.Sparse[op.Input], max(0, s.Rows-op.First)
	a := &C.rows_to_blocks_t{
		rows: C.int64_t(rows), items: C.int64_t(op.Items), ins: C.int64_t(op.Ins), factors: buffer(op.Factors),
		in: buffer(op.In), out: buffer(op.Out),
	}
	if rows > 0 {
		a.offsets, a.indices, a.values = call.ints(b.Offsets[op.First:]), call.ints(b.Indices), call.floats(b.Values)
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_rows_to_blocks)
}

func (o Ops) PanelScale(op *kernels.PanelScale, _ *kernels.Step) error {
	a := &C.panel_scale_t{
		rows: C.int64_t(op.Rows), width: C.int64_t(op.Width), factor: C.float(op.Factor), factors: buffer(op.Factors),
		in: buffer(op.In), out: buffer(op.Out), add: flag(op.Add),
	}
	return o.do(&call{}, unsafe.Pointer(a), nil, C.run_panel_scale)
}
