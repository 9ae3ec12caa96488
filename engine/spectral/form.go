package spectral

import (
	"encoding/json"
	"math"

	"dsstne/engine/kept"
	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/kernels"
)

// Kind is the word of the definition.
const Kind = "spectral"

// Names of tensors: V is F32 [panels, items, 64], with columns of zeros behind the last; Rows is F32 [rows], and the
// others are F32 [items].
const (
	V          = "v"
	Rows       = "row_factors"
	In         = "in"
	Out        = "out"
	Project    = "project"
	Back       = "back"
	Final      = "final"
	Popularity = "popularity"
)

var vectors = []string{In, Out, Project, Back, Final, Popularity}

const width = kernels.BlockWidth

// Form is a checked definition.
type Form struct {
	kept.Data  // R
	Rank       int64
	Sharpening float64
}

// Parse reads a definition. Its errors, of kind fault.InvalidArgument, name the key, the value and what is allowed.
func Parse(text []byte) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "rank", "sharpening")
	o.Word("kind", Kind, Kind)
	f := &Form{
		Data: kept.Read(o), Rank: o.Int("rank", 1, strictjson.Between(1, math.MaxInt32)),
		Sharpening: o.Float("sharpening", 0, strictjson.Between(0, 100)),
	}
	return f, o.Done()
}

// JSON is the complete definition.
func (f *Form) JSON() []byte {
	text, err := json.Marshal(struct {
		Kind string `json:"kind"`
		kept.Data
		Rank       int64   `json:"rank"`
		Sharpening float64 `json:"sharpening"`
	}{Kind, f.Data, f.Rank, f.Sharpening})
	if err != nil {
		panic(err) // numbers and words can be written
	}
	return text
}

// Panels is how many panels V has.
func (f *Form) Panels() int64 { return (f.Rank + width - 1) / width }

// Specs are the tensors.
func (f *Form) Specs() ([]tensor.Spec, error) {
	further := []tensor.Spec{kept.Tensor(V, f.Panels(), f.Items, width), kept.Tensor(Rows, f.Rows)}
	return append(f.Tensors(vectors), further...), nil
}

// Bounds are those of kept data.
func (f *Form) Bounds() (rows int64, on program.Reach) { return f.Data.Bounds(width) }

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) {
		specs, _ := f.Specs()
		byRow, byItem, value := f.Begin(b, specs, bind)
		filter := NewFilter(b, byRow, byItem, f.Rank, value)
		sum := b.Alloc("panel", "the sum", f.Items*width)
		scores := b.Alloc("scores", "", b.Rows()*f.Items)
		for first := int64(0); first < b.Rows(); first += width {
			for _, op := range append(filter.First(b.FirstSlot(), first), filter.LowPass(b.FirstSlot(), first)...) {
				b.Add(op)
			}
			from := filter.Y
			if f.Sharpening > 0 {
				from = sum
				f.sharpen(b, filter, sum)
			}
			b.Add(&kernels.PanelToRows{
				Input: b.FirstSlot(), Items: f.Items, Width: width, First: first, Factors: value(Final),
				IfEmpty: value(Popularity), Panel: from, Out: scores,
			})
		}
		f.Score(b, scores)
	}
}

// sharpen adds the polynomial.
func (f *Form) sharpen(b *program.Builder, filter *Filter, sum kernels.Buffer) {
	scale := func(factor float64, add bool) {
		b.Add(&kernels.PanelScale{
			Rows: f.Items, Width: width, Factor: float32(factor), In: filter.Y, Out: sum, Add: add,
		})
	}
	scale(1, false)
	for n, factor := 1, 1.0; n <= 4; n++ {
		factor *= -f.Sharpening / float64(n)
		b.Add(filter.product(&filter.Data, filter.Y, filter.between))
		b.Add(filter.product(&filter.Transposed, filter.between, filter.Y))
		scale(factor, true)
	}
}

// Filter makes y of a panel of rows of a batch.
type Filter struct {
	Data, Transposed kernels.SparseMatrix // R by row and by item
	P, Y             kernels.Buffer       // [items, 64]: the part of V, and the sum of both parts
	value            func(name string) kernels.Buffer
	panels           int64
	between, blocks  kernels.Buffer // [rows, 64]; x V, in blocks
}

// NewFilter takes memory for panels; value finds V and the vectors.
func NewFilter(
	b *program.Builder, data, transposed kernels.SparseMatrix, rank int64, value func(name string) kernels.Buffer,
) *Filter {
	f := &Filter{Data: data, Transposed: transposed, value: value, panels: (rank + width - 1) / width}
	panel := func(of string, rows int64) kernels.Buffer { return b.Alloc("panel", of, rows*width) }
	f.P, f.Y = panel("the part of V", data.Columns), panel("the row", data.Columns)
	f.between = panel("products", data.Rows)
	f.blocks = panel("projections", f.panels*width)
	return f
}

// First are the operations of the first part, which writes to Y.
func (f *Filter) First(slot int, first int64) []kernels.Op {
	items := f.Data.Columns
	return []kernels.Op{
		&kernels.RowsToPanel{Input: slot, Items: items, Width: width, First: first, Factors: f.value(In), Panel: f.P},
		f.product(&f.Data, f.P, f.between),
		f.scale(f.between, f.between, f.Data.Rows, Rows, false),
		f.product(&f.Transposed, f.between, f.Y),
		f.scale(f.Y, f.Y, items, Out, false),
	}
}

// LowPass are those of the part of V, which they add to Y.
func (f *Filter) LowPass(slot int, first int64) []kernels.Op {
	items := f.Data.Columns
	return []kernels.Op{
		&kernels.RowsToBlocks{
			Input: slot, Items: items, Ins: f.panels, First: first, Factors: f.value(Project), In: f.value(V), Out: f.blocks,
		},
		&kernels.PanelProduct{Rows: items, Ins: f.panels, Outs: 1, In: f.value(V), Matrix: f.blocks, Out: f.P},
		f.scale(f.P, f.Y, items, Back, true),
	}
}

func (f *Filter) product(m *kernels.SparseMatrix, from, to kernels.Buffer) kernels.Op {
	return &kernels.SparseProduct{Matrix: *m, Panels: 1, Width: width, In: from, Out: to}
}

func (f *Filter) scale(from, to kernels.Buffer, rows int64, by string, add bool) kernels.Op {
	return &kernels.PanelScale{Rows: rows, Width: width, Factor: 1, Factors: f.value(by), In: from, Out: to, Add: add}
}
