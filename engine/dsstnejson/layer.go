package dsstnejson

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"dsstne/engine/network"
	"dsstne/engine/strictjson"
)

const axes = 4 // dimensions of N

// layer is a layer of a file.
type layer struct {
	o       *strictjson.Object
	name    string
	kind    string
	size    int64  // 0 = "auto"
	merge   string // the function of a pooling layer; empty: it is fully connected
	sources []int
	skips   []int
	dataset string
	shares  []sharing
	keys    fields // of our dialect
	loss    fields // of an output
}

// begin reads the kind and the name, which others refer to. The defaults follow from the place in the file.
func (f *file) begin(i int, o *strictjson.Object) *layer {
	l := &layer{o: o, name: o.String("Name", "")}
	if o.Has("Name") {
		f.checkName(o, l.name)
		o.Title(fmt.Sprintf("layer %q", l.name))
	}
	l.kind = o.Word("Kind", f.kindAt(i), input, hidden, output, target)
	if !o.Has("Name") {
		l.name = l.kind + strconv.Itoa(i)
		f.checkName(o, l.name)
		o.Title(fmt.Sprintf("layer %q", l.name))
	}
	if l.kind == target {
		o.Fail("Kind", noTargetLayers)
	}
	return l
}

// kindAt is the kind of a layer that names none.
func (f *file) kindAt(i int) string {
	switch i {
	case 0:
		return input
	case len(f.objects) - 1:
		return output
	}
	return hidden
}

// checkName refuses a name that cannot be used in a tensor's name, or is taken.
func (f *file) checkName(o *strictjson.Object, name string) {
	if reason := network.NameFault(name); reason != "" {
		o.Fail("Name", "%s", reason)
	}
	if i := f.find(name); i >= 0 {
		o.Fail("Name", "is %q, the name of Layers[%d] too; every layer needs its own", name, i)
	}
}

// read reads the other keys.
func (f *file) read(i int) {
	l := f.layers[i]
	o := l.o
	for _, k := range layerKeys {
		if !slices.Contains(k.kinds, l.kind) {
			o.Refuse(k.key, "is given, but only %s layers have it", listed(k.kinds, "and"))
		}
	}
	word := o.Word("Type", "FullyConnected", "FullyConnected", "Convolutional", "Pooling")
	if sentence, found := missingTypes[word]; found {
		o.Fail("Type", "is %s; %s", word, sentence)
	}
	if word == "Pooling" {
		l.merge = f.readFunction(o)
	} else {
		o.Refuse("Function", "is given, but only layers of Type Pooling have it")
	}
	refuseMissing(o)
	sparse := o.Bool("Sparse", false)
	if l.merge == "" || o.Has("N") {
		l.size = readSize(o, l.kind)
	}
	l.keys = fields{"name": l.name, "kind": fold(l.kind), "size": l.size}
	if l.size == 0 {
		l.keys["size"] = "auto"
	}
	l.dataset = o.String("DataSet", "")
	dropout := o.Float32("pDropout", 0, strictjson.Fraction)
	switch l.kind {
	case input:
		if sparse {
			l.keys["denoising"] = f.denoising
		}
		refuseDropout(l, dropout, `; the top-level key Denoising drops entries of sparse inputs`)
	case hidden:
		f.connect(i)
		if l.merge != "" {
			f.readMerge(l)
			return
		}
		f.readHidden(l, sparse, dropout)
	case output:
		f.connect(i)
		f.readOutput(l, dropout)
	}
}

func (f *file) readHidden(l *layer, sparse bool, dropout float32) {
	o := l.o
	penalty := readPenalty(o, f.penalty)
	if sparse && penalty.beta > 0 {
		l.keys["sparsity"] = fields{"mean": penalty.p, "weight": penalty.beta}
	}
	l.shares = readSharing(o)
	activation := readActivation(o)
	keys, refusal := activations[activation](readParameters(o, f.parameters))
	if refusal != "" {
		o.Fail("Activation", "%s %s", activation, refusal)
	}
	maps.Copy(l.keys, keys)
	key := "dropout"
	if dropout > 0 && alphaDropout[activation] {
		key = "alpha_dropout"
	}
	begin := readInitializer(o, l.sharesAll())
	if o.Bool("BatchNormalization", false) {
		// Our bias is the shift behind the normalisation; DSSTNE's biases are in front of it, where they have no effect.
		l.keys["batch_norm"], begin["bias"] = true, 0
	}
	l.keys[key], l.keys["initializer"] = dropout, begin
	readNorms(l)
}

func (f *file) readOutput(l *layer, dropout float32) {
	o := l.o
	refuseDropout(l, dropout, "")
	l.loss = f.output(o, readActivation(o), readParameters(o, f.parameters), l.keys)
	l.shares = readSharing(o)
	readNorms(l)
	l.keys["initializer"] = readInitializer(o, l.sharesAll())
}

// readNorms reads the largest norms of the weights of a unit and of the gradient of an example; 0: any.
func readNorms(l *layer) {
	most := l.o.Float32("WeightNorm", 0, strictjson.NotNegative)
	if most > 0 && l.sharesAll() {
		l.o.Fail("WeightNorm", noWeightNorm, most)
	} else if most > 0 {
		l.keys["weight_norm"] = most
	}
	if most := l.o.Float32("DeltaNorm", 0, strictjson.NotNegative); most > 0 {
		l.keys["delta_norm"] = most
	}
}

func refuseDropout(l *layer, dropout float32, hint string) {
	if dropout > 0 {
		l.o.Fail("pDropout", noDropout, dropout, hint)
	}
}

// readSize reads N: a number, a list of them, whose product counts, or "auto", which is 0.
func readSize(o *strictjson.Object, kind string) int64 {
	o.Require("N")
	size := strictjson.Between(1, network.Largest)
	switch o.Type("N") {
	case strictjson.StringType:
		if word := o.String("N", ""); fold(word) != "auto" {
			o.Fail("N", `is %q; it must be a number, a list of numbers or "auto"`, word)
		} else if kind == hidden {
			o.Fail("N", `is "auto", which is for layers that meet the data; a hidden layer needs its number of units`)
		}
		return 0
	case strictjson.ListType:
		list := o.Ints("N", size)
		if len(list) == 0 || len(list) > axes {
			o.Fail("N", "has %d numbers; it must have from 1 to %d", len(list), axes)
			return 0
		}
		product := int64(1)
		for _, n := range list {
			if product *= max(n, 1); product > network.Largest {
				o.Fail("N", "has a product that is too large; a layer has at most %d columns or units", int64(network.Largest))
				return 0
			}
		}
		return product
	}
	return o.Int("N", 0, size)
}

// penalty is a sparseness penalty, of which the weight beta decides whether there is one.
type penalty struct{ p, beta float32 }

// readPenalty reads a penalty; what is 0 is taken from another one.
func readPenalty(o *strictjson.Object, other penalty) penalty {
	given := o.Object("SparsenessPenalty")
	return penalty{
		cmp.Or(given.Float32("p", 0, strictjson.Between(0, 1)), other.p),
		cmp.Or(given.Float32("beta", 0, strictjson.NotNegative), other.beta),
	}
}

// names reads a name, or a list of names.
func names(o *strictjson.Object, key string) []string {
	switch given := o.Type(key); given {
	case strictjson.StringType:
		return []string{o.String(key, "")}
	case strictjson.ListType:
		return o.Strings(key)
	case strictjson.Missing:
	default:
		o.Fail(key, "is %v; it must be a name or a list of names", given)
	}
	return nil
}
