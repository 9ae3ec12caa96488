package options

import (
	"math"
	"slices"

	"dsstne/engine/solve"
	"dsstne/engine/strictjson"
)

// solverWords are the methods of a solver.
var solverWords = []string{"item_knn", "rp3beta", "linear", "svd", "spectral"}

// ReadSolver reads options of a solver: a method with its parameters, and where to compute.
func ReadSolver(text []byte) (solve.Options, error) {
	return read(text, "solver options", func(o *strictjson.Object) (s solve.Options) {
		o.Require("kind")
		s.Name = o.Word("kind", solverWords[0], solverWords...)
		s.Placement = placement(o)
		switch s.Name {
		case "linear":
			s.Method = linear(o)
			return s
		case "svd":
			s.Method = svd(o)
			return s
		case "spectral":
			s.Method = spectral(o)
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

// linear reads the options of a linear model.
func linear(o *strictjson.Object) *solve.Linear {
	exponent := func(key string, usual float64) float64 { return o.Float(key, usual, strictjson.Between(0, 10)) }
	return &solve.Linear{
		Operator:               o.Bool("operator", false),
		PerItem:                o.Int("per_item", 128, strictjson.Between(1, math.MaxInt32)),
		Regularization:         o.Float("regularization", 18, strictjson.Between(1e-6, 1e9)),
		RegularizationExponent: exponent("regularization_exponent", 0.25),
		Dropout:                o.Float("dropout", 0.1, strictjson.Between(0, 0.99)),
		RowExponent:            exponent("row_exponent", 0.5), ItemExponent: exponent("item_exponent", 0.2),
		OutputExponent: exponent("output_exponent", 0.2),
		Tolerance:      o.Float("tolerance", 1e-3, strictjson.Between(1e-7, 0.1)), Iterations: 20,
		Probes: o.Int("probes", 256, strictjson.Between(1, 1<<20)), Seed: o.Uint("seed", 0),
	}
}

// svd reads the options of a singular value decomposition.
func svd(o *strictjson.Object) *solve.SVD {
	o.Require("k")
	return &solve.SVD{
		K:            o.Int("k", 1, strictjson.Between(1, math.MaxInt32)),
		Oversampling: o.Int("oversampling", 0, strictjson.Between(0, math.MaxInt32)),
		Iterations:   o.Int("iterations", 1, strictjson.Between(1, 1000)), Seed: o.Uint("seed", 0),
	}
}

// spectral reads the options of a filter.
func spectral(o *strictjson.Object) *solve.Spectral {
	exponent := func(key string, usual float64) float64 { return o.Float(key, usual, strictjson.Between(-10, 10)) }
	return &solve.Spectral{
		SVD: *svd(o), RowExponent: exponent("row_exponent", 1),
		FirstIn: exponent("first_in", 0.5), FirstOut: exponent("first_out", 0.5),
		LowPass:         o.Float("low_pass", 0.3, strictjson.Between(0, 1e6)),
		LowPassExponent: exponent("low_pass_exponent", 0.5), Sharpening: o.Float("sharpening", 0, strictjson.Between(0, 100)),
		OutputExponent: exponent("output_exponent", 0), Balanced: o.Bool("balanced", false),
	}
}
