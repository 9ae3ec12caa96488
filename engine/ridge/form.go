package ridge

import (
	"encoding/json"
	"math"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/kernels"
)

// Kind is the word of the definition.
const Kind = "ridge"

// Names of the tensors of F32 [items].
const (
	Ridge      = "ridge"
	Diagonal   = "diagonal" // of Y'Y + ridge
	In         = "in"
	Out        = "out"
	Own        = "own"
	Popularity = "popularity"
)

var vectors = []string{Ridge, Diagonal, In, Out, Own, Popularity}

// The layers, by index and name.
const (
	inputLayer  = 0
	outputLayer = 1
	inputName   = "input"
	outputName  = "output"
)

// Form is a checked definition.
type Form struct {
	Rows, Items, Entries int64 // of Y
	Tolerance            float64
	Iterations           int64
}

// Parse reads a definition. Its errors, of kind fault.InvalidArgument, name the key, the value and what is allowed.
func Parse(text []byte) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "rows", "items", "entries", "tolerance", "iterations")
	o.Word("kind", Kind, Kind)
	f := &Form{
		Rows:       o.Int("rows", 0, strictjson.Between(0, math.MaxInt32)),
		Items:      o.Int("items", 1, strictjson.Between(1, math.MaxInt32)),
		Tolerance:  o.Float("tolerance", 0, strictjson.Between(0, 1)),
		Iterations: o.Int("iterations", 1, strictjson.Between(1, 1000)),
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
		Tolerance  float64 `json:"tolerance"`
		Iterations int64   `json:"iterations"`
	}{Kind, f.Rows, f.Items, f.Entries, f.Tolerance, f.Iterations})
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

// Data is Y.
func (f *Form) Data() tensor.Stored {
	return tensor.Stored{Name: "data", Rows: f.Rows, Columns: f.Items, Entries: f.Entries}
}

// Transposed is Y by item.
func (f *Form) Transposed() tensor.Stored {
	return tensor.Stored{Name: "transposed", Rows: f.Items, Columns: f.Rows, Entries: f.Entries}
}

// Specs are the tensors.
func (f *Form) Specs() ([]tensor.Spec, error) {
	list := append(f.Data().Specs(outputLayer), f.Transposed().Specs(outputLayer)...)
	for _, name := range vectors {
		list = append(list, tensor.Spec{
			Name: name, DType: tensor.F32, Shape: []int64{f.Items}, Layer: outputLayer, Role: tensor.Fixed,
		})
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
func (f *Form) HostRows() int64 { return max(panelWidth, hostBytes/(4*f.Items)/panelWidth*panelWidth) }

const (
	hostBytes  = 1 << 26
	panelWidth = 32
	fewRows    = 16 // for which a narrower panel suffices
)

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) {
		tensors := []program.Tensor{}
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
		width := int64(panelWidth)
		if b.Rows() <= fewRows {
			width = fewRows
		}
		sides, solutions := b.Alloc("panel", "right-hand sides", f.Items*width), b.Alloc("panel", "solutions", f.Items*width)
		solve := &kernels.Solve{
			ByRow: stored(f.Data()), ByItem: stored(f.Transposed()), Ridge: value(Ridge), Diagonal: value(Diagonal),
			Width: width, B: sides, X: solutions, Tolerance: f.Tolerance, Iterations: f.Iterations,
			Report: b.Alloc("panel", "report", 2),
		}
		b.Scratch(&solve.Workspace, solve)
		scores := b.Alloc("scores", "", b.Rows()*f.Items)
		for first := int64(0); first < b.Rows(); first += width {
			b.Add(&kernels.RowsToPanel{
				Input: b.FirstSlot(), Items: f.Items, Width: width, First: first, Factors: value(In), Panel: sides,
			})
			b.Add(solve)
			b.Add(&kernels.PanelToRows{
				Input: b.FirstSlot(), Items: f.Items, Width: width, First: first, Factors: value(Out), Own: value(Own),
				IfEmpty: value(Popularity), Panel: solutions, Out: scores,
			})
		}
		b.Output(outputLayer, program.Shard{Scorer: kernels.Scorer{Items: f.Items, Given: scores}})
	}
}
