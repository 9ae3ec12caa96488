package program

import (
	"fmt"

	"dsstne/engine/csr"
	"dsstne/engine/network"
	"dsstne/kernels"
)

// Parallel is how several devices train one model.
type Parallel int

// Auto is the one of the others that exchanges fewer numbers in a step. With Model each device has a shard of the items and of
// the weights that face them; they exchange sums of hidden layers. With Data each has all weights and a part of each
// batch's rows; they exchange gradients.
const (
	Auto Parallel = iota
	Model
	Data
)

// ParallelWords are the names, by number.
var ParallelWords = []string{"auto", "model", "data"}

func (p Parallel) String() string { return ParallelWords[p] }

// parallel decides. It follows from the shapes alone, as all bits do. Whatever is trained in the data-parallel way by choice
// has fewer weights than a batch has hidden values, so that the copies on all devices are small.
func (s *Spec) parallel() Parallel {
	switch {
	case len(s.Ranks) == 1 || s.Training == nil:
		return Model
	case s.Parallel != Auto:
		return s.Parallel
	}
	if model, data := exchanged(s.Network, s.Rows, int64(len(s.Ranks))); data < model {
		return Data
	}
	return Model
}

// exchanged counts the numbers that the ranks add up in a step, in either way; an all-gather of n numbers from each of N ranks
// moves as many as an all-reduce of n N / 2.
func exchanged(net *network.Network, rows, ranks int64) (model, data int64) {
	for _, layer := range net.Layers {
		if layer.Kind == network.Hidden && faces(net, layer, network.Input) {
			model += rows * layer.Size
		}
	}
	read := map[int]bool{}
	for _, term := range net.Terms {
		for _, source := range net.Layers[term.Layer].Sources {
			if !read[source] {
				read[source] = true
				model += rows * net.Layers[source].Size
			}
		}
		if term.Loss.NeedsStats() {
			model += rows * ranks
		}
	}
	tensors, err := net.Tensors()
	if err != nil {
		return model, model // what is wrong is told by the builder
	}
	for _, t := range tensors {
		data += t.Rows * t.Columns
	}
	return model, data
}

// faces tells whether one of a layer's sources is of a kind.
func faces(net *network.Network, layer network.Layer, kind network.Kind) bool {
	for _, source := range layer.Sources {
		if net.Layers[source].Kind == kind {
			return true
		}
	}
	return false
}

// allGradients takes one buffer for the gradients of all weights, which is exchanged in one go.
func (b *builder) allGradients(tensors []network.Tensor) (err error) {
	size := int64(0)
	for _, t := range tensors {
		b.gradientAt[t.Name] = size
		size += aligned(t.Rows * t.Columns)
	}
	b.gradientSize = size
	b.gradients, err = b.p.memory.alloc("gradients", "all weights", size)
	return err
}

// gradientOf is a weight's part of that buffer.
func (b *builder) gradientOf(w *kernels.Weights) kernels.Buffer {
	if b.gradients == nil { // a dry builder
		return nil
	}
	return b.gradients.Slice(b.gradientAt[w.Name], w.Rows*w.Columns)
}

// exchangeGradients makes the written gradients of the ranks' parts those of the whole batch, from which every rank makes the
// same step.
func (b *builder) exchangeGradients() {
	to, device := b.p.Communicator, b.device
	buffer, n := b.gradients, b.gradientSize
	b.add(fmt.Sprintf("AllReduce the gradients of all weights[%d]", n), func(*kernels.Step) error { return to.AllReduce(buffer, n) })
	if b.spec.Training.WriteGradients {
		return
	}
	b.doubt = true
	b.agree()
	for _, name := range b.order {
		op := &kernels.Update{Weight: b.weights[name], Optimizer: b.spec.Training.Optimizer}
		b.add("Update "+shape(op.Weight), func(s *kernels.Step) error { return device.Update(op, s) })
	}
}

// takeRows gives a rank its rows of the batches.
func (b *builder) takeRows() {
	p := b.p
	p.of, p.own = len(b.spec.Ranks), make([]*kernels.SparseBatch, len(b.slots))
	for slot, i := range b.slots {
		if p.made[slot] != nil {
			continue
		}
		out := &kernels.SparseBatch{}
		p.own[slot] = out
		p.cuts = append(p.cuts, Op{
			Text: fmt.Sprintf("Part %d of %d of the rows of the batch of %s", b.rank+1, p.of, b.net.Layers[i].Name),
			run: func(s *kernels.Step) error {
				first, end := shardOf(s.Rows, p.rank, p.of)
				csr.PartOf(s.Sparse[slot], first, end, out)
				return nil
			},
		})
	}
}
