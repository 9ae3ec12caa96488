package itemweights

import (
	"encoding/json"
	"math"
	"slices"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/kernels"
)

// Kind is the word of the definition.
const Kind = "item_weights"

// The layers, by index and name.
const (
	inputLayer  = 0
	outputLayer = 1
	inputName   = "input"
	outputName  = "output"
)

// Names of the tensors; a stored W is three, see tensor.Stored.
const (
	weightName = "weight"
	biasName   = "bias"
)

// Storage says how W is stored.
type Storage int

// Dense is F32 [items, items]; CSR stores the entries of each row; with None there is only a bias.
const (
	Dense Storage = iota
	CSR
	None
)

var storageWords = []string{"dense", "csr", "none"}

// Form is a checked definition.
type Form struct {
	Items   int64
	Weight  Storage
	Entries int64 // of CSR
	Bias    bool
	// BiasIfEmpty: the bias counts for rows without stored entries only.
	BiasIfEmpty bool
}

// Parse reads a definition. Its errors, of kind fault.InvalidArgument, name the key, the value and what is allowed.
func Parse(text []byte) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "items")
	o.Word("kind", Kind, Kind)
	f := &Form{Items: o.Int("items", 1, strictjson.Between(1, math.MaxInt32))}
	f.Weight = Storage(slices.Index(storageWords, o.Word("weight", storageWords[Dense], storageWords...)))
	f.Bias = o.Bool("bias", false)
	f.BiasIfEmpty = o.Bool("bias_if_empty", false)
	if f.BiasIfEmpty && (!f.Bias || f.Weight == None) {
		o.Fail("bias_if_empty", "is true, but it needs both a weight and a bias")
	}
	if f.Weight == CSR {
		o.Require("entries")
		f.Entries = o.Int("entries", 0, strictjson.Between(0, float64(f.Items)*float64(f.Items)))
	} else {
		o.Refuse("entries", `is given, but only a "csr" weight has stored entries`)
	}
	if f.Weight == None && !f.Bias {
		o.Fail("weight", `is "none" and there is no bias, so there is nothing to score with`)
	}
	return f, o.Done()
}

// JSON is the complete definition.
func (f *Form) JSON() []byte {
	var entries *int64
	if f.Weight == CSR {
		entries = &f.Entries
	}
	text, err := json.Marshal(struct {
		Kind    string `json:"kind"`
		Items   int64  `json:"items"`
		Weight  string `json:"weight"`
		Entries *int64 `json:"entries,omitempty"`
		Bias    bool   `json:"bias"`
		IfEmpty bool   `json:"bias_if_empty,omitempty"`
	}{Kind, f.Items, storageWords[f.Weight], entries, f.Bias, f.BiasIfEmpty})
	if err != nil {
		panic(err) // numbers and words can be written
	}
	return text
}

// Ports are an input and an output layer, whose units are the items.
func (f *Form) Ports() []program.Port {
	out := program.Port{Name: outputName, Kind: "output", Size: f.Items, Scores: true}
	if f.Weight != None {
		out.Weights = []string{weightName}
	}
	return []program.Port{{Name: inputName, Kind: "input", Size: f.Items, Reads: true}, out}
}

// Specs are the tensors. They begin as zeros, which is a W without entries.
func (f *Form) Specs() ([]tensor.Spec, error) {
	var list []tensor.Spec
	add := func(name string, dtype tensor.DType, shape ...int64) {
		list = append(list, tensor.Spec{Name: name, DType: dtype, Shape: shape, Layer: outputLayer, Role: tensor.Fixed})
	}
	switch f.Weight {
	case Dense:
		add(weightName, tensor.F32, f.Items, f.Items)
	case CSR:
		list = f.Stored().Specs(outputLayer)
	}
	if f.Bias {
		add(biasName, tensor.F32, f.Items, 1)
	}
	return list, nil
}

// Stored is W in compressed row form.
func (f *Form) Stored() tensor.Stored {
	return tensor.Stored{Name: weightName, Rows: f.Items, Columns: f.Items, Entries: f.Entries}
}

// Check is that of a stored W.
func (f *Form) Check(find func(name string) (*tensor.Tensor, error)) error {
	if f.Weight != CSR {
		return nil
	}
	return f.Stored().Check(find)
}

// Matrices is W.
func (f *Form) Matrices() []program.Matrix {
	if f.Weight == None {
		return nil
	}
	return []program.Matrix{{Name: weightName, Rows: f.Items, Columns: f.Items, Sparse: f.Weight == CSR, ByItems: true}}
}

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) { f.build(b, bind) }
}

// build adds what one rank scores with: the columns of its items. Every rank has whole rows of the batch and all of W.
func (f *Form) build(b *program.Builder, bind func(*program.Feed)) {
	tensors := []program.Tensor{}
	for _, m := range f.Matrices() {
		tensors = append(tensors, m.Tensors(f.Entries)...)
	}
	if f.Bias {
		tensors = append(tensors, program.Tensor{Name: biasName, Rows: f.Items, Columns: 1, ByItem: true})
	}
	b.Tensors(tensors)
	feed := program.Feed{
		Layer: inputLayer, Name: inputName, Text: "what feeds " + inputName, Columns: f.Items, Whole: true,
	}
	bind(&feed)
	b.Batches(true, feed)
	first, end := b.Items(f.Items)
	shard := program.Shard{Scorer: kernels.Scorer{Items: end - first}, First: first}
	for _, m := range f.Matrices() {
		shard.Sparse = m.Source(b.FirstSlot(), first, func(name string) kernels.Buffer { return b.Weight(name).Value })
		shard.Sparse.BiasIfEmpty = f.BiasIfEmpty
	}
	if f.Bias {
		shard.Bias = b.Weight(biasName)
	}
	b.Output(outputLayer, shard)
}
