package csr

import (
	"runtime/debug"

	"dsstne/internal/fault"
)

// guarded runs body, which reads the matrix, so that a mapped file that cannot be read is an error.
func (m *Matrix) guarded(body func() error) error {
	if m.parts.Mapped {
		return catchFaults(body)
	}
	return body()
}

// catchFaults runs body, which reads a mapped file, and turns a fault on this goroutine into an error. A fault, which
// would end the process, occurs when the file was shortened or its disk fails.
func catchFaults(body func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		p := recover()
		if _, isFault := p.(interface{ Addr() uintptr }); isFault {
			err = fault.New(fault.InvalidData, "the data could not be read from their file: "+
				"it was shortened while it was in use, or its disk has failed")
		} else if p != nil {
			panic(p)
		}
	}()
	return body()
}
