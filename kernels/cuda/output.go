//go:build !nocuda && linux && amd64

package cuda

import (
	"math"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// outputTile is how many items' logits there are at a time in the simple form. It does not depend on the batch, so that results
// do not.
const outputTile = 2048

// The structs of src/output.cu that several kernels take.
type (
	finishArgs struct {
		bias, hiddenInverse, itemInverse driver.Address
		temperature                      float32
	}
	lossArgs struct {
		kind, normalizeRows                                int32
		weight, oneScale, zeroScale, oneTarget, zeroTarget float32
		term                                               int32
	}
	itemGradientArgs struct {
		tied driver.Address
		slot int32
	}
)

func (d *device) lossOf(op *kernels.Output) lossArgs {
	l := op.Loss
	return lossArgs{
		number(d, l.Kind), flag(l.NormalizeRows), l.Weight, l.OneScale, l.ZeroScale, l.OneTarget, l.ZeroTarget, int32(op.Term),
	}
}

// outputSpace is the workspace of an output that goes tile by tile, in elements of 4 bytes: first what has 8 bytes.
type outputSpace struct {
	space
	tile                                       int64
	loss, logits, bias, hiddenInverse, inverse int64 // where they begin
}

// space hands out places one behind the other, each aligned for what a product reads at once.
type space struct{ total int64 }

func (s *space) take(n int64) int64 {
	const aligned = 64
	at := s.total
	s.total += (n + aligned - 1) / aligned * aligned
	return at
}

func spaceOf(op *kernels.Output, rows, tile int64) outputSpace {
	s := outputSpace{tile: tile}
	s.loss = s.take(2 * int64(blocks(s.tile, 32)))
	s.logits = s.take(rows * s.tile)
	s.bias = s.take(s.tile)
	if op.Temperature != 0 {
		s.hiddenInverse = s.take(rows)
		s.inverse = s.take(s.tile)
	}
	return s
}

// tileProducts makes the products of an output that goes tile by tile, those of src/product.cuh or a library's.
type tileProducts interface {
	// begin is called before the first tile.
	begin(*outputRun) error
	// logits makes those of the tile, but for what finishArgs tell.
	logits(*outputRun) error
	// hidden adds the tile's part of the gradient by a source, weight makes the gradient by the source's weight and updates it.
	hidden(r *outputRun, n int) error
	weight(r *outputRun, n int) error
	// end is called after the last tile of a step.
	end(*outputRun) error
}

// outputRun is an output op on its way through the tiles.
type outputRun struct {
	*device
	op       *kernels.Output
	step     *kernels.Step
	at       driver.Address // of the workspace
	space    outputSpace
	products tileProducts
	narrow16 driver.Address // of the gradients in bfloat16, if they are wanted so
	padded   int64          // rows whose gradients are there, those beyond the batch as zeros; 0: of the batch only
	finish   finishArgs
	first    int64 // of the tile's items
	items    int64
}

func (d *device) tiled(op *kernels.Output, s *kernels.Step, space outputSpace, products tileProducts) *outputRun {
	r := &outputRun{device: d, op: op, step: s, at: addressOf(op.Workspace), space: space, products: products}
	r.finish.temperature = op.Temperature
	if op.Bias != nil {
		r.finish.bias = addressOf(op.Bias.Value)
	}
	if op.Temperature != 0 {
		r.finish.hiddenInverse, r.finish.itemInverse = r.place(r.space.hiddenInverse), r.place(r.space.inverse)
	}
	return r
}

func (r *outputRun) place(element int64) driver.Address { return r.at + driver.Address(4*element) }

// tiles computes the logits of each tile of items and calls each.
func (r *outputRun) tiles(each func() error) error {
	if r.op.Temperature != 0 {
		source := r.op.Sources[0]
		if err := r.inverseNorms(addressOf(source.H), r.finish.hiddenInverse, source.Weight.Columns, -1, r.step.Most()); err != nil {
			return err
		}
	}
	if err := r.products.begin(r); err != nil {
		return err
	}
	for r.first = 0; r.first < r.op.Items; r.first += r.space.tile {
		r.items = min(r.space.tile, r.op.Items-r.first)
		if err := r.products.logits(r); err != nil {
			return err
		}
		if r.op.Temperature != 0 {
			w := r.op.Sources[0].Weight
			rows := addressOf(w.Value) + driver.Address(4*r.first*w.Columns)
			if err := r.inverseNorms(rows, r.finish.itemInverse, w.Columns, r.items, r.items); err != nil {
				return err
			}
		}
		if err := each(); err != nil {
			return err
		}
	}
	return nil
}

// inverseNorms measures rows of a matrix: so many, or with -1 those of the batch, of which there are up to most.
func (d *device) inverseNorms(x, inverse driver.Address, columns, rows, most int64) error {
	type args struct {
		step, x, inverse driver.Address
		columns, rows    int64
		launch           int32
	}
	return launch(d, "inverse_norms", driver.Dim{X: blocks(most, 8)}, driver.Dim{X: 256},
		&args{d.step.at, x, inverse, columns, rows, d.next(site{})})
}

var lossWords = [2]string{"a logit", "the loss"}

// OutputStats computes maximum and log-sum-exp of each row.
func (d *device) OutputStats(op *kernels.Output, s *kernels.Step) error {
	return d.run("OutputStats", s, nil, func() error {
		if op.Items == 0 {
			return d.stream.Fill32(addressOf(op.Stats), math.Float32bits(float32(math.Inf(-1))), 2*s.Most())
		}
		return d.formOf(op, s.Most()).run(s).statistics()
	})
}

// statistics computes them a tile after the other.
func (r *outputRun) statistics() error {
	type args struct {
		step, z, stats       driver.Address
		finish               finishArgs
		tile, first, items   int64
		begins, ends, launch int32
	}
	return r.tiles(func() error {
		return launch(r.device, "output_stats", driver.Dim{X: uint32(r.step.Most())}, driver.Dim{X: 256}, &args{
			r.device.step.at, r.place(r.space.logits), addressOf(r.op.Stats), r.finish, r.space.tile, r.first, r.items,
			flag(r.first == 0), flag(r.first+r.items == r.op.Items), r.next(site{tensor: r.op.Name, what: lossWords, noRow: true}),
		})
	})
}

// CombineStats makes the statistics of all items out of those of shards.
func (d *device) CombineStats(op *kernels.CombineStats, s *kernels.Step) error {
	return d.run("CombineStats", s, nil, func() error {
		return d.combineStats(addressOf(op.Parts), addressOf(op.Stats), op.Shards, op.Stride, s.Most())
	})
}

func (d *device) combineStats(parts, stats driver.Address, count, stride, most int64) error {
	type args struct {
		step, parts, stats driver.Address
		shards, stride     int64
		launch             int32
	}
	return launch(d, "combine_stats", driver.Dim{X: blocks(most, 256)}, driver.Dim{X: 256},
		&args{d.step.at, parts, stats, count, stride, d.next(site{})})
}

// OutputStep computes loss, gradients and updates.
func (d *device) OutputStep(op *kernels.Output, s *kernels.Step) error {
	slots := []int{op.Target}
	if op.TiedInput >= 0 {
		slots = append(slots, op.TiedInput)
	}
	return d.run("OutputStep", s, slots, func() error {
		if op.Items == 0 {
			return d.clearHidden(op, s.Most())
		}
		return d.formOf(op, s.Most()).run(s).gradients()
	})
}

// gradients computes loss, gradients and updates, a tile after the other.
func (r *outputRun) gradients() error {
	if err := r.tiles(r.tileGradients); err != nil {
		return err
	}
	if err := r.products.end(r); err != nil {
		return err
	}
	return r.sumLoss(r.op, r.place(r.space.loss), int64(blocks(min(r.space.tile, r.op.Items), 32)))
}

// clearHidden is the gradient of an output without items.
func (d *device) clearHidden(op *kernels.Output, rows int64) error {
	for _, source := range op.Sources {
		if source.DH == nil || source.Accumulate {
			continue
		}
		if err := d.stream.Fill32(addressOf(source.DH), 0, rows*source.Weight.Columns); err != nil {
			return err
		}
	}
	return nil
}

// tileGradients turns the tile's logits into gradients and uses them.
func (r *outputRun) tileGradients() error {
	if err := r.loss(); err != nil {
		return err
	}
	for n := range r.op.Sources {
		if err := r.products.hidden(r, n); err != nil {
			return err
		}
		if err := r.products.weight(r, n); err != nil {
			return err
		}
	}
	return r.bias()
}

func (r *outputRun) loss() error {
	type args struct {
		step, z, stats, biasGradient, loss, narrow driver.Address
		finish                                     finishArgs
		tile, first, items, rows                   int64
		kind                                       lossArgs
		slot, begins, launch                       int32
	}
	stats := driver.Address(0)
	if r.op.Loss.NeedsStats() {
		stats = addressOf(r.op.Stats)
	}
	return launch(r.device, "output_loss", driver.Dim{X: blocks(r.items, 32)}, driver.Dim{X: 256}, &args{
		r.device.step.at, r.place(r.space.logits), stats, r.place(r.space.bias), r.place(r.space.loss), r.narrow16,
		r.finish, r.space.tile, r.first, r.items, r.padded, r.lossOf(r.op), int32(r.op.Target), flag(r.first == 0), r.next(site{tensor: r.op.Name, what: lossWords, noRow: true}),
	})
}

func (r *outputRun) bias() error {
	type args struct {
		step, gradient driver.Address
		bias           weightsArgs
		first, items   int64
		launch         int32
	}
	if r.op.Bias == nil {
		return nil
	}
	return launch(r.device, "output_bias", driver.Dim{X: blocks(r.items, 256)}, driver.Dim{X: 256}, &args{
		r.device.step.at, r.place(r.space.bias), r.weightsOf(r.op.Bias, r.op.Optimizer), r.first, r.items,
		r.next(site{tensor: r.op.Bias.Name, what: updateWords}),
	})
}

// updateItems takes a strip of gradients by a source's weight, for cosine logits after their projection.
func (r *outputRun) updateItems(n int, strip driver.Address, pitch int64) error {
	return r.update(r.op.Sources[n].Weight, r.op.Optimizer, &updateArgs{
		strip: strip, itemInverse: r.finish.itemInverse, to: r.tied(n), first: r.first, items: r.items, pitch: pitch,
	})
}

// updateRows takes the gradient by a whole weight.
func (d *device) updateRows(w *kernels.Weights, o kernels.Optimizer, gradient driver.Address, pitch int64) error {
	return d.update(w, o, &updateArgs{strip: gradient, items: w.Rows, pitch: pitch})
}

type updateArgs struct {
	step, strip, itemInverse driver.Address
	weight                   weightsArgs
	to                       itemGradientArgs
	first, items, pitch      int64
	launch                   int32
}

func (d *device) update(w *kernels.Weights, o kernels.Optimizer, a *updateArgs) error {
	a.step, a.weight, a.launch = d.step.at, d.weightsOf(w, o), d.next(site{tensor: w.Name, what: updateWords})
	return launch(d, "output_update", driver.Dim{X: blocks(a.items, 8)}, driver.Dim{X: 256}, a)
}

// tied tells where the gradient by a source's weight goes if an input shares it.
func (r *outputRun) tied(n int) itemGradientArgs {
	if r.op.TiedInput < 0 || n > 0 {
		return itemGradientArgs{}
	}
	return itemGradientArgs{addressOf(r.op.TiedGradient), int32(r.op.TiedInput)}
}

// sumLoss adds up the losses that blocks have found.
func (d *device) sumLoss(op *kernels.Output, loss driver.Address, count int64) error {
	type args struct {
		step, loss   driver.Address
		blocks       int64
		term, launch int32
	}
	return launch(d, "output_sum", driver.Dim{X: 1}, driver.Dim{X: 32}, &args{
		d.step.at, loss, count, int32(op.Term), d.next(site{tensor: op.Name, what: lossWords, noRow: true}),
	})
}
