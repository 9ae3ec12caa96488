package main

// #include "abi.h"
import "C"

import (
	"fmt"
	"runtime"
	"strings"

	"dsstne/internal/fault"
)

// guard runs the body of the export called name, writes its error to out and returns its status. A panic in the body
// becomes DSSTNE_INTERNAL: nothing may unwind into C.
func guard(name string, out *C.dsstne_error, body func(*call) error) (status C.dsstne_status) {
	defer func() {
		if p := recover(); p != nil {
			status = report(out, fault.Wrap(defect(p), "%s", name))
		}
	}()
	enterExport(name)
	return report(out, body(&call{name: name}))
}

// hop runs body on a goroutine of its own and waits for it. The goroutine that C called is locked to its thread, and
// each hand-off between it and another goroutine costs a switch of threads; after one hop a call that fans out pays
// none.
func hop(body func() error) error {
	done := make(chan error, 1)
	go func() { done <- here(body) }()
	return <-done
}

// here runs body where C called, which spares short calls the switches of threads, some 60 us. A panic in it becomes an
// error, as in hop.
func here(body func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = defect(p)
		}
	}()
	enterGoroutine()
	return body()
}

// fanOut is hop for several ranks, which hand over to each other in every step or batch, and here for one.
func fanOut(ranks int, body func() error) error {
	if ranks > 1 {
		return hop(body)
	}
	return here(body)
}

// defect describes a recovered panic and where it came from; it must be called from the deferred function itself.
func defect(p any) error {
	return fault.New(fault.Internal, "a defect of the library: %v (%s); please report it", p, origin())
}

// origin names the innermost functions of the panic under way, innermost first.
func origin() string {
	const shown = 3
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	var places []string
	panicking := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicking && !inRuntime {
			places = append(places, fmt.Sprintf("%s:%d", shortFile(frame.File), frame.Line))
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
		if !more || len(places) == shown {
			break
		}
	}
	if len(places) == 0 {
		return "no stack"
	}
	return "at " + strings.Join(places, ", from ")
}

// shortFile keeps the folder and the name of a source file.
func shortFile(file string) string {
	parts := strings.Split(file, "/")
	if len(parts) > 2 {
		parts = parts[len(parts)-2:]
	}
	return strings.Join(parts, "/")
}
