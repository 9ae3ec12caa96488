package solve

import (
	"cmp"
	"fmt"

	"dsstne/engine/csr"
	"dsstne/engine/itemweights"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// Gram is the method that makes the matrix which a linear model inverts, Y'Y + diag(ridge), the weights of a model. The
// caller inverts it and makes it the weights S. Its bias is the popularity, the numbers of entries of the items.
type Gram struct {
	Ridge
	system system
	gram   kernels.Buffer // [items, items]
}

// Build multiplies the columns of a panel of the unit matrix by Y and by its transpose, in each step.
func (g *Gram) Build(b *program.Builder, data csr.Source) int64 {
	rows, items := data.Rows(), data.Columns()
	g.system = newSystem(b, data)
	units, products := b.Alloc("panel", "unit columns", items*panelWidth), b.Alloc("panel", "products", rows*panelWidth)
	g.gram = b.Alloc("weights", "", items*items)
	b.Add(&unitColumns{items, units})
	b.Add(&kernels.SparseProduct{Matrix: g.system.byRow, Panels: 1, Width: panelWidth, In: units, Out: products})
	b.Add(&kernels.SparseProduct{Matrix: g.system.byItem, Panels: 1, Width: panelWidth, In: products, Out: units})
	b.Add(&gramRows{units, g.gram, &g.system})
	// The caller inverts a copy of the weights.
	b.Note(program.Part{Name: "the model", Of: "and its inverse", Bytes: 8 * items * items, Device: "host"})
	return parts(items, panelWidth)
}

// Load computes the system.
func (g *Gram) Load(data csr.Source) error { return g.system.load(data, g.Ridge) }

// Model copies the matrix.
func (g *Gram) Model() (*model.Model, error) {
	form := &itemweights.Form{Items: g.system.byItem.Rows, Bias: true, BiasIfEmpty: true}
	return made(form, func(m *model.Model) error {
		return cmp.Or(copyTo(m, "weight", g.gram), fill(m, "bias", popularity(&g.system.byItem)))
	})
}

// gramRows makes the columns of a panel, which the unit columns of the step have become, rows of a symmetric matrix,
// and puts the diagonal in place.
type gramRows struct {
	panel, out kernels.Buffer
	system     *system
}

func (o *gramRows) Do(_ kernels.Rank, s *kernels.Step) error {
	panel, out, diagonal := o.panel.Float32(), o.out.Float32(), o.system.diagonal.Float32()
	items := int64(len(diagonal))
	for c := range min(panelWidth, items-(s.Number-1)*panelWidth) {
		i := (s.Number-1)*panelWidth + c
		row := out[i*items : (i+1)*items]
		for j := range row {
			row[j] = panel[int64(j)*panelWidth+c]
		}
		row[i] = diagonal[i]
	}
	return nil
}

func (o *gramRows) String() string { return fmt.Sprintf("GramRows, %d in a step", panelWidth) }
