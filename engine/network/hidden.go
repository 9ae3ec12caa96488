package network

import (
	"slices"

	"dsstne/engine/schedule"
	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// hiddenLayer computes h = dropout(activation(norm(sum over sources of W x) + b)).
type hiddenLayer struct {
	capped
	activation kernels.Activation
	dropout    float32 // share of the units that training drops, 0 <= p < 1
	alpha      bool    // by alpha dropout
	sparsity   sparsity
	norm       norm
	rows       wholeRows
}

// sparsity is the penalty on the mean of each unit over a batch; weight 0: none.
type sparsity struct{ mean, weight float32 }

func (*hiddenLayer) word() string { return "hidden" }

func (k *hiddenLayer) penalty() (schedule.Schedule, bool) {
	return schedule.Schedule{}, k.sparsity.weight > 0
}

func (*hiddenLayer) accepts(source kind) bool { return !source.scores() }

func (k *hiddenLayer) read(r *reader, o *strictjson.Object, l *Layer, earlier []Layer) {
	readUnits(r, o, l, earlier)
	readSkips(r, o, l, earlier)
	k.readFunction(o)
	l.Bias = o.Bool("bias", true)
	k.readDropout(o)
	if o.Has("sparsity") {
		of := o.Object("sparsity")
		of.Require("mean")
		k.sparsity.mean = of.Float32("mean", 0, strictjson.Between(0, 1))
		k.sparsity.weight = of.Float32("weight", 1, strictjson.NotNegative)
	}
	k.norm = readNorm(o)
	k.readWeightNorm(o)
	l.Initializer = initializer(o, l)
}

// readDropout reads one of two ways to drop units.
func (k *hiddenLayer) readDropout(o *strictjson.Object) {
	k.dropout = o.Float32("dropout", 0, strictjson.Fraction)
	alpha := o.Float32("alpha_dropout", 0, strictjson.Fraction)
	if k.rows.softmax && k.dropout > 0 {
		o.Fail("dropout", `is given, but the values of the activation "softmax" add up to 1, which dropped units would `+
			"change; put dropout on another layer")
	}
	if alpha == 0 {
		return
	}
	switch k.activation.Kind {
	case kernels.ELU, kernels.SELU:
	default:
		o.Fail("alpha_dropout", `is given, but the activation is %q; with another than "elu" and "selu" use dropout`,
			k.function())
	}
	if k.dropout > 0 {
		o.Fail("alpha_dropout", "is given, and dropout is, too; a layer has one of them")
	}
	k.dropout, k.alpha = alpha, true
}

// defineDropout is the key of the kind of dropout with its share, and the other one without.
func (k *hiddenLayer) defineDropout() fields {
	if k.alpha {
		return fields{{"dropout", ""}, {"alpha_dropout", k.dropout}}
	}
	return fields{{"dropout", k.dropout}, {"alpha_dropout", ""}}
}

// readUnits reads the units and the sources of a layer.
func readUnits(r *reader, o *strictjson.Object, l *Layer, earlier []Layer) {
	o.Require("size")
	if o.Type("size") == strictjson.StringType && o.String("size", "") == "auto" {
		o.Fail("size", `is "auto", which is for layers that meet the data; %s layer needs its number of units`,
			withArticle(l.kind.word()))
	}
	l.Size = o.Int("size", 0, strictjson.Between(1, largest))
	l.Sources = r.sources(o, l, earlier)
	if len(l.Sources) == 0 && l.Sources != nil {
		o.Fail("sources", "is empty; %s layer needs at least one", withArticle(l.kind.word()))
	}
	readShared(o, l, earlier)
}

func (k *hiddenLayer) define(n *Network, l *Layer) fields {
	return slices.Concat(
		fields{{"sources", n.defineSources(l)}}, n.defineSkips(l), fields{{"size", defineSize(l)}},
		defineActivation(k.function(), k.activation),
		k.defineDropout(),
		fields{{"bias", l.Bias}, {"shared", n.defineShared(l)}, {"initializer", defineInitializer(l)}},
		defineSparsity(k.sparsity),
		defineNorm(k.norm), defineCap(k.rows.cap), k.defineWeightNorm(),
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
	v, epilogue := b.dense(i), k.epilogue(b, i)
	inner, to := epilogue, v.out
	apart := b.goesBack(i) && k.activation.Kind.SlopeNeedsSum()
	if apart {
		v.argument = b.Alloc("arguments of the activation", l.Name, b.Rows()*l.Size)
		inner, to = &kernels.Epilogue{Bias: epilogue.Bias}, v.argument
	}
	switch {
	case k.norm.on():
		sums := to
		if b.goesBack(i) { // the way back reads them
			sums = b.Alloc("sums", l.Name, b.Rows()*l.Size)
		}
		b.addSources(i, l.Sources, sums, nil)
		b.addSkips(i, sums, true)
		k.normalise(b, i, sums, to, inner)
	case len(l.Skips) > 0:
		b.addSources(i, l.Sources, to, nil)
		b.addSkips(i, to, true)
		b.Add(&kernels.Activate{Name: l.Name, In: to, Out: to, Units: v.units, Epilogue: *inner})
	default:
		b.addSources(i, l.Sources, to, inner)
	}
	if apart {
		epilogue.Bias = nil
		b.Add(&kernels.Activate{Name: l.Name, In: to, Out: v.out, Units: v.units, Epilogue: *epilogue})
	}
	if k.rows.softmax {
		b.Add(&kernels.SoftmaxRows{Name: l.Name, X: v.out, Units: v.units})
	}
}

// addSources adds up what sources of a layer give, and ends the sums; epilogue nil: something else does.
func (b *builder) addSources(i int, sources []int, out kernels.Buffer, epilogue *kernels.Epilogue) {
	l := &b.net.Layers[i]
	if b.sumsShards() {
		// What every rank computes must not be counted several times: it is added when the sums are complete.
		sources = slices.Concat(b.those(sources, true), b.those(sources, false))
	}
	for n, s := range sources {
		w := b.weight(i, s)
		last := n == len(sources)-1
		end, from := epilogue, b.net.Layers[s].Name
		if !last {
			end = nil
		}
		if b.values[s].sparse() {
			op := &kernels.Gather{
				Name: l.Name, From: from, Input: b.values[s].slot, Weight: w, Out: out, Accumulate: n > 0, Epilogue: end,
			}
			b.CatchUp(w, op.Input)
			b.gather(op, last || !b.values[sources[n+1]].sparse())
			continue
		}
		op := &kernels.Dense{
			Name: l.Name, From: from, In: b.values[s].out, Weight: w, Out: out, Accumulate: n > 0, Epilogue: end,
		}
		b.KeepRounded(op, w)
		b.AddWith(&op.Workspace, op, op)
	}
}

// those are the sparse layers among some, or the dense ones.
func (b *builder) those(layers []int, sparse bool) []int {
	return slices.DeleteFunc(slices.Clone(layers), func(s int) bool { return b.values[s].sparse() != sparse })
}

func (k *hiddenLayer) epilogue(b *builder, i int) *kernels.Epilogue {
	e := &kernels.Epilogue{Bias: b.biasValue(i), Activation: k.activation, Stream: random.StreamDropout | uint32(i)}
	if b.Training() != nil {
		e.Dropout, e.Alpha = k.dropout, k.alpha
	}
	return e
}

// biasValue is the bias of a layer as forward operations read it, nil if it has none.
func (b *builder) biasValue(i int) kernels.Buffer {
	if bias := b.bias(i); bias != nil {
		return bias.Value
	}
	return nil
}

// freeBias is the bias of a layer if the step updates it, else nil.
func (b *builder) freeBias(i int) *kernels.Weights {
	if bias := b.bias(i); bias != nil && !bias.Locked {
		return bias
	}
	return nil
}

// sumsShards reports whether several ranks gather at the same time and add up their sums, as they do in training.
func (b *builder) sumsShards() bool { return b.Sharded() && b.Training() != nil }

// gather reads rows of a weight, of which each of several ranks has a shard; last: it is the layer's last gather.
func (b *builder) gather(op *kernels.Gather, last bool) {
	if 4*b.Entries(op.Input) >= op.Weight.Rows { // else no row is that full, see Gather.Workspace
		b.Scratch(&op.Workspace, op)
	}
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
	k.differentiate(b, i)
	if k.norm.on() {
		k.denormalise(b, i)
	}
	b.backToSources(i, l.Sources, v.gradient)
	b.backToSkips(i, v.gradient)
}

// backToSources updates the weights between a layer and sources by the gradient with respect to its sums, and adds to
// the gradients of the sources.
func (b *builder) backToSources(i int, sources []int, dz kernels.Buffer) {
	optimizer := b.Training().Optimizer
	for _, s := range sources {
		w, from := b.weight(i, s), &b.values[s]
		if w.Locked && !b.learns[s] {
			continue
		}
		if from.sparse() {
			op := &kernels.Scatter{
				Input: from.slot, DZ: dz, Weight: w, TiedGradient: b.PartialGradient(w.Name), Optimizer: optimizer,
			}
			b.AddWith(&op.Workspace, op, op)
			continue
		}
		op := &kernels.DenseBackward{DZ: dz, In: from.out, Weight: w, Optimizer: optimizer}
		op.DIn, op.Accumulate = b.addTo(s, b.Sharded() && b.net.Layers[i].Scores())
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
