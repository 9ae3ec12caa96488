package network

import (
	"fmt"

	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// mergeLayer computes with the values of other layers, without weights: their maximum, or products of the first one
// with the others.
type mergeLayer struct {
	common
	function kernels.MergeKind
}

func (*mergeLayer) word() string { return "merge" }

func (*mergeLayer) accepts(source kind) bool { return !source.scores() && !source.reads() }

func (k *mergeLayer) read(r *reader, o *strictjson.Object, l *Layer, earlier []Layer) {
	o.Require("function", "sources")
	k.function = readWord(o, "function", kernels.MergeMaximum, kernels.MergeWords)
	l.Skips = r.sources(o, l, earlier)
	for _, key := range []string{
		"activation", "dropout", "alpha_dropout", "sparsity", batchNormKey, layerNormKey, deltaNormKey,
	} {
		o.Refuse(key, "is given, but a merge layer computes with values as they are; it belongs on the layers around it")
	}
	o.Refuse("bias", "is given, but a merge layer has no weights")
	if len(l.Skips) > 0 && o.Err() == nil {
		k.readSize(o, l, earlier)
	}
}

// readSize takes the size from the sources, and checks that they fit together, and that a given size is theirs.
func (k *mergeLayer) readSize(o *strictjson.Object, l *Layer, earlier []Layer) {
	first := &earlier[l.Skips[0]]
	for n, s := range l.Skips {
		if reason := conflict(first, &earlier[s]); reason != "" {
			o.FailAt("sources", n, "does not fit: %s", reason)
		}
	}
	least := 2
	if k.function == kernels.MergeMaximum {
		least = 1
	}
	if len(l.Skips) < least || len(l.Skips) > kernels.MaxSources {
		o.Fail("sources", "has %d layers; %q takes from %d to %d", len(l.Skips), k.function, least, kernels.MaxSources)
		return
	}
	l.Size = k.function.Columns(first.Size, len(l.Skips))
	if size := o.Int("size", l.Size, strictjson.Between(1, largest)); size != l.Size {
		o.Fail("size", "is %d, but %q of %d layers of %d units has %d; leave it out", size, k.function, len(l.Skips),
			first.Size, l.Size)
	}
}

func (k *mergeLayer) define(n *Network, l *Layer) fields {
	return fields{{"sources", n.names(l.Skips)}, {"function", k.function.String()}, {"size", l.Size}}
}

func (k *mergeLayer) merge(b *builder, i int) *kernels.Merge {
	l := &b.net.Layers[i]
	op := &kernels.Merge{Name: l.Name, Kind: k.function, Units: b.net.Layers[l.Skips[0]].Size, Out: b.values[i].out}
	for _, s := range l.Skips {
		op.Sources = append(op.Sources, kernels.MergeSource{H: b.values[s].out})
	}
	return op
}

func (k *mergeLayer) forward(b *builder, i int) {
	b.dense(i)
	b.Add(k.merge(b, i))
}

func (k *mergeLayer) backward(b *builder, i int) {
	l, v := &b.net.Layers[i], &b.values[i]
	if !v.added {
		b.Fail(fault.New(fault.Internal, "no output depends on layer %q", l.Name))
		return
	}
	op := &kernels.MergeBackward{Merge: k.merge(b, i), DOut: v.gradient}
	for n, s := range l.Skips {
		op.Sources[n].DH, op.Sources[n].Accumulate = b.addTo(s, false)
	}
	b.Add(op)
}

// readSkips reads the layers whose values a layer adds to its sums.
func readSkips(r *reader, o *strictjson.Object, l *Layer, earlier []Layer) {
	if !o.Has("skips") {
		return
	}
	l.Skips = r.layers(o, "skips", l, earlier)
	for n, s := range l.Skips {
		if from := earlier[s].kind; from.reads() || from.scores() {
			o.FailAt("skips", n, "is %q, %s layer; only layers with units have values that can be added", earlier[s].Name,
				withArticle(from.word()))
		} else if reason := conflict(l, &earlier[s]); reason != "" {
			o.FailAt("skips", n, "does not fit: %s", reason)
		}
	}
}

// defineSkips is the key of a layer that has some.
func (n *Network) defineSkips(l *Layer) fields {
	if len(l.Skips) == 0 {
		return fields{{"skips", ""}}
	}
	return fields{{"skips", n.names(l.Skips)}}
}

// skipConflict explains why a layer cannot add another one's values, once sizes are known. Empty: all can.
func (n *Network) skipConflict() string {
	for i := range n.Layers {
		l := &n.Layers[i]
		if _, merges := l.kind.(*mergeLayer); merges {
			continue
		}
		for _, s := range l.Skips {
			if reason := conflict(l, &n.Layers[s]); reason != "" {
				return fmt.Sprintf("the layer %q adds the values of %q, but %s", l.Name, n.Layers[s].Name, reason)
			}
		}
	}
	return ""
}

// addSkips adds the values of other layers to the sums of a layer, or begins these.
func (b *builder) addSkips(i int, sums kernels.Buffer, begun bool) {
	l := &b.net.Layers[i]
	for _, s := range l.Skips {
		b.Add(&kernels.Skip{
			Name: l.Name, From: b.net.Layers[s].Name, In: b.values[s].out, Stride: l.Size, Out: sums, Units: l.Size,
			Accumulate: begun,
		})
		begun = true
	}
}

// backToSkips adds the gradient with respect to the sums of a layer to those of the layers whose values it has added.
func (b *builder) backToSkips(i int, dz kernels.Buffer) {
	l := &b.net.Layers[i]
	for _, s := range l.Skips {
		if !b.learns[s] {
			continue
		}
		op := &kernels.Skip{Name: b.net.Layers[s].Name, From: l.Name, In: dz, Stride: l.Size, Units: l.Size}
		op.Out, op.Accumulate = b.addTo(s, false)
		b.Add(op)
	}
}
