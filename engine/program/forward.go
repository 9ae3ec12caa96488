package program

import (
	"fmt"
	"slices"
	"strings"

	"dsstne/engine/network"
	"dsstne/engine/random"
	"dsstne/kernels"
)

// forward lists the calls from the inputs to the outputs (to the last hidden layers, in inference).
func (b *builder) forward() error {
	for i, layer := range b.net.Layers {
		var err error
		switch layer.Kind {
		case network.Hidden:
			err = b.forwardHidden(i)
		case network.Output:
			err = b.forwardOutput(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) forwardHidden(i int) error {
	layer, m := &b.net.Layers[i], b.p.memory
	out, err := m.alloc("activations", layer.Name, b.spec.Rows*layer.Size)
	if err != nil {
		return err
	}
	b.p.hidden[i] = out
	if b.spec.Training != nil {
		if b.grad[i], err = m.alloc("activation gradients", layer.Name, b.spec.Rows*layer.Size); err != nil {
			return err
		}
	}
	epilogue, err := b.epilogue(i)
	if err != nil {
		return err
	}
	sources := layer.Sources
	if b.sumsShards() {
		sources = b.inputsFirst(sources)
	}
	for n, source := range sources {
		w, err := b.weight(b.net.WeightName(i, source))
		if err != nil {
			return err
		}
		var end *kernels.Epilogue
		if n == len(sources)-1 {
			end = epilogue
		}
		from := b.net.Layers[source].Name
		if b.net.Layers[source].Kind == network.Input {
			b.gather(&kernels.Gather{Input: b.slot(source), Weight: w, Out: out, Accumulate: n > 0, Epilogue: end}, layer.Name, from,
				n == len(sources)-1 || b.net.Layers[sources[n+1]].Kind != network.Input)
			continue
		}
		op := &kernels.Dense{In: b.p.hidden[source], Weight: w, Out: out, Accumulate: n > 0, Epilogue: end}
		b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
		b.add("Dense "+layer.Name+" <- "+from+" "+shape(w)+b.ending(end), func(s *kernels.Step) error { return b.device.Dense(op, s) })
	}
	return nil
}

// gather reads rows of a weight, of which each of several ranks has a shard; last: no other gather follows.
func (b *builder) gather(op *kernels.Gather, layer, source string, last bool) {
	b.replays(op)
	switch {
	case !b.sharded():
		b.addGather(op, layer, source)
	case b.sumsShards():
		b.gatherSums(op, layer, source, last)
	default:
		b.gatherInTurn(op, layer, source)
	}
}

func (b *builder) addGather(op *kernels.Gather, layer, source string) {
	b.add("Gather "+layer+" <- "+source+" "+shape(op.Weight)+b.ending(op.Epilogue), func(s *kernels.Step) error { return b.device.Gather(op, s) })
}

// sumsShards: in training, several ranks gather at the same time and add up their sums. They come first then, since what
// every rank computes must not be counted several times.
func (b *builder) sumsShards() bool { return b.sharded() && b.spec.Training != nil }

func (b *builder) gatherSums(op *kernels.Gather, layer, source string, last bool) {
	epilogue, units := op.Epilogue, op.Weight.Columns
	op.Epilogue = nil
	b.addGather(op, layer, source)
	if !last {
		return
	}
	b.allReduce(layer, op.Out, units)
	if epilogue != nil {
		end := &kernels.Activate{Out: op.Out, Units: units, Epilogue: *epilogue}
		b.add("Activate "+layer+b.ending(epilogue), func(s *kernels.Step) error { return b.device.Activate(end, s) })
	}
}

// gatherInTurn adds up in the order of the items, rank after rank, as one device would: in inference a hidden layer has the
// same bits on any number of devices, and so have the scores. Training can do with less waiting.
func (b *builder) gatherInTurn(op *kernels.Gather, layer, source string) {
	to, units, epilogue := b.p.Communicator, op.Weight.Columns, op.Epilogue
	op.Accumulate = op.Accumulate || b.rank > 0
	if b.rank < len(b.spec.Ranks)-1 {
		op.Epilogue = nil
	}
	for root := range b.spec.Ranks {
		if root == b.rank {
			b.addGather(op, layer, source)
		}
		ending := ""
		if root == len(b.spec.Ranks)-1 {
			ending = b.ending(epilogue)
		}
		b.add(fmt.Sprintf("Broadcast %s from %d%s", layer, root, ending), func(s *kernels.Step) error {
			return to.Broadcast(op.Out, s.MaxRows*units, root)
		})
	}
}

// inputsFirst puts the inputs among the sources of a layer before the others.
func (b *builder) inputsFirst(sources []int) []int {
	isInput := func(source int) bool { return b.net.Layers[source].Kind == network.Input }
	list := slices.DeleteFunc(slices.Clone(sources), func(s int) bool { return !isInput(s) })
	return append(list, slices.DeleteFunc(slices.Clone(sources), isInput)...)
}

// replays lets rows that were left behind by lazy updates catch up before they are read, and at the end of a run.
func (b *builder) replays(op *kernels.Gather) {
	if b.spec.Training == nil || !b.isLazy(b.tensors[op.Weight.Name]) || b.spec.Training.WriteGradients {
		return
	}
	device := b.device
	rows := &kernels.Replay{Input: op.Input, Weight: op.Weight, Optimizer: b.spec.Training.Optimizer}
	b.add("Replay the batch's rows of "+shape(op.Weight), func(s *kernels.Step) error { return device.Replay(rows, s) })
	all := &kernels.Replay{Input: -1, Weight: op.Weight, Optimizer: b.spec.Training.Optimizer}
	b.p.flush.add("Replay all rows of "+shape(op.Weight), func(s *kernels.Step) error { return device.Replay(all, s) })
}

func (b *builder) epilogue(i int) (*kernels.Epilogue, error) {
	layer := &b.net.Layers[i]
	e := &kernels.Epilogue{Activation: layer.Activation, Dropout: layer.Dropout, Stream: random.StreamDropout | uint32(i)}
	bias, err := b.biasOf(i)
	if bias != nil {
		e.Bias = bias.Value
	}
	return e, err
}

func (b *builder) ending(e *kernels.Epilogue) string {
	if e == nil {
		return ""
	}
	words := []string{e.Activation.String()}
	if e.Dropout > 0 && b.spec.Training != nil {
		words = append(words, fmt.Sprintf("dropout %g", e.Dropout))
	}
	return ", " + strings.Join(words, ", ")
}

func (b *builder) forwardOutput(i int) error {
	layer := &b.net.Layers[i]
	first, end := int64(0), layer.Size
	if b.sharded() {
		first, end = b.shardOf(layer.Size)
	}
	scorer := kernels.Scorer{Items: end - first, Temperature: layer.Temperature}
	var err error
	if scorer.Bias, err = b.biasOf(i); err != nil {
		return err
	}
	for _, source := range layer.Sources {
		w, err := b.weight(b.net.WeightName(i, source))
		if err != nil {
			return err
		}
		scorer.Sources = append(scorer.Sources, kernels.OutputSource{H: b.p.hidden[source], Weight: w})
	}
	b.p.shard[i] = Shard{Scorer: scorer, First: first}
	return nil
}
