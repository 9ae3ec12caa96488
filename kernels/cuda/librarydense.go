//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// Products of dense layers by cuBLASLt, between kernels that round and fill up the factors before, and finish the sums
// after. These kernels move 4 bytes for each number of the factors and of the result, which is little beside large
// products.

// leastProduct is the number of multiply-adds from which the library is asked: below, four launches outweigh its speed.
const leastProduct = 1 << 25

// libraryDense is a weight's way through the library.
type libraryDense struct {
	space
	rows, units, inputs            int64 // of the largest batch; filled up
	in, dz, weight, sums, gradient int64 // [rows, inputs], [rows, units], [units, inputs], [rows, wider], [units, inputs]
	scratch                        int64
	products                       productShapes
}

// denseOf is how the library serves a weight, if it is there and worth the effort. If the library fails to say whether
// it serves the weight, denseOf returns the error besides.
func (d *device) denseOf(w *kernels.Weights, rows int64) (p libraryDense, ok bool, err error) {
	if d.library == nil || d.form == "" && rows*w.Rows*w.Columns < leastProduct {
		return p, false, nil
	}
	p = libraryDense{rows: rows, units: d.padded(w.Rows), inputs: d.padded(w.Columns)}
	p.in, p.dz = p.take(rows*p.inputs), p.take(rows*p.units)
	p.weight, p.gradient = p.take(w.Rows*p.inputs), p.take(w.Rows*p.inputs)
	p.sums, p.scratch = p.take(rows*max(p.inputs, p.units)), p.take(libraryBytes/4)
	p.products = d.shapes(rows, w.Rows, p.inputs, p.units, false)
	if ok, err = d.plans(p.products); !ok && err == nil && d.form != "" {
		err = fault.New(fault.Unsupported, "the form %q does not serve %s of %s", d.form, w, d.info.Name)
	}
	return p, ok, err
}

func (d *device) denseWorkspace(w *kernels.Weights, rows int64) int64 {
	p, ok, err := d.denseOf(w, rows)
	if !ok && err == nil {
		return 0
	}
	return p.total
}

// weights is where the library finds the weight.
func (p *libraryDense) weights(d *device, w *kernels.Weights, workspace kernels.Buffer) driver.Address {
	return d.packed(w, element(workspace, p.weight), 0, w.Rows)
}

func (p *libraryDense) forward(d *device, op *kernels.Dense) {
	w, in, sums := op.Weight, element(op.Workspace, p.in), element(op.Workspace, p.sums)
	d.packRows(addressOf(op.In), in, -1, w.Columns, p.inputs, p.rows)
	d.multiply(p.products.forward, p.weights(d, w, op.Workspace), in, 0, sums, element(op.Workspace, p.scratch))
	launch(d, "finish", grid2(w.Rows, rowThreads, p.rows), rowThreads, &layerArgs{
		d.step.at, sums, addressOf(op.Out), w.Rows, p.units, d.epilogueOf(op.Epilogue), flag(op.Accumulate),
		d.next(site{tensor: w.Name}),
	})
}

func (p *libraryDense) backward(d *device, op *kernels.DenseBackward) {
	place := func(n int64) driver.Address { return element(op.Workspace, n) }
	w, dz, in := op.Weight, place(p.dz), place(p.in)
	d.packRows(addressOf(op.DZ), dz, -1, w.Rows, p.units, p.rows)
	if op.DIn != nil {
		d.multiply(p.products.toInput, p.weights(d, w, op.Workspace), dz, 0, place(p.sums), place(p.scratch))
		din := kernels.OutputSource{H: op.In, DH: op.DIn, Weight: w, Accumulate: op.Accumulate}
		d.mergeHidden(&din, place(p.sums), 0, p.inputs, p.rows, 1, p.rows)
	}
	if w.Locked {
		return
	}
	d.beside(func() {
		d.packRows(addressOf(op.In), in, -1, w.Columns, p.inputs, p.rows)
		d.multiply(p.products.toWeight, in, dz, 0, place(p.gradient), place(p.scratch))
		d.update(w, nil, op.Optimizer, &updateArgs{strip: place(p.gradient), items: w.Rows, pitch: p.inputs})
	})
}
