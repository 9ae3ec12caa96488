package c

// #include "run.h"
import "C"

import (
	"time"
	"unsafe"

	"dsstne/kernels"
)

// A rate is that of the fastest of short runs, because others may use the machine at the same time.
const (
	limitTime   = 40 * time.Millisecond // of the runs of a limit
	limitRounds = 1 << 18               // of a run: 1 ms on a CPU of 2.5 GHz
)

// Memory that is read has this many blocks of 1 MiB, shared out among the devices, and some for each worker: several
// times what caches hold.
const (
	limitBlocks       = 192
	limitWorkerBlocks = 16
)

// Limits measures the limits of this device's workers.
func (o Ops) Limits(devices int) (limits kernels.Limits, err error) {
	if limits.Float32, err = o.multiplyAdds(0); err != nil {
		return limits, err
	}
	limits.Products = limits.Float32
	if o.bfloat16 != 0 {
		if limits.Products, err = o.multiplyAdds(1); err != nil {
			return limits, err
		}
	}
	limits.Read, limits.Update, err = o.bandwidth(limitBlocks/devices + limitWorkerBlocks*o.Workers)
	return limits, err
}

func (o Ops) multiplyAdds(bfloat16 C.int32_t) (float64, error) {
	a := &C.machine_t{bfloat16: bfloat16, rounds: limitRounds}
	seconds, err := o.fastest(func() error { return o.do(&call{}, unsafe.Pointer(a), nil, C.run_limit_products) })
	return limitRounds * float64(a.each) * float64(o.Workers) / seconds, err
}

func (o Ops) bandwidth(blocks int) (read, update float64, err error) {
	const block = 1 << 18
	n := int64(blocks) * block
	memory, err := kernels.AllocHost(n)
	if err != nil {
		return 0, 0, err
	}
	defer memory.Free()
	// Pages that nobody has written may all be the same one.
	fill := &kernels.Fill{Kind: kernels.FillConstant, Scale: 1, Rows: int64(blocks), Columns: block, Out: memory}
	if err := o.Fill(fill); err != nil {
		return 0, 0, err
	}
	pass := func(update C.int32_t) (seconds float64) {
		if err == nil {
			seconds, err = o.fastest(func() error {
				a := &C.machine_t{memory: buffer(memory), count: C.int64_t(n), update: update}
				return o.do(&call{}, unsafe.Pointer(a), nil, C.run_limit_memory)
			})
		}
		return seconds
	}
	read, update = 4*float64(n)/pass(0), 8*float64(n)/pass(1)
	return read, update, err
}

// fastest runs something again and again, and returns the seconds of the fastest run.
func (o Ops) fastest(run func() error) (float64, error) {
	var best time.Duration
	for start := time.Now(); best == 0 || time.Since(start) < limitTime; {
		begin := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if taken := time.Since(begin); best == 0 || taken < best {
			best = taken
		}
	}
	return best.Seconds(), nil
}
