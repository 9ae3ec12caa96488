//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// wholeRows launches a kernel of src/wholerows.cu.
func (d *device) wholeRows(kernel string, x, h, shift kernels.Buffer, units int64, cap float32, s *kernels.Step) {
	type args struct {
		step, x, h, shift driver.Address
		units             int64
		cap               float32
		launch            int32
	}
	launch(d, kernel, line(s.Most(), rowWarps), 32*rowWarps, &args{
		d.step.at, addressOf(x), addressOf(h), addressOf(shift), units, cap, d.next(site{}),
	})
}

// SoftmaxRows replaces sums by their soft-max.
func (d *device) SoftmaxRows(op *kernels.SoftmaxRows, s *kernels.Step) error {
	return d.run("SoftmaxRows", s, nil, func() { d.wholeRows("softmax_rows", op.X, nil, nil, op.Units, 0, s) })
}

// SoftmaxRowsBackward goes back through a SoftmaxRows.
func (d *device) SoftmaxRowsBackward(op *kernels.SoftmaxRowsBackward, s *kernels.Step) error {
	return d.run("SoftmaxRowsBackward", s, nil, func() {
		d.wholeRows("softmax_rows_backward", op.DH, op.H, op.Shift, op.Units, 0, s)
	})
}

// CapRows scales rows of a gradient that are too long.
func (d *device) CapRows(op *kernels.CapRows, s *kernels.Step) error {
	return d.run("CapRows", s, nil, func() { d.wholeRows("cap_rows", op.DZ, nil, nil, op.Units, op.Cap, s) })
}
