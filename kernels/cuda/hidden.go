//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// A grid covers the largest batch, since a captured step is launched for every batch; blocks beyond the batch end
// early. Only the device knows how many items a batch touches: blocks go on to further items until there are none, and
// there are as many as keep every multiprocessor busy, which is far fewer than some weights have rows.
const (
	scatterBlocks = 5 // of a multiprocessor: KERNEL_BOUNDS of src/sparse.cu
	replayThreads = 1024
)

// kGatherWarps, kGatherRows, kGatherPieces and kScatterWarps of src/sparse.cu.
const (
	gatherWarps  = 16
	gatherRows   = 4
	gatherPieces = 16
	scatterWarps = 4
)

// Fill writes initial numbers.
func (d *device) Fill(op *kernels.Fill) error {
	type args struct {
		out           driver.Address
		rows, columns int64
		seed          uint64
		stream        uint32
		kind          int32
		scale         float32
	}
	if op.Rows*op.Columns == 0 {
		return nil
	}
	return d.do("filling a weight", func() error {
		err := d.enqueue(func() {
			fours := op.Rows * ((op.Columns + 3) / 4)
			launch(d, "fill", driver.Dim{X: min(blocks(fours, 256), 4096)}, 256, &args{
				addressOf(op.Out), op.Rows, op.Columns, op.Seed, op.Stream, number(d, op.Kind), op.Scale,
			})
		})
		if err != nil {
			return err
		}
		return d.stream.Synchronize()
	})
}

// Gather sums weight rows.
func (d *device) Gather(op *kernels.Gather, s *kernels.Step) error {
	return d.run("Gather", s, []int{op.Input}, func() { d.gather(op, 0, s) })
}

// gather is a Gather with the batch's values or, if there are some, with others.
func (d *device) gather(op *kernels.Gather, values driver.Address, s *kernels.Step) {
	type args struct {
		step, weight, values, out driver.Address
		columns                   int64
		epilogue                  epilogueArgs
		slot, accumulate          int32
		fours, launch             int32
	}
	w := op.Weight
	fours, each := flag(w.Columns%4 == 0 && addressOf(w.Value)%16 == 0), int64(32) // columns of a block
	if fours == 1 {
		each *= 4
	}
	warps, pieces := uint32(gatherWarps), gatherRows*gatherPieces
	if !s.Training { // a warp has a row
		warps, pieces = gatherRows, gatherRows
	}
	grid := grid2(w.Columns, each, int64(blocks(s.Most(), gatherRows)))
	launchShared(d, "gather", grid, 32*warps, 4*int(each)*pieces, &args{
		d.step.at, addressOf(w.Value), values, addressOf(op.Out), w.Columns, d.epilogueOf(op.Epilogue), int32(op.Input),
		flag(op.Accumulate), fours, d.next(site{tensor: w.Name}),
	})
}

// Scatter updates the rows that a batch touches.
func (d *device) Scatter(op *kernels.Scatter, s *kernels.Step) error {
	type args struct {
		step, values, dz, tied, own driver.Address
		weight                      weightsArgs
		slot, launch                int32
	}
	run := d.runBeside
	if op.TiedGradient != nil {
		run = d.run
	}
	return run("Scatter", s, []int{op.Input}, func() {
		w := op.Weight
		if w.Gradient != nil && op.TiedGradient == nil {
			d.fill(addressOf(w.Gradient), 0, w.Rows*w.Columns)
		}
		kernel, groups := "scatter", (w.Columns+255)/256
		if op.DZ == nil {
			kernel = "scatter_ones"
		}
		resident := scatterBlocks * uint32(d.hardware.Multiprocessors)
		grid := driver.Dim{X: min(blocks(max(1, w.Rows)*groups, scatterWarps), resident)}
		launch(d, kernel, grid, 32*scatterWarps, &args{
			d.step.at, addressOf(op.Values), addressOf(op.DZ), addressOf(op.TiedGradient), addressOf(op.Own),
			d.weightsOf(w, op.Optimizer), int32(op.Input), d.updates(w.Name),
		})
	})
}

// Replay makes the steps that rows have missed.
func (d *device) Replay(op *kernels.Replay, s *kernels.Step) error {
	type args struct {
		step         driver.Address
		weight       weightsArgs
		slot, launch int32
	}
	w := op.Weight
	if w.Last == nil {
		return nil
	}
	return d.run("Replay", s, slotsOf(op.Input), func() {
		threads := uint32(min(256, (w.Columns+127)/128*32))
		resident := int64(replayThreads/threads) * int64(d.hardware.Multiprocessors)
		launch(d, "replay", driver.Dim{X: uint32(min(max(1, w.Rows), resident))}, threads, &args{
			d.step.at, d.weightsOf(w, op.Optimizer), int32(op.Input), d.updates(w.Name),
		})
	})
}

// Update runs the optimizer with written gradients.
func (d *device) Update(op *kernels.Update, s *kernels.Step) error {
	return d.run("Update", s, nil, func() {
		w := *op.Weight
		w.Gradient = nil
		d.updateWritten(&w, op.Optimizer, addressOf(op.Weight.Gradient), 0, w.Rows*w.Columns, 1, 0)
	})
}

// clipBlocks are the most blocks of clip_sum and clip_scale.
const clipBlocks = 1024

// ClipNorm shortens the gradients of all weights.
func (d *device) ClipNorm(op *kernels.ClipNorm, s *kernels.Step) error {
	type args struct {
		step, gradients, squares driver.Address
		count                    int64
		limit                    float32
		launch                   int32
	}
	return d.run("ClipNorm", s, nil, func() {
		a := args{
			d.step.at, addressOf(op.Gradients), addressOf(op.Workspace), op.Count, op.Limit, d.next(site{}),
		}
		grid := driver.Dim{X: max(1, min(blocks(a.count, 1024), clipBlocks))}
		launch(d, "clip_sum", grid, 256, &a)
		launch(d, "clip_scale", grid, 256, &a)
	})
}

const (
	capColumns = 32   // kCapColumns of src/update.cu
	capRows    = 64   // the fewest rows that pay for a block
	capBlocks  = 1024 // the most blocks, unless there are more columns
)

// capParts is in how many parts of rows kernels work on the columns of a weight.
func capParts(w *kernels.Weights) int64 {
	groups := (w.Columns + capColumns - 1) / capColumns
	return max(1, min(capBlocks/max(1, groups), (w.Rows+capRows-1)/capRows))
}

type capArgs struct {
	step, value, norms, squares driver.Address
	rows, columns, ranks, parts int64
	most                        float32
	launch                      int32
}

// ofColumns is the grid of a kernel on the columns of a weight.
func (a *capArgs) ofColumns() driver.Dim {
	return line((a.columns+capColumns-1)/capColumns*a.parts, 1)
}

func (d *device) capArgs(w *kernels.Weights, norms kernels.Buffer) capArgs {
	return capArgs{
		step: d.step.at, value: addressOf(w.Value), norms: addressOf(norms), rows: w.Rows, columns: w.Columns,
		parts: capParts(w), launch: d.next(site{}),
	}
}

// ColumnNorms computes the norms of columns.
func (d *device) ColumnNorms(op *kernels.ColumnNorms, s *kernels.Step) error {
	return d.run("ColumnNorms", s, nil, func() {
		a := d.capArgs(op.Weight, op.Norms)
		a.squares = addressOf(op.Workspace)
		launch(d, "column_squares", a.ofColumns(), 32*8, &a)
		launch(d, "column_norms", line(a.columns, 256), 256, &a)
	})
}

// CapWeight scales vectors of a weight that are too long.
func (d *device) CapWeight(op *kernels.CapWeight, s *kernels.Step) error {
	return d.run("CapWeight", s, nil, func() {
		a := d.capArgs(op.Weight, op.Norms)
		a.ranks, a.most = op.Ranks, op.Cap
		if op.Ranks > 0 {
			launch(d, "cap_weight_columns", a.ofColumns(), 32*8, &a)
			return
		}
		launch(d, "cap_weight_rows", line(max(1, a.rows), rowWarps), 32*rowWarps, &a)
	})
}

// updateWritten runs the optimizer for some elements of a weight, with a gradient whose parts are pitch apart.
func (d *device) updateWritten(
	w *kernels.Weights, o kernels.Optimizer, gradient driver.Address, first, count, parts, pitch int64,
) {
	type args struct {
		step, gradient             driver.Address
		weight                     weightsArgs
		first, count, parts, pitch int64
		launch                     int32
	}
	launch(d, "update_written", driver.Dim{X: max(1, min(blocks(count, 1024), 1<<16))}, 256, &args{
		d.step.at, gradient, d.weightsOf(w, o), first, count, parts, pitch, d.updates(w.Name),
	})
}

// Dense multiplies by a weight.
func (d *device) Dense(op *kernels.Dense, s *kernels.Step) error {
	return d.run("Dense", s, nil, func() {
		w := op.Weight
		if p, ok, err := d.denseOf(w, s.Most()); err != nil {
			d.note(err)
			return
		} else if ok {
			p.forward(d, op)
			return
		}
		launch(d, "multiply", tiles(w.Rows, s.Most()), productThreads, &productArgs{
			d.step.at, addressOf(op.In), addressOf(w.Value), addressOf(op.Out), w.Columns, w.Rows, w.Rows,
			d.epilogueOf(op.Epilogue), flag(op.Accumulate), d.narrow, d.next(site{tensor: w.Name}),
		})
	})
}

// Activate is an epilogue on its own.
func (d *device) Activate(op *kernels.Activate, s *kernels.Step) error {
	return d.run("Activate", s, nil, func() {
		if op.Norm != nil {
			d.normalise(op, s)
			return
		}
		launch(d, "finish", grid2(op.Units, rowThreads, s.Most()), rowThreads, &layerArgs{
			d.step.at, addressOf(op.In), addressOf(op.Out), op.Units, op.Units, d.epilogueOf(&op.Epilogue), 0, d.next(site{}),
		})
	})
}

// UnitSums adds up the units of a layer over the batch.
func (d *device) UnitSums(op *kernels.UnitSums, s *kernels.Step) error {
	type args struct {
		step, x, sums driver.Address
		units         int64
		launch        int32
	}
	return d.runBeside("UnitSums", s, nil, func() {
		launch(d, "unit_sums", line(op.Units, backwardUnits), backwardThreads, &args{
			d.step.at, addressOf(op.X), addressOf(op.Sums), op.Units, d.next(site{}),
		})
	})
}

// Sparsity computes the penalty of each unit.
func (d *device) Sparsity(op *kernels.Sparsity, s *kernels.Step) error {
	type args struct {
		step, sums           driver.Address
		units                int64
		mean, weight         float32
		term, silent, launch int32
	}
	return d.runBeside("Sparsity", s, nil, func() {
		launch(d, "sparsity", driver.Dim{X: 1}, 256, &args{
			d.step.at, addressOf(op.Sums), op.Units, op.Mean, op.Weight, int32(op.Term), flag(op.Silent), d.loses(op.Name),
		})
	})
}

// sampleArgs are the arguments of sample and sample_backward.
type sampleArgs struct {
	step, heads, units, loss driver.Address
	count                    int64
	stream                   uint32
	weight, most             float32
	term, launch             int32
}

// Sample draws the units of a variational layer.
func (d *device) Sample(op *kernels.Sample, s *kernels.Step) error {
	return d.run("Sample", s, nil, func() {
		launch(d, "sample", grid2(op.Units, 4*rowThreads, s.Most()), rowThreads, &sampleArgs{
			step: d.step.at, heads: addressOf(op.Heads), units: addressOf(op.Out), count: op.Units, stream: op.Stream,
			launch: d.next(site{}),
		})
	})
}

// SampleBackward goes back through a variational layer.
func (d *device) SampleBackward(op *kernels.SampleBackward, s *kernels.Step) error {
	return d.run("SampleBackward", s, nil, func() {
		loss := addressOf(op.Workspace)
		d.fill(loss, 0, 2*s.Most()) // also of rows that the batch does not have
		launch(d, "sample_backward", driver.Dim{X: uint32(max(1, s.Most()))}, 128, &sampleArgs{
			step: d.step.at, heads: addressOf(op.Heads), units: addressOf(op.DH), loss: loss, count: op.Units,
			stream: op.Stream, weight: op.Weight, most: kernels.MaxLogVariance, term: int32(op.Term),
			launch: d.updates(op.Name),
		})
		if !op.Silent {
			d.sumLoss(loss, s.Most(), op.Term, op.Name)
		}
	})
}

// Constants of src/dense.cu.
const backwardThreads, backwardUnits = 1024, 8 // 32 kBackwardWarps, kBackwardUnits

// Backward goes back through dropout and activation and updates the bias.
func (d *device) Backward(op *kernels.Backward, s *kernels.Step) error {
	type args struct {
		step, h, dh, shift driver.Address
		units              int64
		bias               weightsArgs
		epilogue           epilogueArgs
		launch             int32
	}
	return d.runBeside("Backward", s, nil, func() {
		name := op.Name
		if op.Bias != nil {
			name = op.Bias.Name
		}
		launch(d, "backward", line(op.Units, backwardUnits), backwardThreads, &args{
			d.step.at, addressOf(op.H), addressOf(op.DH), addressOf(op.Shift), op.Units,
			d.weightsOf(op.Bias, op.Optimizer), d.epilogueOf(&op.Epilogue), d.updates(name),
		})
	})
}

// DenseBackward computes the gradient with respect to the input, with the weight as it is, and updates the weight.
func (d *device) DenseBackward(op *kernels.DenseBackward, s *kernels.Step) error {
	return d.runBeside("DenseBackward", s, nil, func() {
		w := op.Weight
		if p, ok, err := d.denseOf(w, s.Most()); err != nil {
			d.note(err)
			return
		} else if ok {
			p.backward(d, op)
			return
		}
		dz := addressOf(op.DZ)
		if op.DIn != nil {
			launch(d, "input_gradient", tiles(w.Columns, s.Most()), productThreads, &productArgs{
				d.step.at, dz, addressOf(w.Value), addressOf(op.DIn), w.Columns, w.Rows, w.Rows, epilogueArgs{},
				flag(op.Accumulate), d.narrow, d.updates(w.Name),
			})
		}
		if w.Locked {
			return
		}
		launch(d, "weight_gradient", tiles(w.Columns, w.Rows), productThreads, &weightGradientArgs{
			d.step.at, dz, addressOf(op.In), 0, d.weightsOf(w, op.Optimizer), itemGradientArgs{}, w.Rows, 0, w.Rows,
			d.narrow, d.updates(w.Name),
		})
	})
}
