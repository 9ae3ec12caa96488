//go:build !nocuda && linux && amd64

package cuda

import (
	"math"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// outputTile is how many items' logits there are at a time in the simple form, and outputRows how many rows a block has
// of them. They do not depend on the batch, so neither do results.
const (
	outputTile = 2048
	outputRows = 64
)

// A block of output_loss has a strip of items and a strip of rows: kStripItems and kMostStripRows of src/output.cu.
const (
	stripItems     = 256
	leastStripRows = 32
	mostStripRows  = 96
	lossBlocks     = 3 // that a multiprocessor holds
)

// pieces is a grid of eight warps a block for rows of a matrix, and how many columns each warp has: a piece of a row,
// so that few long rows have enough warps, or all.
func pieces(rows, columns int64, all bool) (grid driver.Dim, each int64) {
	const piece = 256
	if each = piece; all {
		each = columns
	}
	return driver.Dim{X: blocks(rows, 8), Y: blocks(columns, each)}, each
}

// kStatsRows and kStatsThreads of src/output.cu.
const (
	statsRows    = 4
	statsThreads = 256
	statsBlocks  = 4 // that a multiprocessor holds
)

// The structs of src/output.cu that several kernels take.
type (
	finishArgs struct {
		bias, hiddenInverse, itemInverse driver.Address
		temperature                      float32
	}
	lossArgs struct {
		kind, normalizeRows, activation                    int32
		alpha                                              float32
		weight, oneScale, zeroScale, oneTarget, zeroTarget float32
		oneBoost, zeroBoost                                float32
		term                                               int32
	}
	itemGradientArgs struct {
		tied driver.Address
		slot int32
	}
)

// outputOp is an output op in a step.
type outputOp struct {
	*device
	op   *kernels.Output
	step *kernels.Step
}

// place is the address of an element of the workspace.
func (r *outputOp) place(n int64) driver.Address { return element(r.op.Workspace, n) }

func (d *device) lossOf(l kernels.Loss, term int) lossArgs {
	one, zero := l.Boosts()
	return lossArgs{
		number(d, l.Kind), flag(l.NormalizeRows), number(d, l.Activation.Kind), l.Activation.Alpha,
		l.Weight, l.OneScale, l.ZeroScale, l.OneTarget, l.ZeroTarget, one, zero, int32(term),
	}
}

// stats are the rows' statistics, nil if the loss needs none.
func (r *outputOp) stats() kernels.Buffer {
	if !r.op.Loss.NeedsStats() {
		return nil
	}
	return r.op.Stats
}

// tied says where the gradient with respect to a source's weight goes if an input shares the weight.
func (r *outputOp) tied(n int) itemGradientArgs {
	if r.op.TiedInput < 0 || n > 0 {
		return itemGradientArgs{}
	}
	return itemGradientArgs{addressOf(r.op.TiedGradient), int32(r.op.TiedInput)}
}

// sumLoss adds up the losses of blocks of a layer.
func (d *device) sumLoss(loss driver.Address, count int64, term int, layer string) {
	type args struct {
		step, loss   driver.Address
		blocks       int64
		term, launch int32
	}
	launch(d, "output_sum", driver.Dim{X: 1}, 32, &args{d.step.at, loss, count, int32(term), d.loses(layer)})
}

// outputSpace is the workspace of an output that goes tile by tile.
type outputSpace struct {
	space
	tile, stripRows   int64  // items of a tile, rows of a strip of rows
	narrow            bool   // logits, and the gradients in their place, are of bfloat16
	strips, rowStrips uint32 // of items in the first tile, and of rows
	statsParts        uint32 // of a row, each of which has statistics of its own
	kept              int64  // elements of the logits of all tiles
	// Where they begin. Losses have 8 bytes. Gradients of the bias have two places: updates may still read those of the
	// tile before.
	loss, logits, bias, stats, hiddenInverse, inverse int64
}

func (d *device) spaceOf(op *kernels.Output, rows, tile, stripRows int64, narrow bool) outputSpace {
	s := outputSpace{
		tile: tile, stripRows: stripRows, narrow: narrow,
		strips: blocks(min(tile, op.Items), stripItems), rowStrips: blocks(rows, stripRows),
		statsParts: d.statsParts(rows, min(tile, op.Items)),
	}
	s.loss = s.take(2 * s.blocks())
	logits := s.logitsOf(rows, tile)
	s.logits, s.kept = s.take(logits), int64(blocks(op.Items, max(1, tile)))*logits
	s.bias = s.take(2 * int64(s.rowStrips) * tile)
	s.stats = s.take(2 * int64(s.statsParts) * rows)
	if op.Temperature != 0 {
		s.hiddenInverse = s.take(rows)
		s.inverse = s.take(op.Items)
	}
	return s
}

// logitsOf is how many elements the logits of rows and items take.
func (s *outputSpace) logitsOf(rows, items int64) int64 {
	if s.narrow {
		return rows * items / 2
	}
	return rows * items
}

// LogitsSize: the forms that go tile by tile keep logits that take an eighth of the device's memory at most.
func (d *device) LogitsSize(op *kernels.Output, rows int64) (size int64) {
	if op.Items == 0 {
		return 0
	}
	_ = d.do("planning", func() error {
		if form, err := d.formOf(op, rows); err == nil && 4*form.logits <= d.hardware.Memory/8 {
			size = form.logits
		}
		return nil
	})
	return size
}

// statsParts is in how many parts blocks of output_stats share a row of a tile: as many as make one wave of blocks, if
// each has enough items.
func (d *device) statsParts(rows, tile int64) uint32 {
	resident := statsBlocks * uint32(d.hardware.Multiprocessors)
	return max(1, min(resident/blocks(rows, statsRows), blocks(tile, 8*statsThreads)))
}

// blocks are those of output_loss in the first tile, each of which leaves a sum of losses.
func (s *outputSpace) blocks() int64 { return int64(s.strips) * int64(s.rowStrips) }

// tileProducts makes the products of an output that goes tile by tile, by src/product.cuh or by a library.
type tileProducts interface {
	// begin is called before the first tile, end after the last tile of a step. again: what begin makes is there.
	begin(r *outputRun, again bool)
	end(*outputRun)
	// logits makes those of the tile, before finishArgs apply.
	logits(*outputRun)
	// hidden adds the tile's part of the gradient with respect to a source.
	hidden(r *outputRun, n int)
	// weight makes the gradient with respect to a source's weight, and updates the weight.
	weight(r *outputRun, n int)
}

// outputRun is an output op on its way through the tiles.
type outputRun struct {
	outputOp
	space    outputSpace
	products tileProducts
	padded   int64 // gradients of rows beyond the batch, up to this one, are zeros
	finish   finishArgs
	first    int64 // of the tile's items
	items    int64
	turn     int64 // 0 or 1, in turn: which of two places the tile uses
	bias     bool  // the tile's part of the bias is to be updated
}

// stripRows is how many rows a block of output_loss has: as few as there can be without a second wave of blocks for a
// tile.
func (d *device) stripRows(rows, tile int64) int64 {
	room := max(1, lossBlocks*int64(d.hardware.Multiprocessors)/int64(blocks(tile, stripItems)))
	return max(leastStripRows, min((rows+room-1)/room+7, mostStripRows)/8*8)
}

// tileLogits is where the tile's logits are.
func (r *outputRun) tileLogits() driver.Address {
	if r.op.Logits == nil {
		return r.place(r.space.logits)
	}
	return element(r.op.Logits, r.space.logitsOf(r.step.Most(), r.first))
}

func tiled(on outputOp, space outputSpace, products tileProducts) *outputRun {
	r := &outputRun{outputOp: on, space: space, products: products}
	r.finish.bias, r.finish.temperature = biasOf(on.op.Bias), on.op.Temperature
	if on.op.Temperature != 0 {
		r.finish.hiddenInverse = r.place(space.hiddenInverse)
	}
	return r
}

// tileItems is the address of the tile's rows of a source's weight.
func (r *outputRun) tileItems(n int) driver.Address {
	w := r.op.Sources[n].Weight
	return element(w.Value, r.first*w.Columns)
}

// tiles computes the logits of each tile of items and calls each, for cosine logits behind measure, which makes the
// tile's inverse norms. again: the statistics of the same step have left what they have rounded and measured, and maybe
// the logits.
func (r *outputRun) tiles(again bool, each func(measure func())) {
	measure := func() {}
	if r.op.Temperature != 0 && !again {
		source := r.op.Sources[0]
		r.inverseNorms(addressOf(source.H), r.finish.hiddenInverse, source.Weight.Columns, -1, r.step.Most())
		measure = func() {
			r.inverseNorms(r.tileItems(0), r.finish.itemInverse, source.Weight.Columns, r.items, r.items)
		}
	}
	r.products.begin(r, again)
	for r.first = 0; r.first < r.op.Items; r.first += r.space.tile {
		r.items, r.turn = min(r.space.tile, r.op.Items-r.first), 1-r.turn
		if !again || r.op.Logits == nil {
			r.products.logits(r)
			if r.op.Addend.Counts() {
				r.addend("add_to_logits", r.tileLogits())
			}
		}
		if r.op.Temperature != 0 {
			r.finish.itemInverse = r.place(r.space.inverse + r.first)
		}
		each(measure)
	}
}

// addend runs a kernel on a tile's logits, or the gradients in their place, and what inputs add to them, if they do.
func (r *outputRun) addend(kernel string, z driver.Address) {
	if r.op.Addend.Stride == 0 {
		return
	}
	type args struct {
		step, z, addend     driver.Address
		tile, items, stride int64
		narrow, launch      int32
	}
	launch(r.device, kernel, grid2(r.items, rowThreads, r.step.Most()), rowThreads, &args{
		r.device.step.at, z, element(r.op.Addend.Sum, r.op.Addend.First+r.first), r.space.tile, r.items, r.op.Addend.Stride,
		flag(r.space.narrow), r.next(site{}),
	})
}

// clearOthers makes an addend 0 at the columns of other devices' items.
func (d *device) clearOthers(op *kernels.Output, s *kernels.Step) {
	if op.Addend.Stride <= op.Items {
		return
	}
	type args struct {
		step, x            driver.Address
		first, end, stride int64
		launch             int32
	}
	launch(d, "clear_others", grid2(op.Addend.Stride, rowThreads, s.Most()), rowThreads, &args{
		d.step.at, addressOf(op.Addend.Sum), op.Addend.First, op.Addend.First + op.Items, op.Addend.Stride, d.next(site{}),
	})
}

// inverseNorms measures rows of a matrix; rows -1 are those of the batch, of which there are up to most.
func (d *device) inverseNorms(x, inverse driver.Address, columns, rows, most int64) {
	type args struct {
		step, x, inverse driver.Address
		columns, rows    int64
		launch           int32
	}
	launch(d, "inverse_norms", line(most, 8), 256, &args{d.step.at, x, inverse, columns, rows, d.next(site{})})
}

// OutputStats computes maximum and log-sum-exp of each row.
func (d *device) OutputStats(op *kernels.Output, s *kernels.Step) error {
	return d.run("OutputStats", s, nil, func() {
		if op.Items == 0 {
			d.fill(addressOf(op.Stats), math.Float32bits(float32(math.Inf(-1))), 2*s.Most())
			return
		}
		d.compute(op, s, outputRunner.statistics)
	})
}

func (r *outputRun) statistics() {
	most, stats := r.step.Most(), addressOf(r.op.Stats)
	if most*r.space.tile >= 1<<32 { // output_stats counts a tile's logits in 32 bits
		r.note(fault.New(fault.Unsupported, "%s: a batch of %d rows is too large for soft-max: take a smaller one",
			r.op.Name, most))
		return
	}
	grid := driver.Dim{X: blocks(most, statsRows), Y: r.space.statsParts}
	if grid.Y > 1 {
		stats = r.place(r.space.stats)
	}
	r.tiles(false, func(measure func()) {
		pass := func() {
			measure()
			a := r.tile(stats)
			a.rows = most
			launch(r.device, "output_stats", grid, statsThreads, a)
		}
		if r.op.Logits == nil {
			pass()
		} else { // the next tile's logits go elsewhere
			r.beside(pass)
		}
	})
	r.join()
	if grid.Y > 1 {
		r.combineStats(stats, addressOf(r.op.Stats), int64(grid.Y), most, most)
	}
}

// tileArgs is TileArgs of src/output.cu.
type tileArgs struct {
	step, z, gradient, stats, targets, targetSums         driver.Address
	biasGradient, loss                                    driver.Address
	finish                                                finishArgs
	tile, first, items, rows                              int64
	kind                                                  lossArgs
	slot, begins, ends, strips, stripRows, narrow, launch int32
}

// tile are the arguments for the tile at hand.
func (r *outputRun) tile(stats driver.Address) *tileArgs {
	return &tileArgs{
		r.device.step.at, r.tileLogits(), r.place(r.space.logits), stats, addressOf(r.op.Targets.ByRow),
		addressOf(r.op.Targets.Sums), r.biasGradient(), r.place(r.space.loss),
		r.finish, r.space.tile, r.first, r.items, r.padded, r.lossOf(r.op.Loss, r.op.Term), int32(r.op.Target),
		flag(r.first == 0), flag(r.first+r.items == r.op.Items), int32(r.space.strips), int32(r.space.stripRows),
		flag(r.space.narrow), r.loses(r.op.Name),
	}
}

// biasGradient is where the strips of rows leave the tile's gradients with respect to the bias.
func (r *outputRun) biasGradient() driver.Address {
	return r.place(r.space.bias + r.turn*int64(r.space.rowStrips)*r.space.tile)
}

// CombineStats makes the statistics of all items out of those of shards.
func (d *device) CombineStats(op *kernels.CombineStats, s *kernels.Step) error {
	return d.run("CombineStats", s, nil, func() {
		d.combineStats(addressOf(op.Parts), addressOf(op.Stats), op.Shards, op.Stride, s.Most())
	})
}

func (d *device) combineStats(parts, stats driver.Address, count, stride, most int64) {
	type args struct {
		step, parts, stats driver.Address
		shards, stride     int64
		launch             int32
	}
	launch(d, "combine_stats", line(most, 256), 256, &args{d.step.at, parts, stats, count, stride, d.next(site{})})
}

// OutputStep computes loss, gradients and updates.
func (d *device) OutputStep(op *kernels.Output, s *kernels.Step) error {
	return d.run("OutputStep", s, slotsOf(op.Target, op.TiedInput), func() {
		d.clearOthers(op, s)
		if op.Items > 0 {
			d.compute(op, s, outputRunner.gradients)
			return
		}
		for _, source := range op.Sources {
			if source.DH != nil && !source.Accumulate {
				d.fill(addressOf(source.DH), 0, s.Most()*source.Weight.Columns)
			}
		}
	})
}

// gradients turns each tile's logits into gradients and uses them.
func (r *outputRun) gradients() {
	r.tiles(r.op.Continues, func(measure func()) {
		measure()
		r.bias = r.op.Bias != nil && !r.op.Bias.Locked
		grid := driver.Dim{X: blocks(r.items, stripItems), Y: r.space.rowStrips}
		kernel := "output_loss"
		if r.op.Loss.Activation.Kind != kernels.Linear || boosted(r.op.Loss) {
			kernel = "output_loss_of_values"
		}
		launch(r.device, kernel, grid, 256, r.tile(addressOf(r.stats())))
		r.addend("leave_gradient", r.place(r.space.logits))
		for n := range r.op.Sources {
			r.products.hidden(r, n)
			r.join() // the strip, and what the next tile but one writes, are free then
			if !r.op.Sources[n].Weight.Locked {
				r.products.weight(r, n)
			}
		}
		if len(r.op.Sources) == 0 {
			r.join()
		}
		if r.bias {
			r.beside(func() {
				parts := int64(r.space.rowStrips)
				r.updateWritten(r.op.Bias, r.op.Optimizer, r.biasGradient(), r.first, r.items, parts, r.space.tile)
			})
		}
	})
	r.beside(func() { r.sumLoss(r.place(r.space.loss), r.space.blocks(), r.op.Term, r.op.Name) })
	r.products.end(r)
}

// updateItems takes a strip of gradients with respect to a source's weight, for cosine logits after their projection;
// with the last source's goes the bias.
func (r *outputRun) updateItems(n int, strip driver.Address, pitch int64) {
	a, bias := &updateArgs{
		strip: strip, itemInverse: r.finish.itemInverse, to: r.tied(n), first: r.first, items: r.items, pitch: pitch,
	}, r.op.Bias
	if !r.bias || n < len(r.op.Sources)-1 {
		bias = nil
	} else {
		r.bias = false
		a.biasGradient, a.biasParts, a.biasPitch = r.biasGradient(), int64(r.space.rowStrips), r.space.tile
	}
	r.update(r.op.Sources[n].Weight, bias, r.op.Optimizer, a)
}

type updateArgs struct {
	step, strip, itemInverse, rounded, biasGradient driver.Address
	weight, bias                                    weightsArgs
	to                                              itemGradientArgs
	first, items, pitch, biasParts, biasPitch, each int64
	launch                                          int32
}

// update updates items of a weight and, if it is not nil, of a bias.
func (d *device) update(w, bias *kernels.Weights, o kernels.Optimizer, a *updateArgs) {
	a.step, a.rounded, a.weight, a.launch = d.step.at, addressOf(w.Rounded), d.weightsOf(w, o), d.updates(w.Name)
	var grid driver.Dim
	grid, a.each = pieces(a.items, w.Columns, a.itemInverse != 0)
	if bias != nil {
		a.bias = d.weightsOf(bias, o)
		d.updates(bias.Name)
		grid.X += blocks(a.items, 256)
	}
	launch(d, "output_update", grid, 256, a)
}
