package factors

import (
	"encoding/json"
	"math"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Kind is the word of the definition.
const Kind = "factors"

// The layers, by index and name.
const (
	inputLayer = iota
	userLayer
	outputLayer

	inputName  = "input"
	userName   = "user"
	outputName = "output"
)

// Names of the tensors.
const (
	FactorsName = "factors" // F32 [items, factors]
	SquaresName = "squares" // F32 [factors, 1]: the squares of the factors of all items, which are at right angles
	BiasName    = "bias"    // F32 [items, 1], of ratings
)

// Most is how many factors there may be.
const Most = 1024

// Objective is what factors minimize: see kernels.LeastSquares.
type Objective struct {
	Ratings        bool // values are ratings, which have biases; otherwise weights of observations
	Alpha          float64
	Unobserved     float64
	Regularization float64
	Nu             float64
}

// weight reads a weight that float32 holds, also multiplied by numbers of entries.
func weight(o *strictjson.Object, key string, usual float64) float64 {
	x := o.Float(key, usual, strictjson.Positive)
	if x < 1e-30 || x > 1e30 {
		o.Fail(key, "is %g; it must be from 1e-30 to 1e+30", x)
	}
	return x
}

// ReadObjective reads the keys of an objective but for the kind of values; with ratings, those that these do not have
// are refused. A regularization that is not given is 0, see Complete.
func ReadObjective(o *strictjson.Object, ratings bool) Objective {
	f := Objective{Ratings: ratings, Alpha: 1, Unobserved: defaultUnobserved}
	if o.Has("regularization") {
		f.Regularization = weight(o, "regularization", 0)
	}
	if ratings {
		o.Refuse("alpha", "is given, but ratings are no weights")
		o.Refuse("unobserved_weight", "is given, but only observed ratings count")
	} else {
		f.Alpha = weight(o, "alpha", 1)
		f.Unobserved = weight(o, "unobserved_weight", defaultUnobserved)
	}
	f.Nu = o.Float("nu", 1, strictjson.Between(0, 10))
	return f
}

// Defaults, chosen on held-out parts of public datasets: docs/solvers.md has the search.
const (
	defaultUnobserved     = 0.02
	defaultRatings        = 0.05 // not searched
	defaultRegularization = 3    // of a row with as many entries as the mean row has
	mostRegularization    = 0.1  // of small matrices, whose factors would vanish otherwise
)

// Complete chooses the regularization for a matrix, unless it is given.
func (f *Objective) Complete(rows, columns, entries int64) {
	switch {
	case f.Regularization > 0:
	case f.Ratings:
		f.Regularization = defaultRatings
	default:
		mean := float64(entries)/float64(max(1, rows)) + f.Unobserved*float64(columns)
		f.Regularization = min(mostRegularization, defaultRegularization/math.Pow(mean, f.Nu))
	}
}

// Operation returns the operation that solves for the rows of a matrix with the given number of columns.
func (f Objective) Operation(columns, width int64) *kernels.LeastSquares {
	op := &kernels.LeastSquares{Width: width, Ridge: f.Regularization, Exponent: f.Nu, Biased: f.Ratings}
	if !f.Ratings {
		op.Weight, op.Unobserved, op.Pairs = float32(f.Alpha), float32(f.Unobserved), f.Unobserved*float64(columns)
	}
	return op
}

// Form is a checked definition.
type Form struct {
	Items, Factors int64
	Objective
}

var valuesWords = []string{"weights", "ratings"}

// Parse reads a definition. Its errors, of kind fault.InvalidArgument, name the key, the value and what is allowed.
func Parse(text []byte) (*Form, error) {
	o, err := strictjson.Parse(text, "model definition")
	if err != nil {
		return nil, err
	}
	o.Require("kind", "items", "factors", "regularization")
	o.Word("kind", Kind, Kind)
	f := &Form{
		Items:   o.Int("items", 1, strictjson.Between(1, math.MaxInt32)),
		Factors: o.Int("factors", 1, strictjson.Between(1, Most)),
	}
	f.Objective = ReadObjective(o, o.Word("values", valuesWords[0], valuesWords...) == valuesWords[1])
	return f, o.Done()
}

// JSON is the complete definition.
func (f *Form) JSON() []byte {
	values := map[string]any{
		"kind": Kind, "items": f.Items, "factors": f.Factors, "values": valuesWords[0], "regularization": f.Regularization,
		"nu": f.Nu,
	}
	if f.Ratings {
		values["values"] = valuesWords[1]
	} else {
		values["alpha"], values["unobserved_weight"] = f.Alpha, f.Unobserved
	}
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // numbers and words can be written
	}
	return text
}

// Ports are the input, the factors of a row, and the output, whose units are the items.
func (f *Form) Ports() []program.Port {
	return []program.Port{
		{Name: inputName, Kind: "input", Size: f.Items, Reads: true}, {Name: userName, Kind: "hidden", Size: f.Factors},
		{Name: outputName, Kind: "output", Size: f.Items, Scores: true, Weights: []string{FactorsName}},
	}
}

// Specs are the tensors, which begin as zeros.
func (f *Form) Specs() ([]tensor.Spec, error) {
	spec := func(name string, rows, columns int64) tensor.Spec {
		return tensor.Spec{
			Name: name, DType: tensor.F32, Shape: []int64{rows, columns}, Layer: outputLayer, Role: tensor.Fixed,
		}
	}
	list := []tensor.Spec{spec(FactorsName, f.Items, f.Factors), spec(SquaresName, f.Factors, 1)}
	if f.Ratings {
		list[1] = spec(BiasName, f.Items, 1)
	}
	return list, nil
}

// Matrices are the factors.
func (f *Form) Matrices() []program.Matrix {
	return []program.Matrix{{Name: FactorsName, Rows: f.Items, Columns: f.Factors}}
}

// Bounds have no limit of rows: only the host has the operation of the user layer, and that takes little memory.
func (f *Form) Bounds() (rows int64, on program.Reach) { return math.MaxInt64, program.HostOnly }

// Computation makes programs; bind completes what feeds the input.
func (f *Form) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) { f.build(b, bind) }
}

func (f *Form) build(b *program.Builder, bind func(*program.Feed)) {
	specs, _ := f.Specs()
	tensors := make([]program.Tensor, len(specs))
	for n, spec := range specs {
		tensors[n] = program.Tensor{Name: spec.Name, Rows: spec.Shape[0], Columns: spec.Shape[1]}
	}
	b.Tensors(tensors)
	feed := program.Feed{
		Layer: inputLayer, Name: inputName, Text: "what feeds " + inputName, Columns: f.Items, Whole: true,
	}
	bind(&feed)
	b.Batches(true, feed)
	factors := b.Weight(FactorsName)
	op := f.Operation(f.Items, f.Factors)
	op.Input, op.Factors, op.Out = b.FirstSlot(), factors.Value, b.Alloc("activations", userName, b.Rows()*f.Factors)
	first, end := b.Items(f.Items)
	rows := func(of *kernels.Weights) *kernels.Weights {
		part := *of
		part.Rows, part.Value = end-first, of.Value.Slice(first*of.Columns, (end-first)*of.Columns)
		return &part
	}
	shard := program.Shard{Scorer: kernels.Scorer{Items: end - first}, First: first}
	shard.Sources = []kernels.OutputSource{{H: op.Out, Weight: rows(factors)}}
	if f.Ratings {
		bias := b.Weight(BiasName)
		op.Offsets, op.Bias = bias.Value, b.Alloc("activations", "biases of rows", b.Rows())
		shard.Bias = rows(bias)
		// The bias of a row counts in the scores of all items.
		one := &kernels.Weights{Name: "ones", Rows: end - first, Columns: 1}
		one.Value = b.Constants("ones", one.Rows, func() []float32 {
			ones := make([]float32, one.Rows)
			for i := range ones {
				ones[i] = 1
			}
			return ones
		})
		shard.Sources = append(shard.Sources, kernels.OutputSource{H: op.Bias, Weight: one})
	} else {
		op.Squares = b.Weight(SquaresName).Value
	}
	b.AddWith(&op.Workspace, op, op)
	b.Hidden(userLayer, op.Out)
	b.Output(outputLayer, shard)
}

// Check wants the squares to be those of the factors.
func (f *Form) Check(find func(name string) (*tensor.Tensor, error)) error {
	if f.Ratings {
		return nil
	}
	factors, err := find(FactorsName)
	if err != nil {
		return err
	}
	squares, err := find(SquaresName)
	if err != nil {
		return err
	}
	sums, largest := make([]float64, f.Factors), 0.0
	for i, x := range factors.Float32() {
		sums[int64(i)%f.Factors] += float64(x) * float64(x)
	}
	for _, sum := range sums {
		largest = max(largest, sum)
	}
	for k, sum := range sums {
		if got := float64(squares.Float32()[k]); !(math.Abs(got-sum) <= 1e-3*largest+1e-30) {
			return fault.New(fault.InvalidData, "%s[%d] is %g, but the squares in column %d of %s add up to %g; set both",
				SquaresName, k, got, k, FactorsName, sum)
		}
	}
	return nil
}
