package vectors

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
const Kind = "vectors"

// The layers, by index and name.
const (
	inputLayer  = 0
	outputLayer = 1
	inputName   = "query"
	outputName  = "output"
)

// TensorName is the name of the vectors, [items, size].
const TensorName = "vectors"

// Most is how many numbers a vector may have.
const Most = 16_384

// Form is a checked definition.
type Form struct {
	Items, Size int64
	Cosine      bool // scores are cosines, where a zero vector scores 0; otherwise dot products
	Storage     kernels.Storage
}

var metricWords = []string{"dot", "cosine"}

// Parse reads a definition. Its errors, of kind fault.InvalidArgument, name the key, the value and what is allowed.
func Parse(text []byte) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "items", "size")
	o.Word("kind", Kind, Kind)
	f := &Form{
		Items: o.Int("items", 1, strictjson.Between(1, math.MaxInt32)),
		Size:  o.Int("size", 1, strictjson.Between(1, Most)),
	}
	f.Cosine = o.Word("metric", metricWords[0], metricWords...) == metricWords[1]
	words := kernels.StorageWords
	f.Storage = kernels.Storage(slices.Index(words, o.Word("storage", words[0], words...)))
	return f, o.Done()
}

// JSON is the complete definition. It names the storage only if that is not float32, so that files of float32 are those
// of earlier versions.
func (f *Form) JSON() []byte {
	metric := metricWords[0]
	if f.Cosine {
		metric = metricWords[1]
	}
	storage := ""
	if f.Storage != kernels.StoredFloat32 {
		storage = f.Storage.String()
	}
	text, err := json.Marshal(struct {
		Kind    string `json:"kind"`
		Items   int64  `json:"items"`
		Size    int64  `json:"size"`
		Metric  string `json:"metric"`
		Storage string `json:"storage,omitempty"`
	}{Kind, f.Items, f.Size, metric, storage})
	if err != nil {
		panic(err) // numbers and words can be written
	}
	return text
}

// Ports are the query and the output, whose units are the items.
func (f *Form) Ports() []program.Port {
	return []program.Port{
		{Name: inputName, Kind: "input", Size: f.Size, Reads: true},
		{Name: outputName, Kind: "output", Size: f.Items, Scores: true, Weights: []string{TensorName}},
	}
}

// Specs are the tensors. The vectors begin as zeros.
func (f *Form) Specs() ([]tensor.Spec, error) {
	return []tensor.Spec{{
		Name: TensorName, DType: tensor.TypeOf(f.Storage), Shape: []int64{f.Items, f.Size}, Layer: outputLayer,
		Role: tensor.Fixed,
	}}, nil
}

// Check accepts any vectors: tensors take only finite numbers.
func (f *Form) Check(func(name string) (*tensor.Tensor, error)) error { return nil }

// Matrices are the vectors.
func (f *Form) Matrices() []program.Matrix {
	return []program.Matrix{{Name: TensorName, Rows: f.Items, Columns: f.Size, Storage: f.Storage}}
}

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) { f.build(b, bind) }
}

// build adds what one rank scores with: the vectors of its items. Every rank has whole queries.
func (f *Form) build(b *program.Builder, bind func(*program.Feed)) {
	b.Tensors([]program.Tensor{{
		Name: TensorName, Rows: f.Items, Columns: f.Size, ByItem: true, Storage: f.Storage,
	}})
	feed := program.Feed{
		Layer: inputLayer, Name: inputName, Text: "what feeds " + inputName, Columns: f.Size, Whole: true,
	}
	bind(&feed)
	b.Batches(true, feed)
	query := f.dense(b)
	first, end := b.Items(f.Items)
	shard := program.Shard{Scorer: kernels.Scorer{Items: end - first}, First: first}
	shard.Sources = []kernels.OutputSource{{H: query, Weight: b.Weight(TensorName)}}
	if f.Cosine {
		shard.Temperature = 1
	}
	b.Output(outputLayer, shard)
}

// dense adds the operation that writes out the rows of the input, which are batches of stored entries: their product
// with the identity, in which every sum has one term that is not zero.
func (f *Form) dense(b *program.Builder) kernels.Buffer {
	identity := &kernels.Weights{Name: "identity", Rows: f.Size, Columns: f.Size}
	identity.Value = b.Constants(identity.Name, f.Size*f.Size, func() []float32 {
		ones := make([]float32, f.Size*f.Size)
		for i := range f.Size {
			ones[i*f.Size+i] = 1
		}
		return ones
	})
	op := &kernels.Gather{
		Name: inputName, From: inputName, Input: b.FirstSlot(), Weight: identity,
		Out: b.Alloc("activations", inputName, b.Rows()*f.Size),
	}
	b.AddWith(&op.Workspace, op, op)
	return op.Out
}
