package network

import (
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// norm is how a hidden layer normalises its sums, before the bias; epsilon 0: not at all. The layer has a tensor more
// that scales them and, if the moments are those over a batch, two with running ones, which inference uses.
type norm struct {
	epsilon, momentum float32
	byRow             bool // the moments are those of each row
}

const (
	batchNormKey, layerNormKey = "batch_norm", "layer_norm"

	// endings of the names of tensors
	scale, runningMean, runningVariance = ".scale", ".running_mean", ".running_variance"
)

func (n norm) on() bool { return n.epsilon > 0 }

// readNorm reads both keys, of which a layer has one.
func readNorm(o *strictjson.Object) norm {
	batch, row := norm{epsilon: 1e-5, momentum: 0.1}, norm{epsilon: 1e-5, byRow: true}
	overBatch, byRow := batch.read(o, batchNormKey), row.read(o, layerNormKey)
	switch {
	case overBatch && byRow:
		o.Fail(layerNormKey, "is given beside %s; a layer has one of them", batchNormKey)
	case overBatch:
		return batch
	case byRow:
		return row
	}
	return norm{}
}

// read reads true, false, or an object with the numbers, and returns whether there is a norm.
func (n *norm) read(o *strictjson.Object, key string) bool {
	if t := o.Type(key); t == strictjson.Missing || t == strictjson.BoolType {
		return o.Bool(key, false)
	}
	of := o.Object(key)
	n.epsilon = of.Float32("epsilon", n.epsilon, strictjson.Between(1e-12, 1))
	if !n.byRow {
		n.momentum = of.Float32("momentum", n.momentum, strictjson.Between(0, 1))
	}
	return true
}

func defineNorm(n norm) fields {
	switch {
	case !n.on():
		return nil
	case n.byRow:
		return fields{{layerNormKey, fields{{"epsilon", n.epsilon}}}}
	}
	return fields{{batchNormKey, fields{{"epsilon", n.epsilon}, {"momentum", n.momentum}}}}
}

// normTensor is a tensor of a normalised layer.
type normTensor struct {
	source   int
	ending   string
	begins   float64
	measured bool
}

var normTensors = []normTensor{
	{Scale, scale, 1, false},
	{RunningMean, runningMean, 0, true},
	{RunningVariance, runningVariance, 1, true},
}

// normTensors are those that a layer has because it normalises its sums.
func (l *Layer) normTensors() []normTensor {
	k, is := l.kind.(*hiddenLayer)
	switch {
	case !is || !k.norm.on():
		return nil
	case k.norm.byRow:
		return normTensors[:1]
	}
	return normTensors
}

// running lists the running moments of a layer.
func (n *Network) running(i int) (names []string) {
	l := &n.Layers[i]
	for _, t := range l.normTensors() {
		if t.measured {
			names = append(names, l.Name+t.ending)
		}
	}
	return names
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

// normalise adds what follows the sums, up to the epilogue. Locked running moments are used in training, too, as Keras
// does.
func (k *hiddenLayer) normalise(b *builder, i int, sums, out kernels.Buffer, epilogue *kernels.Epilogue) {
	l, v := &b.net.Layers[i], &b.values[i]
	v.sums = sums
	v.norm = &kernels.Norm{Scale: b.Weight(l.Name + scale).Value, Epsilon: k.norm.epsilon, ByRow: k.norm.byRow}
	if k.norm.byRow {
		v.norm.Mean, v.norm.Variance = b.Alloc("means", l.Name, b.Rows()), b.Alloc("variances", l.Name, b.Rows())
		b.Add(&kernels.RowMoments{Name: l.Name, X: sums, Units: v.units, Mean: v.norm.Mean, Variance: v.norm.Variance})
	} else {
		k.takeMoments(b, i)
	}
	b.Add(&kernels.Activate{
		Name: l.Name, In: sums, Out: out, Units: v.units, Norm: v.norm, Epilogue: *epilogue,
	})
}

// takeMoments takes the running moments, or measures those of the batch, by which it moves the others.
func (k *hiddenLayer) takeMoments(b *builder, i int) {
	l, v := &b.net.Layers[i], &b.values[i]
	mean, variance := b.Weight(l.Name+runningMean), b.Weight(l.Name+runningVariance)
	if b.Training() == nil || mean.Locked {
		v.norm.Mean, v.norm.Variance = mean.Value, variance.Value
		return
	}
	v.norm.Mean, v.norm.Variance = k.measure(b, i, v.sums)
	b.AddLast(&kernels.MoveMoments{
		Name: l.Name, Units: v.units, Mean: v.norm.Mean, Variance: v.norm.Variance, RunningMean: mean.Value,
		RunningVariance: variance.Value, Momentum: k.norm.momentum,
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
	op := &kernels.NormBackward{
		Name: l.Name, DY: v.gradient, X: v.sums, Norm: *v.norm, Units: v.units, Scale: b.Weight(l.Name + scale),
		Constant: !k.norm.byRow && b.Weight(l.Name+runningMean).Locked, Optimizer: b.Training().Optimizer,
	}
	overBatch := !k.norm.byRow && !op.Constant
	if overBatch || !op.Scale.Locked {
		op.Parts, op.Ranks = b.Alloc("sums of gradients over the batch", l.Name, 2*v.units), 1
		b.Add(&kernels.NormSums{Name: l.Name, DY: op.DY, X: op.X, Norm: op.Norm, Units: v.units, Sums: op.Parts})
	}
	if overBatch {
		op.Parts, op.Ranks, op.Rank = b.PartsOfRows("sums of gradients of all ranks", l.Name, op.Parts, 2*v.units)
	}
	b.Add(op)
}
