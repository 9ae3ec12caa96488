package program

import (
	"fmt"
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
	for n, source := range layer.Sources {
		w, err := b.weight(b.net.WeightName(i, source))
		if err != nil {
			return err
		}
		var end *kernels.Epilogue
		if n == len(layer.Sources)-1 {
			end = epilogue
		}
		text := fmt.Sprintf("%s <- %s %s%s", layer.Name, b.net.Layers[source].Name, shape(w), b.ending(end))
		if b.net.Layers[source].Kind == network.Input {
			b.gather(&kernels.Gather{Input: b.p.Slot(source), Weight: w, Out: out, Accumulate: n > 0, Epilogue: end}, text)
			continue
		}
		op := &kernels.Dense{In: b.p.hidden[source], Weight: w, Out: out, Accumulate: n > 0, Epilogue: end}
		b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
		b.add("Dense "+text, func(s *kernels.Step) error { return b.spec.Device.Dense(op, s) })
	}
	return nil
}

// gather reads rows of a weight; rows that were left behind by lazy updates catch up first.
func (b *builder) gather(op *kernels.Gather, text string) {
	device := b.spec.Device
	if b.spec.Training != nil && b.isLazy(b.tensors[op.Weight.Name]) && !b.spec.Training.WriteGradients {
		rows := &kernels.Replay{Input: op.Input, Weight: op.Weight, Optimizer: b.spec.Training.Optimizer}
		b.add("Replay the batch's rows of "+shape(op.Weight), func(s *kernels.Step) error { return device.Replay(rows, s) })
		all := &kernels.Replay{Input: -1, Weight: op.Weight, Optimizer: b.spec.Training.Optimizer}
		b.p.flush = append(b.p.flush, Op{
			Text: "Replay all rows of " + shape(op.Weight),
			run:  func(s *kernels.Step) error { return device.Replay(all, s) },
		})
	}
	b.add("Gather "+text, func(s *kernels.Step) error { return device.Gather(op, s) })
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
	scorer := kernels.Scorer{Items: layer.Size, Temperature: layer.Temperature}
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
	b.p.scorer[i] = scorer
	return nil
}
