package c

// #include "run.h"
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

// Fill translates the op.
func (t *Table) Fill(op *kernels.Fill) *Call {
	call := &Call{}
	a := &C.fill_t{
		kind: number(call, op.Kind), scale: C.float(op.Scale), seed: C.uint64_t(op.Seed), stream: C.uint32_t(op.Stream),
		rows: C.int64_t(op.Rows), columns: C.int64_t(op.Columns), out: buffer(op.Out),
	}
	call.phase(C.phase_t(C.run_fill), unsafe.Pointer(a))
	return call
}

// Gather translates the op.
func (t *Table) Gather(op *kernels.Gather, s *kernels.Step) *Call {
	b := s.Sparse[op.Input]
	call := &Call{alone: (int64(len(b.Indices))+s.Rows)*op.Weight.Columns < short}
	a := &C.gather_t{
		rows: C.int64_t(s.Rows), offsets: call.ints(b.Offsets), indices: call.ints(b.Indices), values: call.floats(b.Values),
		weight: buffer(op.Weight.Value), columns: C.int64_t(op.Weight.Columns), out: buffer(op.Out), accumulate: flag(op.Accumulate),
	}
	if op.Epilogue != nil {
		a.has_epilogue, a.epilogue = 1, call.epilogue(op.Epilogue, s)
	}
	call.phase(C.phase_t(C.run_gather), unsafe.Pointer(a))
	return call
}

// Scatter translates the op. A written gradient is cleared first unless the output layer has filled the other rows.
func (t *Table) Scatter(op *kernels.Scatter, s *kernels.Step) *Call {
	call := &Call{}
	if op.Weight.Gradient != nil && op.TiedGradient == nil {
		clear(op.Weight.Gradient.Float32())
	}
	a := &C.scatter_t{
		batch: call.byItem(s.Sparse[op.Input]), dz: buffer(op.DZ), weight: call.weights(op.Weight), tied: buffer(op.TiedGradient),
		optimizer: call.optimizer(op.Optimizer, s),
	}
	call.failure = &a.failure
	call.phase(C.phase_t(C.run_scatter), unsafe.Pointer(a))
	return call
}

// Replay translates the op.
func (t *Table) Replay(op *kernels.Replay, s *kernels.Step) *Call {
	call := &Call{}
	a := &C.replay_t{
		count: C.int64_t(op.Weight.Rows), upto: C.int64_t(s.Number), weight: call.weights(op.Weight),
		optimizer: call.optimizer(op.Optimizer, s),
	}
	if op.Input >= 0 {
		b := s.Sparse[op.Input]
		if len(b.Items) == 0 {
			return call
		}
		a.items, a.count, a.upto = call.ints(b.Items), C.int64_t(len(b.Items)), C.int64_t(s.Number-1)
	}
	call.failure = &a.failure
	call.phase(C.phase_t(C.run_replay), unsafe.Pointer(a))
	return call
}

// Update translates the op.
func (t *Table) Update(op *kernels.Update, s *kernels.Step) *Call {
	call := &Call{alone: op.Weight.Rows*op.Weight.Columns < short/8}
	w := *op.Weight
	w.Gradient = nil
	a := &C.update_t{gradient: buffer(op.Weight.Gradient), weight: call.weights(&w), optimizer: call.optimizer(op.Optimizer, s)}
	call.failure = &a.failure
	call.phase(C.phase_t(C.run_update), unsafe.Pointer(a))
	return call
}

// Backward translates the op.
func (t *Table) Backward(op *kernels.Backward, s *kernels.Step) *Call {
	call := &Call{layer: op.Name}
	a := &C.backward_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), h: buffer(op.H), dh: buffer(op.DH),
		epilogue: call.epilogue(&op.Epilogue, s),
		bias:     call.weights(op.Bias), optimizer: call.optimizer(op.Optimizer, s),
	}
	call.failure = &a.failure
	call.phase(C.phase_t(C.run_backward), unsafe.Pointer(a))
	return call
}

// Activate translates the op.
func (t *Table) Activate(op *kernels.Activate, s *kernels.Step) *Call {
	call := &Call{alone: s.Rows*op.Units < short}
	a := &C.activate_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), out: buffer(op.Out), epilogue: call.epilogue(&op.Epilogue, s),
	}
	call.phase(C.phase_t(C.run_activate), unsafe.Pointer(a))
	return call
}

// layer makes the arguments of a call on a layer.
func (t *Table) layer(call *Call, rows int64, items int64, workspace kernels.Buffer, workers int) *C.layer_t {
	a := &C.layer_t{
		rows: C.int64_t(rows), whole: C.int64_t(max(1, rows)), items: C.int64_t(items), workspace: buffer(workspace), workers: C.int32_t(workers), tied_count: -1,
		bias: C.weights_t{id: -1}, bfloat16: t.bfloat16,
	}
	call.failure = &a.failure
	return a
}

// pack is the first phase of most calls on a layer_t.
func (call *Call) pack(a *C.layer_t) { call.phase(C.phase_t(C.run_pack), unsafe.Pointer(a)) }

// Dense translates the op.
func (t *Table) Dense(op *kernels.Dense, s *kernels.Step, workers int) *Call {
	call := &Call{}
	a := t.layer(call, s.Rows, op.Weight.Rows, op.Workspace, workers)
	a.sources = 1
	a.source[0] = C.source_t{h: buffer(op.In), weight: call.weights(op.Weight)}
	a.out, a.accumulate = buffer(op.Out), flag(op.Accumulate)
	if op.Epilogue != nil {
		a.has_epilogue, a.epilogue = 1, call.epilogue(op.Epilogue, s)
	}
	call.pack(a)
	call.phase(C.phase_t(C.run_dense), unsafe.Pointer(a))
	return call
}

// DenseBackward translates the op.
func (t *Table) DenseBackward(op *kernels.DenseBackward, s *kernels.Step, workers int) *Call {
	call := &Call{}
	a := t.layer(call, s.Rows, op.Weight.Rows, op.Workspace, workers)
	a.sources = 1
	a.source[0] = C.source_t{
		h: buffer(op.In), dh: buffer(op.DIn), accumulate: flag(op.Accumulate), weight: call.weights(op.Weight),
	}
	a.dz, a.optimizer = buffer(op.DZ), call.optimizer(op.Optimizer, s)
	call.pack(a)
	call.phase(C.phase_t(C.run_step), unsafe.Pointer(a))
	call.phase(C.phase_t(C.run_finish), unsafe.Pointer(a))
	return call
}

func (t *Table) output(call *Call, op *kernels.Output, s *kernels.Step, workers int) *C.layer_t {
	a := t.layer(call, s.Rows, op.Items, op.Workspace, workers)
	a.continues = flag(op.Continues)
	a.sources = C.int32_t(len(op.Sources))
	for i, source := range op.Sources {
		a.source[i] = C.source_t{
			h: buffer(source.H), dh: buffer(source.DH), accumulate: flag(source.Accumulate), weight: call.weights(source.Weight),
		}
	}
	target := s.Sparse[op.Target]
	a.bias, a.temperature = call.weights(op.Bias), C.float(op.Temperature)
	a.whole = C.int64_t(s.WholeRows())
	a.loss = C.loss_t{
		kind: number(call, op.Loss.Kind), normalize_rows: flag(op.Loss.NormalizeRows),
		weight:    C.float(s.TermWeight(op.Term, op.Loss)),
		one_scale: C.float(op.Loss.OneScale), zero_scale: C.float(op.Loss.ZeroScale),
		one_target: C.float(op.Loss.OneTarget), zero_target: C.float(op.Loss.ZeroTarget),
	}
	a.target, a.row_sum, a.stats = call.byItem(target), call.floats(target.RowSum), buffer(op.Stats)
	a.optimizer = call.optimizer(op.Optimizer, s)
	if op.TiedInput >= 0 {
		tied := s.Sparse[op.TiedInput]
		a.tied_items, a.tied_count, a.tied_gradient = call.ints(tied.Items), C.int64_t(len(tied.Items)), buffer(op.TiedGradient)
	}
	return a
}

// OutputStats translates the op.
func (t *Table) OutputStats(op *kernels.Output, s *kernels.Step, workers int) *Call {
	call := &Call{layer: op.Name}
	a := t.output(call, op, s, workers)
	call.pack(a)
	call.phase(C.phase_t(C.run_stats), unsafe.Pointer(a))
	return call
}

// OutputStep translates the op.
func (t *Table) OutputStep(op *kernels.Output, s *kernels.Step, workers int) *Call {
	call := &Call{layer: op.Name}
	a := t.output(call, op, s, workers)
	if !op.Continues {
		call.pack(a)
	}
	call.phase(C.phase_t(C.run_step), unsafe.Pointer(a))
	call.phase(C.phase_t(C.run_finish), unsafe.Pointer(a))
	call.end = func() {
		if a.failure.kind == C.FAIL_NONE {
			s.Loss[op.Term] += float64(a.loss_sum)
		}
	}
	return call
}

func (t *Table) rank(call *Call, op *kernels.Scorer, step *kernels.Step, workspace kernels.Buffer,
	workers int) *C.rank_t {
	a := &C.rank_t{
		rows: C.int64_t(step.Rows), items: C.int64_t(op.Items), sources: C.int32_t(len(op.Sources)),
		temperature: C.float(op.Temperature), workspace: buffer(workspace), workers: C.int32_t(workers),
	}
	for i, source := range op.Sources {
		a.source[i] = C.source_t{h: buffer(source.H), weight: call.weights(source.Weight)}
	}
	if op.Bias != nil {
		a.bias = buffer(op.Bias.Value)
	}
	if s := op.Sparse; s != nil {
		a.sparse = call.sparse(s, step.Sparse[s.Input])
	}
	return a
}

// sparse translates the source of a scorer, and the rows that it reads.
func (call *Call) sparse(s *kernels.SparseSource, rows *kernels.SparseBatch) C.sparse_source_t {
	a := C.sparse_source_t{
		row_offsets: call.ints(rows.Offsets), row_items: call.ints(rows.Indices), row_values: call.floats(rows.Values),
		columns: C.int64_t(s.Columns), first: C.int64_t(s.First), values: buffer(s.Values),
	}
	if s.Offsets != nil {
		a.offsets = (*C.int64_t)(unsafe.Pointer(buffer(s.Offsets)))
		a.indices = (*C.int32_t)(unsafe.Pointer(buffer(s.Indices)))
	}
	return a
}

// isShort reports whether a scorer's sparse source has little work for the rows of a batch.
func isShort(op *kernels.Scorer, rows *kernels.SparseBatch) bool {
	return (int64(len(rows.Indices))+int64(len(rows.Offsets)))*op.Items < short
}

// Scores translates the op.
func (t *Table) Scores(op *kernels.Scores, s *kernels.Step, workers int) *Call {
	call := &Call{}
	a := t.rank(call, &op.Scorer, s, op.Workspace, workers)
	a.out, a.stride = call.floats(op.Out), C.int64_t(op.Stride)
	if op.Sparse != nil {
		call.alone = isShort(&op.Scorer, s.Sparse[op.Sparse.Input])
		call.phase(C.phase_t(C.run_scores_sparse), unsafe.Pointer(a))
		return call
	}
	call.phase(C.phase_t(C.run_scores), unsafe.Pointer(a))
	return call
}

// TopK translates the op.
func (t *Table) TopK(op *kernels.TopK, s *kernels.Step, workers int) *Call {
	call := &Call{alone: s.Rows*op.Items*units(op.Sources) < short}
	if op.Sparse != nil {
		call.alone = isShort(&op.Scorer, s.Sparse[op.Sparse.Input])
	}
	if call.alone {
		workers = 1
	}
	a := t.rank(call, &op.Scorer, s, op.Workspace, workers)
	a.k, a.first_id, a.ids, a.scores = C.int64_t(op.K), C.int32_t(op.First), (*C.int32_t)(unsafe.Pointer(buffer(op.IDs))), buffer(op.Scores)
	if op.Exclude >= 0 {
		b := s.Sparse[op.Exclude]
		a.exclude_offsets, a.exclude_items = call.ints(b.Offsets), call.ints(b.Indices)
	}
	if op.Allowed != nil && op.Items > 0 {
		a.allowed = (*C.uint64_t)(unsafe.Pointer(buffer(op.Allowed)))
	}
	if op.Sparse != nil {
		call.phase(C.phase_t(C.run_top_k_sparse), unsafe.Pointer(a))
		return call
	}
	size := block(s.Rows)
	for first := int64(0); first < s.Rows; first += size {
		b := *a
		call.scored = append(call.scored, &b)
		b.block_first, b.block_rows = C.int64_t(first), C.int64_t(min(size, s.Rows-first))
		call.phase(C.phase_t(C.run_top_k_pack), unsafe.Pointer(&b))
		call.phase(C.phase_t(C.run_top_k_screen), unsafe.Pointer(&b))
		call.phase(C.phase_t(C.run_top_k_finish), unsafe.Pointer(&b))
	}
	return call
}

// block is how many rows TopK ranks at a time: about equal blocks of whole panels.
func block(rows int64) int64 {
	const panel = 32
	blocks := max(1, (rows+C.RANK_ROWS-1)/C.RANK_ROWS)
	return min(C.RANK_ROWS, ((rows+blocks-1)/blocks+panel-1)/panel*panel)
}

// WorkspaceSize tells the scratch memory of an op in elements of 4 bytes, see kernels.Device.
func (t *Table) WorkspaceSize(op any, rows int64, workers int) int64 {
	w := C.int32_t(workers)
	switch op := op.(type) {
	case *kernels.Dense:
		return t.layerSize(rows, op.Weight.Columns, op.Weight.Rows, workers, false)
	case *kernels.DenseBackward:
		return t.layerSize(rows, op.Weight.Columns, op.Weight.Rows, workers, false)
	case *kernels.Output:
		if op.Items == 0 {
			return 0
		}
		return t.layerSize(rows, units(op.Sources), op.Items, workers, op.Continues)
	case *kernels.Scores:
		return t.sparseSize(op.Sparse, w)
	case *kernels.TopK:
		if op.Sparse != nil {
			return t.sparseSize(op.Sparse, w)
		}
		return int64(C.rank_workspace(t.c, C.int64_t(rows), C.int64_t(units(op.Sources)), w))
	default:
		return 0
	}
}

func (t *Table) sparseSize(s *kernels.SparseSource, workers C.int32_t) int64 {
	if s == nil {
		return 0
	}
	return int64(C.sparse_workspace(t.c, workers))
}

func (t *Table) layerSize(rows, columns, items int64, workers int, continues bool) int64 {
	return int64(C.layer_workspace(t.c, C.int64_t(rows), C.int64_t(columns), C.int64_t(items), C.int32_t(workers), t.bfloat16,
		flag(continues)))
}

func units(sources []kernels.OutputSource) int64 {
	var n int64
	for _, s := range sources {
		n += s.Weight.Columns
	}
	return n
}
