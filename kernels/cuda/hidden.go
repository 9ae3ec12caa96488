//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// A grid covers the largest batch, since a captured step is launched for every batch; what there is not ends early. How many
// items a batch touches is known to the device only: blocks go on to further items until there are none, and there are as
// many as keep every multiprocessor busy, which is far fewer than some weights have rows.
const (
	// productTile and productThreads are kTile and kProductThreads of src/product.cuh.
	productTile    = 64
	productThreads = 256
	mostScattered  = 4096
	mostReplaying  = 2048
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
		fours := op.Rows * ((op.Columns + 3) / 4)
		a := &args{addressOf(op.Out), op.Rows, op.Columns, op.Seed, op.Stream, number(d, op.Kind), op.Scale}
		if err := launch(d, "fill", driver.Dim{X: min(blocks(fours, 256), 4096)}, driver.Dim{X: 256}, a); err != nil {
			return err
		}
		return d.stream.Synchronize()
	})
}

// Gather sums weight rows.
func (d *device) Gather(op *kernels.Gather, s *kernels.Step) error {
	type args struct {
		step, weight, out        driver.Address
		columns                  int64
		epilogue                 epilogueArgs
		slot, accumulate, launch int32
	}
	return d.run("Gather", s, []int{op.Input}, func() error {
		w := op.Weight
		return launch(d, "gather", grid2(blocks(w.Columns, 128), s.Most()), driver.Dim{X: 128}, &args{
			d.step.at, addressOf(w.Value), addressOf(op.Out), w.Columns, d.epilogueOf(op.Epilogue), int32(op.Input),
			flag(op.Accumulate), d.next(site{tensor: w.Name}),
		})
	})
}

// Scatter updates the rows that a batch touches.
func (d *device) Scatter(op *kernels.Scatter, s *kernels.Step) error {
	type args struct {
		step, dz, tied driver.Address
		weight         weightsArgs
		slot, launch   int32
	}
	return d.run("Scatter", s, []int{op.Input}, func() error {
		w := op.Weight
		if w.Gradient != nil && op.TiedGradient == nil {
			if err := d.stream.Fill32(addressOf(w.Gradient), 0, w.Rows*w.Columns); err != nil {
				return err
			}
		}
		grid := driver.Dim{X: blocks(w.Columns, 128), Y: uint32(min(max(1, w.Rows), mostScattered))}
		return launch(d, "scatter", grid, driver.Dim{X: 128}, &args{
			d.step.at, addressOf(op.DZ), addressOf(op.TiedGradient), d.weightsOf(w, op.Optimizer), int32(op.Input),
			d.next(site{tensor: w.Name, what: updateWords}),
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
	if op.Weight.Last == nil {
		return nil
	}
	var slots []int
	if op.Input >= 0 {
		slots = []int{op.Input}
	}
	return d.run("Replay", s, slots, func() error {
		return launch(d, "replay", driver.Dim{X: min(max(1, blocks(op.Weight.Rows, 8)), mostReplaying)}, driver.Dim{X: 256}, &args{
			d.step.at, d.weightsOf(op.Weight, op.Optimizer), int32(op.Input),
			d.next(site{tensor: op.Weight.Name, what: updateWords}),
		})
	})
}

// Update runs the optimizer with written gradients.
func (d *device) Update(op *kernels.Update, s *kernels.Step) error {
	type args struct {
		step, gradient driver.Address
		weight         weightsArgs
		launch         int32
	}
	return d.run("Update", s, nil, func() error {
		w := *op.Weight
		w.Gradient = nil
		grid := driver.Dim{X: max(1, min(blocks(w.Rows*w.Columns, 256), 1<<16))}
		return launch(d, "update_written", grid, driver.Dim{X: 256}, &args{
			d.step.at, addressOf(op.Weight.Gradient), d.weightsOf(&w, op.Optimizer),
			d.next(site{tensor: w.Name, what: updateWords}),
		})
	})
}

// Dense multiplies by a weight.
func (d *device) Dense(op *kernels.Dense, s *kernels.Step) error {
	type args struct {
		step, in, weight, out driver.Address
		inputs, units         int64
		epilogue              epilogueArgs

		accumulate, narrow, launch int32
	}
	return d.run("Dense", s, nil, func() error {
		w := op.Weight
		if p, ok := d.denseOf(w, s.Most()); ok {
			return p.forward(d, op)
		}
		grid := driver.Dim{X: blocks(w.Rows, productTile), Y: blocks(s.Most(), productTile)}
		return launch(d, "dense", grid, driver.Dim{X: productThreads}, &args{
			d.step.at, addressOf(op.In), addressOf(w.Value), addressOf(op.Out), w.Columns, w.Rows, d.epilogueOf(op.Epilogue),
			flag(op.Accumulate), d.narrow, d.next(site{tensor: w.Name}),
		})
	})
}

// Activate is an epilogue on its own.
func (d *device) Activate(op *kernels.Activate, s *kernels.Step) error {
	type args struct {
		step, out driver.Address
		units     int64
		epilogue  epilogueArgs
		launch    int32
	}
	return d.run("Activate", s, nil, func() error {
		return launch(d, "activate_sums", grid2(blocks(op.Units, 128), s.Most()), driver.Dim{X: 128}, &args{
			d.step.at, addressOf(op.Out), op.Units, d.epilogueOf(&op.Epilogue), d.next(site{}),
		})
	})
}

// Backward goes back through dropout and activation and updates the bias.
func (d *device) Backward(op *kernels.Backward, s *kernels.Step) error {
	type args struct {
		step, h, dh driver.Address
		units       int64
		bias        weightsArgs
		epilogue    epilogueArgs
		launch      int32
	}
	const threads = 512 // 32 kBackwardRows of src/dense.cu
	return d.run("Backward", s, nil, func() error {
		where := site{tensor: op.Name, what: updateWords}
		if op.Bias != nil {
			where.tensor = op.Bias.Name
		}
		return launch(d, "backward", driver.Dim{X: blocks(op.Units, 32)}, driver.Dim{X: threads}, &args{
			d.step.at, addressOf(op.H), addressOf(op.DH), op.Units, d.weightsOf(op.Bias, op.Optimizer),
			d.epilogueOf(&op.Epilogue), d.next(where),
		})
	})
}

// DenseBackward gives the gradient by the input, with the weight as it is, and updates the weight.
func (d *device) DenseBackward(op *kernels.DenseBackward, s *kernels.Step) error {
	type args struct {
		step, dz, in, din          driver.Address
		weight                     weightsArgs
		accumulate, narrow, launch int32
	}
	return d.run("DenseBackward", s, nil, func() error {
		w, threads := op.Weight, driver.Dim{X: productThreads}
		if p, ok := d.denseOf(w, s.Most()); ok {
			return p.backward(d, op)
		}
		a := args{
			d.step.at, addressOf(op.DZ), addressOf(op.In), addressOf(op.DIn), d.weightsOf(w, op.Optimizer),
			flag(op.Accumulate), d.narrow, 0,
		}
		columns := blocks(w.Columns, productTile)
		if op.DIn != nil {
			a.launch = d.next(site{tensor: w.Name, what: updateWords})
			err := launch(d, "dense_backward_input", driver.Dim{X: columns, Y: blocks(s.Most(), productTile)}, threads, &a)
			if err != nil {
				return err
			}
		}
		a.launch = d.next(site{tensor: w.Name, what: updateWords})
		return launch(d, "dense_backward_weight", driver.Dim{X: columns, Y: blocks(w.Rows, productTile)}, threads, &a)
	})
}
