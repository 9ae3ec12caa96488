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
	formSimple  = "simple"
	formFused   = "fused"
	formChunked = "chunked"
)

// formOf chooses the form for an output: it follows from the op's shape, the device's kind and the library, so that bits do.
// Until hardware has filled a table it is the chunked one where cuBLASLt is there, then the fused one where it serves the op.
func (d *device) formOf(op *kernels.Output, rows int64) string {
	offers := []string{formChunked, formFused}
	if d.form != "" {
		offers = []string{d.form}
	}
	for _, form := range offers {
		ok := false
		switch form {
		case formChunked:
			_, _, ok = d.chunkedOf(op, rows)
		case formFused:
			_, ok = d.fusedOf(op, rows)
		}
		if ok {
			return form
		}
	}
	return formSimple
}

func (d *device) outputForm(op *kernels.Output, s *kernels.Step) outputForm {
	switch d.formOf(op, s.Most()) {
	case formChunked:
		space, products, _ := d.chunkedOf(op, s.Most())
		return d.tiled(op, s, space, products)
	case formFused:
		shape, _ := d.fusedOf(op, s.Most())
		return d.fused(op, s, shape)
	}
	space, products := d.simpleOf(op, s.Most())
	return d.tiled(op, s, space, products)
}

// outputWorkspace is what the form needs, in elements.
func (d *device) outputWorkspace(op *kernels.Output, rows int64) int64 {
	switch d.formOf(op, rows) {
	case formChunked:
		space, _, _ := d.chunkedOf(op, rows)
		return space.total
	case formFused:
		shape, _ := d.fusedOf(op, rows)
		return shape.total
	}
	space, _ := d.simpleOf(op, rows)
	return space.total
}
