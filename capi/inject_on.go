//go:build faultinject

package main

import (
	"strings"
	"sync/atomic"

	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// injection is where the next panic is asked for: "export:<name>", "call" (when it has its handle),
// "goroutine" or "". It happens once.
var injection atomic.Value

func readInjection(options *strictjson.Object) {
	if options.Has("inject_panic") {
		injection.Store(options.String("inject_panic", ""))
	}
	if options.Has("refuse_allocation") {
		kernels.RefuseAllocation(options.Int("refuse_allocation", 0, strictjson.Between(0, 1<<40)))
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
