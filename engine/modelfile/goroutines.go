package modelfile

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"dsstne/internal/fault"
)

// inParallel calls work for 0 .. n-1 on up to threads goroutines (0: as many as the process may use). Parts are begun in
// order and no new one after a failure, so the error returned is that of the lowest part that fails, for any number of
// threads. A panic in a part is an error of it.
func inParallel(threads, n int, work func(part int) error) error {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	errs := make([]error, n)
	var next, failed atomic.Int64
	var wait sync.WaitGroup
	for range min(threads, n) {
		wait.Go(func() {
			for failed.Load() == 0 {
				part := int(next.Add(1) - 1)
				if part >= n {
					return
				}
				if errs[part] = guarded(work, part); errs[part] != nil {
					failed.Store(1)
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// guarded turns a panic into an error: one in a goroutine would end the process.
func guarded(work func(part int) error, part int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "panic: %s\n%s", fmt.Sprint(p), debug.Stack())
		}
	}()
	return work(part)
}
