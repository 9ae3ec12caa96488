//go:build !nocuda && linux && amd64

package cuda

import (
	"runtime"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// An operation puts launches into the stream one after the other, without looking at errors: the device notes the first
// error, ignores what follows it, and enqueue returns it.

// enqueue calls a function that puts work into the stream, and returns the first error.
func (d *device) enqueue(work func()) error {
	outer := d.failed
	d.failed = nil
	work()
	err := d.failed
	d.failed = outer
	return err
}

// note keeps an error if it is the first.
func (d *device) note(err error) {
	if d.failed == nil {
		d.failed = err
	}
}

// side is a second stream, for work of an op that may be done beside what follows it in the device's stream: updates,
// which memory bounds, beside products. In a graph it is a branch. Ops join it before they begin, but for those that
// runBeside; so do exchanges of gradients, and the end of a step.
type side struct {
	stream     driver.Stream
	begin, end driver.Event // of the last work
	open       bool         // the device's stream has not waited for the end
	first      int          // number of the first launch since it was joined
	inside     bool         // what is launched goes there
	gradients  bool         // it leaves gradients of weights, which devices exchange
}

func (s *side) events() []*driver.Event { return []*driver.Event{&s.begin, &s.end} }

// beside puts work into the side stream, behind all that has been put into the device's stream and into the side
// stream.
func (d *device) beside(work func()) {
	d.attempt(func() error { return d.stream.Record(d.side.begin) })
	d.attempt(func() error { return d.side.stream.Wait(d.side.begin) })
	if !d.side.open {
		d.side.open, d.side.first = true, len(d.launches)
	}
	d.stream, d.side.stream, d.side.inside = d.side.stream, d.stream, true
	work()
	d.stream, d.side.stream, d.side.inside = d.side.stream, d.stream, false
	d.attempt(func() error { return d.side.stream.Record(d.side.end) })
}

// join makes the device's stream wait for the side stream.
func (d *device) join() {
	if d.side.open {
		d.attempt(func() error { return d.stream.Wait(d.side.end) })
		d.side.open, d.side.gradients = false, false
	}
}

// joinGradients makes the device's stream wait for gradients of weights that are made in the side stream.
func (d *device) joinGradients() {
	if d.side.gradients {
		d.join()
	}
}

// attempt makes a call of the driver, unless one has failed.
func (d *device) attempt(call func() error) {
	if d.failed == nil {
		d.failed = call()
	}
}

// fill sets words of four bytes.
func (d *device) fill(at driver.Address, value uint32, words int64) {
	if words > 0 {
		d.attempt(func() error { return d.stream.Fill32(at, value, words) })
	}
}

// launch puts a kernel into the stream. The arguments are laid out as the kernel's struct.
func launch[T any](d *device, name string, grid driver.Dim, threads uint32, args *T) {
	launchShared(d, name, grid, threads, 0, args)
}

// mostY is how many blocks a grid has in y at most.
const mostY = 65535

// launchShared gives the blocks dynamic shared memory as well.
func launchShared[T any](d *device, name string, grid driver.Dim, threads uint32, shared int, args *T) {
	if d.failed != nil {
		return
	}
	if grid.Y > mostY {
		d.failed = fault.New(fault.Unsupported, "kernel %s would need %d blocks of rows or units, and %d is the most: "+
			"take a smaller batch, or fewer units in a layer", name, grid.Y, mostY)
		return
	}
	err := driver.Launch(d.stream, d.kernel[name], grid, driver.Dim{X: threads}, shared, args)
	runtime.KeepAlive(args)
	if err != nil {
		d.failed = fault.Wrap(err, "kernel %s", name)
	}
}

// blocks is how many blocks of a size cover n things.
func blocks(n, size int64) uint32 { return uint32((n + size - 1) / size) }

// line is a grid of blocks of a size that cover n things.
func line(n, size int64) driver.Dim { return driver.Dim{X: blocks(n, size)} }

// grid2 covers columns, of which a block has some, in x and spreads rows over y and, where they are more than y can
// count, z.
func grid2(columns, each, rows int64) driver.Dim {
	const most = 32768
	if rows <= most {
		return driver.Dim{X: blocks(columns, each), Y: uint32(rows)}
	}
	return driver.Dim{X: blocks(columns, each), Y: most, Z: blocks(rows, most)}
}

// rowThreads are the threads of kernels that give each thread a column.
const rowThreads = 128

// The constants kTile and kProductThreads of src/product.cuh.
const (
	productTile    = 64
	productThreads = 256
)

// tiles is the grid of a product with this many results.
func tiles(columns, rows int64) driver.Dim {
	return driver.Dim{X: blocks(columns, productTile), Y: blocks(rows, productTile)}
}

// space hands out places in a workspace, in elements of 4 bytes, aligned for what a product reads at once.
type space struct{ total int64 }

func (s *space) take(n int64) int64 {
	const aligned = 64
	at := s.total
	s.total += (n + aligned - 1) / aligned * aligned
	return at
}

// element is the address of an element of a buffer, counted in 4 bytes.
func element(b kernels.Buffer, n int64) driver.Address { return addressOf(b) + driver.Address(4*n) }

// kernelNames are the kernels that are looked up when a device is opened.
var kernelNames = []string{
	"begin_step", "tell_well", "hear_well", "fill", "gather", "scatter", "replay", "multiply", "input_gradient",
	"weight_gradient", "finish", "backward", "inverse_norms", "output_stats", "combine_stats", "output_loss",
	"output_loss_of_values", "output_sum", "output_update", "directions", "output_entries", "compare_entries",
	"marginal_targets", "turn_entries", "entries_by_item", "unit_sums", "sparsity", "sample", "sample_backward",
	"clip_sum", "clip_scale", "pack_rows", "output_merge_hidden", "squares", "scatter_ones", "scores",
	"sparse_scores", "select_best", "ranked", "assemble_count", "assemble_fill", "sort_scan", "sort_place",
	"items_count", "items_write", "add_parts", "update_written", "begin_screen", "round_tiles", "screen_32",
	"screen_256", "raise_limit", "refine", "moments", "blend", "sparse_product", "solve_block", "solve_sums",
	"rows_to_panel", "panel_to_rows", "add_own", "rows_to_blocks", "panel_product", "panel_scale", "merge_top_k",
	"ranking_metrics", "unit_moments", "combine_moments", "move_moments", "normalise", "norm_sums", "norm_backward",
	"row_moments", "norm_backward_rows", "add_to_logits", "leave_gradient", "clear_others",
	"merge", "merge_backward", "skip", "softmax_rows", "softmax_rows_backward", "cap_rows", "column_squares",
	"column_norms", "cap_weight_rows", "cap_weight_columns", "copy_matrix",
}

// The structs that the arguments of several kernels have in common, laid out as in src/update.cuh and src/epilogue.cuh.
type (
	optimizerArgs struct {
		kind                                       int32
		momentum, beta1, beta2, epsilon, decay, l1 float32
	}
	weightsArgs struct {
		value, state0, state1, gradient, last driver.Address
		rows, columns                         int64
		optimizer                             optimizerArgs
	}
	epilogueArgs struct {
		bias                driver.Address
		present, activation int32
		alpha, dropout      float32
		scale, shift        float32
		dropped             float32
		stream              uint32
	}
)

// number is a kind as kernels know it; a kind that they do not know is an error.
func number[K kernels.Kind](d *device, kind K) int32 {
	if err := kernels.CheckKind(kind); err != nil {
		d.note(err)
	}
	return int32(kind)
}

// weightsOf translates a weight, nil if there is none, with its optimizer.
func (d *device) weightsOf(w *kernels.Weights, o kernels.Optimizer) weightsArgs {
	if w == nil {
		return weightsArgs{}
	}
	d.side.gradients = d.side.gradients || d.side.inside && w.Gradient != nil
	a := weightsArgs{
		value: addressOf(w.Value), state0: addressOf(w.State[0]), state1: addressOf(w.State[1]),
		gradient: addressOf(w.Gradient), last: addressOf(w.Last), rows: w.Rows, columns: w.Columns,
		optimizer: optimizerArgs{number(d, o.Kind), o.Momentum, o.Beta1, o.Beta2, o.Epsilon, o.WeightDecay, o.L1},
	}
	if w.NoDecay {
		a.optimizer.decay, a.optimizer.l1 = 0, 0
	}
	return a
}

func (d *device) epilogueOf(e *kernels.Epilogue) epilogueArgs {
	if e == nil {
		return epilogueArgs{}
	}
	drop := e.Drop()
	return epilogueArgs{
		addressOf(e.Bias), 1, number(d, e.Activation.Kind), e.Activation.Alpha, e.Dropout, drop.Scale, drop.Shift,
		drop.Dropped, e.Stream,
	}
}

// biasOf is the address of a bias, 0 if there is none.
func biasOf(w *kernels.Weights) driver.Address {
	if w == nil {
		return 0
	}
	return addressOf(w.Value)
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// site is what a launch works on, for messages about numbers that are not finite: a word for each kind of failure.
type site struct {
	tensor string
	what   [2]string
	err    [2]error // returned instead, for failures of another nature
	noRow  bool
}

// numberBits is kNumberBits of src/step.cuh.
const numberBits = 20

// next numbers a launch. Behind the number stands how many launches before it may be under way beside it.
func (d *device) next(s site) int32 {
	number, beside := len(d.launches), 0
	if d.side.open && !d.side.inside {
		beside = number - d.side.first
	}
	if number >= 1<<numberBits || beside >= 1<<(31-numberBits) {
		d.note(fault.New(fault.Unsupported, "a step would take more than %d launches: take a smaller batch", number))
	}
	d.launches = append(d.launches, s)
	return int32(beside<<numberBits | number&(1<<numberBits-1))
}

// updates numbers a launch that computes the gradient with respect to a tensor.
func (d *device) updates(tensor string) int32 {
	return d.next(site{tensor: tensor, what: [2]string{"the gradient", "the updated weight"}})
}

// loses numbers a launch that computes the logits of a layer, or its loss.
func (d *device) loses(layer string) int32 {
	return d.next(site{tensor: layer, what: [2]string{"a logit", "the loss"}, noRow: true})
}

// notFinite turns the word that kernels leave (step.cuh, fail) into an error.
func (d *device) notFinite(failure uint64, sites []site) error {
	const noRow = 1<<40 - 1
	word := ^failure
	number, kind, row := int(word>>42), word>>40&3, int64(word&noRow)
	if number >= len(sites) || kind > 1 {
		return fault.New(fault.Internal, "%s: the failure record holds %#x", d.info.Name, failure)
	}
	s := sites[number]
	if err := s.err[kind]; err != nil {
		return err
	}
	if row == noRow || s.noRow {
		row = -1
	}
	return &kernels.NotFiniteError{Tensor: s.tensor, What: s.what[kind], Row: row}
}
