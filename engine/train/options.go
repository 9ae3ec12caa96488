package train

import (
	"fmt"
	"math"
	"slices"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// settings are the trainer's options (docs/training.md).
type settings struct {
	optimizer    kernels.Optimizer
	learningRate float64
	schedule     schedule
	batchSize    int64
	seed         uint64
	shuffle      bool
	placement    program.Placement
	parallel     program.Parallel
}

func readSettings(text []byte) (settings, error) {
	o, err := strictjson.Parse(text, "trainer options")
	if err != nil {
		return settings{}, err
	}
	s := settings{
		batchSize: o.Int("batch_size", 512, strictjson.Between(1, 1<<20)),
		seed:      o.Uint("seed", 0),
		shuffle:   o.Bool("shuffle", true),
		placement: program.ReadPlacement(o),
	}
	s.parallel = program.Parallel(max(0, slices.Index(program.ParallelWords, o.Word("parallel", "auto", program.ParallelWords...))))
	readOptimizer(o.Object("optimizer"), &s)
	s.schedule = readSchedule(o.Object("schedule"))
	return s, o.Done()
}

func readOptimizer(o *strictjson.Object, s *settings) {
	word := o.Word("kind", kernels.Adam.String(), kernels.OptimizerWords...)
	kind := kernels.OptimizerKind(slices.Index(kernels.OptimizerWords, word))
	s.learningRate = o.Float("learning_rate", 1e-3, strictjson.Positive)
	s.optimizer = kernels.Optimizer{Kind: kind, WeightDecay: o.Float32("weight_decay", 0, strictjson.NotNegative)}
	switch kind {
	case kernels.Momentum, kernels.Nesterov:
		s.optimizer.Momentum = o.Float32("momentum", 0.9, strictjson.Fraction)
	case kernels.RMSProp:
		s.optimizer.Beta2 = o.Float32("decay_rate", 0.9, strictjson.Fraction)
		s.optimizer.Epsilon = o.Float32("epsilon", 1e-8, strictjson.Positive)
	case kernels.Adam, kernels.AdamW:
		s.optimizer.Beta1 = o.Float32("beta1", 0.9, strictjson.Fraction)
		s.optimizer.Beta2 = o.Float32("beta2", 0.999, strictjson.Fraction)
		s.optimizer.Epsilon = o.Float32("epsilon", 1e-8, strictjson.Positive)
	}
	refuseOthers(o, fmt.Sprintf("the optimizer %q", word), "momentum", "decay_rate", "beta1", "beta2", "epsilon")
}

// refuseOthers reports those of the keys that are given but were not asked for: they belong to another kind.
func refuseOthers(o *strictjson.Object, what string, keys ...string) {
	for _, key := range keys {
		if !o.Asked(key) {
			o.Refuse(key, "has no meaning for %s", what)
		}
	}
}

// schedule multiplies the learning rate by a factor that depends on the step.
type schedule struct {
	kind    string
	warmup  int64   // steps of linear rise from 0
	steps   int64   // linear, cosine: length of the fall, counted after the warm-up; step: steps between drops
	factor  float64 // step: of each drop
	minimum float64 // linear, cosine: factor at the end and after it
	rate    float64 // inverse: factor = 1 / (1 + rate * step)
}

func readSchedule(o *strictjson.Object) schedule {
	s := schedule{
		kind:   o.Word("kind", "constant", "constant", "linear", "cosine", "step", "inverse"),
		warmup: o.Int("warmup_steps", 0, strictjson.NotNegative),
	}
	switch s.kind {
	case "linear", "cosine":
		o.Require("steps")
		s.steps = o.Int("steps", 1, strictjson.AtLeast(1))
		s.minimum = o.Float("minimum", 0, strictjson.Between(0, 1))
	case "step":
		o.Require("steps")
		s.steps = o.Int("steps", 1, strictjson.AtLeast(1))
		s.factor = o.Float("factor", 0.1, strictjson.Positive)
	case "inverse":
		s.rate = o.Float("rate", 0, strictjson.NotNegative)
	}
	refuseOthers(o, fmt.Sprintf("the schedule %q", s.kind), "steps", "minimum", "factor", "rate")
	return s
}

// at is the factor of step n, counted from 1.
func (s schedule) at(n int64) float64 {
	if n <= s.warmup {
		return float64(n) / float64(s.warmup)
	}
	n -= s.warmup + 1 // steps since the warm-up
	switch s.kind {
	case "linear":
		return s.minimum + (1-s.minimum)*(1-min(1, float64(n)/float64(s.steps)))
	case "cosine":
		return s.minimum + (1-s.minimum)*(1+math.Cos(math.Pi*min(1, float64(n)/float64(s.steps))))/2
	case "step":
		return math.Pow(s.factor, float64(n/s.steps))
	case "inverse":
		return 1 / (1 + s.rate*float64(n))
	default:
		return 1
	}
}
