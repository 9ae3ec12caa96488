package main

// #include "abi.h"
import "C"

import (
	"unsafe"

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
	return guard("dsstne_predictor_open", err, func() error {
		o, err := optionsIn(optionText, options.ReadPredictor)
		if err := first(err, notNull(out, "out")); err != nil {
			return err
		}
		return with(uint64(model), "model", "dsstne_predictor_open", sharing, func(m *modelObject) error {
			var p *predict.Predictor
			err := here(func() (err error) {
				p, err = predict.Open(m.Model, o)
				return err
			})
			if err != nil {
				return err
			}
			*out = C.dsstne_predictor(handles.add(&predictor{p}))
			return nil
		})
	})
}

//export dsstne_predictor_bind
func dsstne_predictor_bind(handle C.dsstne_predictor, layer *C.const_char, data C.dsstne_dataset,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_bind", err, func() error {
		name, err := requiredText(layer, "layer")
		if err != nil {
			return err
		}
		return with(uint64(handle), "predictor", "dsstne_predictor_bind", changing, func(p *predictor) error {
			return with(uint64(data), "dataset", "dsstne_predictor_bind", sharing, func(d *dataset) error {
				return p.Bind(name, d.matrix)
			})
		})
	})
}

//export dsstne_predictor_plan
func dsstne_predictor_plan(handle C.dsstne_predictor, optionText *C.const_char, buf *C.char, length *C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_plan", err, func() error {
		o, err := optionsIn(optionText, options.ReadPlan)
		if err := first(err, notNull(length, "len")); err != nil {
			return err
		}
		return with(uint64(handle), "predictor", "dsstne_predictor_plan", reading, func(p *predictor) error {
			text, err := p.Plan(o.Layer, o.K)
			if err != nil {
				return err
			}
			textOut(text, buf, length)
			return nil
		})
	})
}

//export dsstne_predictor_predict
func dsstne_predictor_predict(handle C.dsstne_predictor, layer *C.const_char, rows *C.const_int64, nRows C.int64_t,
	dst *C.float, stride C.int64_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_predict", err, func() error {
		name, err := textIn(layer, "layer")
		if err != nil {
			return err
		}
		chosen, err := optionalSlice((*int64)(rows), int64(nRows), "n_rows")
		if err != nil {
			return err
		}
		memory, err := table((*float32)(dst), int64(nRows), int64(stride), "dst", "n_rows", "stride")
		if err != nil {
			return err
		}
		return predicting(handle, "dsstne_predictor_predict", chosen, int64(nRows), func(p *predictor) error {
			return p.Predict(name, chosen, memory, int64(stride))
		})
	})
}

//export dsstne_predictor_recommend
func dsstne_predictor_recommend(handle C.dsstne_predictor, rows *C.const_int64, nRows C.int64_t, exclude C.dsstne_dataset,
	items *C.const_int32, nItems, k C.int64_t, optionText *C.const_char, ids *C.int32_t, scores *C.float,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_recommend", err, func() error {
		chosen, err := optionalSlice((*int64)(rows), int64(nRows), "n_rows")
		if err != nil {
			return err
		}
		listed, err := slice((*int32)(items), int64(nItems), "items", "n_items")
		if err != nil {
			return err
		}
		o, err := rankingIn(optionText, listed, options.ReadRecommend)
		if err != nil {
			return err
		}
		top, err := topOut(ids, scores, int64(nRows), int64(k), "n_rows")
		if err != nil {
			return err
		}
		return predicting(handle, "dsstne_predictor_recommend", chosen, int64(nRows), func(p *predictor) error {
			return withOptionalMatrix(exclude, "exclude", "dsstne_predictor_recommend", func(seen csr.Source) error {
				return p.Recommend(o.Layer, chosen, seen, o.Filter, int64(k), top.ids, top.scores)
			})
		})
	})
}

//export dsstne_predictor_neighbors
func dsstne_predictor_neighbors(handle C.dsstne_predictor, tensor *C.const_char, queries *C.const_int32, nQueries C.int64_t,
	items *C.const_int32, nItems, k C.int64_t, optionText *C.const_char, ids *C.int32_t, scores *C.float,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_neighbors", err, func() error {
		name, err := textIn(tensor, "tensor")
		if err != nil {
			return err
		}
		asked, err := slice((*int32)(queries), int64(nQueries), "queries", "n_queries")
		if err != nil {
			return err
		}
		listed, err := slice((*int32)(items), int64(nItems), "items", "n_items")
		if err != nil {
			return err
		}
		o, err := rankingIn(optionText, listed, options.ReadNeighbors)
		if err != nil {
			return err
		}
		top, err := topOut(ids, scores, int64(nQueries), int64(k), "n_queries")
		if err != nil {
			return err
		}
		return with(uint64(handle), "predictor", "dsstne_predictor_neighbors", reading, func(p *predictor) error {
			return fanOut(len(p.Ranks), func() error {
				return p.Neighbors(name, asked, o.Filter, o.Neighbors, int64(k), top.ids, top.scores)
			})
		})
	})
}

//export dsstne_predictor_evaluate
func dsstne_predictor_evaluate(handle C.dsstne_predictor, targets, exclude C.dsstne_dataset, rows *C.const_int64,
	nRows C.int64_t, items *C.const_int32, nItems C.int64_t, optionText *C.const_char, buf *C.char, length *C.size_t,
	perRow *C.double, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_evaluate", err, func() error {
		chosen, err := optionalSlice((*int64)(rows), int64(nRows), "n_rows")
		if err := first(err, notNull(length, "len")); err != nil {
			return err
		}
		listed, err := slice((*int32)(items), int64(nItems), "items", "n_items")
		if err != nil {
			return err
		}
		o, err := rankingIn(optionText, listed, options.ReadEvaluate)
		if err != nil {
			return err
		}
		var values []float64
		if perRow != nil {
			values, err = table((*float64)(perRow), int64(nRows), int64(len(o.Metrics)), "per_row", "n_rows", "metrics")
			if err != nil {
				return err
			}
		}
		const call = "dsstne_predictor_evaluate"
		return predicting(handle, call, chosen, int64(nRows), func(p *predictor) error {
			return withMatrix(targets, "targets", call, func(wanted csr.Source) error {
				return withOptionalMatrix(exclude, "exclude", call, func(seen csr.Source) error {
					result, err := p.Evaluate(o.Layer, wanted, seen, chosen, o.Filter, o.Metrics, values)
					if err != nil {
						return err
					}
					text, err := describeResult(o.Metrics, result)
					if err != nil {
						return err
					}
					textOut(text, buf, length)
					return nil
				})
			})
		})
	})
}

//export dsstne_predictor_close
func dsstne_predictor_close(handle C.dsstne_predictor, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_close", err, func() error {
		return handles.close(uint64(handle), "predictor", "dsstne_predictor_close", predictorKind)
	})
}

// predicting runs body for the chosen rows of the bound datasets; nil chooses all of them, and then n must be their number.
func predicting(handle C.dsstne_predictor, call string, chosen []int64, n int64, body func(*predictor) error) error {
	return with(uint64(handle), "predictor", call, reading, func(p *predictor) error {
		if bound := p.Rows(); chosen == nil && bound >= 0 && n != bound {
			return fault.New(fault.InvalidArgument,
				"rows is null, which means every row, but n_rows is %d and the bound datasets have %d rows", n, bound)
		}
		return fanOut(len(p.Ranks), func() error { return body(p) })
	})
}

// withMatrix runs body with the matrix of a dataset that is an argument of a call.
func withMatrix(handle C.dsstne_dataset, name, call string, body func(csr.Source) error) error {
	return with(uint64(handle), name, call, sharing, func(d *dataset) error { return body(d.matrix) })
}

// withOptionalMatrix is withMatrix for a handle that may be 0, which gives nil.
func withOptionalMatrix(handle C.dsstne_dataset, name, call string, body func(csr.Source) error) error {
	if handle == 0 {
		return body(nil)
	}
	return withMatrix(handle, name, call, body)
}

// top is where the ids and scores of a ranking go.
type top struct {
	ids    []int32
	scores []float32
}

func topOut(ids *C.int32_t, scores *C.float, n, k int64, countName string) (top, error) {
	i, err := table((*int32)(unsafe.Pointer(ids)), n, k, "ids", countName, "k")
	if err != nil {
		return top{}, err
	}
	s, err := table((*float32)(unsafe.Pointer(scores)), n, k, "scores", countName, "k")
	return top{i, s}, err
}
