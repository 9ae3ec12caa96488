//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/cublaslt"
	"dsstne/kernels/cuda/driver"
)

// Products of dense layers by cuBLASLt, between kernels that round and fill up the factors before and end the sums after. These
// pass 4 bytes for each number of the factors and of the result, which is little beside the products from some size on.

// leastProduct is the number of multiply-adds from which the library is asked: below, four launches outweigh its speed.
const leastProduct = 1 << 25

// libraryDense is a weight's way through the library. Places in the workspace are in elements of 4 bytes.
type libraryDense struct {
	space
	rows, units, inputs            int64 // of the largest batch; filled up
	packs                          bool  // whether the weight is rounded or filled up before it is multiplied
	in, dz, weight, sums, gradient int64 // [rows, inputs], [rows, units], [units, inputs], [rows, the wider], [units, inputs]
	scratch                        int64
	forwards, toInput, toWeight    cublaslt.Shape
}

// denseOf tells how the library serves a weight, if it is there and worth the effort.
func (d *device) denseOf(w *kernels.Weights, rows int64) (p libraryDense, ok bool) {
	if d.library == nil || d.form == "" && rows*w.Rows*w.Columns < leastProduct {
		return p, false
	}
	precision := kernels.Precision(d.narrow)
	p = libraryDense{rows: rows, units: paddedFor(w.Rows, precision), inputs: paddedFor(w.Columns, precision)}
	p.packs = p.inputs != w.Columns || precision == kernels.BFloat16
	p.in, p.dz = p.take(rows*p.inputs), p.take(rows*p.units)
	p.weight, p.gradient = p.take(w.Rows*p.inputs), p.take(w.Rows*p.inputs)
	p.sums, p.scratch = p.take(rows*max(p.inputs, p.units)), p.take(libraryBytes/4)
	common := cublaslt.Shape{Precision: precision, StrideA: p.inputs, Alignment: 16}
	p.forwards, p.toInput, p.toWeight = common, common, common
	f, i, g := &p.forwards, &p.toInput, &p.toWeight
	f.TransposeA, f.M, f.N, f.K, f.StrideB, f.StrideD = true, w.Rows, rows, p.inputs, p.inputs, p.units
	i.M, i.N, i.K, i.StrideB, i.StrideD = p.inputs, rows, w.Rows, p.units, p.inputs
	g.TransposeB, g.M, g.N, g.K, g.StrideB, g.StrideD = true, p.inputs, w.Rows, rows, p.units, p.inputs
	for _, shape := range []cublaslt.Shape{p.forwards, p.toInput, p.toWeight} {
		if d.library.Plan(shape, libraryBytes) != nil {
			return p, false
		}
	}
	return p, true
}

func (d *device) denseWorkspace(w *kernels.Weights, rows int64) int64 {
	p, ok := d.denseOf(w, rows)
	if !ok {
		return 0
	}
	return p.total
}

func (p *libraryDense) multiply(d *device, shape cublaslt.Shape, a, b, to driver.Address, workspace kernels.Buffer) error {
	return d.multiply(shape, a, b, 0, to, placeOf(workspace, p.scratch))
}

func placeOf(workspace kernels.Buffer, element int64) driver.Address {
	return addressOf(workspace) + driver.Address(4*element)
}

// weightsAt packs the weight where it has to be, and tells where it is.
func (p *libraryDense) weightsAt(d *device, w *kernels.Weights, workspace kernels.Buffer) (driver.Address, error) {
	if !p.packs {
		return addressOf(w.Value), nil
	}
	at := placeOf(workspace, p.weight)
	return at, d.packRows(addressOf(w.Value), at, w.Rows, w.Columns, p.inputs, w.Rows)
}

func (p *libraryDense) forward(d *device, op *kernels.Dense) error {
	type args struct {
		step, sums, out    driver.Address
		units, pitch       int64
		epilogue           epilogueArgs
		accumulate, launch int32
	}
	w, in, sums := op.Weight, placeOf(op.Workspace, p.in), placeOf(op.Workspace, p.sums)
	if err := d.packRows(addressOf(op.In), in, -1, w.Columns, p.inputs, p.rows); err != nil {
		return err
	}
	weights, err := p.weightsAt(d, w, op.Workspace)
	if err != nil {
		return err
	}
	if err := p.multiply(d, p.forwards, weights, in, sums, op.Workspace); err != nil {
		return err
	}
	return launch(d, "dense_finish", grid2(blocks(w.Rows, 128), p.rows), driver.Dim{X: 128}, &args{
		d.step.at, sums, addressOf(op.Out), w.Rows, p.units, d.epilogueOf(op.Epilogue), flag(op.Accumulate),
		d.next(site{tensor: w.Name}),
	})
}

func (p *libraryDense) backward(d *device, op *kernels.DenseBackward) error {
	w, dz, in := op.Weight, placeOf(op.Workspace, p.dz), placeOf(op.Workspace, p.in)
	if err := d.packRows(addressOf(op.DZ), dz, -1, w.Rows, p.units, p.rows); err != nil {
		return err
	}
	if op.DIn != nil {
		weights, err := p.weightsAt(d, w, op.Workspace)
		if err != nil {
			return err
		}
		sums := placeOf(op.Workspace, p.sums)
		if err := p.multiply(d, p.toInput, weights, dz, sums, op.Workspace); err != nil {
			return err
		}
		din := kernels.OutputSource{H: op.In, DH: op.DIn, Weight: w, Accumulate: op.Accumulate}
		if err := d.mergeHidden(&din, sums, 0, p.inputs, p.rows, 1, p.rows); err != nil {
			return err
		}
	}
	if err := d.packRows(addressOf(op.In), in, -1, w.Columns, p.inputs, p.rows); err != nil {
		return err
	}
	gradient := placeOf(op.Workspace, p.gradient)
	if err := p.multiply(d, p.toWeight, in, dz, gradient, op.Workspace); err != nil {
		return err
	}
	return d.updateRows(w, op.Optimizer, gradient, p.inputs)
}
