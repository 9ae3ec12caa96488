package csr

import (
	"runtime/debug"

	"dsstne/internal/fault"
)

// catchFaults runs body, which reads the arrays of a matrix, and turns a fault on this goroutine into an error, and a
// read of a File that failed. The arrays of a caller may be a mapped file: a fault, which would end the process, occurs
// when the file was shortened or its disk fails.
func catchFaults(body func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if isFault(recover()) {
			err = errUnread
		}
	}()
	return body()
}

var errUnread = fault.New(fault.InvalidData, "the data could not be read from their file: "+
	"it was shortened while it was in use, or its disk has failed")

// isFault reports whether a recovered panic is a fault or unread; it goes on with any other panic.
func isFault(p any) bool {
	switch p.(type) {
	case nil:
		return false
	case unread, interface{ Addr() uintptr }:
		return true
	}
	panic(p)
}
