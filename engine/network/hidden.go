package network

import (
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// hiddenLayer computes h = dropout(activation(norm(sum over sources of W x) + b)).
type hiddenLayer struct {
	common
	activation kernels.Activation
	dropout    float32 // share of the units that training drops, 0 <= p < 1
	sparsity   sparsity
	norm       norm
}

// sparsity is the penalty on the mean of each unit over a batch; weight 0: none.
type sparsity struct{ mean, weight float32 }

func (*hiddenLayer) word() string { return "hidden" }

func (*hiddenLayer) accepts(source kind) bool { return !source.scores() }

func (k *hiddenLayer) read(r *reader, o *strictjson.Object, l *Layer, earlier []Layer) {
	o.Require("size")
	if o.Type("size") == strictjson.StringType && o.String("size", "") == "auto" {
		o.Fail("size", `is "auto", which is for layers that meet the data; a hidden layer needs its number of units`)
	}
	l.Size = o.Int("size", 0, strictjson.Between(1, largest))
	l.Sources = r.sources(o, l, earlier)
	if len(l.Sources) == 0 && l.Sources != nil {
		o.Fail("sources", "is empty; a hidden layer needs at least one")
	}
	_, k.activation = readActivation(o, kernels.Tanh.String(), kernels.ActivationWords...)
	l.Bias = o.Bool("bias", true)
	k.dropout = o.Float32("dropout", 0, strictjson.Fraction)
	if o.Has("sparsity") {
		of := o.Object("sparsity")
		of.Require("mean")
		k.sparsity.mean = of.Float32("mean", 0, strictjson.Between(0, 1))
		k.sparsity.weight = of.Float32("weight", 1, strictjson.NotNegative)
	}
	k.norm = readNorm(o)
	l.Initializer = initializer(o, l)
}

func (k *hiddenLayer) define(n *Network, l *Layer) fields {
	return slices.Concat(
		fields{{"sources", n.defineSources(l)}, {"size", defineSize(l)}},
		defineActivation(k.activation.Kind.String(), k.activation),
		fields{{"dropout", k.dropout}, {"bias", l.Bias}, {"initializer", defineInitializer(l)}},
		defineSparsity(k.sparsity),
		defineNorm(k.norm),
	)
}

func defineSparsity(s sparsity) fields {
	if s.weight == 0 {
		return nil
	}
	return fields{{"sparsity", fields{{"mean", s.mean}, {"weight", s.weight}}}}
}

func (k *hiddenLayer) forward(b *builder, i int) {
	l := &b.net.Layers[i]
	b.dense(i)
	sums, epilogue := k.sumsOf(b, i), k.epilogue(b, i)
	if k.norm.on() {
		epilogue = nil
	}
	sources := l.Sources
	if b.sumsShards() {
		// What every rank computes must not be counted several times: it is added when the sums are complete.
		sources = slices.Concat(b.those(sources, true), b.those(sources, false))
	}
	for n, s := range sources {
		w := b.Weight(b.net.WeightName(i, s))
		last := n == len(sources)-1
		end, from := epilogue, b.net.Layers[s].Name
		if !last {
			end = nil
		}
		if b.values[s].sparse() {
			op := &kernels.Gather{
				Name: l.Name, From: from, Input: b.values[s].slot, Weight: w, Out: sums, Accumulate: n > 0, Epilogue: end,
			}
			b.CatchUp(w, op.Input)
			b.gather(op, last || !b.values[sources[n+1]].sparse())
			continue
		}
		op := &kernels.Dense{
			Name: l.Name, From: from, In: b.values[s].out, Weight: w, Out: sums, Accumulate: n > 0, Epilogue: end,
		}
		b.KeepRounded(op, w)
		b.AddWith(&op.Workspace, op, op)
	}
	if k.norm.on() {
		k.normalise(b, i, sums)
	}
}

// those are the sparse layers among some, or the dense ones.
func (b *builder) those(layers []int, sparse bool) []int {
	return slices.DeleteFunc(slices.Clone(layers), func(s int) bool { return b.values[s].sparse() != sparse })
}

func (k *hiddenLayer) epilogue(b *builder, i int) *kernels.Epilogue {
	e := &kernels.Epilogue{Activation: k.activation, Stream: random.StreamDropout | uint32(i)}
	if b.Training() != nil {
		e.Dropout = k.dropout
	}
	if bias := b.bias(i); bias != nil {
		e.Bias = bias.Value
	}
	return e
}

// sumsShards reports whether several ranks gather at the same time and add up their sums, as they do in training.
func (b *builder) sumsShards() bool { return b.Sharded() && b.Training() != nil }

// gather reads rows of a weight, of which each of several ranks has a shard; last: it is the layer's last gather.
func (b *builder) gather(op *kernels.Gather, last bool) {
	end := op.Epilogue
	switch {
	case !b.Sharded():
		b.Add(op)
	case !b.sumsShards():
		b.gatherInTurn(op)
	default:
		op.Epilogue = nil
		b.Add(op)
		if last {
			b.AllReduce(op.Name, op.Out, op.Weight.Columns)
		}
		if end != nil {
			b.Add(&kernels.Activate{Name: op.Name, In: op.Out, Out: op.Out, Units: op.Weight.Columns, Epilogue: *end})
		}
	}
}

// gatherInTurn adds up in the order of the items, rank after rank, as one device would: in inference hidden layers and
// scores have the same bits on any number of devices.
func (b *builder) gatherInTurn(op *kernels.Gather) {
	op.Accumulate = op.Accumulate || b.Rank() > 0
	if b.Rank() < b.World()-1 {
		op.Epilogue = nil
	}
	for root := range b.World() {
		if root == b.Rank() {
			b.Add(op)
		}
		count := kernels.Count{PerRow: op.Weight.Columns}
		b.Add(&kernels.Broadcast{What: op.Name, Buffer: op.Out, Count: count, Root: root})
	}
}

func (k *hiddenLayer) backward(b *builder, i int) {
	l, v := &b.net.Layers[i], &b.values[i]
	if !v.added {
		b.Fail(fault.New(fault.Internal, "no output depends on layer %q", l.Name))
		return
	}
	optimizer, bias := b.Training().Optimizer, b.bias(i)
	if bias != nil && bias.Locked {
		bias = nil
	}
	b.Add(&kernels.Backward{
		Name: l.Name, H: v.out, DH: v.gradient, Shift: k.penalise(b, i), Units: v.units, Epilogue: *k.epilogue(b, i),
		Bias: bias, Optimizer: optimizer,
	})
	if k.norm.on() {
		k.denormalise(b, i)
	}
	for _, s := range l.Sources {
		w, from := b.Weight(b.net.WeightName(i, s)), &b.values[s]
		if w.Locked && !b.learns[s] {
			continue
		}
		if from.sparse() {
			op := &kernels.Scatter{
				Input: from.slot, DZ: v.gradient, Weight: w, TiedGradient: b.PartialGradient(w.Name), Optimizer: optimizer,
			}
			b.AddWith(&op.Workspace, op, op)
			continue
		}
		op := &kernels.DenseBackward{DZ: v.gradient, In: from.out, Weight: w, Optimizer: optimizer}
		op.DIn, op.Accumulate = b.addTo(s, false)
		b.OwnScratch(&op.Workspace, op, w.Name)
		b.Add(op)
	}
}

// penalise adds the sparsity penalty to the loss, and returns what it adds to the gradient of every row; nil: nothing.
func (k *hiddenLayer) penalise(b *builder, i int) kernels.Buffer {
	l, v := &b.net.Layers[i], &b.values[i]
	if k.sparsity.weight == 0 {
		return nil
	}
	sums := b.Alloc("sums over the batch", l.Name, v.units)
	b.Add(&kernels.UnitSums{Name: l.Name, X: v.out, Units: v.units, Sums: sums})
	b.SumOfRows("the sums of "+l.Name+" over the batch", sums, v.units)
	b.Add(&kernels.Sparsity{
		Name: l.Name, Units: v.units, Sums: sums, Mean: k.sparsity.mean, Weight: k.sparsity.weight,
		Term: b.net.penaltyTerm(i), Silent: b.Rank() > 0,
	})
	return sums
}
