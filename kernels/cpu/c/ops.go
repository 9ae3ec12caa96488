package c

// #include "run.h"
import "C"

import (
	"math"
	"unsafe"

	"dsstne/kernels"
)

// Ops does operations with the kernels of a table, at a precision, by the workers of a pool. Its methods are those of
// kernels.Operations.
type Ops struct {
	*Table
	*Pool
	bfloat16 C.int32_t
}

// NewOps starts a pool of workers.
func NewOps(t *Table, p kernels.Precision, workers int) Ops {
	return Ops{t, newPool(workers), flag(p == kernels.BFloat16)}
}

// do runs phases with the same arguments. failure is where these note one, nil if nothing can fail.
func (o Ops) do(call *call, arguments unsafe.Pointer, failure *C.failure_t, phases ...unsafe.Pointer) error {
	call.failure = failure
	call.phases(arguments, phases...)
	return o.run(call)
}

func (o Ops) Fill(op *kernels.Fill) error {
	call := &call{}
	a := &C.fill_t{
		kind: number(call, op.Kind), scale: C.float(op.Scale), seed: C.uint64_t(op.Seed), stream: C.uint32_t(op.Stream),
		rows: C.int64_t(op.Rows), columns: C.int64_t(op.Columns), out: buffer(op.Out),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_fill)
}

func (o Ops) Gather(op *kernels.Gather, s *kernels.Step) error {
	b := s.Sparse[op.Input]
	call := &call{alone: (int64(len(b.Indices))+s.Rows)*op.Weight.Columns < short}
	a := &C.gather_t{
		rows: C.int64_t(s.Rows), offsets: call.ints(b.Offsets), indices: call.ints(b.Indices), values: call.floats(b.Values),
		weight: buffer(op.Weight.Value), items: C.int64_t(op.Weight.Rows), columns: C.int64_t(op.Weight.Columns),
		out: buffer(op.Out), accumulate: flag(op.Accumulate), workspace: buffer(op.Workspace), workers: C.int32_t(o.Workers),
	}
	if op.Epilogue != nil {
		a.has_epilogue, a.epilogue = 1, call.epilogue(op.Epilogue, s)
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_gather)
}

// Scatter updates rows of a weight. A written gradient is cleared first unless the output layer has filled the other
// rows.
func (o Ops) Scatter(op *kernels.Scatter, s *kernels.Step) error {
	call := &call{}
	if op.Weight.Gradient != nil && op.TiedGradient == nil {
		clear(op.Weight.Gradient.Float32())
	}
	a := &C.scatter_t{
		batch: call.byItem(s.Sparse[op.Input]), rows: C.int64_t(s.Rows), dz: buffer(op.DZ),
		tied: buffer(op.TiedGradient), own: buffer(op.Own), workspace: buffer(op.Workspace), workers: C.int32_t(o.Workers),
		weight: call.weights(op.Weight), optimizer: call.optimizer(op.Optimizer, s),
	}
	if op.Values != nil {
		a.batch.values = buffer(op.Values)
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_scatter)
}

func (o Ops) Replay(op *kernels.Replay, s *kernels.Step) error {
	call := &call{}
	a := &C.replay_t{
		count: C.int64_t(op.Weight.Rows), upto: C.int64_t(s.Number), weight: call.weights(op.Weight),
		optimizer: call.optimizer(op.Optimizer, s),
	}
	if op.Input >= 0 {
		items := s.Sparse[op.Input].Items
		a.items, a.count, a.upto = call.ints(items), C.int64_t(len(items)), C.int64_t(s.Number-1)
	}
	if a.count == 0 {
		return call.finish()
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_replay)
}

func (o Ops) Update(op *kernels.Update, s *kernels.Step) error {
	call := &call{alone: op.Weight.Rows*op.Weight.Columns < short/8}
	w := *op.Weight
	w.Gradient = nil
	a := &C.update_t{
		gradient: buffer(op.Weight.Gradient), weight: call.weights(&w), optimizer: call.optimizer(op.Optimizer, s),
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_update_written)
}

func (o Ops) UnitSums(op *kernels.UnitSums, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short}
	a := &C.unit_sums_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), x: buffer(op.X), sums: buffer(op.Sums),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_unit_sums)
}

// sampler makes the arguments of a call on the heads of a variational layer.
func sampler(s *kernels.Step, heads kernels.Buffer, units int64, stream uint32) *C.sample_t {
	return &C.sample_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(units), heads: buffer(heads), training: flag(s.Training),
		seed: C.uint64_t(s.Seed), stream: C.uint32_t(stream), step: C.uint32_t(s.Number), first: C.int64_t(s.First),
	}
}

func (o Ops) Sample(op *kernels.Sample, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short/8}
	a := sampler(s, op.Heads, op.Units, op.Stream)
	a.out = buffer(op.Out)
	return o.do(call, unsafe.Pointer(a), nil, C.run_sample)
}

func (o Ops) SampleBackward(op *kernels.SampleBackward, s *kernels.Step) error {
	call := &call{layer: op.Name, alone: s.Rows*op.Units < short/8}
	losses, weight := make([]float64, s.Rows), s.TermWeight(op.Term, kernels.Loss{Weight: op.Weight})
	a := sampler(s, op.Heads, op.Units, op.Stream)
	a.dh, a.weight, a.most = buffer(op.DH), C.float(weight/float32(s.WholeRows())), kernels.MaxLogVariance
	a.losses = pinned[C.double](call, losses)
	call.end = func() {
		if a.failure.kind == C.FAIL_NONE && !op.Silent {
			for _, loss := range losses {
				s.Loss[op.Term] += float64(a.weight) * loss
			}
		}
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_sample_backward)
}

func (o Ops) Backward(op *kernels.Backward, s *kernels.Step) error {
	call := &call{layer: op.Name}
	a := &C.backward_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), h: buffer(op.H), dh: buffer(op.DH), shift: buffer(op.Shift),
		epilogue: call.epilogue(&op.Epilogue, s), bias: call.weights(op.Bias), optimizer: call.optimizer(op.Optimizer, s),
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_backward)
}

func (o Ops) Activate(op *kernels.Activate, s *kernels.Step) error {
	call := &call{alone: s.Rows*op.Units < short}
	a := &C.activate_t{
		rows: C.int64_t(s.Rows), units: C.int64_t(op.Units), in: buffer(op.In), out: buffer(op.Out), norm: norm(op.Norm),
		epilogue: call.epilogue(&op.Epilogue, s),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_activate_rows)
}

// layer makes the arguments of a call on a layer whose sources are given.
func (o Ops) layer(
	call *call, rows, items int64, workspace kernels.Buffer, sources ...kernels.OutputSource,
) *C.layer_t {
	a := &C.layer_t{
		rows: C.int64_t(rows), whole: C.int64_t(max(1, rows)), items: C.int64_t(items), workspace: buffer(workspace),
		workers: C.int32_t(o.Workers), tied_count: -1, bias: C.weights_t{id: -1}, bfloat16: o.bfloat16,
		sources: C.int32_t(len(sources)), source: call.sources(sources),
	}
	return a
}

func (o Ops) Dense(op *kernels.Dense, s *kernels.Step) error {
	call := &call{}
	a := o.layer(call, s.Rows, op.Weight.Rows, op.Workspace, kernels.OutputSource{H: op.In, Weight: op.Weight})
	a.out, a.accumulate = buffer(op.Out), flag(op.Accumulate)
	if op.Epilogue != nil {
		a.has_epilogue, a.epilogue = 1, call.epilogue(op.Epilogue, s)
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_layer_pack, C.run_dense_forward)
}

func (o Ops) DenseBackward(op *kernels.DenseBackward, s *kernels.Step) error {
	call := &call{}
	a := o.layer(call, s.Rows, op.Weight.Rows, op.Workspace,
		kernels.OutputSource{H: op.In, DH: op.DIn, Accumulate: op.Accumulate, Weight: op.Weight})
	a.dz, a.optimizer = buffer(op.DZ), call.optimizer(op.Optimizer, s)
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_layer_pack, C.run_output_step, C.run_output_finish)
}

func (o Ops) output(call *call, op *kernels.Output, s *kernels.Step) *C.layer_t {
	a := o.layer(call, s.Rows, op.Items, op.Workspace, op.Sources...)
	target := s.Sparse[op.Target]
	a.continues = flag(op.Continues)
	a.bias, a.temperature = call.weights(op.Bias), C.float(op.Temperature)
	a.whole = C.int64_t(s.WholeRows())
	a.loss = call.loss(op.Loss, s.TermWeight(op.Term, op.Loss))
	a.target, a.row_sum, a.stats = call.byItem(target), call.floats(target.RowSum), buffer(op.Stats)
	if given := op.Targets; given.Sums != nil {
		a.target.values, a.row_sum = buffer(given.ByItem), buffer(given.Sums)
	}
	a.row_weights = call.floats(s.WeightsOfRows(op.Term))
	a.addend = buffer(op.Addend.Sum)
	a.addend_stride, a.addend_first = C.int64_t(op.Addend.Stride), C.int64_t(op.Addend.First)
	a.addend_empty = flag(op.Addend.Empty)
	a.optimizer = call.optimizer(op.Optimizer, s)
	if op.TiedInput >= 0 {
		tied := s.Sparse[op.TiedInput].Items
		a.tied_items, a.tied_count, a.tied_gradient = call.ints(tied), C.int64_t(len(tied)), buffer(op.TiedGradient)
	}
	return a
}

// OutputStats computes the statistics of an output; without items they are -Inf.
func (o Ops) OutputStats(op *kernels.Output, s *kernels.Step) error {
	if op.Items == 0 {
		stats := op.Stats.Float32()[:2*s.Rows]
		for i := range stats {
			stats[i] = float32(math.Inf(-1))
		}
		return nil
	}
	call := &call{layer: op.Name}
	a := o.output(call, op, s)
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_layer_pack, C.run_output_stats)
}

// OutputStep trains an output; without items it adds nothing.
func (o Ops) OutputStep(op *kernels.Output, s *kernels.Step) error {
	if op.Addend.Stride > 0 {
		clearOthers(&op.Addend, s.Rows, op.Items)
	}
	if op.Items == 0 {
		for _, source := range op.Sources {
			if source.DH != nil && !source.Accumulate {
				clear(source.DH.Float32()[:s.Rows*source.Weight.Columns])
			}
		}
		return nil
	}
	call := &call{layer: op.Name}
	a := o.output(call, op, s)
	if !op.Continues {
		call.phases(unsafe.Pointer(a), C.run_layer_pack)
	}
	call.end = func() {
		if a.failure.kind == C.FAIL_NONE {
			s.Loss[op.Term] += float64(a.loss_sum)
		}
	}
	return o.do(call, unsafe.Pointer(a), &a.failure, C.run_output_step, C.run_output_finish)
}

// clearOthers makes an addend 0 at the columns of other devices' items.
func clearOthers(a *kernels.Addend, rows, items int64) {
	sum := a.Sum.Float32()
	for u := range rows {
		row := sum[u*a.Stride : (u+1)*a.Stride]
		clear(row[:a.First])
		clear(row[a.First+items:])
	}
}

// scorer makes the arguments of a call that scores items. The caller does it alone if it has little work: alone for
// dense sources, or what the rows of a sparse source say.
func (o Ops) scorer(op *kernels.Scorer, step *kernels.Step, workspace kernels.Buffer, alone bool) (*call, *C.rank_t) {
	call := &call{alone: alone}
	a := &C.rank_t{
		rows: C.int64_t(step.Rows), items: C.int64_t(op.Items), sources: C.int32_t(len(op.Sources)),
		temperature: C.float(op.Temperature), workspace: buffer(workspace), workers: C.int32_t(o.Workers),
		source: call.sources(op.Sources),
	}
	if op.Bias != nil {
		a.bias = buffer(op.Bias.Value)
	}
	if s := op.Sparse; s != nil {
		rows := step.Sparse[s.Input]
		call.alone = (int64(len(rows.Indices))+int64(len(rows.Offsets)))*op.Items < short
		a.sparse = C.sparse_source_t{
			row_offsets: call.ints(rows.Offsets), row_items: call.ints(rows.Indices), row_values: call.floats(rows.Values),
			columns: C.int64_t(s.Columns), first: C.int64_t(s.First), values: buffer(s.Values),
			offsets: of[C.int64_t](s.Offsets), indices: of[C.int32_t](s.Indices), bias_if_empty: flag(s.BiasIfEmpty),
		}
	}
	a.given = buffer(op.Given)
	if call.alone {
		a.workers = 1
	}
	return call, a
}

func (o Ops) Scores(op *kernels.Scores, s *kernels.Step) error {
	call, a := o.scorer(&op.Scorer, s, op.Workspace, false)
	out, stride := op.Matrix()
	a.out, a.stride = call.floats(out), C.int64_t(stride)
	if byRow(&op.Scorer) {
		return o.do(call, unsafe.Pointer(a), nil, C.run_scores_sparse)
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_scores)
}

func (o Ops) TopK(op *kernels.TopK, s *kernels.Step) error {
	_, err := o.CountedTopK(op, s)
	return err
}

// CountedTopK does a TopK and returns how many exact scores it computed after screening.
func (o Ops) CountedTopK(op *kernels.TopK, s *kernels.Step) (scored int64, err error) {
	call, a := o.scorer(&op.Scorer, s, op.Workspace, s.Rows*op.Items*units(op.Sources) < short)
	a.k, a.first_id, a.ids, a.scores = C.int64_t(op.K), C.int32_t(op.First), of[C.int32_t](op.IDs), buffer(op.Scores)
	if op.Exclude >= 0 {
		b := s.Sparse[op.Exclude]
		a.exclude_offsets, a.exclude_items = call.ints(b.Offsets), call.ints(b.Indices)
	}
	if op.Items > 0 {
		a.allowed = of[C.uint64_t](op.Allowed)
	}
	if byRow(&op.Scorer) {
		return 0, o.do(call, unsafe.Pointer(a), nil, C.run_top_k_sparse)
	}
	size := rankedRows(s.Rows)
	if op.Screening != nil {
		a.kept = of[C.int8_t](op.Screening)
		size = min(size, C.KEPT_ROWS)
	}
	blocks := make([]*C.rank_t, 0, (s.Rows+size-1)/size)
	for first := int64(0); first < s.Rows; first += size {
		b := *a
		blocks = append(blocks, &b)
		b.block_first, b.block_rows = C.int64_t(first), C.int64_t(min(size, s.Rows-first))
		call.phases(unsafe.Pointer(&b), C.run_top_k_pack, C.run_top_k_screen, C.run_top_k_finish)
	}
	err = o.run(call)
	for _, b := range blocks {
		scored += int64(b.scored)
	}
	return scored, err
}

// rankedRows is how many rows TopK ranks at a time: about equal blocks of whole panels.
func rankedRows(rows int64) int64 {
	const panel = 32
	blocks := max(1, (rows+C.RANK_ROWS-1)/C.RANK_ROWS)
	return min(C.RANK_ROWS, ((rows+blocks-1)/blocks+panel-1)/panel*panel)
}

func sparseMatrix(m *kernels.SparseMatrix) C.sparse_matrix_t {
	return C.sparse_matrix_t{
		rows: C.int64_t(m.Rows), columns: C.int64_t(m.Columns), offsets: of[C.int64_t](m.Offsets),
		indices: of[C.int32_t](m.Indices), values: buffer(m.Values),
	}
}

func (o Ops) Neighborhood(op *kernels.Neighborhood, s *kernels.Step) error {
	call, similarity := &call{}, &op.Similarity
	first, end := op.Items(s)
	a := &C.neighborhood_t{
		by_item: sparseMatrix(&op.ByItem), by_row: sparseMatrix(&op.ByRow),
		row_weights: of[C.double](similarity.RowWeights), left: of[C.double](similarity.Left),
		right: of[C.double](similarity.Right), norms: of[C.double](similarity.Norms),
		product: C.double(similarity.Product), sum: C.double(similarity.Sum), shared: C.double(similarity.Shared),
		constant: C.double(similarity.Constant), first: C.int64_t(first), end: C.int64_t(end), k: C.int64_t(op.K),
		ids: of[C.int32_t](op.IDs), similarities: buffer(op.Similarities), workspace: buffer(op.Workspace),
	}
	return o.do(call, unsafe.Pointer(a), nil, C.run_neighborhood)
}

// WorkspaceSize is the scratch memory of an operation in elements of 4 bytes, see kernels.Stepper.
func (o Ops) WorkspaceSize(op any, rows int64) int64 {
	switch op := op.(type) {
	case *kernels.Gather:
		return o.spreadSize(op.Weight)
	case *kernels.Scatter:
		return o.spreadSize(op.Weight)
	case *kernels.Dense:
		return o.layerSize(rows, op.Weight.Columns, op.Weight.Rows, false, false)
	case *kernels.DenseBackward:
		return o.layerSize(rows, op.Weight.Columns, op.Weight.Rows, false, false)
	case *kernels.ColumnNorms:
		return 2 * squaresOf(op.Weight) * op.Weight.Columns
	case *kernels.Output:
		if op.Items > 0 {
			return o.layerSize(rows, units(op.Sources), op.Items, op.Continues, op.Loss.Activation.Kind != kernels.Linear)
		}
	case *kernels.OutputEntries:
		if op.Temperature != 0 {
			return rows + 3*op.Entries
		}
		return rows + op.Entries
	case *kernels.MarginalTargets:
		if op.Output.Temperature != 0 {
			return rows + 2*op.Entries + rows*units(op.Output.Sources)
		}
		return rows
	case *kernels.Scores:
		if byRow(&op.Scorer) {
			return C.SUM_WORKSPACE * int64(o.Workers)
		}
		var padded int64
		for _, source := range op.Sources {
			padded += (source.Weight.Columns + 7) / 8 * 8
		}
		return int64(C.score_workspace(C.int64_t(rows), C.int64_t(padded), C.int64_t(op.Items), C.int32_t(o.Workers)))
	case *kernels.Neighborhood:
		return int64(C.neighborhood_workspace(C.int64_t(op.ByItem.Rows))) * int64(o.Workers)
	case *kernels.RestrictedInverse:
		return int64(C.restricted_workspace(C.int64_t(op.Items), C.int64_t(op.Neighbors))) * int64(o.Workers)
	case *kernels.Solve:
		return int64(C.solve_workspace(C.int64_t(op.ByRow.Rows), C.int64_t(op.ByItem.Rows), C.int64_t(op.Width)))
	case *kernels.PanelGram, *kernels.PanelProduct:
		return o.panelWorkspace(op)
	case *kernels.LeastSquares:
		return int64(C.least_squares_workspace(C.int64_t(op.Unknowns()))) * int64(o.Workers)
	case *kernels.PrincipalAxes:
		return int64(C.axes_workspace(C.int64_t(op.Rows), C.int64_t(op.Width), C.int32_t(o.Workers)))
	case *kernels.TopK:
		if byRow(&op.Scorer) {
			return C.SUM_WORKSPACE * int64(o.Workers)
		}
		return int64(C.rank_workspace(o.functions, C.int64_t(rows), C.int64_t(units(op.Sources)), C.int64_t(op.Items),
			C.int32_t(o.Workers)))
	}
	return 0
}

// screenedRows is the most rows of a batch that kept 8-bit weights pay for. With more, those that a TopK makes for
// itself cost little beside the ranking.
const screenedRows = 64

// ScreeningSize is the size of the 8-bit weights (rank_kept.h).
func (o Ops) ScreeningSize(s *kernels.Scorer, rows int64) int64 {
	if byRow(s) || rows > screenedRows {
		return 0
	}
	return int64(C.kept_size(o.functions, C.int64_t(s.Items), C.int64_t(units(s.Sources))))
}

// Screen makes the 8-bit weights.
func (o Ops) Screen(s *kernels.Scorer, to kernels.Buffer) error {
	call, a := o.scorer(s, &kernels.Step{Rows: 1}, nil, false)
	a.kept, a.block_rows = of[C.int8_t](to), 1
	a.workspace = call.floats(make([]float32, o.WorkspaceSize(&kernels.TopK{Scorer: *s}, 1)))
	return o.do(call, unsafe.Pointer(a), nil, C.run_top_k_keep)
}

// spreadSize is the memory of workers for rows that are spread (spread.h). For few units that would not pay.
func (o Ops) spreadSize(w *kernels.Weights) int64 {
	if w.Columns < 32 || w.Columns%C.LEAST_LANES != 0 {
		return 0
	}
	return C.SPREAD_WORKSPACE * int64(o.Workers)
}

func (o Ops) layerSize(rows, columns, items int64, continues, activated bool) int64 {
	return int64(C.layer_workspace(o.functions, C.int64_t(rows), C.int64_t(columns), C.int64_t(items),
		C.int32_t(o.Workers), o.bfloat16, flag(continues), flag(activated)))
}

func units(sources []kernels.OutputSource) int64 {
	var n int64
	for _, s := range sources {
		n += s.Weight.Columns
	}
	return n
}

// byRow reports whether a scorer has one row at a time (rank_sparse.h).
func byRow(s *kernels.Scorer) bool { return s.Sparse != nil || s.IsGiven }
