package c

/*
#include "run.h"
*/
import "C"

import (
	"math"
	"unsafe"

	"dsstne/kernels"
)

// entries makes the arguments of a call on the stored entries of a target.
func (o Ops) entries(
	call *call, target int, sources []kernels.OutputSource, bias *kernels.Weights, temperature float32, s *kernels.Step,
) *C.entries_t {
	b := s.Sparse[target]
	call.alone = (int64(len(b.Indices))+s.Rows)*units(sources) < short
	a := &C.entries_t{
		rows: C.int64_t(s.Rows), offsets: call.ints(b.Offsets), indices: call.ints(b.Indices),
		item_rows: call.ints(b.ItemRows), item_count: C.int64_t(len(b.Items)), item_offsets: call.ints(b.ItemOffsets),
		values: call.floats(b.Values), sources: C.int32_t(len(sources)), source: call.sources(sources),
		row_sum: call.floats(b.RowSum), temperature: C.float(temperature),
	}
	if bias != nil {
		a.bias = buffer(bias.Value)
	}
	return a
}

// OutputEntries computes the loss at stored entries. Its workspace has the next entry of each row in the order by item,
// and then dz in the order by row; for cosine logits also cosines and lengths.
func (o Ops) OutputEntries(op *kernels.OutputEntries, s *kernels.Step) error {
	call := &call{layer: op.Name}
	a := o.entries(call, op.Target, op.Sources, op.Bias, op.Temperature, s)
	losses := make([]float64, s.Rows)
	a.loss = call.loss(op.Loss, s.TermWeight(op.Term, op.Loss)/float32(s.WholeRows()))
	a.row_weights, a.items = call.floats(s.WeightsOfRows(op.Term)), C.int64_t(op.Items)
	a.pairs, a.seed, a.stream = flag(op.Loss.Pairs), C.uint64_t(s.Seed), C.uint32_t(op.Stream)
	a.step, a.first = C.uint32_t(s.Number), C.int64_t(s.First)
	a.losses, a.next_entry = pinned[C.double](call, losses), of[C.int32_t](op.Workspace)
	a.dz, a.by_item = buffer(op.Workspace.Slice(s.Rows, op.Entries)), buffer(op.DZ)
	if op.Temperature != 0 {
		a.cosine = buffer(op.Workspace.Slice(s.Rows+op.Entries, op.Entries))
		a.inverse = buffer(op.Workspace.Slice(s.Rows+2*op.Entries, op.Entries))
		a.directions, a.x, a.y = buffer(op.Directions), buffer(op.X), buffer(op.Y)
	}
	call.end = func() {
		if a.failure.kind == C.FAIL_NONE {
			for _, loss := range losses {
				s.Loss[op.Term] += loss
			}
		}
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_entries_rows, C.run_entries_by_item)
}

// MarginalTargets computes which targets count. Its workspace has the next entry of each row in the order by item, and
// for cosine logits what OutputEntries makes of these.
func (o Ops) MarginalTargets(op *kernels.MarginalTargets, s *kernels.Step) error {
	output := op.Output
	call := &call{layer: output.Name}
	a := o.entries(call, output.Target, output.Sources, output.Bias, output.Temperature, s)
	a.loss.normalize_rows = flag(op.NormalizeRows)
	a.one_scale, a.log_target = C.float(op.OneScale), C.float(math.Inf(1))
	if op.OneTarget != 1 {
		a.log_target = C.float(math.Log(float64(op.OneTarget)))
	}
	if addend := &output.Addend; addend.Counts() {
		a.addend, a.addend_stride = buffer(addend.Sum), C.int64_t(addend.Stride)
		a.addend_first = C.int64_t(addend.First)
	}
	a.stats, a.sums, a.next_entry = buffer(output.Stats), buffer(output.Targets.Sums), of[C.int32_t](op.Workspace)
	a.dz, a.by_item = buffer(output.Targets.ByRow), buffer(output.Targets.ByItem)
	if output.Temperature != 0 {
		a.cosine = buffer(op.Workspace.Slice(s.Rows, op.Entries))
		a.inverse = buffer(op.Workspace.Slice(s.Rows+op.Entries, op.Entries))
		a.directions = buffer(op.Workspace.Slice(s.Rows+2*op.Entries, s.Rows*units(output.Sources)))
	}
	phases := []unsafe.Pointer{C.run_marginal_rows}
	if output.Targets.ByItem != nil {
		phases = append(phases, C.run_entries_by_item)
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, phases...)
}
