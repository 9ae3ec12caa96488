//go:build !nocuda && linux && amd64

package cuda

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"dsstne/kernels"
)

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

// readForms reads a table; the file is part of the library, so a line that cannot be read is a mistake of ours.
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

// formOf chooses the form for an output: it follows from the op's shape, the device's kind and the library, so that bits do.
// What was measured on such a device decides; else it is the chunked one where cuBLASLt is there, then the fused one, each
// where it serves the op.
func (d *device) formOf(op *kernels.Output, rows int64) string {
	offers := []string{formChunked, formFused}
	if d.form != "" {
		offers = []string{d.form}
	} else if form := fastest(measuredForms(), d.capability, kernels.Precision(d.narrow).String(), widestSource(op), rows); form != "" {
		offers = append([]string{form}, offers...)
	}
	for _, form := range offers {
		ok := form == formSimple
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

func widestSource(op *kernels.Output) (columns int64) {
	for _, source := range op.Sources {
		columns = max(columns, source.Weight.Columns)
	}
	return columns
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
