//go:build !nocuda && linux && amd64

package cuda

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"dsstne/kernels"
)

// outputForm is one of the ways to compute an output, for batches of up to some rows.
type outputForm struct {
	name      string
	workspace int64 // elements
	run       func(outputOp) outputRunner
}

// outputRunner computes an output in a step.
type outputRunner interface {
	statistics()
	gradients() // loss, gradients and updates
}

// The words of kernels.Options.Form.
const (
	formSimple  = "simple"
	formFused   = "fused"
	formChunked = "chunked"
)

//go:embed forms.txt
var formsText string

// measuredForm is a line of forms.txt.
type measuredForm struct {
	capability  int
	precision   string
	units, rows int64
	form        string
}

var measuredForms = sync.OnceValue(func() []measuredForm { return readForms(formsText) })

// readForms reads a table; the file is part of the library, so a malformed line is a bug.
func readForms(text string) (list []measuredForm) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var m measuredForm
		if _, err := fmt.Sscan(line, &m.capability, &m.precision, &m.units, &m.rows, &m.form); err != nil {
			panic(fmt.Sprintf("forms.txt: %q: %v", line, err))
		}
		list = append(list, m)
	}
	return list
}

// fastest is the form of the nearest measured shape, by ratios of units and rows; empty if the device was not measured.
func fastest(list []measuredForm, capability int, precision string, units, rows int64) (form string) {
	ratio := func(a, b int64) float64 { return float64(max(a, b)) / float64(max(1, min(a, b))) }
	nearest := 0.0
	for _, m := range list {
		away := ratio(m.units, units) * ratio(m.rows, rows)
		if m.capability == capability && m.precision == precision && (form == "" || away < nearest) {
			form, nearest = m.form, away
		}
	}
	return form
}

// formOf chooses the form for an output. It follows from the op's shape, the device's kind and the library alone, and
// therefore results do. The first of these forms that serves the op is chosen: what was measured on such a device,
// chunked, which needs cuBLASLt, fused, simple.
func (d *device) formOf(op *kernels.Output, rows int64) outputForm {
	names := []string{d.form}
	if d.form == "" {
		units := int64(0)
		for _, source := range op.Sources {
			units = max(units, source.Weight.Columns)
		}
		names = []string{
			fastest(measuredForms(), d.hardware.Capability, d.precision().String(), units, rows), formChunked, formFused,
		}
	}
	for _, name := range names {
		if form, serves := d.formNamed(name, op, rows); serves && name != "" {
			return form
		}
	}
	form, _ := d.formNamed(formSimple, op, rows)
	return form
}

// formNamed is a form for an output, and whether it serves the op.
func (d *device) formNamed(name string, op *kernels.Output, rows int64) (form outputForm, serves bool) {
	switch name {
	case formFused:
		shape, serves := d.fusedOf(op, rows)
		return outputForm{name, shape.total, func(on outputOp) outputRunner { return fused(on, shape) }}, serves
	case formChunked:
		space, products, serves := d.chunkedOf(op, rows)
		return outputForm{name, space.total, func(on outputOp) outputRunner { return tiled(on, space, products) }}, serves
	}
	space, products := simpleOf(op, rows)
	return outputForm{name, space.total, func(on outputOp) outputRunner { return tiled(on, space, products) }}, true
}
