package c

/*
#include "pool.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// patience is how long a waiting worker spins before it sleeps: longer than the pause between the operations of a step,
// and short enough that a process without work burns no time.
const patience = 100 * time.Microsecond

// idle is how long a worker without work keeps its thread.
const idle = 100 * time.Millisecond

// Pool is a fixed set of workers (pool.h). A worker is a goroutine that stays in C while there is work, so Go's
// scheduler takes no part in passing from phase to phase. Run and Close are for one goroutine at a time.
type Pool struct {
	c       *C.pool_t
	Workers int
	threads atomic.Int32 // of the next call

	mu      sync.Mutex // guards what follows
	present []bool     // by worker: whether its goroutine is there
	count   int        // of those
	running int        // threads of the present call, 0 without one
	closed  bool
}

// newPool makes a pool of one worker or more; worker 0 is the caller of run.
func newPool(workers int) *Pool {
	wait := C.int64_t(patience)
	if workers > runtime.GOMAXPROCS(0) {
		wait = 0 // a worker that spins keeps others from working
	}
	p := &Pool{c: C.pool_new(C.int32_t(workers), wait), Workers: workers, present: make([]bool, workers)}
	if p.c == nil {
		panic("out of memory")
	}
	p.UseThreads(workers)
	return p
}

// UseThreads sets how many threads, from 1 to Workers, run the calls that begin from now on. Any goroutine may call it.
func (p *Pool) UseThreads(n int) { p.threads.Store(int32(min(max(1, n), p.Workers))) }

// ThreadsInUse is how many threads run the calls that begin now.
func (p *Pool) ThreadsInUse() int { return int(p.threads.Load()) }

// run runs the phases of a call by all workers, and finishes it.
func (o Ops) run(call *call) error {
	p, count := o.Pool, C.int32_t(len(call.work))
	if count == 0 || call.unknown != nil {
		return call.finish()
	}
	// In C's memory, because cgo looks through Go's for pointers at each call.
	list := C.pool_work(p.c, count)
	if list == nil {
		panic("out of memory")
	}
	copy(unsafe.Slice(list, count), call.work)
	if call.alone {
		C.pool_run_alone(p.c, o.functions, count)
		return call.finish()
	}
	threads := p.ThreadsInUse()
	p.gather(threads)
	C.pool_run(p.c, o.functions, count, C.int32_t(threads))
	p.mu.Lock()
	p.running = 0
	p.mu.Unlock()
	return call.finish()
}

// gather makes sure that the workers with a thread of a call are there, and stay.
func (p *Pool) gather(threads int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = threads
	if p.count == p.Workers-1 {
		return
	}
	for worker := 1; worker < threads; worker++ {
		if !p.present[worker] {
			p.present[worker] = true
			p.count++
			countPresent(1)
			go p.serve(worker, C.pool_round(p.c))
		}
	}
}

func (p *Pool) serve(worker int, round C.uint64_t) {
	defer func() {
		if r := recover(); r != nil { // between phases: a worker is replaced, and no process ends because of one
			go p.serve(worker, C.pool_round(p.c))
		}
	}()
	for more := true; more; more = p.stay(worker) {
		round = C.pool_serve(p.c, C.int32_t(worker), round, C.int64_t(idle))
	}
}

// stay reports whether a worker goes on. The last worker that leaves a closed pool frees it.
func (p *Pool) stay(worker int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if worker < p.running && !p.closed {
		return true
	}
	p.present[worker] = false
	p.count--
	countPresent(-1)
	p.free()
	return false
}

// Close sends the workers home.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		C.pool_close(p.c)
		p.free()
	}
}

func (p *Pool) free() {
	if p.closed && p.count == 0 {
		C.pool_free(p.c)
	}
}
