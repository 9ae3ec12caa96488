//go:build !nocuda && linux && amd64

package cuda

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/cublaslt"
)

// outputForm is one of the ways to compute an output, for batches of up to some rows.
type outputForm struct {
	name      string
	workspace int64 // elements
	logits    int64 // elements of those that are kept, if they are
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
	capability         int
	precision          string
	units, rows, items int64
	form               string
}

var measuredForms = sync.OnceValue(func() []measuredForm { return readForms(formsText) })

// readForms reads a table; the file is part of the library, so a malformed line is a bug.
func readForms(text string) (list []measuredForm) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var m measuredForm
		if _, err := fmt.Sscan(line, &m.capability, &m.precision, &m.units, &m.rows, &m.items, &m.form); err != nil {
			panic(fmt.Sprintf("forms.txt: %q: %v", line, err))
		}
		list = append(list, m)
	}
	return list
}

// fastest is the form of the nearest measured shape, by ratios of units, rows and items; empty if the device was not
// measured.
func fastest(list []measuredForm, capability int, precision string, units, rows, items int64) (form string) {
	ratio := func(a, b int64) float64 { return float64(max(a, b, 1)) / float64(max(1, min(a, b))) }
	nearest := 0.0
	for _, m := range list {
		away := ratio(m.units, units) * ratio(m.rows, rows) * ratio(m.items, items)
		if m.capability == capability && m.precision == precision && (form == "" || away < nearest) {
			form, nearest = m.form, away
		}
	}
	return form
}

// formOf chooses the form for an output. It follows from the op's shape, the device's kind and the library alone, and
// therefore results do. A form that the device was opened with is the only one: an error says that it does not serve
// the op. Otherwise the first of these that serves the op is chosen: what was measured on such a device, chunked, which
// needs cuBLASLt, fused, simple. If the library fails to say whether it serves the op, formOf returns the error besides
// the form.
func (d *device) formOf(op *kernels.Output, rows int64) (outputForm, error) {
	if d.form != "" {
		form, serves, err := d.formNamed(d.form, op, rows)
		if err == nil && !serves {
			err = fault.New(fault.Unsupported, "the form %q does not serve %s of %s", d.form, op, d.info.Name)
		}
		return form, err
	}
	units := int64(0)
	for _, source := range op.Sources {
		units = max(units, source.Weight.Columns)
	}
	measured := fastest(measuredForms(), d.hardware.Capability, d.precision().String(), units, rows, op.Items)
	for _, name := range []string{cmp.Or(measured, formChunked), formChunked, formFused} {
		if form, serves, err := d.formNamed(name, op, rows); serves || err != nil {
			return form, err
		}
	}
	form, _, err := d.formNamed(formSimple, op, rows)
	return form, err
}

// formNamed is a form for an output, and whether it serves the op.
func (d *device) formNamed(name string, op *kernels.Output, rows int64) (form outputForm, serves bool, err error) {
	switch name {
	case formFused:
		shape, serves := d.fusedOf(op, rows)
		form = outputForm{name, shape.total, 0, func(on outputOp) outputRunner { return fused(on, shape) }}
		return form, serves, nil
	case formChunked:
		space, products, serves, err := d.chunkedOf(op, rows)
		return formTiled(name, space, products), serves, err
	}
	space, products := d.simpleOf(op, rows)
	return formTiled(name, space, products), true, nil
}

func formTiled(name string, space outputSpace, products tileProducts) outputForm {
	return outputForm{name, space.total, space.kept, func(on outputOp) outputRunner { return tiled(on, space, products) }}
}

// ReadsByRow: only the fused form reads targets by item, see kernels.RowReader.
func (d *device) ReadsByRow(op *kernels.Output, rows int64) (reads bool) {
	if op.Items == 0 { // they are not read
		return true
	}
	err := d.do("planning", func() error {
		form, err := d.formOf(op, rows)
		reads = form.name != formFused
		return err
	})
	return reads && err == nil
}

// compute has an output computed in its form by a method of its runner. It notes an error if the form cannot be chosen,
// or is not the one that was chosen when the op was planned: it needs more workspace or other logits, or the target's
// order by item, or does not keep the weights' rounded copies.
func (d *device) compute(op *kernels.Output, s *kernels.Step, what func(outputRunner)) {
	form, err := d.formOf(op, s.Most())
	small := form.workspace > 0 && (op.Workspace == nil || op.Workspace.Len() < form.workspace)
	other := op.Logits != nil && op.Logits.Len() != form.logits
	rounded := slices.ContainsFunc(op.Sources, func(s kernels.OutputSource) bool { return s.Weight.Rounded != nil })
	if err == nil && (small || other || op.ByRow && form.name == formFused || rounded && form.name != formChunked) {
		err = fault.New(fault.DeviceFailed, "%s of %s was planned for another form than %q", op, d.info.Name, form.name)
	}
	if err != nil {
		d.note(err)
		return
	}
	what(form.run(outputOp{d, op, s}))
}

// Explain names the form of an output, and which products of dense layers cuBLASLt makes, see kernels.Explainer.
func (d *device) Explain(op kernels.Op, rows int64) (text string) {
	output := func(op *kernels.Output) error {
		if op.Items == 0 {
			return nil
		}
		form, err := d.formOf(op, rows)
		if text = form.name; text == formChunked {
			text += ", cuBLASLt " + cublaslt.Version()
		}
		return err
	}
	dense := func(w *kernels.Weights) error {
		_, by, err := d.denseOf(w, rows)
		if text = "dsstne's kernels"; by {
			text = "cuBLASLt " + cublaslt.Version()
		}
		return err
	}
	err := d.do("planning", func() error {
		switch op := op.(type) {
		case kernels.OutputStats:
			return output(op.Output)
		case kernels.OutputStep:
			return output(op.Output)
		case *kernels.Dense:
			return dense(op.Weight)
		case *kernels.DenseBackward:
			return dense(op.Weight)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return text
}
