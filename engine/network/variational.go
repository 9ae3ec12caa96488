package network

import (
	"dsstne/engine/schedule"
	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// variationalLayer draws each unit from a normal distribution, whose mean and log-variance are sums over the sources:
// two heads, the rows of one weight and bias. Outside training the units are the means. The loss has the divergence of
// these distributions from the standard normal one. (Kingma and Welling, 2014; Liang et al., 2018)
type variationalLayer struct {
	common
	divergence float32 // weight of the divergence
	annealing  schedule.Schedule
}

func (*variationalLayer) word() string { return "variational" }

func (*variationalLayer) accepts(source kind) bool { return !source.scores() }

func (*variationalLayer) heads() int64 { return 2 }

func (k *variationalLayer) penalty() (schedule.Schedule, bool) { return k.annealing, true }

func (k *variationalLayer) read(r *reader, o *strictjson.Object, l *Layer, earlier []Layer) {
	readUnits(r, o, l, earlier)
	kl := o.Object("kl")
	k.divergence = kl.Float32("weight", 1, strictjson.NotNegative)
	k.annealing = schedule.Read(kl, "schedule")
	l.Bias = o.Bool("bias", true)
	l.Initializer = initializer(o, l)
	for _, key := range []string{
		"activation", "dropout", "alpha_dropout", "sparsity", batchNormKey, layerNormKey, weightNormKey,
	} {
		o.Refuse(key, "is given, but the units of a variational layer are drawn from a normal distribution; "+
			"it belongs on the hidden layers around it")
	}
}

func (k *variationalLayer) define(n *Network, l *Layer) fields {
	kl := fields{{"weight", k.divergence}}
	if !k.annealing.IsConstant() {
		kl = append(kl, field{"schedule", k.annealing})
	}
	return fields{
		{"sources", n.defineSources(l)}, {"size", defineSize(l)}, {"kl", kl}, {"bias", l.Bias},
		{"shared", n.defineShared(l)}, {"initializer", defineInitializer(l)},
	}
}

func (k *variationalLayer) forward(b *builder, i int) {
	l, v := &b.net.Layers[i], b.dense(i)
	v.sums = b.Alloc("means and log-variances", l.Name, b.Rows()*k.heads()*l.Size)
	b.addSources(i, l.Sources, v.sums, &kernels.Epilogue{Bias: b.biasValue(i)})
	b.Add(&kernels.Sample{
		Name: l.Name, Heads: v.sums, Out: v.out, Units: l.Size, Stream: random.StreamNoise | uint32(i),
	})
}

func (k *variationalLayer) backward(b *builder, i int) {
	l, v := &b.net.Layers[i], &b.values[i]
	if !v.added {
		b.Fail(fault.New(fault.Internal, "no output depends on layer %q", l.Name))
		return
	}
	op := &kernels.SampleBackward{
		Name: l.Name, Heads: v.sums, DH: v.gradient, Units: l.Size, Stream: random.StreamNoise | uint32(i),
		Weight: k.divergence, Term: b.net.penaltyTerm(i), Silent: b.Sharded() && b.Rank() > 0,
	}
	b.AddWith(&op.Workspace, op, op)
	b.Add(&kernels.Backward{
		Name: l.Name, H: v.sums, DH: v.sums, Units: k.heads() * l.Size, Bias: b.freeBias(i),
		Optimizer: b.Training().Optimizer,
	})
	b.backToSources(i, l.Sources, v.sums)
}
