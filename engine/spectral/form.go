package spectral

import (
	"encoding/json"
	"math"

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

// The layers, by index and name.
const (
	inputLayer  = 0
	outputLayer = 1
	inputName   = "input"
	outputName  = "output"
)

const width = kernels.BlockWidth

// Form is a checked definition.
type Form struct {
	Rows, Items, Entries int64 // of R
	Rank                 int64
	Sharpening           float64
}

// Parse reads a definition. Its errors, of kind fault.InvalidArgument, name the key, the value and what is allowed.
func Parse(text []byte) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "rows", "items", "entries", "rank", "sharpening")
	o.Word("kind", Kind, Kind)
	size := func(key string, least float64) int64 {
		return o.Int(key, int64(least), strictjson.Between(least, math.MaxInt32))
	}
	f := &Form{
		Rows: size("rows", 0), Items: size("items", 1), Rank: size("rank", 1),
		Sharpening: o.Float("sharpening", 0, strictjson.Between(0, 100)),
	}
	f.Entries = o.Int("entries", 0, strictjson.Between(0, float64(f.Rows)*float64(f.Items)))
	return f, o.Done()
}

// JSON is the complete definition.
func (f *Form) JSON() []byte {
	text, err := json.Marshal(struct {
		Kind       string  `json:"kind"`
		Rows       int64   `json:"rows"`
		Items      int64   `json:"items"`
		Entries    int64   `json:"entries"`
		Rank       int64   `json:"rank"`
		Sharpening float64 `json:"sharpening"`
	}{Kind, f.Rows, f.Items, f.Entries, f.Rank, f.Sharpening})
	if err != nil {
		panic(err) // numbers and words can be written
	}
	return text
}

// Ports are an input and an output layer, whose units are the items.
func (f *Form) Ports() []program.Port {
	return []program.Port{
		{Name: inputName, Kind: "input", Size: f.Items, Reads: true},
		{Name: outputName, Kind: "output", Size: f.Items, Scores: true},
	}
}

// Panels is how many panels V has.
func (f *Form) Panels() int64 { return (f.Rank + width - 1) / width }

// Data is R.
func (f *Form) Data() tensor.Stored {
	return tensor.Stored{Name: "data", Rows: f.Rows, Columns: f.Items, Entries: f.Entries}
}

// Transposed is R by item.
func (f *Form) Transposed() tensor.Stored {
	return tensor.Stored{Name: "transposed", Rows: f.Items, Columns: f.Rows, Entries: f.Entries}
}

// Specs are the tensors.
func (f *Form) Specs() ([]tensor.Spec, error) {
	list := append(f.Data().Specs(outputLayer), f.Transposed().Specs(outputLayer)...)
	add := func(name string, shape ...int64) {
		list = append(list, tensor.Spec{Name: name, DType: tensor.F32, Shape: shape, Layer: outputLayer, Role: tensor.Fixed})
	}
	add(V, f.Panels(), f.Items, width)
	add(Rows, f.Rows)
	for _, name := range vectors {
		add(name, f.Items)
	}
	return list, nil
}

// Check wants matrices that are in order.
func (f *Form) Check(find func(name string) (*tensor.Tensor, error)) error {
	if err := f.Data().Check(find); err != nil {
		return err
	}
	return f.Transposed().Check(find)
}

// Matrices are none: the weights between items are not stored.
func (f *Form) Matrices() []program.Matrix { return nil }

// HostRows is the most rows of a batch, whose scores take up to hostBytes but for the rows of a panel.
func (f *Form) HostRows() int64 { return max(width, hostBytes/(4*f.Items)/width*width) }

const hostBytes = 1 << 26

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) {
		tensors := []program.Tensor{
			{Name: V, Rows: f.Panels() * f.Items, Columns: width}, {Name: Rows, Rows: f.Rows, Columns: 1},
		}
		matrix := func(m tensor.Stored) program.Matrix {
			return program.Matrix{Name: m.Name, Rows: m.Rows, Columns: m.Columns, Sparse: true}
		}
		for _, m := range []tensor.Stored{f.Data(), f.Transposed()} {
			tensors = append(tensors, matrix(m).Tensors(m.Entries)...)
		}
		for _, name := range vectors {
			tensors = append(tensors, program.Tensor{Name: name, Rows: f.Items, Columns: 1})
		}
		b.Tensors(tensors)
		feed := program.Feed{
			Layer: inputLayer, Name: inputName, Text: "what feeds " + inputName, Columns: f.Items, Whole: true,
		}
		bind(&feed)
		b.Batches(true, feed)
		value := func(name string) kernels.Buffer { return b.Weight(name).Value }
		stored := func(m tensor.Stored) kernels.SparseMatrix {
			s := matrix(m).Source(0, 0, value)
			return kernels.SparseMatrix{
				Rows: m.Rows, Columns: m.Columns, Offsets: s.Offsets, Indices: s.Indices, Values: s.Values,
			}
		}
		filter := NewFilter(b, stored(f.Data()), stored(f.Transposed()), f.Rank, value)
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
		b.Output(outputLayer, program.Shard{Scorer: kernels.Scorer{Items: f.Items, Given: scores}})
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
