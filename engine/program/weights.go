package program

import (
	"fmt"

	"dsstne/engine/fault"
	"dsstne/engine/network"
	"dsstne/kernels"
)

// weight binds a tensor, with optimizer state in training. A tensor that is asked for twice (shared) is one.
func (b *builder) weight(name string) (*kernels.Weights, error) {
	if w := b.weights[name]; w != nil {
		return w, nil
	}
	t, found := b.tensors[name]
	if !found {
		return nil, fault.New(fault.Internal, "network has no tensor %q", name)
	}
	first, end := b.rowsOf(t)
	w := &kernels.Weights{Name: name, Rows: end - first, Columns: t.Columns, NoDecay: t.Source < 0}
	b.weights[name] = w
	b.order = append(b.order, name)
	whole, err := b.spec.Weights(name)
	if err != nil {
		return nil, err
	}
	training, m := b.spec.Training, b.p.memory
	switch {
	case b.alone():
		w.Value, err = b.place(name, whole, true)
	case b.isSharded(t):
		w.Value, err = b.place(name, whole.Slice(first*t.Columns, w.Rows*t.Columns), true)
		b.p.first[name] = first
	case b.inPlace(t) || training == nil: // whoever only reads needs no copy
		w.Value, err = b.place(name, whole, b.inPlace(t))
	default:
		w.Value, err = m.alloc("weights", "a copy of "+name, w.Rows*t.Columns)
	}
	if err != nil {
		return nil, err
	}
	if training == nil {
		return w, nil
	}
	if err := b.state(w, t); err != nil {
		return nil, err
	}
	if !b.alone() && !b.isSharded(t) {
		b.replicate(w)
	}
	return w, nil
}

// state allocates what a weight needs in training.
func (b *builder) state(w *kernels.Weights, t network.Tensor) (err error) {
	training, m, elements := b.spec.Training, b.p.memory, w.Rows*w.Columns
	if b.data {
		w.Gradient = b.gradientOf(w)
	} else if training.WriteGradients {
		w.Gradient, err = m.alloc("gradients", w.Name, elements)
	}
	b.p.grads[w.Name] = w.Gradient
	if err != nil || training.WriteGradients {
		return err
	}
	for i := range training.Optimizer.States() {
		if w.State[i], err = m.alloc("optimizer state", w.Name, elements); err != nil {
			return err
		}
	}
	if b.isLazy(t) {
		w.Last, err = m.alloc("steps of last updates", w.Name, w.Rows)
	}
	return err
}

// replicate makes what all ranks have of a weight equal to what the first has, at the start of a run. After that they compute
// the same bits.
func (b *builder) replicate(w *kernels.Weights) {
	to, n, buffers := b.p.Communicator, w.Rows*w.Columns, []kernels.Buffer{w.Value}
	if !b.spec.Training.WriteGradients {
		buffers = append(buffers, w.State[:b.spec.Training.Optimizer.States()]...)
	}
	broadcast := func(*kernels.Step) error {
		for _, buffer := range buffers {
			if err := to.Broadcast(buffer, n, 0); err != nil {
				return err
			}
		}
		return nil
	}
	b.p.begin.add("Broadcast "+shape(w)+" and its state", broadcast)
}

// isSharded: a weight or a bias whose rows are items is cut by rows, each rank has its own. Others are on every rank.
func (b *builder) isSharded(t network.Tensor) bool {
	if !b.sharded() {
		return false
	}
	isOutput := b.net.Layers[t.Layer].Kind == network.Output
	return isOutput || (t.Source >= 0 && b.net.Layers[t.Source].Kind == network.Input)
}

// rowsOf is the range of a tensor's rows that the builder's rank has.
func (b *builder) rowsOf(t network.Tensor) (first, end int64) {
	if b.isSharded(t) {
		return b.shardOf(t.Rows)
	}
	return 0, t.Rows
}

// inPlace: the rank computes with the model's own memory. Where several change the same rows, only the first rank does.
func (b *builder) inPlace(t network.Tensor) bool {
	return b.isSharded(t) || b.rank == 0
}

// isLazy: only the rows that a batch touches are updated, and an update with gradient zero would change something.
func (b *builder) isLazy(t network.Tensor) bool {
	return !b.data && t.Source >= 0 && b.net.Layers[t.Source].Kind == network.Input && b.sharedBy(t.Name) < 0 &&
		b.spec.Training.Optimizer.MovesUntouched(true)
}

// sharedBy is the output layer that shares a tensor, -1 if none does.
func (b *builder) sharedBy(name string) int {
	for i, layer := range b.net.Layers {
		if layer.Shared == name {
			return i
		}
	}
	return -1
}

// biasOf binds a layer's bias, nil if it has none.
func (b *builder) biasOf(layer int) (*kernels.Weights, error) {
	if !b.net.Layers[layer].Bias {
		return nil, nil
	}
	return b.weight(b.net.Layers[layer].Name + ".bias")
}

func shape(w *kernels.Weights) string { return fmt.Sprintf("%s[%d, %d]", w.Name, w.Rows, w.Columns) }
