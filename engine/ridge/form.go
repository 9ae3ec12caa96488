package ridge

import (
	"encoding/json"

	"dsstne/engine/kept"
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

// Form is a checked definition.
type Form struct {
	kept.Data  // Y
	Tolerance  float64
	Iterations int64
}

// Parse reads a definition. Its errors, of kind fault.InvalidArgument, name the key, the value and what is allowed.
func Parse(text []byte) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "tolerance", "iterations")
	o.Word("kind", Kind, Kind)
	f := &Form{
		Data: kept.Read(o), Tolerance: o.Float("tolerance", 0, strictjson.Between(0, 1)),
		Iterations: o.Int("iterations", 1, strictjson.Between(1, 1000)),
	}
	return f, o.Done()
}

// JSON is the complete definition.
func (f *Form) JSON() []byte {
	text, err := json.Marshal(struct {
		Kind string `json:"kind"`
		kept.Data
		Tolerance  float64 `json:"tolerance"`
		Iterations int64   `json:"iterations"`
	}{Kind, f.Data, f.Tolerance, f.Iterations})
	if err != nil {
		panic(err) // numbers and words can be written
	}
	return text
}

// Specs are the tensors.
func (f *Form) Specs() ([]tensor.Spec, error) { return f.Tensors(vectors), nil }

// Bounds are those of kept data.
func (f *Form) Bounds() (rows int64, on program.Reach) { return f.Data.Bounds(panelWidth) }

const (
	panelWidth = 32
	fewRows    = 16 // for which a narrower panel suffices
)

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) {
		byRow, byItem, value := f.Begin(b, f.Tensors(vectors), bind)
		width := int64(panelWidth)
		if b.Rows() <= fewRows {
			width = fewRows
		}
		sides, solutions := b.Alloc("panel", "right-hand sides", f.Items*width), b.Alloc("panel", "solutions", f.Items*width)
		solve := &kernels.Solve{
			ByRow: byRow, ByItem: byItem, Ridge: value(Ridge), Diagonal: value(Diagonal), Width: width, B: sides,
			X: solutions, Tolerance: f.Tolerance, Iterations: f.Iterations, Report: b.Alloc("panel", "report", 2),
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
		f.Score(b, scores)
	}
}
