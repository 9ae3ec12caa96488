package c

// #include "run.h"
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

func (o Ops) SparseProduct(op *kernels.SparseProduct, _ *kernels.Step) error {
	a := &C.sparse_product_t{
		matrix: sparseMatrix(&op.Matrix), panels: C.int64_t(op.Panels), width: C.int64_t(op.Width), in: buffer(op.In),
		out: buffer(op.Out),
	}
	return o.do(&call{}, unsafe.Pointer(a), nil, C.run_sparse_product)
}

func (o Ops) Solve(op *kernels.Solve, _ *kernels.Step) error {
	rows, items, width := op.ByRow.Rows, op.ByItem.Rows, op.Width
	part := func(from, n int64) kernels.Buffer { return op.Workspace.Slice(from, n) }
	sums := (op.Workspace.Len() - width*(rows+2*items)) / 2
	a := &C.solve_t{
		by_row: sparseMatrix(&op.ByRow), by_item: sparseMatrix(&op.ByItem), ridge: buffer(op.Ridge),
		diagonal: buffer(op.Diagonal), width: C.int64_t(width), residual: buffer(op.B), solution: buffer(op.X),
		direction: buffer(part(0, width*items)), product: buffer(part(width*items, width*items)),
		between:   buffer(part(2*width*items, width*rows)),
		products:  of[C.double](part(width*(rows+2*items), sums)),
		squares:   of[C.double](part(width*(rows+2*items)+sums, sums)),
		tolerance: C.double(op.Tolerance), iterations: C.int32_t(op.Iterations), report: of[C.int32_t](op.Report),
	}
	phases := []unsafe.Pointer{C.run_solve_start}
	for range op.Iterations {
		phases = append(phases, C.run_solve_rows, C.run_solve_product, C.run_solve_step, C.run_solve_direction,
			C.run_solve_check)
	}
	return o.do(&call{}, unsafe.Pointer(a), nil, phases...)
}

func (o Ops) KeepLargest(op *kernels.KeepLargest, s *kernels.Step) error {
	first, end := op.Columns(s)
	a := &C.keep_largest_t{
		rows: C.int64_t(op.Rows), width: C.int64_t(op.Width), first: C.int64_t(first), end: C.int64_t(end),
		k: C.int64_t(op.K), panel: buffer(op.Panel), weights: buffer(op.Weights), ids: of[C.int32_t](op.IDs),
		values: buffer(op.Values), diagonal: buffer(op.Diagonal),
	}
	return o.do(&call{}, unsafe.Pointer(a), nil, C.run_keep_largest)
}

// panelRows are the rows of a batch that a panel has.
func panelRows(call *call, s *kernels.Step, input int, items, width, first int64) *C.panel_rows_t {
	b, rows := s.Sparse[input], max(0, s.Rows-first)
	a := &C.panel_rows_t{rows: C.int64_t(rows), items: C.int64_t(items), width: C.int64_t(width)}
	if rows > 0 {
		a.offsets, a.indices, a.values = call.ints(b.Offsets[first:]), call.ints(b.Indices), call.floats(b.Values)
	}
	return a
}

func (o Ops) RowsToPanel(op *kernels.RowsToPanel, s *kernels.Step) error {
	call := &call{}
	a := panelRows(call, s, op.Input, op.Items, op.Width, op.First)
	a.factors, a.panel = buffer(op.Factors), buffer(op.Panel)
	return o.do(call, unsafe.Pointer(a), nil, C.run_rows_to_panel)
}

func (o Ops) PanelToRows(op *kernels.PanelToRows, s *kernels.Step) error {
	if op.First >= s.Rows {
		return nil
	}
	call := &call{}
	a := panelRows(call, s, op.Input, op.Items, op.Width, op.First)
	a.factors, a.own, a.if_empty, a.panel = buffer(op.Factors), buffer(op.Own), buffer(op.IfEmpty), buffer(op.Panel)
	a.out = buffer(op.Out.Slice(op.First*op.Items, op.Out.Len()-op.First*op.Items))
	return o.do(call, unsafe.Pointer(a), nil, C.run_panel_to_rows)
}

func (o Ops) RestrictedInverse(op *kernels.RestrictedInverse, s *kernels.Step) error {
	first, end := op.Range(s)
	a := &C.restricted_t{
		items: C.int64_t(op.Items), neighbors: C.int64_t(op.Neighbors), first: C.int64_t(first), end: C.int64_t(end),
		ids: of[C.int32_t](op.IDs), values: buffer(op.Values), factors: buffer(op.Factors),
		weights: buffer(op.Weights), workspace: buffer(op.Workspace),
	}
	return o.do(&call{}, unsafe.Pointer(a), nil, C.run_restricted_inverse)
}
