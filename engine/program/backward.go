package program

import (
	"fmt"

	"dsstne/engine/fault"
	"dsstne/engine/network"
	"dsstne/kernels"
)

// backward lists the output layers' losses and then the hidden layers' gradients, last layer first.
func (b *builder) backward() error {
	for term, t := range b.net.Terms {
		if err := b.output(term, t); err != nil {
			return err
		}
	}
	if b.sharded() {
		// What came from items is a sum over shards; what dense layers add later is whole on every rank.
		for i, layer := range b.net.Layers {
			if b.summed[i] {
				b.allReduce("the gradient of "+layer.Name, b.grad[i], layer.Size)
			}
		}
	}
	b.agree()
	for i := len(b.net.Layers) - 1; i >= 0; i-- {
		if b.net.Layers[i].Kind == network.Hidden {
			if err := b.backwardHidden(i); err != nil {
				return err
			}
		}
	}
	if b.data {
		b.exchangeGradients()
	}
	return nil
}

// into is the gradient buffer of a layer and whether something is in it already.
func (b *builder) into(layer int) (kernels.Buffer, bool) {
	summed := b.summed[layer]
	b.summed[layer] = true
	return b.grad[layer], summed
}

func (b *builder) output(term int, t network.Term) error {
	layer, scorer, m := &b.net.Layers[t.Layer], b.p.shard[t.Layer], b.p.memory
	op := &kernels.Output{
		Name: layer.Name, Target: b.slot(t.Layer), Term: term, Items: scorer.Items, Bias: scorer.Bias, Temperature: layer.Temperature, Loss: t.Loss,
		Optimizer: b.spec.Training.Optimizer, TiedInput: -1,
	}
	var err error
	for n, source := range layer.Sources {
		s := scorer.Sources[n]
		s.DH, s.Accumulate = b.into(source)
		op.Sources = append(op.Sources, s)
	}
	if t.Loss.NeedsStats() {
		if op.Stats, err = m.alloc("soft-max statistics", layer.Name, 2*b.spec.Rows); err != nil {
			return err
		}
	}
	if layer.Shared != "" {
		tensor := b.tensors[layer.Shared]
		op.TiedInput = b.slot(tensor.Source)
		touched := min(b.entriesOf(b.feedOf(tensor.Source)), scorer.Items)
		if op.TiedGradient, err = m.alloc("tied gradients", layer.Shared, touched*tensor.Columns); err != nil {
			return err
		}
		b.tiedGradient[layer.Shared] = op.TiedGradient
	}
	op.Continues = t.Loss.NeedsStats()
	b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
	device := b.device
	if t.Loss.NeedsStats() {
		b.add("OutputStats "+b.outputText(op, layer), func(s *kernels.Step) error { return device.OutputStats(op, s) })
		if err := b.combineStats(op); err != nil {
			return err
		}
	}
	b.agree()
	b.add("OutputStep "+b.outputText(op, layer), func(s *kernels.Step) error { return device.OutputStep(op, s) })
	return nil
}

// combineStats makes the statistics of several ranks' items those of all.
func (b *builder) combineStats(op *kernels.Output) error {
	if !b.sharded() {
		return nil
	}
	ranks := int64(len(b.spec.Ranks))
	parts, err := b.p.memory.alloc("soft-max statistics", op.Name+" of all devices", ranks*2*b.spec.Rows)
	if err != nil {
		return err
	}
	to, device := b.p.Communicator, b.device
	b.add("AllGather the statistics of "+op.Name, func(s *kernels.Step) error { return to.AllGather(op.Stats, parts, 2*s.MaxRows) })
	b.doubt = true
	all := &kernels.CombineStats{Shards: ranks, Stride: b.spec.Rows, Parts: parts, Stats: op.Stats}
	b.add("CombineStats "+op.Name, func(s *kernels.Step) error { return device.CombineStats(all, s) })
	return nil
}

func (b *builder) outputText(op *kernels.Output, layer *network.Layer) string {
	text := fmt.Sprintf("%s[%d]", layer.Name, op.Items)
	for _, s := range op.Sources {
		text += " <- " + shape(s.Weight)
	}
	text += ", " + op.Loss.Kind.String()
	if op.Temperature != 0 {
		text += fmt.Sprintf(", cosine logits / %g", op.Temperature)
	}
	return text
}

func (b *builder) backwardHidden(i int) error {
	layer, device, optimizer := &b.net.Layers[i], b.device, b.spec.Training.Optimizer
	if !b.summed[i] {
		return fault.New(fault.Internal, "no output depends on layer %q", layer.Name)
	}
	bias, err := b.biasOf(i)
	if err != nil {
		return err
	}
	epilogue, err := b.epilogue(i)
	if err != nil {
		return err
	}
	dz := b.grad[i]
	back := &kernels.Backward{
		Name: layer.Name, H: b.p.hidden[i], DH: dz, Units: layer.Size, Epilogue: *epilogue, Bias: bias, Optimizer: optimizer,
	}
	b.add("Backward "+layer.Name+b.ending(epilogue), func(s *kernels.Step) error { return device.Backward(back, s) })
	for _, source := range layer.Sources {
		w, err := b.weight(b.net.WeightName(i, source))
		if err != nil {
			return err
		}
		if b.net.Layers[source].Kind == network.Input {
			op := &kernels.Scatter{
				Input: b.slot(source), DZ: dz, Weight: w, TiedGradient: b.tiedGradient[w.Name], Optimizer: optimizer,
			}
			b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
			b.add("Scatter "+shape(w), func(s *kernels.Step) error { return device.Scatter(op, s) })
			continue
		}
		op := &kernels.DenseBackward{DZ: dz, In: b.p.hidden[source], Weight: w, Optimizer: optimizer}
		op.DIn, op.Accumulate = b.into(source)
		b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
		b.add("DenseBackward "+shape(w), func(s *kernels.Step) error { return device.DenseBackward(op, s) })
	}
	return nil
}
