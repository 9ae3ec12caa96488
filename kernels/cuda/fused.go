//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// The constants of src/fused.cuh.
const (
	fusedTile    = 64
	fusedThreads = 256
	// fusedStatic is an upper bound of the shared arrays beside the tiles.
	fusedStatic = 4 << 10
)

// fusedColumns are the numbers of units that the kernels are compiled for; others are filled up with zeros.
var fusedColumns = []int64{64, 128, 256}

// fusedShape is how the fused form does an output: it follows from the op, the device's kind and the largest batch.
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

// fusedOf tells the shape, if the device and the op have the fused form: one source of up to 256 units, and no float32.
func (d *device) fusedOf(op *kernels.Output, rows int64) (s fusedShape, ok bool) {
	if len(op.Sources) != 1 || op.Items == 0 {
		return s, false
	}
	for _, s.padded = range fusedColumns {
		if ok = op.Sources[0].Weight.Columns <= s.padded; ok {
			break
		}
	}
	s.name, s.shared = d.fusedKernel(s.padded)
	if !ok || s.shared+fusedStatic > d.sharedBytes {
		return s, false
	}
	tiles, rowTiles := int64(blocks(op.Items, fusedTile)), int64(blocks(rows, fusedTile))
	resident := 2 * int64(d.multiprocessors)
	s.rows, s.splits, s.blocks = rowTiles*fusedTile, max(1, min(tiles, resident/rowTiles)), min(tiles, resident)
	s.loss = s.take(2 * s.blocks)
	s.hidden = s.take(s.rows * s.padded)
	s.hiddenInverse = s.take(s.rows)
	s.parts = s.take(s.splits * s.rows * s.padded)
	return s, true
}

// loadFused looks up the kernels of the device's precision that its shared memory is large enough for.
func (d *device) loadFused() (err error) {
	for _, columns := range fusedColumns {
		name, shared := d.fusedKernel(columns)
		if shared+fusedStatic > d.sharedBytes {
			continue
		}
		for _, what := range []string{"stats", "hidden", "weight"} {
			name := "fused_" + what + "_" + name
			if d.kernel[name], err = d.module.Function(name); err == nil {
				err = d.kernel[name].AllowShared(shared)
			}
			if err != nil {
				return errors.Join(fault.Wrap(err, "kernel %s", name), d.module.Unload())
			}
		}
	}
	return nil
}

// fusedKernel is the end of the name of the kernels for a number of units, and their dynamic shared memory in bytes.
func (d *device) fusedKernel(columns int64) (name string, shared int) {
	p := kernels.Precision(d.narrow)
	elementBytes, pad, pitch := int64(2), int64(8), int64(68)
	switch p {
	case kernels.Float32:
		return "", d.sharedBytes // there are none
	case kernels.TensorFloat32:
		elementBytes, pad, pitch = 4, 4, 72
	}
	return fmt.Sprintf("%s_%d", p, columns), int(fusedTile * (2*elementBytes*(columns+pad) + 4*pitch))
}

// fusedRun is an op on its way through the fused kernels.
type fusedRun struct {
	*device
	op    *kernels.Output
	step  *kernels.Step
	shape fusedShape
	args  fusedArgs
}

// fusedArgs is FusedArgs of src/output_fused.cu.
type fusedArgs struct {
	step, hidden, hiddenInverse, bias, stats, parts, loss driver.Address
	items, rows, splits                                   int64
	weight, biasWeights                                   weightsArgs
	to                                                    itemGradientArgs
	kind                                                  lossArgs
	temperature                                           float32
	slot, fours, launch                                   int32
}

func (d *device) fused(op *kernels.Output, s *kernels.Step, shape fusedShape) *fusedRun {
	r := &fusedRun{device: d, op: op, step: s, shape: shape}
	source := op.Sources[0]
	r.args = fusedArgs{
		step: d.step.at, hidden: r.place(shape.hidden), parts: r.place(shape.parts), loss: r.place(shape.loss),
		items: op.Items, rows: shape.rows, splits: shape.splits, weight: d.weightsOf(source.Weight, op.Optimizer),
		biasWeights: d.weightsOf(op.Bias, op.Optimizer), kind: d.lossOf(op), temperature: op.Temperature, slot: int32(op.Target),
		fours: flag(source.Weight.Columns%4 == 0 && addressOf(source.Weight.Value)%16 == 0),
	}
	r.args.bias = r.args.biasWeights.value
	if op.Temperature != 0 {
		r.args.hiddenInverse = r.place(shape.hiddenInverse)
	}
	if op.TiedInput >= 0 {
		r.args.to = itemGradientArgs{addressOf(op.TiedGradient), int32(op.TiedInput)}
	}
	return r
}

func (r *fusedRun) place(element int64) driver.Address {
	return addressOf(r.op.Workspace) + driver.Address(4*element)
}

// prepare rounds the hidden values and measures them.
func (r *fusedRun) prepare() error {
	source := r.op.Sources[0]
	columns := source.Weight.Columns
	err := r.packRows(addressOf(source.H), r.args.hidden, -1, columns, r.shape.padded, r.shape.rows)
	if err != nil || r.op.Temperature == 0 {
		return err
	}
	return r.inverseNorms(addressOf(source.H), r.args.hiddenInverse, columns, -1, r.step.Most())
}

// packRows rounds rows of a matrix, so many or with -1 those of the batch, and fills them up with zeros, to rows and columns
// that a product takes.
func (d *device) packRows(x, to driver.Address, valid, columns, padded, rows int64) error {
	type args struct {
		step, x, to                  driver.Address
		columns, padded, rows, valid int64
		precision, launch            int32
	}
	return launch(d, "pack_rows", grid2(blocks(padded, 128), rows), driver.Dim{X: 128},
		&args{d.step.at, x, to, columns, padded, rows, valid, d.narrow, d.next(site{})})
}

// walk launches a kernel of the form.
func (r *fusedRun) walk(what string, grid driver.Dim) error {
	kernel := "fused_" + what + "_" + r.shape.name
	r.args.launch = r.next(site{tensor: r.op.Name, what: lossWords, noRow: true})
	r.next(site{tensor: r.op.Sources[0].Weight.Name, what: updateWords})
	if r.op.Bias != nil {
		r.next(site{tensor: r.op.Bias.Name, what: updateWords})
	}
	a := r.args // what C receives lies beside no Go pointer
	return launchShared(r.device, kernel, grid, driver.Dim{X: fusedThreads}, r.shape.shared, &a)
}

func (r *fusedRun) rowTiles() driver.Dim {
	return driver.Dim{X: uint32(r.shape.rows / fusedTile), Y: uint32(r.shape.splits)}
}

// statistics computes maximum and log-sum-exp of each row.
func (r *fusedRun) statistics() error {
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.walk("stats", r.rowTiles()); err != nil {
		return err
	}
	return r.combineStats(r.args.parts, addressOf(r.op.Stats), r.shape.splits, r.shape.rows, r.step.Most())
}

// gradients computes loss, gradients and updates.
func (r *fusedRun) gradients() error {
	if !r.op.Continues {
		if err := r.prepare(); err != nil {
			return err
		}
	}
	if r.op.Loss.NeedsStats() {
		r.args.stats = addressOf(r.op.Stats)
	}
	if r.op.Sources[0].DH != nil {
		if err := r.walk("hidden", r.rowTiles()); err != nil {
			return err
		}
		err := r.mergeHidden(&r.op.Sources[0], r.args.parts, r.args.hiddenInverse, r.shape.padded, r.shape.rows, r.shape.splits,
			r.step.Most())
		if err != nil {
			return err
		}
	}
	if err := r.walk("weight", driver.Dim{X: uint32(r.shape.blocks)}); err != nil {
		return err
	}
	return r.sumLoss(r.op, r.args.loss, r.shape.blocks)
}

// mergeHidden adds up parts of the gradient by a source, and ends it.
func (d *device) mergeHidden(source *kernels.OutputSource, parts, inverse driver.Address, padded, rows, count, most int64) error {
	type args struct {
		step, h, parts, inverse, dh  driver.Address
		columns, padded, rows, count int64
		accumulate, launch           int32
	}
	return launch(d, "output_merge_hidden", driver.Dim{X: blocks(most, 8)}, driver.Dim{X: 256}, &args{
		d.step.at, addressOf(source.H), parts, inverse, addressOf(source.DH), source.Weight.Columns, padded, rows, count,
		flag(source.Accumulate), d.next(site{tensor: source.Weight.Name, what: updateWords}),
	})
}
