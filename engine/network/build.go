package network

import (
	"slices"

	"dsstne/engine/program"
	"dsstne/kernels"
)

// builder adds the operations of the layers.
type builder struct {
	*program.Builder
	net    *Network
	slots  []int   // by layer: of the batch that feeds it, -1 for none
	whole  []int   // by layer: of the batch with whole rows by which outputs score in inference
	values []value // by layer
	runs   []bool  // by layer: it is computed
	learns []bool  // by layer: it has weights that the step updates, or a layer that it depends on has
}

// value is what a layer hands to those that read it, on one rank.
type value struct {
	units int64
	slot  int            // of the batch, for sparse rows; -1: dense numbers
	out   kernels.Buffer // [B, units], the same on all ranks
	// argument is that of the activation, if the way back reads it; nil: it reads out.
	argument kernels.Buffer
	// gradient is dL/d(out), in training.
	gradient kernels.Buffer
	added    bool // something was added to the gradient
	partial  bool // which is a part of a sum over the ranks
	// sums are what a layer normalises by norm, which has the moments, or what it draws its units by.
	sums kernels.Buffer
	norm *kernels.Norm
}

func (v *value) sparse() bool { return v.slot >= 0 }

// addTo returns where an operation adds its part of the gradient with respect to a layer's value, and whether there is
// one already; nil if the gradient is not needed. With partial, each of several ranks adds a part.
func (b *builder) addTo(layer int, partial bool) (gradient kernels.Buffer, accumulate bool) {
	if !b.learns[layer] {
		return nil, false
	}
	v := &b.values[layer]
	accumulate = v.added
	v.added, v.partial = true, v.partial || partial
	return v.gradient, accumulate
}

// build adds the operations of one rank: from the inputs to the last hidden layers in inference, and with the losses
// and all updates in training. It leaves out layers that no output depends on, but for those that are wanted in
// inference. bind completes what feeds a layer by the dataset that is bound to it.
func (n *Network) build(p *program.Builder, bind func(*program.Feed)) {
	tensors, err := n.Tensors()
	if err != nil {
		p.Fail(err)
		return
	}
	b := &builder{
		Builder: p, net: n, slots: make([]int, len(n.Layers)), whole: make([]int, len(n.Layers)),
		values: make([]value, len(n.Layers)),
	}
	b.runs = n.before(func(i int) bool { return n.Layers[i].Scores() || p.Training() == nil && p.Wants(i) })
	list := make([]program.Tensor, len(tensors))
	for i, t := range tensors {
		list[i] = t.Tensor
		list[i].ByItem = t.ByItem && (p.Training() != nil || !n.scoresInput(&t))
		list[i].Locked = p.Training() != nil && (p.Training().Locked[t.Name] || !b.uses(t.Name))
		if n.isShared(t.Name) {
			list[i].Summed, list[i].Touched = b.isSummed(t.Name), b.isTouched(t.Name)
		}
	}
	if p.Training() != nil {
		b.learns = n.learns(p.Training().Locked)
	}
	p.Tensors(list)
	var feeds []program.Feed
	for i := range n.Layers {
		l := &n.Layers[i]
		b.slots[i], b.whole[i] = -1, -1
		if b.runs[i] && (l.Reads() || l.Scores() && p.Training() != nil) {
			f := program.Feed{Layer: i, Name: l.Name, Text: "what feeds " + l.Name, Columns: l.Size}
			l.kind.feed(&f)
			if n.touchesEntries(i) {
				term := n.termOf(i)
				f.Zeros, f.Negatives, f.Stream = term.StoredOnly, term.Negatives, negativesOf(i)
			}
			bind(&f)
			b.slots[i] = len(feeds)
			if p.Training() == nil && b.feeds(i, true) { // a rank scores its items by all entries of a row
				if p.Sharded() && b.feeds(i, false) {
					feeds = append(feeds, f)
				}
				b.whole[i], f.Whole = len(feeds), true
			}
			feeds = append(feeds, f)
		}
	}
	p.Batches(p.Training() == nil, feeds...)
	for _, slots := range [][]int{b.slots, b.whole} {
		for i, slot := range slots {
			if slot >= 0 {
				slots[i] = p.FirstSlot() + slot
			}
		}
	}
	for i := range n.Layers {
		if b.runs[i] {
			n.Layers[i].kind.forward(b, i)
		}
	}
	if p.Training() != nil {
		b.train()
	}
}

// feeds reports whether a layer that is computed, and scores or does not, has another one as a source.
func (b *builder) feeds(source int, scores bool) bool {
	for i, runs := range b.runs {
		if runs && b.net.Layers[i].Scores() == scores && slices.Contains(b.net.Layers[i].Sources, source) {
			return true
		}
	}
	return false
}

// train adds the losses and, last layer first, the operations behind them.
func (b *builder) train() {
	b.Terms(b.net.penaltyTerm(len(b.net.Layers)))
	for term, t := range b.net.Terms {
		b.net.Layers[t.Layer].kind.loss(b, t.Layer, term)
	}
	for i := range b.values {
		// What came from items is a sum over shards; what dense layers add later is whole on every rank.
		if v := &b.values[i]; v.partial {
			b.AllReduce("the gradient of "+b.net.Layers[i].Name, v.gradient, v.units)
			v.partial = false
		}
	}
	b.Agree()
	for i := len(b.values) - 1; i >= 0; i-- {
		if b.runs[i] && b.learns[i] {
			b.net.Layers[i].kind.backward(b, i)
		}
	}
}

// uses reports whether a layer that is computed has a tensor as its weight or bias.
func (b *builder) uses(tensor string) bool {
	for i, runs := range b.runs {
		if runs && slices.Contains(b.net.weightsOf(i), tensor) {
			return true
		}
	}
	return false
}

// goesBack reports whether a gradient with respect to the value of a layer is computed. It holds for a plan, too, which
// has no memory.
func (b *builder) goesBack(i int) bool { return b.Training() != nil && b.learns[i] }

// dense makes the value of a layer with units.
func (b *builder) dense(i int) *value {
	l, v := &b.net.Layers[i], &b.values[i]
	*v = value{units: l.Size, slot: -1, out: b.Alloc("activations", l.Name, b.Rows()*l.Size)}
	if b.goesBack(i) {
		v.gradient = b.Alloc("activation gradients", l.Name, b.Rows()*l.Size)
	}
	b.Hidden(i, v.out)
	return v
}

// bias binds the bias of a layer, nil if it has none.
func (b *builder) bias(i int) *kernels.Weights {
	if !b.net.Layers[i].Bias {
		return nil
	}
	return b.Weight(b.net.Layers[i].Name + ".bias")
}
