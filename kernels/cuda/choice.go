//go:build !nocuda && linux && amd64

package cuda

import "dsstne/kernels"

// outputForm is one of the ways to compute an output.
type outputForm interface {
	statistics() error
	gradients() error
}

// The words of kernels.Options.Form.
const (
	formSimple = "simple"
	formFused  = "fused"
)

// formOf chooses the form for an output: it follows from the op's shape and the device's kind, so that bits do.
func (d *device) formOf(op *kernels.Output, rows int64) string {
	if _, ok := d.fusedOf(op, rows); ok && d.form != formSimple {
		return formFused
	}
	return formSimple
}

func (d *device) outputForm(op *kernels.Output, s *kernels.Step) outputForm {
	if d.formOf(op, s.Most()) == formFused {
		shape, _ := d.fusedOf(op, s.Most())
		return d.fused(op, s, shape)
	}
	return d.simple(op, s)
}

// outputWorkspace is what the form needs, in elements.
func (d *device) outputWorkspace(op *kernels.Output, rows int64) int64 {
	if d.formOf(op, rows) == formFused {
		shape, _ := d.fusedOf(op, rows)
		return shape.total
	}
	return spaceOf(op, rows).total
}
