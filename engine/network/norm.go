package network

import (
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// norm is how a hidden layer normalises its sums, before the bias; epsilon 0: not at all. The layer has a tensor more
// that scales them, and two with running means and variances, which inference uses.
type norm struct{ epsilon, momentum float32 }

const (
	batchNormKey = "batch_norm"

	// endings of the names of tensors
	scale, runningMean, runningVariance = ".scale", ".running_mean", ".running_variance"
)

func (n norm) on() bool { return n.epsilon > 0 }

// readNorm reads true, false, or an object with the numbers.
func readNorm(o *strictjson.Object) norm {
	const epsilon, momentum = 1e-5, 0.1
	if t := o.Type(batchNormKey); t == strictjson.Missing || t == strictjson.BoolType {
		if o.Bool(batchNormKey, false) {
			return norm{epsilon, momentum}
		}
		return norm{}
	}
	of := o.Object(batchNormKey)
	return norm{
		of.Float32("epsilon", epsilon, strictjson.Between(1e-12, 1)),
		of.Float32("momentum", momentum, strictjson.Between(0, 1)),
	}
}

func defineNorm(n norm) fields {
	if !n.on() {
		return nil
	}
	return fields{{batchNormKey, fields{{"epsilon", n.epsilon}, {"momentum", n.momentum}}}}
}

// normTensors are the endings of the tensors of a normalised layer.
var normTensors = []struct {
	source   int
	ending   string
	begins   float64
	measured bool
}{
	{Scale, scale, 1, false},
	{RunningMean, runningMean, 0, true},
	{RunningVariance, runningVariance, 1, true},
}

// normalises reports whether a layer normalises its sums.
func (l *Layer) normalises() bool {
	k, is := l.kind.(*hiddenLayer)
	return is && k.norm.on()
}

// running lists the running moments of a layer.
func (n *Network) running(i int) []string {
	l := &n.Layers[i]
	if !l.normalises() {
		return nil
	}
	return []string{l.Name + runningMean, l.Name + runningVariance}
}

// lockRunning locks both running moments of a layer where one is locked.
func (n *Network) lockRunning(locked map[string]bool) {
	for i := range n.Layers {
		names := n.running(i)
		if slices.ContainsFunc(names, func(name string) bool { return locked[name] }) {
			for _, name := range names {
				locked[name] = true
			}
		}
	}
}

// sumsOf is where a layer's sums go: its value or, if they are needed on the way back, memory of their own.
func (k *hiddenLayer) sumsOf(b *builder, i int) kernels.Buffer {
	v := &b.values[i]
	if !k.norm.on() || b.Training() == nil || !b.learns[i] {
		return v.out
	}
	return b.Alloc("sums", b.net.Layers[i].Name, b.Rows()*v.units)
}

// normalise adds what follows the sums. Locked running moments are used in training, too, as Keras does.
func (k *hiddenLayer) normalise(b *builder, i int, sums kernels.Buffer) {
	l, v := &b.net.Layers[i], &b.values[i]
	mean, variance := b.Weight(l.Name+runningMean), b.Weight(l.Name+runningVariance)
	v.sums = sums
	v.norm = &kernels.Norm{
		Mean: mean.Value, Variance: variance.Value, Scale: b.Weight(l.Name + scale).Value, Epsilon: k.norm.epsilon,
	}
	if b.Training() != nil && !mean.Locked {
		v.norm.Mean, v.norm.Variance = k.measure(b, i, sums)
		b.AddLast(&kernels.MoveMoments{
			Name: l.Name, Units: v.units, Mean: v.norm.Mean, Variance: v.norm.Variance, RunningMean: mean.Value,
			RunningVariance: variance.Value, Momentum: k.norm.momentum,
		})
	}
	b.Add(&kernels.Activate{
		Name: l.Name, In: sums, Out: v.out, Units: v.units, Norm: v.norm, Epilogue: *k.epilogue(b, i),
	})
}

// measure computes the moments of the sums over the whole batch.
func (k *hiddenLayer) measure(b *builder, i int, sums kernels.Buffer) (mean, variance kernels.Buffer) {
	l, v := &b.net.Layers[i], &b.values[i]
	moments := &kernels.UnitMoments{Name: l.Name, X: sums, Units: v.units}
	moments.Moments = b.Alloc("moments over the batch", l.Name, moments.Size())
	b.Add(moments)
	mean, variance = b.Alloc("means", l.Name, v.units), b.Alloc("variances", l.Name, v.units)
	combine := &kernels.CombineMoments{Name: l.Name, Units: v.units, Mean: mean, Variance: variance}
	combine.Parts, combine.Ranks, _ = b.PartsOfRows("moments of all ranks", l.Name, moments.Moments, moments.Size())
	b.Add(combine)
	return mean, variance
}

// denormalise turns the gradient with respect to the normalised sums into that with respect to the sums.
func (k *hiddenLayer) denormalise(b *builder, i int) {
	l, v := &b.net.Layers[i], &b.values[i]
	factor := b.Weight(l.Name + scale)
	op := &kernels.NormBackward{
		Name: l.Name, DY: v.gradient, X: v.sums, Norm: *v.norm, Units: v.units, Scale: factor,
		Constant: b.Weight(l.Name + ".running_mean").Locked, Optimizer: b.Training().Optimizer,
	}
	if !op.Constant || !factor.Locked {
		op.Parts, op.Ranks = b.Alloc("sums of gradients over the batch", l.Name, 2*v.units), 1
		b.Add(&kernels.NormSums{Name: l.Name, DY: op.DY, X: op.X, Norm: op.Norm, Units: v.units, Sums: op.Parts})
	}
	if !op.Constant {
		op.Parts, op.Ranks, op.Rank = b.PartsOfRows("sums of gradients of all ranks", l.Name, op.Parts, 2*v.units)
	}
	b.Add(op)
}
