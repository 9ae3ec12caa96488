package options

import (
	"math"
	"slices"

	"dsstne/engine/factors"
	"dsstne/engine/solve"
	"dsstne/engine/strictjson"
)

// solverWords are the methods of a solver.
var solverWords = []string{"item_knn", "rp3beta", "ials", "explicit"}

// ReadSolver reads options of a solver: a method with its parameters, and where to compute.
func ReadSolver(text []byte) (solve.Options, error) {
	return read(text, "solver options", func(o *strictjson.Object) (s solve.Options) {
		o.Require("kind")
		s.Name = o.Word("kind", solverWords[0], solverWords...)
		s.Placement = placement(o)
		if s.Name == "ials" || s.Name == "explicit" {
			s.Method = factorize(o, s.Name == "explicit")
			return s
		}
		neighbors := &solve.Neighbors{K: o.Int("k", 100, strictjson.Between(1, math.MaxInt32))}
		s.Method = neighbors
		switch s.Name {
		case "item_knn":
			m := solve.ItemKNN{Shrink: o.Float("shrink", 0, strictjson.NotNegative)}
			m.Metric = solve.Metric(slices.Index(solve.MetricWords, o.Word("metric", "cosine", solve.MetricWords...)))
			if m.Metric == solve.Dot && m.Shrink > 0 {
				o.Fail("shrink", `is given, but the metric "dot" divides by nothing`)
			}
			neighbors.How = m
		case "rp3beta":
			exponent := func(key string, usual float64) float64 { return o.Float(key, usual, strictjson.Between(0, 100)) }
			neighbors.How = solve.RP3Beta{Alpha: exponent("alpha", 1), Beta: exponent("beta", 0.5)}
		}
		return s
	})
}

// factorize reads the options of alternating least squares.
func factorize(o *strictjson.Object, ratings bool) *solve.Factorize {
	return &solve.Factorize{
		Factors: o.Int("factors", 128, strictjson.Between(1, factors.Most)),
		Epochs:  o.Int("epochs", 16, strictjson.Between(1, 1<<20)), Seed: o.Uint("seed", 0),
		Deviation: 0.1, Objective: factors.ReadObjective(o, ratings),
	}
}
