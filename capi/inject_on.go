//go:build faultinject

package main

import (
	"strings"
	"sync/atomic"

	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// countdown is the number of allocations of host memory until one is refused; 0: none is.
var countdown atomic.Int64

func init() { kernels.RefuseMemory = func() bool { return countdown.Add(-1) == 0 } }

// injection is where the next panic is asked for: "export:<name>", "call" (when it has its handle),
// "goroutine" or "". It happens once.
var injection atomic.Value

func readInjection(options *strictjson.Object) {
	if options.Has("inject_panic") {
		injection.Store(options.String("inject_panic", ""))
	}
	if options.Has("refuse_allocation") {
		countdown.Store(options.Int("refuse_allocation", 0, strictjson.Between(0, 1<<40)))
	}
}

func enterExport(name string) { panicIfAsked("export:" + strings.TrimPrefix(name, "dsstne_")) }

func enterCall() { panicIfAsked("call") }

func enterGoroutine() { panicIfAsked("goroutine") }

func panicIfAsked(place string) {
	if injection.CompareAndSwap(place, "") {
		panic("injected at " + place)
	}
}
