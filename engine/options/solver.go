package options

import (
	"math"
	"slices"

	"dsstne/engine/factors"
	"dsstne/engine/solve"
	"dsstne/engine/strictjson"
)

// solvers are the kinds of solvers, with what reads their methods.
var solvers = []struct {
	word string
	read func(*strictjson.Object) solve.Method
}{
	{"item_knn", itemKNN}, {"rp3beta", rp3Beta}, {"linear", linear}, {"gram", gram},
	{"linear_restricted", restricted}, {"svd", svd}, {"spectral", spectral},
	{"ials", ials}, {"explicit", explicit},
}

// ReadSolver reads options of a solver: a method with its parameters, and where to compute.
func ReadSolver(text []byte) (solve.Options, error) {
	return read(text, "solver options", func(o *strictjson.Object) (s solve.Options) {
		var words []string
		for _, kind := range solvers {
			words = append(words, kind.word)
		}
		o.Require("kind")
		s.Name = o.Word("kind", words[0], words...)
		s.Placement = placement(o)
		s.Method = solvers[slices.Index(words, s.Name)].read(o)
		return s
	})
}

func itemKNN(o *strictjson.Object) solve.Method {
	m := solve.ItemKNN{}
	m.Metric = solve.Metric(slices.Index(solve.MetricWords, o.Word("metric", "cosine", solve.MetricWords...)))
	usual := 20.0
	if m.Metric == solve.Dot {
		usual = 0
	}
	m.Shrink = o.Float("shrink", usual, strictjson.NotNegative)
	if m.Metric == solve.Dot && m.Shrink > 0 {
		o.Fail("shrink", `is given, but the metric "dot" divides by nothing`)
	}
	return neighbors(o, m)
}

func rp3Beta(o *strictjson.Object) solve.Method {
	exponent := func(key string, usual float64) float64 { return o.Float(key, usual, strictjson.Between(0, 100)) }
	return neighbors(o, solve.RP3Beta{Alpha: exponent("alpha", 0.6), Beta: exponent("beta", 0.2)})
}

func neighbors(o *strictjson.Object, how solve.Similarities) solve.Method {
	return &solve.Neighbors{K: o.Int("k", 200, strictjson.Between(1, math.MaxInt32)), How: how}
}

// ridge reads which matrix a linear model inverts.
func ridge(o *strictjson.Object) solve.Ridge {
	exponent := func(key string, usual float64) float64 { return o.Float(key, usual, strictjson.Between(0, 10)) }
	return solve.Ridge{
		Regularization:         o.Float("regularization", 18, strictjson.Between(1e-6, 1e30)),
		RegularizationExponent: exponent("regularization_exponent", 0.25),
		Dropout:                o.Float("dropout", 0.1, strictjson.Between(0, 0.99)),
		RowExponent:            exponent("row_exponent", 0.5), ItemExponent: exponent("item_exponent", 0.2),
		OutputExponent: exponent("output_exponent", 0.2),
	}
}

func linear(o *strictjson.Object) solve.Method {
	return &solve.Linear{
		Ridge: ridge(o), Operator: o.Bool("operator", false),
		PerItem:   o.Int("per_item", 128, strictjson.Between(1, math.MaxInt32)),
		Tolerance: o.Float("tolerance", 1e-3, strictjson.Between(1e-7, 0.1)), Iterations: 20,
		Probes: o.Int("probes", 256, strictjson.Between(1, 1<<20)), Seed: o.Uint("seed", 0),
	}
}

func gram(o *strictjson.Object) solve.Method { return &solve.Gram{Ridge: ridge(o)} }

func restricted(o *strictjson.Object) solve.Method {
	return &solve.Restricted{
		Ridge: ridge(o), Neighbors: o.Int("neighbors", 512, strictjson.Between(1, 1024)),
		PerItem: o.Int("per_item", 128, strictjson.Between(1, math.MaxInt32)),
	}
}

// svd reads the options of a singular value decomposition.
func svd(o *strictjson.Object) solve.Method {
	s := readSVD(o)
	return &s
}

func readSVD(o *strictjson.Object) solve.SVD {
	o.Require("k")
	return solve.SVD{
		K:            o.Int("k", 1, strictjson.Between(1, math.MaxInt32)),
		Oversampling: o.Int("oversampling", 0, strictjson.Between(0, math.MaxInt32)),
		Iterations:   o.Int("iterations", 1, strictjson.Between(1, 1000)), Seed: o.Uint("seed", 0),
	}
}

// spectral reads the options of a filter.
func spectral(o *strictjson.Object) solve.Method {
	exponent := func(key string, usual float64) float64 { return o.Float(key, usual, strictjson.Between(-10, 10)) }
	return &solve.Spectral{
		SVD: readSVD(o), RowExponent: exponent("row_exponent", 1),
		FirstIn: exponent("first_in", 0.5), FirstOut: exponent("first_out", 0.5),
		LowPass:         o.Float("low_pass", 0.3, strictjson.Between(0, 1e6)) + 0, // -0 is 0
		LowPassExponent: exponent("low_pass_exponent", 0.5), Sharpening: o.Float("sharpening", 0, strictjson.Between(0, 100)),
		OutputExponent: exponent("output_exponent", 0), Balanced: o.Bool("balanced", false),
	}
}

func ials(o *strictjson.Object) solve.Method { return factorize(o, false) }

func explicit(o *strictjson.Object) solve.Method { return factorize(o, true) }

// factorize reads the options of alternating least squares.
func factorize(o *strictjson.Object, ratings bool) *solve.Factorize {
	return &solve.Factorize{
		Factors: o.Int("factors", 128, strictjson.Between(1, factors.Most)),
		Epochs:  o.Int("epochs", 16, strictjson.Between(1, 1<<20)), Seed: o.Uint("seed", 0),
		Deviation: 0.1, Objective: factors.ReadObjective(o, ratings),
	}
}
