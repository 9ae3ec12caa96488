//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// kernelNames are the kernels that are looked up when a device is opened.
var kernelNames = []string{
	"begin_step", "tell_well", "hear_well", "fill", "gather", "scatter", "replay", "dense", "dense_finish", "activate_sums", "backward",
	"dense_backward_input", "dense_backward_weight",
	"logits", "inverse_norms", "output_stats", "combine_stats", "output_loss", "output_sum", "output_hidden", "output_weight",
	"output_update", "output_bias", "pack_rows", "output_merge_hidden", "squares", "scores", "sparse_scores", "select_best",
	"ranked",
	"assemble_count", "assemble_scan", "assemble_fill", "sort_count", "sort_scan", "sort_place", "items_count", "items_scan",
	"items_write",
	"add_parts", "update_written",
	"begin_screen", "screen_32", "screen_128", "refine", "merge_top_k", "ranking_metrics",
}

// The structs that the arguments of several kernels have in common, laid out as in src/update.cuh and src/epilogue.cuh.
type (
	optimizerArgs struct {
		kind                                   int32
		momentum, beta1, beta2, epsilon, decay float32
	}
	weightsArgs struct {
		value, state0, state1, gradient, last driver.Address
		rows, columns                         int64
		optimizer                             optimizerArgs
	}
	epilogueArgs struct {
		bias                driver.Address
		present, activation int32
		dropout             float32
		stream              uint32
	}
)

// number is what a kernel is told of a kind. Of an unknown one the next launch returns the error.
func number[K kernels.Kind](d *device, kind K) int32 {
	if err := kernels.CheckKind(kind); err != nil {
		d.unknown = err
	}
	return int32(kind)
}

// weightsOf translates a weight with its optimizer; nil is none.
func (d *device) weightsOf(w *kernels.Weights, o kernels.Optimizer) weightsArgs {
	if w == nil {
		return weightsArgs{}
	}
	a := weightsArgs{
		value: addressOf(w.Value), state0: addressOf(w.State[0]), state1: addressOf(w.State[1]), gradient: addressOf(w.Gradient),
		last: addressOf(w.Last), rows: w.Rows, columns: w.Columns,
		optimizer: optimizerArgs{
			kind: number(d, o.Kind), momentum: o.Momentum, beta1: o.Beta1, beta2: o.Beta2, epsilon: o.Epsilon,
			decay: o.WeightDecay,
		},
	}
	if w.NoDecay {
		a.optimizer.decay = 0
	}
	return a
}

func (d *device) epilogueOf(e *kernels.Epilogue) epilogueArgs {
	if e == nil {
		return epilogueArgs{}
	}
	return epilogueArgs{
		bias: addressOf(e.Bias), present: 1, activation: number(d, e.Activation), dropout: e.Dropout, stream: e.Stream,
	}
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
