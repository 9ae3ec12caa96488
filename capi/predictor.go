package main

// #include "abi.h"
import "C"

import (
	"dsstne/engine/csr"
	"dsstne/engine/options"
	"dsstne/engine/predict"
	"dsstne/internal/fault"
)

type predictor struct{ *predict.Predictor }

func (*predictor) kind() kind     { return predictorKind }
func (p *predictor) close() error { return p.Close() }

//export dsstne_predictor_open
func dsstne_predictor_open(model C.dsstne_model, optionText *C.const_char, out *C.dsstne_predictor,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_open", err, func(c *call) error {
		o := optionsIn(c, optionText, options.ReadPredictor)
		return with(c, model, sharing, func(m *modelObject) error {
			return open(c, out, here, func() (object, error) {
				p, err := predict.Open(m.Model, o)
				return &predictor{p}, err
			})
		})
	})
}

//export dsstne_predictor_bind
func dsstne_predictor_bind(handle C.dsstne_predictor, layer *C.const_char, data C.dsstne_dataset,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_bind", err, func(c *call) error {
		name := c.requiredText(layer, "layer")
		return with(c, handle, changing, func(p *predictor) error {
			return with(c, data, sharing, func(d *dataset) error { return p.Bind(name, d.matrix) })
		})
	})
}

//export dsstne_predictor_plan
func dsstne_predictor_plan(handle C.dsstne_predictor, optionText *C.const_char, buf *C.char, length *C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_plan", err, func(c *call) error {
		o := optionsIn(c, optionText, options.ReadPlan)
		return with(c, handle, reading, func(p *predictor) error {
			return textOut(c, buf, length, func() ([]byte, error) { return p.Plan(o.Layer, o.K) })
		})
	})
}

//export dsstne_predictor_predict
func dsstne_predictor_predict(handle C.dsstne_predictor, layer *C.const_char, rows *C.const_int64, nRows C.int64_t,
	dst *C.float, stride C.int64_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_predict", err, func(c *call) error {
		name := c.textIn(layer, "layer")
		chosen := optionalSlice(c, (*int64)(rows), int64(nRows), "n_rows")
		memory := table(c, (*float32)(dst), int64(nRows), int64(stride), "dst", "n_rows", "stride")
		return predicting(c, handle, chosen, int64(nRows), func(p *predictor) error {
			return p.Predict(name, chosen, memory, int64(stride))
		})
	})
}

//export dsstne_predictor_recommend
func dsstne_predictor_recommend(handle C.dsstne_predictor, rows *C.const_int64, nRows C.int64_t,
	exclude C.dsstne_dataset, items *C.const_int32, nItems, k C.int64_t, optionText *C.const_char, ids *C.int32_t,
	scores *C.float, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_recommend", err, func(c *call) error {
		chosen := optionalSlice(c, (*int64)(rows), int64(nRows), "n_rows")
		o := rankingIn(c, items, nItems, optionText, options.ReadRecommend)
		topIDs := table(c, (*int32)(ids), int64(nRows), int64(k), "ids", "n_rows", "k")
		topScores := table(c, (*float32)(scores), int64(nRows), int64(k), "scores", "n_rows", "k")
		return predicting(c, handle, chosen, int64(nRows), func(p *predictor) error {
			return withOptional(c, exclude, "exclude", func(seen csr.Source) error {
				return p.Recommend(o.Layer, chosen, seen, o.Filter, int64(k), topIDs, topScores)
			})
		})
	})
}

//export dsstne_predictor_neighbors
func dsstne_predictor_neighbors(handle C.dsstne_predictor, tensor *C.const_char, queries *C.const_int32,
	nQueries C.int64_t, items *C.const_int32, nItems, k C.int64_t, optionText *C.const_char, ids *C.int32_t,
	scores *C.float, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_neighbors", err, func(c *call) error {
		name := c.textIn(tensor, "tensor")
		asked := slice(c, (*int32)(queries), int64(nQueries), "queries", "n_queries")
		o := rankingIn(c, items, nItems, optionText, options.ReadNeighbors)
		topIDs := table(c, (*int32)(ids), int64(nQueries), int64(k), "ids", "n_queries", "k")
		topScores := table(c, (*float32)(scores), int64(nQueries), int64(k), "scores", "n_queries", "k")
		return with(c, handle, reading, func(p *predictor) error {
			return fanOut(len(p.Ranks), func() error {
				return p.Neighbors(name, asked, o.Filter, o.Neighbors, int64(k), topIDs, topScores)
			})
		})
	})
}

//export dsstne_predictor_search
func dsstne_predictor_search(handle C.dsstne_predictor, tensor *C.const_char, queries *C.const_float,
	nQueries, nColumns C.int64_t, items *C.const_int32, nItems, k C.int64_t, optionText *C.const_char, ids *C.int32_t,
	scores *C.float, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_search", err, func(c *call) error {
		name := c.textIn(tensor, "tensor")
		if nColumns < 1 {
			c.fail("n_columns is %d; a query has at least one number", int64(nColumns))
		}
		vectors := table(c, (*float32)(queries), int64(nQueries), int64(nColumns), "queries", "n_queries", "n_columns")
		o := rankingIn(c, items, nItems, optionText, options.ReadSearch)
		topIDs := table(c, (*int32)(ids), int64(nQueries), int64(k), "ids", "n_queries", "k")
		topScores := table(c, (*float32)(scores), int64(nQueries), int64(k), "scores", "n_queries", "k")
		return with(c, handle, reading, func(p *predictor) error {
			return fanOut(len(p.Ranks), func() error {
				return p.Search(name, vectors, int64(nColumns), o.Filter, o.Neighbors.Measure, int64(k), topIDs, topScores)
			})
		})
	})
}

//export dsstne_predictor_evaluate
func dsstne_predictor_evaluate(handle C.dsstne_predictor, targets, exclude C.dsstne_dataset, rows *C.const_int64,
	nRows C.int64_t, items *C.const_int32, nItems C.int64_t, optionText *C.const_char, buf *C.char, length *C.size_t,
	perRow *C.double, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_evaluate", err, func(c *call) error {
		chosen := optionalSlice(c, (*int64)(rows), int64(nRows), "n_rows")
		notNull(c, length, "len")
		o := rankingIn(c, items, nItems, optionText, options.ReadEvaluate)
		var values []float64
		if perRow != nil {
			values = table(c, (*float64)(perRow), int64(nRows), int64(len(o.Metrics)), "per_row", "n_rows", "metrics")
		}
		return predicting(c, handle, chosen, int64(nRows), func(p *predictor) error {
			return withNamed(c, targets, "targets", sharing, func(wanted *dataset) error {
				return withOptional(c, exclude, "exclude", func(seen csr.Source) error {
					return textOut(c, buf, length, func() ([]byte, error) {
						result, err := p.Evaluate(o.Layer, wanted.matrix, seen, chosen, o.Filter, o.Metrics, values)
						if err != nil {
							return nil, err
						}
						return describeResult(o.Metrics, result)
					})
				})
			})
		})
	})
}

//export dsstne_predictor_close
func dsstne_predictor_close(handle C.dsstne_predictor, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_close", err, func(c *call) error {
		return handles.close(uint64(handle), predictorKind, c.name)
	})
}

// rankingIn reads the JSON options of a call that ranks some items.
func rankingIn(c *call, items *C.const_int32, n C.int64_t, text *C.const_char,
	read func([]byte, []int32) (options.Ranking, error)) options.Ranking {
	listed := slice(c, (*int32)(items), int64(n), "items", "n_items")
	return optionsIn(c, text, func(s []byte) (options.Ranking, error) { return read(s, listed) })
}

// predicting runs body for the chosen rows of the bound datasets; nil chooses all of them, and then n must be their
// number.
func predicting(c *call, handle C.dsstne_predictor, chosen []int64, n int64, body func(*predictor) error) error {
	return with(c, handle, reading, func(p *predictor) error {
		if bound := p.Rows(); chosen == nil && bound >= 0 && n != bound {
			return fault.New(fault.InvalidArgument,
				"rows is null, which means every row, but n_rows is %d and the bound datasets have %d rows", n, bound)
		}
		return fanOut(len(p.Ranks), func() error { return body(p) })
	})
}

// withOptional runs body with the matrix of a dataset; for the handle 0 it is nil.
func withOptional(c *call, handle C.dsstne_dataset, name string, body func(csr.Source) error) error {
	if handle == 0 {
		return body(nil)
	}
	return withNamed(c, handle, name, sharing, func(d *dataset) error { return body(d.matrix) })
}
