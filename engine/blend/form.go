package blend

import (
	"encoding/json"
	"fmt"
	"math"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Kind is the word of the definition.
const Kind = "blend"

// WeightsName is the tensor of the parts' weights, F32 [parts]. Those of part n have the names of its own model
// behind PrefixOf(n).
const WeightsName = "weights"

// PrefixOf begins the names of a part's tensors.
func PrefixOf(part int) string { return fmt.Sprintf("part%d.", part) }

// The layers, by index and name.
const (
	inputLayer = iota
	outputLayer

	inputName  = "input"
	outputName = "output"
)

// Model is the form of a part; model.Form describes the methods.
type Model interface {
	Ports() []program.Port
	Specs() ([]tensor.Spec, error)
	Computation(bind func(*program.Feed)) program.Computation
	Check(find func(name string) (*tensor.Tensor, error)) error
	JSON() []byte
}

// bounded is model.Bounded.
type bounded interface {
	Bounds() (rows int64, on program.Reach)
}

// Part is a model of the sum.
type Part struct {
	Model        Model
	Standardized bool // otherwise its scores are added as they are

	output int // index of the layer that scores
}

// Form is a checked definition.
type Form struct {
	Items int64
	Parts []Part

	scaled bool // a part divides its rows by their L2 norm
}

// Parse reads a definition; read reads those of the parts. Errors, of kind fault.InvalidArgument, name the key, the
// value and what is allowed.
func Parse(text []byte, read func([]byte) (Model, error)) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "items", "parts")
	o.Word("kind", Kind, Kind)
	f := &Form{Items: o.Int("items", 1, strictjson.Between(1, math.MaxInt32))}
	for n, p := range o.Objects("parts") {
		p.Require("model")
		if p.Has("model") && p.Type("model") != strictjson.ObjectType {
			p.Fail("model", "is %s; it must be the definition of a model", p.Type("model"))
		}
		f.Parts = append(f.Parts, Part{Standardized: p.Bool("standardized", true)})
		if n == kernels.MaxParts {
			o.Fail("parts", "has more than %d models", kernels.MaxParts)
		}
	}
	if len(f.Parts) == 0 {
		o.Fail("parts", "has no model")
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	return f, f.readParts(text, read)
}

// readParts reads the definitions of the parts, which strictjson has found to be objects.
func (f *Form) readParts(text []byte, read func([]byte) (Model, error)) error {
	var raw struct {
		Parts []struct{ Model json.RawMessage }
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return fault.New(fault.InvalidArgument, "model definition: %v", err)
	}
	for n := range f.Parts {
		part, err := &f.Parts[n], error(nil)
		if part.Model, err = read(raw.Parts[n].Model); err != nil {
			return fault.Wrap(err, "model definition: parts[%d].model", n)
		}
		if err := f.checkPart(n); err != nil {
			return err
		}
	}
	return nil
}

// checkPart wants one layer that reads the items and one that scores them.
func (f *Form) checkPart(n int) error {
	part, reads, scores := &f.Parts[n], 0, 0
	if _, nested := part.Model.(*Form); nested {
		return fault.New(fault.InvalidArgument, "model definition: parts[%d].model is a blend itself; add its parts", n)
	}
	for i, port := range part.Model.Ports() {
		if !port.Reads && !port.Scores {
			continue
		}
		if port.Size != f.Items {
			return fault.New(fault.InvalidArgument, "model definition: parts[%d].model: layer %q has %d units, items is %d",
				n, port.Name, port.Size, f.Items)
		}
		if port.Scores {
			part.output = i
			scores++
		} else {
			reads++
			f.scaled = f.scaled || port.Scaled
		}
	}
	if reads != 1 || scores != 1 {
		return fault.New(fault.InvalidArgument, "model definition: parts[%d].model has %d input layers and %d output "+
			"layers; a blend adds up models with one of each", n, reads, scores)
	}
	return nil
}

// JSON is the complete definition.
func (f *Form) JSON() []byte {
	type part struct {
		Model        json.RawMessage `json:"model"`
		Standardized bool            `json:"standardized"`
	}
	parts := make([]part, len(f.Parts))
	for n, p := range f.Parts {
		parts[n] = part{p.Model.JSON(), p.Standardized}
	}
	text, err := json.Marshal(struct {
		Kind  string `json:"kind"`
		Items int64  `json:"items"`
		Parts []part `json:"parts"`
	}{Kind, f.Items, parts})
	if err != nil {
		panic(err) // the parts' definitions are JSON
	}
	return text
}

// Ports are an input and an output layer, whose units are the items.
func (f *Form) Ports() []program.Port {
	return []program.Port{
		{Name: inputName, Kind: "input", Size: f.Items, Reads: true, Scaled: f.scaled},
		{Name: outputName, Kind: "output", Size: f.Items, Scores: true},
	}
}

// Specs are the weights and the tensors of all parts.
func (f *Form) Specs() ([]tensor.Spec, error) {
	list := []tensor.Spec{{
		Name: WeightsName, DType: tensor.F32, Shape: []int64{int64(len(f.Parts))}, Layer: outputLayer,
		Role: tensor.Fixed,
	}}
	for n, p := range f.Parts {
		specs, err := p.Model.Specs()
		if err != nil {
			return nil, err
		}
		for _, spec := range specs {
			spec.Name, spec.Layer, spec.Role = PrefixOf(n)+spec.Name, outputLayer, tensor.Fixed
			spec.Fill, spec.Scale = kernels.FillConstant, 0 // they are given, not drawn
			list = append(list, spec)
		}
	}
	return list, nil
}

// Matrices are none: no row of one alone belongs to an item.
func (f *Form) Matrices() []program.Matrix { return nil }

// Check wants finite weights that are not negative, and parts in order.
func (f *Form) Check(find func(name string) (*tensor.Tensor, error)) error {
	weights, err := find(WeightsName)
	if err != nil {
		return err
	}
	for n, w := range weights.Float32() {
		if !(w >= 0) || math.IsInf(float64(w), 0) {
			return fault.New(fault.InvalidData, "%s[%d] is %v; weights must be finite and not negative", WeightsName, n, w)
		}
	}
	for n, p := range f.Parts {
		err := p.Model.Check(func(name string) (*tensor.Tensor, error) { return find(PrefixOf(n) + name) })
		if err != nil {
			return fault.Wrap(err, "part %d", n)
		}
	}
	return nil
}

// Bounds are the most rows of a batch, whose scores by one part take up to 64 MB, and where all parts can be computed;
// fewer rows or devices if a part wants it.
func (f *Form) Bounds() (rows int64, on program.Reach) {
	rows = max(1, program.ScoreBytes/(4*f.Items))
	for _, p := range f.Parts {
		if b, is := p.Model.(bounded); is {
			most, reach := b.Bounds()
			rows, on = min(rows, most), max(on, reach)
		}
	}
	return rows, on
}

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) {
		b.Tensors([]program.Tensor{{Name: WeightsName, Rows: int64(len(f.Parts)), Columns: 1}})
		first, end := b.Items(f.Items)
		op := &kernels.Blend{
			Items: end - first, Weights: b.Weight(WeightsName).Value, Shards: int64(b.World()), Stride: b.Rows(),
		}
		for n := range f.Parts {
			op.Parts = append(op.Parts, f.score(b, n, bind))
		}
		op.Out = op.Parts[0].Scores
		b.Add(op)
		scorer := kernels.Scorer{Items: op.Items, IsGiven: true, Given: op.Out}
		b.Output(outputLayer, program.Shard{Scorer: scorer, First: first})
	}
}

// score adds the operations of a part, and those that find its moments.
func (f *Form) score(b *program.Builder, n int, bind func(*program.Feed)) (part kernels.BlendPart) {
	p, name, whole := &f.Parts[n], fmt.Sprintf("part %d", n), false
	shard := b.Part(PrefixOf(n), p.output, p.Model.Computation(func(feed *program.Feed) {
		feed.Layer, feed.Name, feed.Text, whole = inputLayer, inputName, "what feeds "+inputName, feed.Whole
		bind(feed)
	}))
	if part.Scores = shard.Given; !shard.IsGiven {
		op := &kernels.Scores{Scorer: shard.Scorer, Name: name}
		op.To = b.Alloc("scores", name, b.Rows()*shard.Items)
		b.AddWith(&op.Workspace, op, op)
		part.Scores = op.To
	}
	if !p.Standardized {
		return part
	}
	const numbers = 2 * 4 // of float64, for each row
	op := &kernels.Moments{Name: name, Items: shard.Items, Scores: part.Scores, Stored: b.FirstSlot()}
	if whole {
		op.First = shard.First
	}
	op.Out = b.Alloc("moments", name, numbers*b.Rows())
	b.Add(op)
	if part.Moments = op.Out; b.Sharded() {
		part.Moments = b.AllGather("the moments of "+name, "moments", name+" of all devices", op.Out, numbers)
	}
	return part
}
