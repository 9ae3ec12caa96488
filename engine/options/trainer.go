package options

import (
	"bytes"
	"fmt"
	"slices"

	"dsstne/engine/program"
	"dsstne/engine/schedule"
	"dsstne/engine/strictjson"
	"dsstne/engine/train"
	"dsstne/kernels"
)

// ReadTrainer reads options of a trainer (docs/training.md).
func ReadTrainer(text []byte) (train.Options, error) {
	o, err := read(text, "trainer options", readTrainer)
	if o.Text = text; len(bytes.TrimSpace(text)) == 0 {
		o.Text = []byte("{}")
	}
	return o, err
}

func readTrainer(o *strictjson.Object) train.Options {
	s := train.Options{
		BatchSize:   o.Int("batch_size", 512, strictjson.Between(1, 1<<20)),
		Seed:        o.Uint("seed", 0),
		KeepOrder:   !o.Bool("shuffle", true),
		Checkpoints: o.Bool("checkpoints", false),
		OtherData:   o.Bool("other_data", false),
		Locked:      o.Strings("locked"),
		Placement:   placement(o),
	}
	way := o.Word("parallel", "auto", program.ParallelWords...)
	s.Parallel = program.Parallel(max(0, slices.Index(program.ParallelWords, way)))
	readOptimizer(o.Object("optimizer"), &s)
	s.Schedule = schedule.Read(o, "schedule")
	return s
}

func readOptimizer(o *strictjson.Object, s *train.Options) {
	word := o.Word("kind", kernels.Adam.String(), kernels.OptimizerWords...)
	kind := kernels.OptimizerKind(slices.Index(kernels.OptimizerWords, word))
	rate := 1e-3
	if kind == kernels.AdaDelta {
		rate = 1 // the published rule has none
	}
	s.LearningRate = o.Float("learning_rate", rate, strictjson.Positive)
	s.Optimizer = kernels.Optimizer{
		Kind: kind, WeightDecay: o.Float32("weight_decay", 0, strictjson.NotNegative),
		L1: o.Float32("l1", 0, strictjson.NotNegative), ClipNorm: o.Float32("clip_norm", 0, strictjson.NotNegative),
	}
	switch kind {
	case kernels.Momentum, kernels.Nesterov:
		s.Optimizer.Momentum = o.Float32("momentum", 0.9, strictjson.Fraction)
	case kernels.RMSProp:
		s.Optimizer.Beta2 = o.Float32("decay_rate", 0.9, strictjson.Fraction)
		s.Optimizer.Epsilon = o.Float32("epsilon", 1e-8, strictjson.Positive)
	case kernels.AdaGrad:
		s.Optimizer.Epsilon = o.Float32("epsilon", 1e-10, strictjson.Positive)
	case kernels.AdaDelta:
		s.Optimizer.Beta2 = o.Float32("decay_rate", 0.95, strictjson.Fraction)
		s.Optimizer.Epsilon = o.Float32("epsilon", 1e-6, strictjson.Positive)
	case kernels.Adam, kernels.AdamW:
		s.Optimizer.Beta1 = o.Float32("beta1", 0.9, strictjson.Fraction)
		s.Optimizer.Beta2 = o.Float32("beta2", 0.999, strictjson.Fraction)
		s.Optimizer.Epsilon = o.Float32("epsilon", 1e-8, strictjson.Positive)
	}
	o.RefuseOthers(fmt.Sprintf("the optimizer %q", word), "momentum", "decay_rate", "beta1", "beta2", "epsilon")
}
