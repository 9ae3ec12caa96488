//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// ownProducts are those of the simple form, which serves every op: 64 x 64 results a block. For cosine logits there are places
// for gradients that are not projected yet.
type ownProducts struct{ strip, gradient int64 }

// productArgs are the arguments of the products that make logits and gradients with respect to hidden values.
type productArgs struct {
	step, in, weight, out       driver.Address
	columns, tile, first, items int64
	accumulate, narrow, launch  int32
}

// simpleOf is the simple form of an output.
func simpleOf(op *kernels.Output, rows int64) (outputSpace, ownProducts) {
	s, p := spaceOf(op, rows, min(op.Items, outputTile)), ownProducts{}
	if op.Temperature != 0 {
		columns := op.Sources[0].Weight.Columns
		p.strip, p.gradient = s.take(s.tile*columns), s.take(rows*columns)
	}
	return s, p
}

func (ownProducts) begin(*outputRun) {}

func (ownProducts) logits(r *outputRun) {
	z := r.place(r.space.logits)
	if len(r.op.Sources) == 0 {
		r.fill(z, 0, r.step.Most()*r.space.tile)
	}
	for n, source := range r.op.Sources {
		launch(r.device, "logits", tiles(r.items, r.step.Most()), productThreads, &productArgs{
			r.device.step.at, addressOf(source.H), addressOf(source.Weight.Value), z, source.Weight.Columns, r.space.tile,
			r.first, r.items, flag(n > 0), r.narrow, r.next(site{}),
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
	launch(r.device, "output_hidden", tiles(w.Columns, r.step.Most()), productThreads, &productArgs{
		r.device.step.at, r.place(r.space.logits), addressOf(w.Value), to, w.Columns, r.space.tile, r.first, r.items,
		flag(accumulate), r.narrow, r.updates(w.Name),
	})
}

func (p ownProducts) weight(r *outputRun, n int) {
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
	w := source.Weight
	launch(r.device, "output_weight", tiles(w.Columns, r.items), productThreads, &args{
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
