//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// ownProducts are those of the simple form, which serves every op: 64 x 64 results a block. For cosine logits there are
// places for gradients that are not projected yet.
type ownProducts struct{ strip, gradient int64 }

// The structs of src/dense.cu that several ops use.
type (
	productArgs struct {
		step, in, weight, out      driver.Address
		inputs, units, pitch       int64
		epilogue                   epilogueArgs
		accumulate, narrow, launch int32
	}
	weightGradientArgs struct {
		step, g, in, strip  driver.Address
		weight              weightsArgs
		to                  itemGradientArgs
		pitch, first, units int64
		narrow, launch      int32
	}
	layerArgs struct { // FinishArgs
		step, sums, out    driver.Address
		units, pitch       int64
		epilogue           epilogueArgs
		accumulate, launch int32
	}
)

// simpleOf is the simple form of an output.
func (d *device) simpleOf(op *kernels.Output, rows int64) (outputSpace, ownProducts) {
	s, p := d.spaceOf(op, rows, min((op.Items+63)/64*64, outputTile), outputRows, false), ownProducts{}
	if op.Temperature != 0 {
		columns := op.Sources[0].Weight.Columns
		p.strip, p.gradient = s.take(s.tile*columns), s.take(rows*columns)
	}
	return s, p
}

func (ownProducts) begin(*outputRun, bool) {}

func (ownProducts) logits(r *outputRun) {
	z := r.tileLogits()
	if len(r.op.Sources) == 0 {
		r.fill(z, 0, r.step.Most()*r.space.tile)
	}
	for n, source := range r.op.Sources {
		launch(r.device, "multiply", tiles(r.items, r.step.Most()), productThreads, &productArgs{
			r.device.step.at, addressOf(source.H), r.tileItems(n), z, source.Weight.Columns, r.items, r.space.tile,
			epilogueArgs{}, flag(n > 0), r.narrow, r.next(site{}),
		})
	}
}

func (p ownProducts) hidden(r *outputRun, n int) {
	source := r.op.Sources[n]
	if source.DH == nil {
		return
	}
	to, accumulate := addressOf(source.DH), source.Accumulate || r.first > 0
	if r.op.Temperature != 0 {
		to, accumulate = r.place(p.gradient), r.first > 0
	}
	w := source.Weight
	launch(r.device, "input_gradient", tiles(w.Columns, r.step.Most()), productThreads, &productArgs{
		r.device.step.at, r.place(r.space.logits), r.tileItems(n), to, w.Columns, r.items, r.space.tile, epilogueArgs{},
		flag(accumulate), r.narrow, r.updates(w.Name),
	})
}

func (p ownProducts) weight(r *outputRun, n int) {
	source, strip := r.op.Sources[n], driver.Address(0)
	if r.op.Temperature != 0 {
		strip = r.place(p.strip)
	}
	w := source.Weight
	launch(r.device, "weight_gradient", tiles(w.Columns, r.items), productThreads, &weightGradientArgs{
		r.device.step.at, r.place(r.space.logits), addressOf(source.H), strip, r.weightsOf(w, r.op.Optimizer), r.tied(n),
		r.space.tile, r.first, r.items, r.narrow, r.updates(w.Name),
	})
	if strip != 0 {
		r.updateItems(n, strip, w.Columns)
	}
}

// end projects the gradient with respect to the source of cosine logits.
func (p ownProducts) end(r *outputRun) {
	if r.op.Temperature != 0 {
		most := r.step.Most()
		source := &r.op.Sources[0]
		r.mergeHidden(source, r.place(p.gradient), r.finish.hiddenInverse, source.Weight.Columns, most, 1, most)
	}
}
