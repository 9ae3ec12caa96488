package cpu

import (
	"runtime/debug"
	"sync"

	"dsstne/engine/fault"
)

// pool is a fixed set of workers. The goroutine that calls run is worker 0, the others wait for work on their channels.
type pool struct {
	workers int
	work    []chan func(worker int)
	done    sync.WaitGroup
	mu      sync.Mutex
	err     error
}

func newPool(workers int) *pool {
	p := &pool{workers: workers, work: make([]chan func(int), workers)}
	for w := 1; w < workers; w++ {
		work := make(chan func(int))
		p.work[w] = work
		go func() {
			for f := range work {
				p.guarded(f, w)
				p.done.Done()
			}
		}()
	}
	return p
}

// run calls f once for each worker and waits for all. It returns what a panic in one of them left.
func (p *pool) run(f func(worker int)) error {
	p.err = nil
	p.done.Add(p.workers - 1)
	for w := 1; w < p.workers; w++ {
		p.work[w] <- f
	}
	p.guarded(f, 0)
	p.done.Wait()
	return p.err
}

func (p *pool) guarded(f func(int), worker int) {
	defer func() {
		if r := recover(); r != nil {
			p.mu.Lock()
			p.err = fault.New(fault.Internal, "panic in CPU worker %d: %v\n%s", worker, r, debug.Stack())
			p.mu.Unlock()
		}
	}()
	f(worker)
}

func (p *pool) close() {
	for w := 1; w < p.workers; w++ {
		close(p.work[w])
	}
	p.workers, p.work = 0, nil
}
