// Package c is the C side of the CPU backend: kernels for each instruction set behind one table of functions
// (kernels.h), a pool of workers that runs them, and the translation of operations to calls of them.
package c

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -Wno-psabi
#cgo LDFLAGS: -lm
#include "run.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"dsstne/kernels"
)

// Go and C must agree on these numbers and on this layout: otherwise the lines do not compile. A test of package
// kernels compares the kinds.
var (
	_ = [1]int{}[C.MAX_SOURCES-kernels.MaxSources]
	_ = [1]int{}[C.sizeof_rates_t-unsafe.Sizeof(kernels.Rates{})]
)

// Table is the kernels of one instruction set.
type Table struct{ functions *C.kernels_t }

// Tables lists the kernels that this CPU can run, widest instruction set first.
func Tables() (list []*Table) {
	for level := C.int32_t(C.LEVELS - 1); level >= 0; level-- {
		if t := C.dsstne_cpu_kernels(level); t != nil {
			list = append(list, &Table{t})
		}
	}
	return list
}

// BFloat16 reports whether the instruction set multiplies bfloat16 numbers; others emulate it.
func (t *Table) BFloat16() bool { return t.functions.has_bfloat16 != 0 }

// FastBFloat16 reports whether products of bfloat16 are faster than those of float32.
func (t *Table) FastBFloat16() bool { return t.BFloat16() && C.dsstne_cpu_fast_bfloat16() != 0 }

// Name is the name of the instruction set.
func (t *Table) Name() string { return C.GoString(t.functions.name) }

// call is an operation in C's form: its phases run one after the other, each by all workers; then comes finish.
type call struct {
	unknown error // a kind that is not in the list; such a call is not run
	work    []C.work_t
	pin     runtime.Pinner
	failure *C.failure_t
	names   []string // of the weights, by the id in a failure
	layer   string   // what a failure without an id is about
	end     func()
	alone   bool // run by the caller alone: the work is done before another worker wakes
}

// finish unpins the arguments and returns the error of the operation.
func (c *call) finish() error {
	c.pin.Unpin()
	if c.unknown != nil {
		return c.unknown
	}
	if c.end != nil {
		c.end()
	}
	if c.failure == nil || c.failure.kind == C.FAIL_NONE {
		return nil
	}
	e := &kernels.NotFiniteError{Tensor: c.layer, Row: int64(c.failure.row)}
	switch c.failure.kind {
	case C.FAIL_LOSS:
		e.What = "the loss"
	case C.FAIL_LOGITS:
		e.What, e.Row = "a logit", -1
	case C.FAIL_GRADIENT:
		e.What = "the gradient"
	case C.FAIL_SOLUTION:
		e.What = "the solution"
	default:
		e.What = "the updated weight"
	}
	if id := int(c.failure.id); id >= 0 && id < len(c.names) {
		e.Tensor = c.names[id]
	}
	return e
}

// short is how many multiplications take about as long as to wake a worker.
const short = 1 << 17

// phases adds phases with the same arguments, which are pinned; each is a C.run_<function>.
func (c *call) phases(arguments unsafe.Pointer, functions ...unsafe.Pointer) {
	c.pin.Pin(arguments)
	for _, f := range functions {
		c.work = append(c.work, C.work_t{run: C.phase_t(f), arguments: arguments})
	}
}

// pinned pins Go memory for the length of the call and returns where it is; memory of a Buffer is not Go's and needs no
// pin.
func pinned[To, T any](c *call, s []T) *To {
	if len(s) == 0 {
		return nil
	}
	c.pin.Pin(&s[0])
	return (*To)(unsafe.Pointer(&s[0]))
}

func (c *call) floats(s []float32) *C.float { return pinned[C.float](c, s) }

func (c *call) ints(s []int32) *C.int32_t { return pinned[C.int32_t](c, s) }

func buffer(b kernels.Buffer) *C.float { return of[C.float](b) }

// of returns where the memory of a buffer is, for numbers of another type than float32.
func of[To any](b kernels.Buffer) *To {
	if b == nil || b.Len() == 0 {
		return nil
	}
	return (*To)(unsafe.Pointer(&b.Float32()[0]))
}

func (c *call) weights(w *kernels.Weights) C.weights_t {
	if w == nil {
		return C.weights_t{id: -1}
	}
	c.names = append(c.names, w.Name)
	return C.weights_t{
		value: stored(w), state0: buffer(w.State[0]), state1: buffer(w.State[1]), gradient: buffer(w.Gradient),
		last: of[C.int32_t](w.Last), rows: C.int64_t(w.Rows), columns: C.int64_t(w.Columns), no_decay: flag(w.NoDecay),
		locked: flag(w.Locked), id: C.int32_t(len(c.names) - 1), storage: number(c, w.Storage),
	}
}

// stored is where the first number of a weight is.
func stored(w *kernels.Weights) *C.float {
	first := buffer(w.Value)
	if w.Skip == 0 || first == nil {
		return first
	}
	return (*C.float)(unsafe.Add(unsafe.Pointer(first), w.Skip*w.Storage.Bytes()))
}

func (c *call) optimizer(o kernels.Optimizer, s *kernels.Step) C.optimizer_t {
	return C.optimizer_t{
		kind: number(c, o.Kind), momentum: C.float(o.Momentum), beta1: C.float(o.Beta1), beta2: C.float(o.Beta2),
		epsilon: C.float(o.Epsilon), decay: C.float(o.WeightDecay), l1: C.float(o.L1),
		rates: pinned[C.rates_t](c, s.Rates), rates_from: C.int64_t(s.RatesFrom), step: C.int64_t(s.Number),
	}
}

func (c *call) loss(l kernels.Loss, weight float32) C.loss_t {
	one, zero := l.Boosts()
	return C.loss_t{
		kind: number(c, l.Kind), normalize_rows: flag(l.NormalizeRows), activation: number(c, l.Activation.Kind),
		alpha: C.float(l.Activation.Alpha), weight: C.float(weight),
		one_scale: C.float(l.OneScale), zero_scale: C.float(l.ZeroScale),
		one_target: C.float(l.OneTarget), zero_target: C.float(l.ZeroTarget),
		one_boost: C.float(one), zero_boost: C.float(zero),
	}
}

func (c *call) sources(list []kernels.OutputSource) *C.source_t {
	a := make([]C.source_t, len(list))
	for i, s := range list {
		a[i] = C.source_t{h: buffer(s.H), dh: buffer(s.DH), accumulate: flag(s.Accumulate), weight: c.weights(s.Weight)}
	}
	return pinned[C.source_t](c, a)
}

func (c *call) epilogue(e *kernels.Epilogue, s *kernels.Step) C.epilogue_t {
	out := C.epilogue_t{
		bias: buffer(e.Bias), activation: number(c, e.Activation.Kind), alpha: C.float(e.Activation.Alpha),
		seed: C.uint64_t(s.Seed), stream: C.uint32_t(e.Stream),
		step: C.uint32_t(s.Number), first: C.int64_t(s.First),
	}
	if s.Training {
		drop := e.Drop()
		out.dropout, out.scale, out.shift = C.float(e.Dropout), C.float(drop.Scale), C.float(drop.Shift)
		out.dropped, out.undo = C.float(drop.Dropped), C.float(drop.Undo)
	}
	return out
}

// number is a kind as C knows it. A call with an unknown kind is not run.
func number[K kernels.Kind](c *call, kind K) C.int32_t {
	if err := kernels.CheckKind(kind); err != nil {
		c.unknown = err
	}
	return C.int32_t(kind)
}

func (c *call) byItem(b *kernels.SparseBatch) C.by_item_t {
	return C.by_item_t{
		count: C.int64_t(len(b.Items)), items: c.ints(b.Items), offsets: c.ints(b.ItemOffsets), rows: c.ints(b.ItemRows),
		values: c.floats(b.ItemValues),
	}
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}
