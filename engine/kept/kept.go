// Package kept is what forms of models have in common that keep the data they were made of, a matrix by row and by
// item, and score by computing with it, on one device: their layers, tensors and checks, and how their programs begin.
package kept

import (
	"math"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/kernels"
)

// The layers, by index.
const (
	inputLayer  = 0
	outputLayer = 1
)

// inputName is the name of the layer that reads.
const inputName = "input"

// Data is the shape of the matrix.
type Data struct {
	Rows    int64 `json:"rows"`
	Items   int64 `json:"items"`
	Entries int64 `json:"entries"`
}

// Read reads the shape from a definition.
func Read(o *strictjson.Object) Data {
	o.Require("rows", "items", "entries")
	d := Data{
		Rows:  o.Int("rows", 0, strictjson.Between(0, math.MaxInt32)),
		Items: o.Int("items", 1, strictjson.Between(1, math.MaxInt32)),
	}
	d.Entries = o.Int("entries", 0, strictjson.Between(0, float64(d.Rows)*float64(d.Items)))
	return d
}

// Ports are an input and an output layer, whose units are the items.
func (d Data) Ports() []program.Port {
	return []program.Port{
		{Name: inputName, Kind: "input", Size: d.Items, Reads: true},
		{Name: "output", Kind: "output", Size: d.Items, Scores: true},
	}
}

// Matrices are none: the weights between items are not stored.
func (d Data) Matrices() []program.Matrix { return nil }

// ByRow is the matrix.
func (d Data) ByRow() tensor.Stored {
	return tensor.Stored{Name: "data", Rows: d.Rows, Columns: d.Items, Entries: d.Entries}
}

// ByItem is the matrix transposed.
func (d Data) ByItem() tensor.Stored {
	return tensor.Stored{Name: "transposed", Rows: d.Items, Columns: d.Rows, Entries: d.Entries}
}

// Tensors are those of both orders, and then vectors of F32 [items].
func (d Data) Tensors(vectors []string) []tensor.Spec {
	list := append(d.ByRow().Specs(outputLayer), d.ByItem().Specs(outputLayer)...)
	for _, name := range vectors {
		list = append(list, Tensor(name, d.Items))
	}
	return list
}

// Tensor is a further tensor of F32.
func Tensor(name string, shape ...int64) tensor.Spec {
	return tensor.Spec{Name: name, DType: tensor.F32, Shape: shape, Layer: outputLayer, Role: tensor.Fixed}
}

// Check wants matrices that are in order.
func (d Data) Check(find func(name string) (*tensor.Tensor, error)) error {
	if err := d.ByRow().Check(find); err != nil {
		return err
	}
	return d.ByItem().Check(find)
}

// Bounds are the most rows of a batch, whole panels whose scores take up to 64 MB, and at least one panel; and one
// device, since all items take part in a product.
func (d Data) Bounds(panel int64) (rows int64, on program.Reach) {
	return max(panel, program.ScoreBytes/(4*d.Items)/panel*panel), program.OneDevice
}

// Begin declares the tensors and the batches of a program. It returns the matrix in both orders, and what finds the
// other tensors.
func (d Data) Begin(b *program.Builder, specs []tensor.Spec, bind func(*program.Feed)) (
	byRow, byItem kernels.SparseMatrix, value func(name string) kernels.Buffer,
) {
	tensors := make([]program.Tensor, len(specs))
	for n, spec := range specs {
		tensors[n] = program.Tensor{Name: spec.Name, Rows: spec.Shape[0], Columns: spec.DType.Size() / 4}
		for _, length := range spec.Shape[1:] {
			tensors[n].Columns *= length
		}
	}
	b.Tensors(tensors)
	feed := program.Feed{
		Layer: inputLayer, Name: inputName, Text: "what feeds " + inputName, Columns: d.Items, Whole: true,
	}
	bind(&feed)
	b.Batches(true, feed)
	value = func(name string) kernels.Buffer { return b.Weight(name).Value }
	stored := func(m tensor.Stored) kernels.SparseMatrix {
		matrix := program.Matrix{Name: m.Name, Rows: m.Rows, Columns: m.Columns, Sparse: true}
		s := matrix.Source(0, 0, value)
		return kernels.SparseMatrix{
			Rows: m.Rows, Columns: m.Columns, Offsets: s.Offsets, Indices: s.Indices, Values: s.Values,
		}
	}
	return stored(d.ByRow()), stored(d.ByItem()), value
}

// Score ends the program: scores of [rows, items] that the operations before have computed are the output.
func (d Data) Score(b *program.Builder, scores kernels.Buffer) {
	b.Output(outputLayer, program.Shard{Scorer: kernels.Scorer{Items: d.Items, IsGiven: true, Given: scores}})
}
