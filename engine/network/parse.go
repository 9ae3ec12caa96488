package network

import (
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

const (
	largest    = 1<<31 - 1 // size of a layer: items are counted in 32-bit integers
	mostLayers = 256       // keeps checks that compare layers with each other fast, whatever the text
	longest    = 100       // characters of a layer's name, which tensors carry on
)

// Parse reads a definition, see docs/network.md. Its errors, of kind fault.InvalidArgument, name the path, the value and
// what is allowed.
func Parse(text []byte) (*Network, error) {
	document, err := strictjson.Parse(text, "network definition")
	if err != nil {
		return nil, err
	}
	document.Require("layers")
	n := &Network{Name: document.String("name", "")}
	objects := document.Objects("layers")
	if len(objects) > mostLayers {
		document.Fail("layers", "has %d layers; a network has at most %d", len(objects), mostLayers)
		return nil, document.Err()
	}
	r := reader{objects: objects, known: make([]string, len(objects))}
	for i, o := range objects {
		o.Require("name", "kind")
		r.known[i] = o.String("name", "")
		r.incomplete = r.incomplete || !o.Has("name") || !o.Has("kind")
	}
	for i, o := range objects {
		r.checkName(o, i)
		n.Layers = append(n.Layers, r.layer(o, n.Layers))
	}
	n.Terms = terms(document, n.Layers)
	if err := document.Done(); err != nil {
		return nil, err
	}
	if check(n, document, objects); document.Err() != nil {
		return nil, document.Err()
	}
	return n, nil
}

// reader reads layers.
type reader struct {
	objects []*strictjson.Object
	known   []string // the names of all layers
	// A layer lacks its name or kind. That will be reported; looking for sources would find errors that follow from it.
	incomplete bool
}

// layerKeys are the keys that some kind of layer has.
var layerKeys = []string{"name", "kind", "size", "sources", "scaling", "denoising", "activation", "bias", "dropout",
	"temperature", "shared", "initializer"}

// checkName refuses a name that cannot be used in a tensor's name, or is taken.
func (r *reader) checkName(o *strictjson.Object, i int) {
	name := r.known[i]
	if !o.Has("name") {
		return
	}
	if name == "" {
		o.Fail("name", "is empty")
	}
	if len(name) > longest {
		o.Fail("name", "has %d bytes; a name has at most %d", len(name), longest)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			o.Fail("name", "is %q; names are made of letters A to Z and a to z, digits, and the signs _ . -", name)
		}
	}
	if first := slices.Index(r.known, name); first < i {
		o.Fail("name", "is %q, which is the name of %s too; every layer needs its own", name, r.objects[first].Path())
	}
}

// layer reads one layer, given those before it.
func (r *reader) layer(o *strictjson.Object, earlier []Layer) Layer {
	l := Layer{Name: o.String("name", "")}
	l.Kind = Kind(slices.Index(kindWords, o.Word("kind", kindWords[Input], kindWords...)))
	switch {
	case !o.Has("kind"):
		for _, key := range layerKeys {
			o.Has(key)
		}
	case l.Kind == Input:
		readInput(o, &l)
	case l.Kind == Hidden:
		r.readHidden(o, &l, earlier)
	default:
		r.readOutput(o, &l, earlier)
	}
	return l
}

func readInput(o *strictjson.Object, l *Layer) {
	l.Size = dataSize(o)
	l.Scaling = Scaling(slices.Index(scalingWords, o.Word("scaling", scalingWords[NoScaling], scalingWords...)))
	l.Denoising = o.Float32("denoising", 0, strictjson.Fraction)
	o.Refuse("sources", "is given, but an input layer takes its rows from a dataset")
	o.Refuse("dropout", `is given, but an input layer has none; its entries are dropped by "denoising"`)
	for _, key := range []string{"activation", "bias", "initializer", "temperature", "shared"} {
		o.Refuse(key, "is given, but an input layer has none")
	}
}

func (r *reader) readHidden(o *strictjson.Object, l *Layer, earlier []Layer) {
	o.Require("size")
	if o.Type("size") == strictjson.StringType && o.String("size", "") == "auto" {
		o.Fail("size", `is "auto", which is for layers that meet the data; a hidden layer needs its number of units`)
	}
	l.Size = o.Int("size", 0, strictjson.Between(1, largest))
	l.Sources = r.sources(o, l, earlier)
	activation := o.Word("activation", kernels.ActivationWords[kernels.Tanh], kernels.ActivationWords...)
	l.Activation = kernels.Activation(slices.Index(kernels.ActivationWords, activation))
	l.Bias = o.Bool("bias", true)
	l.Dropout = o.Float32("dropout", 0, strictjson.Fraction)
	l.Initializer = initializer(o, l)
	for _, key := range []string{"scaling", "denoising"} {
		o.Refuse(key, "is given, but only input layers have it")
	}
	for _, key := range []string{"temperature", "shared"} {
		o.Refuse(key, "is given, but only output layers have it")
	}
}

func (r *reader) readOutput(o *strictjson.Object, l *Layer, earlier []Layer) {
	l.Size = dataSize(o)
	l.Sources = r.sources(o, l, earlier)
	l.Bias = o.Bool("bias", true)
	l.Temperature = o.Float32("temperature", 0, strictjson.NotNegative)
	l.Shared = o.String("shared", "")
	l.Initializer = initializer(o, l)
	o.Refuse("activation", "is given, but an output layer has none; its loss decides")
	o.Refuse("dropout", "is given, but an output layer has none; it belongs on the hidden layers before it")
	for _, key := range []string{"scaling", "denoising"} {
		o.Refuse(key, "is given, but only input layers have it")
	}
}

// dataSize reads the size of a layer that meets the data; 0 is "auto", which is the default.
func dataSize(o *strictjson.Object) int64 {
	if o.Type("size") == strictjson.StringType {
		o.Word("size", "auto", "auto")
		return 0
	}
	return o.Int("size", 0, strictjson.Between(1, largest))
}

// initializer reads how a layer's weights begin.
func initializer(o *strictjson.Object, l *Layer) Initializer {
	i := o.Object("initializer")
	if l.Shared != "" {
		for _, key := range []string{"kind", "scale"} {
			i.Refuse(key, "is given, but the weight is shared and begins as %s does", l.Shared)
		}
	}
	word := i.Word("kind", initializerWords[XavierUniform], initializerWords...)
	kind := InitializerKind(slices.Index(initializerWords, word))
	scales := strictjson.NotNegative
	if kind == Constant {
		scales = strictjson.Any
	}
	begin := Initializer{Kind: kind, Scale: i.Float32("scale", 1, scales), Bias: i.Float32("bias", 0, strictjson.Any)}
	if begin.Bias != 0 && !l.Bias {
		i.Fail("bias", "is %v, but the layer has no bias", begin.Bias)
	}
	return begin
}
