package main

// #include "ask.h"
import "C"

import (
	"unsafe"

	"dsstne/engine/csr"
	"dsstne/engine/options"
	"dsstne/engine/predict"
)

//export dsstne_predictor_serve
func dsstne_predictor_serve(handle C.dsstne_predictor, items *C.const_int32, nItems, k C.int64_t,
	optionText *C.const_char, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_predictor_serve", err, func(c *call) error {
		listed := slice(c, (*int32)(items), int64(nItems), "items", "n_items")
		o := optionsIn(c, optionText, func(text []byte) (predict.ServiceOptions, error) {
			return options.ReadService(text, listed)
		})
		o.K = int64(k)
		return with(c, handle, changing, func(p *predictor) error {
			return fanOut(len(p.Ranks), func() error { return p.Serve(o) })
		})
	})
}

// predictorAsk is dsstne_predictor_ask but for the waiting (ask.c).
//
//export predictorAsk
func predictorAsk(handle C.dsstne_predictor, inputs *C.const_dataset_info, nInputs C.int64_t,
	exclude *C.const_dataset_info, k C.int64_t, ids *C.int32_t, scores *C.float, err *C.dsstne_error,
	ticket *C.ticket_t) C.dsstne_status {
	waits := false
	status := guard("dsstne_predictor_ask", err, func(c *call) error {
		q := predict.Question{K: int64(k)}
		at, n := inputs, int64(nInputs)
		if n < 1 || n > mostInputs || at == nil {
			c.fail("inputs: expected one matrix for each input layer, got %d", n)
		}
		for ; c.err == nil && n > 0; n-- {
			q.Inputs = append(q.Inputs, matrixIn(c, at, "inputs"))
			at = (*C.const_dataset_info)(unsafe.Add(unsafe.Pointer(at), at.struct_size))
		}
		if exclude != nil {
			q.Exclude = matrixIn(c, exclude, "exclude")
		}
		if c.err != nil {
			return c.err
		}
		rows := q.Inputs[0].Rows()
		q.IDs = table(c, (*int32)(ids), rows, q.K, "ids", "rows", "k")
		q.Scores = table(c, (*float32)(scores), rows, q.K, "scores", "rows", "k")
		return withUntil(c, handle, sharing, &waits, func(p *predictor) error {
			return fanOut(len(p.Ranks), func() (failure error) {
				waits, failure = p.Ask(q, &waiter{handle, err, ticket})
				return failure
			})
		})
	})
	if waits {
		return C.ASK_WAITS
	}
	return status
}

// waiter is a call that waits in C.
type waiter struct {
	handle C.dsstne_predictor
	err    *C.dsstne_error
	ticket *C.ticket_t
}

// Answer ends the call's use of the predictor. The ticket is gone as soon as it is answered.
func (w *waiter) Answer(err error, next predict.Waiter) {
	var then *C.ticket_t
	if next != nil {
		then = next.(*waiter).ticket
	}
	handles.leave(uint64(w.handle), sharing, "")
	C.ticket_answer(w.ticket, report(w.err, err), then)
}

func (w *waiter) Wake() { C.ticket_wake(w.ticket) }

// mostInputs bounds the structs that are read before the model says how many inputs it has.
const mostInputs = 1 << 10

// matrixIn views the matrix that a struct describes.
func matrixIn(c *call, info *C.const_dataset_info, name string) *csr.Matrix {
	if size := uintptr(info.struct_size); size < unsafe.Sizeof(*info) || size%unsafe.Alignof(*info) != 0 {
		c.fail("%s: struct_size is %d; set it to the size of the struct before the call", name, size)
		return nil
	}
	parts := csr.Parts{Columns: int64(info.columns)}
	rows, entries := int64(info.rows), int64(info.non_zeros)
	if rows < 0 || entries < 0 {
		c.fail("%s: rows is %d and non_zeros is %d", name, rows, entries)
	}
	if rows > 0 {
		rows++
	}
	parts.Offsets32, parts.Offsets64 = integers(c, info.offsets, rows, info.offset_bits, name, "offset")
	parts.Indices32, parts.Indices64 = integers(c, info.indices, entries, info.index_bits, name, "index")
	switch info.value_bits {
	case 0:
	case 32:
		parts.Values32 = slice(c, (*float32)(info.values), entries, name+": values", "non_zeros")
	case 64:
		parts.Values64 = slice(c, (*float64)(info.values), entries, name+": values", "non_zeros")
	default:
		c.fail("%s: value_bits is %d; it must be 0, 32 or 64", name, uint32(info.value_bits))
	}
	if c.err != nil {
		return nil
	}
	m, err := csr.New(parts)
	c.err = err
	return m
}

// integers views n numbers of 32 or 64 bits.
func integers(c *call, at unsafe.Pointer, n int64, bits C.uint32_t, name, what string) ([]int32, []int64) {
	switch bits {
	case 32:
		return slice(c, (*int32)(at), n, name+": "+what, "its number"), nil
	case 64:
		return nil, slice(c, (*int64)(at), n, name+": "+what, "its number")
	}
	c.fail("%s: %s_bits is %d; it must be 32 or 64", name, what, uint32(bits))
	return nil, nil
}
