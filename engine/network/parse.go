package network

import (
	"fmt"
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

const (
	largest    = 1<<31 - 1 // size of a layer: items are counted in 32-bit integers
	mostLayers = 256       // keeps checks that compare layers with each other fast, whatever the text
	longest    = 100       // characters of a layer's name, which tensors carry on
)

// Largest and MostLayers bound definitions in other dialects, too.
const Largest, MostLayers = largest, mostLayers

// longestText, in bytes, bounds the memory of reading a definition, which may take 120 times its text.
const longestText = 1 << 18

// CheckLength refuses the text of a definition, also one that is not a network's, if it is too long to be read.
func CheckLength(text []byte) error {
	if len(text) > longestText {
		return fault.New(fault.InvalidArgument, "the definition has %s bytes; %s are allowed",
			fault.Grouped(int64(len(text))), fault.Grouped(longestText))
	}
	return nil
}

// Parse reads a definition, see docs/network.md. Its errors are of kind fault.InvalidArgument.
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

// checkName refuses a name that cannot be used in a tensor's name, or is taken.
func (r *reader) checkName(o *strictjson.Object, i int) {
	name := r.known[i]
	if !o.Has("name") {
		return
	}
	if reason := NameFault(name); reason != "" {
		o.Fail("name", "%s", reason)
	}
	if first := slices.Index(r.known, name); first < i {
		o.Fail("name", "is %q, which is the name of %s too; every layer needs its own", name, r.objects[first].Path())
	}
}

// NameFault explains why a layer cannot have a name, which would be a part of a tensor's. Empty: it can.
func NameFault(name string) string {
	if name == "" {
		return "is empty"
	}
	if len(name) > longest {
		return fmt.Sprintf("has %d bytes; a name has at most %d", len(name), longest)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return fmt.Sprintf("is %q; names are made of letters A to Z and a to z, digits, and the signs _ . -", name)
		}
	}
	return ""
}

// layer reads one layer, given those before it.
func (r *reader) layer(o *strictjson.Object, earlier []Layer) Layer {
	l := Layer{Name: o.String("name", "")}
	words := kindWords()
	word := o.Word("kind", words[0], words...)
	l.kind = kinds[max(0, slices.Index(words, word))]()
	if !o.Has("kind") { // which will be reported, and no key without a kind
		for _, make := range kinds {
			for _, key := range keysOf(make()) {
				o.Has(key)
			}
		}
		return l
	}
	l.kind.read(r, o, &l, earlier)
	refuseOthers(o)
	return l
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
	if l.sharesAll() {
		for _, key := range []string{"kind", "scale"} {
			i.Refuse(key, "is given, but the weight is shared and begins as %s does", l.Shared[0].Weight)
		}
	}
	kind := readWord(i, "kind", XavierUniform, initializerWords)
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

// readActivation reads the word of an activation and its parameter. A word that is none of kernels.ActivationWords
// stands for a linear one.
func readActivation(o *strictjson.Object, fallback string, words ...string) (string, kernels.Activation) {
	word := o.Word("activation", fallback, words...)
	a := kernels.Activation{Kind: kernels.ActivationKind(max(0, slices.Index(kernels.ActivationWords, word)))}
	for _, parameter := range alphas {
		if a.Kind == parameter.of {
			a.Alpha = o.Float32(parameter.key, parameter.fallback, strictjson.NotNegative)
		}
	}
	refuseAlphas(o)
	return word, a
}

// refuseAlphas reports parameters of activations that nobody has asked for.
func refuseAlphas(o *strictjson.Object) {
	for _, parameter := range alphas {
		if !o.Asked(parameter.key) {
			o.Refuse(parameter.key, "is given, but only the activation %q has it", parameter.of)
		}
	}
}

// alphas are the keys of kernels.Activation.Alpha.
var alphas = []struct {
	of       kernels.ActivationKind
	key      string
	fallback float32
}{{kernels.ELU, "alpha", 1}, {kernels.LeakyReLU, "slope", 0.01}}

// defineActivation is the word of an activation with its parameter, or nothing if the word is empty.
func defineActivation(word string, a kernels.Activation) fields {
	list := fields{{"activation", word}}
	for _, parameter := range alphas {
		entry := field{parameter.key, ""}
		if word != "" && a.Kind == parameter.of {
			entry.value = a.Alpha
		}
		list = append(list, entry)
	}
	return list
}

// readWord reads a word, and returns the constant it stands for.
func readWord[K ~int | ~int32](o *strictjson.Object, key string, fallback K, words []string) K {
	return K(slices.Index(words, o.Word(key, words[fallback], words...)))
}
