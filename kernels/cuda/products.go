//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// ownProducts are those of the simple form, which serves every op: 64 x 64 results a block. Cosine logits need places for
// gradients that are not ended.
type ownProducts struct{ strip, gradient int64 }

// simpleOf is the simple form of an output.
func (d *device) simpleOf(op *kernels.Output, rows int64) (outputSpace, ownProducts) {
	s, p := spaceOf(op, rows, min(op.Items, outputTile)), ownProducts{}
	if op.Temperature != 0 {
		columns := op.Sources[0].Weight.Columns
		p.strip, p.gradient = s.take(s.tile*columns), s.take(rows*columns)
	}
	return s, p
}

func (ownProducts) begin(*outputRun) error { return nil }

func (ownProducts) logits(r *outputRun) error {
	type args struct {
		step, h, weight, z          driver.Address
		columns, tile, first, items int64
		accumulate, narrow, launch  int32
	}
	z := r.place(r.space.logits)
	if len(r.op.Sources) == 0 {
		return r.stream.Fill32(z, 0, r.step.Most()*r.space.tile)
	}
	for n, source := range r.op.Sources {
		w := source.Weight
		grid := driver.Dim{X: blocks(r.items, productTile), Y: blocks(r.step.Most(), productTile)}
		err := launch(r.device, "logits", grid, driver.Dim{X: productThreads}, &args{
			r.device.step.at, addressOf(source.H), addressOf(w.Value), z, w.Columns, r.space.tile, r.first, r.items, flag(n > 0),
			r.narrow, r.next(site{}),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p ownProducts) hidden(r *outputRun, n int) error {
	type args struct {
		step, g, weight, dh         driver.Address
		columns, tile, first, items int64
		accumulate, narrow, launch  int32
	}
	source := r.op.Sources[n]
	if source.DH == nil {
		return nil
	}
	to, accumulate := addressOf(source.DH), source.Accumulate || r.first > 0
	if r.op.Temperature != 0 {
		to, accumulate = r.place(p.gradient), r.first > 0
	}
	w := source.Weight
	grid := driver.Dim{X: blocks(w.Columns, productTile), Y: blocks(r.step.Most(), productTile)}
	return launch(r.device, "output_hidden", grid, driver.Dim{X: productThreads}, &args{
		r.device.step.at, r.place(r.space.logits), addressOf(w.Value), to, w.Columns, r.space.tile, r.first, r.items,
		flag(accumulate), r.narrow, r.next(site{tensor: w.Name, what: updateWords}),
	})
}

func (p ownProducts) weight(r *outputRun, n int) error {
	type args struct {
		step, g, h, strip  driver.Address
		weight             weightsArgs
		to                 itemGradientArgs
		tile, first, items int64
		narrow, launch     int32
	}
	source, strip := r.op.Sources[n], driver.Address(0)
	if r.op.Temperature != 0 {
		strip = r.place(p.strip)
	}
	w := r.weightsOf(source.Weight, r.op.Optimizer)
	grid := driver.Dim{X: blocks(w.columns, productTile), Y: blocks(r.items, productTile)}
	err := launch(r.device, "output_weight", grid, driver.Dim{X: productThreads}, &args{
		r.device.step.at, r.place(r.space.logits), addressOf(source.H), strip, w, r.tied(n), r.space.tile, r.first, r.items,
		r.narrow, r.next(site{tensor: source.Weight.Name, what: updateWords}),
	})
	if err != nil || strip == 0 {
		return err
	}
	return r.updateItems(n, strip, w.columns)
}

// end ends the gradient by the source of cosine logits.
func (p ownProducts) end(r *outputRun) error {
	if r.op.Temperature == 0 || r.op.Sources[0].DH == nil {
		return nil
	}
	most := r.step.Most()
	columns := r.op.Sources[0].Weight.Columns
	return r.mergeHidden(&r.op.Sources[0], r.place(p.gradient), r.finish.hiddenInverse, columns, most, 1, most)
}
