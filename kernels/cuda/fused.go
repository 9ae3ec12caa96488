//go:build !nocuda && linux && amd64

package cuda

import (
	"fmt"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// The constants of src/fused.cuh.
const (
	fusedTile    = 64
	fusedThreads = 256
	fusedStatic  = 4 << 10 // an upper bound of the shared arrays beside the tiles
)

// fusedColumns are the numbers of units that the kernels are compiled for; others are filled up with zeros.
var fusedColumns = []int64{64, 128, 256}

// fusedShape is how the fused form computes an output; it follows from the op, the device's kind and the largest batch.
type fusedShape struct {
	name   string // the end of the kernels' names
	padded int64  // units
	rows   int64  // of the largest batch, filled up to whole tiles
	splits int64  // of the items, each of which makes statistics and dh of its own
	blocks int64  // that walk the items for the update
	shared int    // dynamic shared memory of a block, in bytes

	space
	hidden, hiddenInverse, parts, loss int64 // where they begin in the workspace, in elements
}

// fusedOf is the shape, if the fused form serves the op: one source of up to 256 units, no activation, no addend, no
// float32, rows and targets that count the same, and nothing locked, since its kernels update whatever they compute.
func (d *device) fusedOf(op *kernels.Output, rows int64) (s fusedShape, ok bool) {
	if len(op.Sources) != 1 || op.Items == 0 || op.Loss.Activation.Kind != kernels.Linear || op.Weighted ||
		op.Addend.Stride > 0 || boosted(op.Loss) ||
		op.Sources[0].Weight.Locked || op.Bias != nil && op.Bias.Locked {
		return s, false
	}
	for _, s.padded = range fusedColumns {
		if ok = op.Sources[0].Weight.Columns <= s.padded; ok {
			break
		}
	}
	s.name, s.shared = d.fusedKernel(s.padded)
	if !ok || s.shared+fusedStatic > d.hardware.SharedBytes {
		return s, false
	}
	tiles, rowTiles := int64(blocks(op.Items, fusedTile)), int64(blocks(rows, fusedTile))
	resident := 2 * int64(d.hardware.Multiprocessors)
	s.rows, s.splits, s.blocks = rowTiles*fusedTile, max(1, min(tiles, resident/rowTiles)), min(tiles, resident)
	s.loss = s.take(2 * s.blocks)
	s.hidden = s.take(s.rows * s.padded)
	s.hiddenInverse = s.take(s.rows)
	s.parts = s.take(s.splits * s.rows * s.padded)
	return s, true
}

// boosted reports whether items with and without a target weigh differently, or both other than 1.
func boosted(l kernels.Loss) bool {
	one, zero := l.Boosts()
	return one != 1 || zero != 1
}

// loadFused looks up the kernels of the device's precision that its shared memory is large enough for.
func (d *device) loadFused() (err error) {
	for _, columns := range fusedColumns {
		name, shared := d.fusedKernel(columns)
		if shared+fusedStatic > d.hardware.SharedBytes {
			continue
		}
		for _, what := range []string{"stats", "hidden", "weight"} {
			name := "fused_" + what + "_" + name
			if d.kernel[name], err = d.module.Function(name); err == nil {
				err = d.kernel[name].AllowShared(shared)
			}
			if err != nil {
				return fault.Wrap(err, "kernel %s", name)
			}
		}
	}
	return nil
}

// fusedKernel is the end of the name of the kernels for a number of units, and their dynamic shared memory in bytes.
func (d *device) fusedKernel(columns int64) (name string, shared int) {
	p := d.precision()
	elementBytes, pad, pitch := int64(2), int64(8), int64(68)
	switch p {
	case kernels.Float32:
		return "", d.hardware.SharedBytes // there are none
	case kernels.TensorFloat32:
		elementBytes, pad, pitch = 4, 4, 72
	}
	return fmt.Sprintf("%s_%d", p, columns), int(fusedTile * (2*elementBytes*(columns+pad) + 4*pitch))
}

// fusedRun is an op on its way through the fused kernels.
type fusedRun struct {
	outputOp
	shape fusedShape
	args  fusedArgs
}

// fusedArgs is FusedArgs of src/output_fused.cu.
type fusedArgs struct {
	step, hidden, hiddenInverse, bias, stats      driver.Address
	targets, itemTargets, targetSums, parts, loss driver.Address
	items, rows, splits                           int64
	weight, biasWeights                           weightsArgs
	to                                            itemGradientArgs
	kind                                          lossArgs
	temperature                                   float32
	slot, fours, launch                           int32
}

func fused(on outputOp, shape fusedShape) *fusedRun {
	r, op := &fusedRun{outputOp: on, shape: shape}, on.op
	w := op.Sources[0].Weight
	r.args = fusedArgs{
		step: r.device.step.at, hidden: r.place(shape.hidden), bias: biasOf(op.Bias), parts: r.place(shape.parts),
		targets: addressOf(op.Targets.ByRow), itemTargets: addressOf(op.Targets.ByItem),
		targetSums: addressOf(op.Targets.Sums),
		loss:       r.place(shape.loss), items: op.Items, rows: shape.rows, splits: shape.splits,
		weight: r.weightsOf(w, op.Optimizer), biasWeights: r.weightsOf(op.Bias, op.Optimizer), to: r.tied(0),
		kind: r.lossOf(r.op.Loss, r.op.Term), temperature: op.Temperature, slot: int32(op.Target),
		fours: flag(w.Columns%4 == 0 && addressOf(w.Value)%16 == 0),
	}
	if op.Temperature != 0 {
		r.args.hiddenInverse = r.place(shape.hiddenInverse)
	}
	return r
}

// prepare rounds the hidden values and measures them.
func (r *fusedRun) prepare() {
	source := r.op.Sources[0]
	columns := source.Weight.Columns
	r.packRows(addressOf(source.H), r.args.hidden, -1, columns, r.shape.padded, r.shape.rows)
	if r.op.Temperature != 0 {
		r.inverseNorms(addressOf(source.H), r.args.hiddenInverse, columns, -1, r.step.Most())
	}
}

// packRows rounds valid rows of a matrix, or with -1 those of the batch, and fills them up with zeros to the rows and
// columns that a product takes.
func (d *device) packRows(x, to driver.Address, valid, columns, padded, rows int64) {
	type args struct {
		step, x, to                  driver.Address
		columns, padded, rows, valid int64
		precision, launch            int32
	}
	const each = 512 // columns of a warp, 128 kFours of src/output_fused.cu
	launch(d, "pack_rows", driver.Dim{X: blocks(rows, 4), Y: blocks(padded, each)}, rowThreads,
		&args{d.step.at, x, to, columns, padded, rows, valid, d.narrow, d.next(site{})})
}

// walk launches a kernel of the form, which may fail at logits and loss, the weight and the bias: three launches'
// numbers.
func (r *fusedRun) walk(what string, grid driver.Dim) {
	a := r.args // what C receives lies beside no Go pointer
	a.launch = r.loses(r.op.Name)
	r.updates(r.op.Sources[0].Weight.Name)
	if r.op.Bias != nil {
		r.updates(r.op.Bias.Name)
	}
	launchShared(r.device, "fused_"+what+"_"+r.shape.name, grid, fusedThreads, r.shape.shared, &a)
}

func (r *fusedRun) rowTiles() driver.Dim {
	return driver.Dim{X: uint32(r.shape.rows / fusedTile), Y: uint32(r.shape.splits)}
}

func (r *fusedRun) statistics() {
	r.prepare()
	r.walk("stats", r.rowTiles())
	r.combineStats(r.args.parts, addressOf(r.op.Stats), r.shape.splits, r.shape.rows, r.step.Most())
}

func (r *fusedRun) gradients() {
	if !r.op.Continues {
		r.prepare()
	}
	r.args.stats = addressOf(r.stats())
	if source := &r.op.Sources[0]; source.DH != nil {
		r.walk("hidden", r.rowTiles())
		r.mergeHidden(source, r.args.parts, r.args.hiddenInverse, r.shape.padded, r.shape.rows, r.shape.splits, r.step.Most())
	}
	r.walk("weight", driver.Dim{X: uint32(r.shape.blocks)})
	r.sumLoss(r.args.loss, r.shape.blocks, r.op.Term, r.op.Name)
}

// mergeHidden adds up count parts of the gradient with respect to a source, if it is wanted, and projects it for cosine
// logits.
func (d *device) mergeHidden(
	source *kernels.OutputSource, parts, inverse driver.Address, padded, rows, count, most int64,
) {
	type args struct {
		step, h, parts, inverse, dh  driver.Address
		columns, padded, rows, count int64
		each                         int64
		accumulate, launch           int32
	}
	if source.DH == nil {
		return
	}
	columns := source.Weight.Columns
	grid, each := pieces(most, columns, inverse != 0)
	launch(d, "output_merge_hidden", grid, 256, &args{
		d.step.at, addressOf(source.H), parts, inverse, addressOf(source.DH), columns, padded, rows, count, each,
		flag(source.Accumulate), d.updates(source.Weight.Name),
	})
}
