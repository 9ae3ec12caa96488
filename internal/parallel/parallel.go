// Package parallel divides work among goroutines and turns their panics, which would end the process, into errors.
package parallel

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"dsstne/internal/fault"
)

// Do calls work for 0 .. n-1 on up to threads goroutines (0: as many as the process may use), or on the caller's if one
// suffices. It begins parts in order, none after a failure: the error is that of the lowest part that fails.
func Do(threads, n int, work func(part int) error) error {
	threads = Threads(threads)
	errs := make([]error, n)
	var next, failed atomic.Int64
	worker := func() {
		for failed.Load() == 0 {
			part := int(next.Add(1) - 1)
			if part >= n {
				return
			}
			if errs[part] = Guarded(work, part); errs[part] != nil {
				failed.Store(1)
			}
		}
	}
	if threads = min(threads, n); threads == 1 {
		worker()
	} else {
		var wait sync.WaitGroup
		for range threads {
			wait.Go(worker)
		}
		wait.Wait()
	}
	return cmp.Or(errs...)
}

// Threads is n, or as many as the process may use if n is 0.
func Threads(n int) int {
	if n <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}

// Guarded calls work and turns a panic into an error.
func Guarded(work func(part int) error, part int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "panic: %s\n%s", fmt.Sprint(p), debug.Stack())
		}
	}()
	return work(part)
}
