package csr

import (
	"runtime/debug"

	"dsstne/internal/fault"
)

// CatchFaults runs body, which reads the arrays of a matrix, and turns a fault on this goroutine into an error. The
// arrays may be a mapped file, whether the caller mapped it or the engine: a fault, which would end the process, occurs
// when the file was shortened or its disk fails.
func CatchFaults(body func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if isFault(recover()) {
			err = fault.New(fault.InvalidData, "the data could not be read from their file: "+
				"it was shortened while it was in use, or its disk has failed")
		}
	}()
	return body()
}

// isFault reports whether a recovered panic is a fault; it goes on with any other panic.
func isFault(p any) bool {
	_, is := p.(interface{ Addr() uintptr })
	if p != nil && !is {
		panic(p)
	}
	return is
}
