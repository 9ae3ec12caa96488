// Package c is the C side of the CPU backend and the translation of ops to it: micro-kernels per instruction set behind
// one table of functions (kernels.h). A Call is an op with its arguments in C's form; package cpu runs its phases on the
// worker pool.
package c

/*
#cgo CFLAGS: -std=c11 -O3 -Wall -Wextra -Wno-psabi
#cgo LDFLAGS: -lm
#include "run.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"dsstne/kernels"
)

// The instruction sets, narrowest first.
const (
	Portable = iota
	AVX2
	AVX512
	AVX512BF16
	Widest = AVX512BF16
)

// Go and C must mean the same numbers and the same layout: these do not compile otherwise. A test of package kernels
// compares the kinds.
var (
	_ = [1]int{}[C.MAX_SOURCES-kernels.MaxSources]
	_ = [1]int{}[C.sizeof_rates_t-unsafe.Sizeof(kernels.Rates{})]
)

// Table is the kernels of one instruction set, at a precision.
type Table struct {
	c        *C.kernels_t
	bfloat16 C.int32_t
}

// Select returns the kernels of an instruction set, or nil if this CPU lacks it.
func Select(level int) *Table {
	if t := C.dsstne_cpu_kernels(C.int32_t(level)); t != nil {
		return &Table{c: t}
	}
	return nil
}

// With returns the same kernels at a precision.
func (t *Table) With(p kernels.Precision) *Table { return &Table{t.c, flag(p == kernels.BFloat16)} }

// BFloat16 tells whether the instruction set multiplies bfloat16 numbers; others emulate it.
func (t *Table) BFloat16() bool { return t.c.has_bfloat16 != 0 }

// Name of the instruction set.
func (t *Table) Name() string { return C.GoString(t.c.name) }

// Call is an op ready to run: its phases one after the other, each by all workers, then Finish.
type Call struct {
	unknown error // a kind that is not in the list; such a call is not run
	work    []C.work_t
	pin     runtime.Pinner
	failure *C.failure_t
	names   []string // of the weights, by the id that a failure tells
	layer   string   // what a failure without such an id is about
	end     func()
	alone   bool        // so little work that waking the other workers would take longer; they are not counted on
	scored  []*C.rank_t // of TopK, a struct for each block of rows
}

// Finish lets go of the arguments and tells whether the op succeeded.
func (call *Call) Finish() error {
	call.pin.Unpin()
	if call.unknown != nil {
		return call.unknown
	}
	if call.end != nil {
		call.end()
	}
	if call.failure == nil || call.failure.kind == C.FAIL_NONE {
		return nil
	}
	e := &kernels.NotFiniteError{Row: int64(call.failure.row)}
	e.Tensor = call.layer
	switch call.failure.kind {
	case C.FAIL_LOSS:
		e.What = "the loss"
	case C.FAIL_LOGITS:
		e.What, e.Row = "a logit", -1
	case C.FAIL_GRADIENT:
		e.What = "the gradient"
	default:
		e.What = "the updated weight"
	}
	if id := int(call.failure.id); id >= 0 && id < len(call.names) {
		e.Tensor = call.names[id]
	}
	return e
}

// Scored tells how many exact scores TopK computed after screening.
func (call *Call) Scored() (n int64) {
	for _, block := range call.scored {
		n += int64(block.scored)
	}
	return n
}

// short is how many multiplications take about as long as to wake a worker.
const short = 1 << 17

// phase adds a phase to the call; its arguments are pinned.
func (call *Call) phase(run C.phase_t, arguments unsafe.Pointer) {
	call.pin.Pin(arguments)
	call.work = append(call.work, C.work_t{run: run, arguments: arguments})
}

// floats and ints pin Go memory for the length of the call; memory of a Buffer is not Go's and needs none.
func (call *Call) floats(s []float32) *C.float {
	if len(s) == 0 {
		return nil
	}
	call.pin.Pin(&s[0])
	return (*C.float)(unsafe.Pointer(&s[0]))
}

func (call *Call) ints(s []int32) *C.int32_t {
	if len(s) == 0 {
		return nil
	}
	call.pin.Pin(&s[0])
	return (*C.int32_t)(unsafe.Pointer(&s[0]))
}

func buffer(b kernels.Buffer) *C.float {
	if b == nil || b.Len() == 0 {
		return nil
	}
	return (*C.float)(unsafe.Pointer(&b.Float32()[0]))
}

func (call *Call) weights(w *kernels.Weights) C.weights_t {
	if w == nil {
		return C.weights_t{id: -1}
	}
	out := C.weights_t{
		value: buffer(w.Value), state0: buffer(w.State[0]), state1: buffer(w.State[1]), gradient: buffer(w.Gradient),
		rows: C.int64_t(w.Rows), columns: C.int64_t(w.Columns), no_decay: flag(w.NoDecay), id: C.int32_t(len(call.names)),
	}
	if w.Last != nil && w.Last.Len() > 0 {
		out.last = (*C.int32_t)(unsafe.Pointer(&w.Last.Int32()[0]))
	}
	call.names = append(call.names, w.Name)
	return out
}

func (call *Call) optimizer(o kernels.Optimizer, s *kernels.Step) C.optimizer_t {
	out := C.optimizer_t{
		kind: number(call, o.Kind), momentum: C.float(o.Momentum), beta1: C.float(o.Beta1), beta2: C.float(o.Beta2),
		epsilon: C.float(o.Epsilon), decay: C.float(o.WeightDecay), rates_from: C.int64_t(s.RatesFrom), step: C.int64_t(s.Number),
	}
	if len(s.Rates) > 0 {
		call.pin.Pin(&s.Rates[0])
		out.rates = (*C.rates_t)(unsafe.Pointer(&s.Rates[0]))
	}
	return out
}

func (call *Call) epilogue(e *kernels.Epilogue, s *kernels.Step) C.epilogue_t {
	out := C.epilogue_t{
		bias: buffer(e.Bias), activation: number(call, e.Activation), seed: C.uint64_t(s.Seed), stream: C.uint32_t(e.Stream),
		step: C.uint32_t(s.Number), first: C.int64_t(s.First),
	}
	if s.Training {
		out.dropout = C.float(e.Dropout)
	}
	return out
}

// number is what C is told of a kind. A call with an unknown one is not run.
func number[K kernels.Kind](call *Call, kind K) C.int32_t {
	if err := kernels.CheckKind(kind); err != nil {
		call.unknown = err
	}
	return C.int32_t(kind)
}

func (call *Call) byItem(b *kernels.SparseBatch) C.by_item_t {
	return C.by_item_t{
		count: C.int64_t(len(b.Items)), items: call.ints(b.Items), offsets: call.ints(b.ItemOffsets), rows: call.ints(b.ItemRows),
		values: call.floats(b.ItemValues),
	}
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}
