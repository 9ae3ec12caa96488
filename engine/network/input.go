package network

import (
	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/internal/random"
)

// inputLayer takes the rows of a sparse dataset.
type inputLayer struct {
	common
	scaling   Scaling
	denoising float32 // share of the stored entries that training drops, 0 <= p < 1
}

// Scaling is what happens to a row of an input layer before anything else.
type Scaling int

// L2 divides a row by its Euclidean norm; a row of zeros stays.
const (
	NoScaling Scaling = iota
	L2
)

var scalingWords = []string{NoScaling: "none", L2: "l2"}

func (*inputLayer) word() string      { return "input" }
func (*inputLayer) reads() bool       { return true }
func (*inputLayer) accepts(kind) bool { return false }

func (k *inputLayer) read(_ *reader, o *strictjson.Object, l *Layer, _ []Layer) {
	l.Size = dataSize(o)
	k.scaling = readWord(o, "scaling", NoScaling, scalingWords)
	k.denoising = o.Float32("denoising", 0, strictjson.Fraction)
	o.Refuse("sources", "is given, but an input layer takes its rows from a dataset")
	for _, key := range []string{"sparsity", batchNormKey, layerNormKey} {
		o.Refuse(key, "is given, but an input layer has none; it belongs on hidden layers")
	}
	o.Refuse("dropout", `is given, but an input layer has none; its entries are dropped by "denoising"`)
}

func (k *inputLayer) define(_ *Network, l *Layer) fields {
	return fields{{"size", defineSize(l)}, {"scaling", scalingWords[k.scaling]}, {"denoising", k.denoising}}
}

func (k *inputLayer) feed(f *program.Feed) {
	f.Scaled, f.Denoising, f.Stream = k.scaling == L2, k.denoising, random.StreamDenoising|uint32(f.Layer)
}

func (*inputLayer) forward(b *builder, i int) {
	b.values[i] = value{slot: b.slots[i], units: b.net.Layers[i].Size}
}
