//go:build faultinject

package kernels

import "sync/atomic"

// countdown is the number of allocations until one is refused.
var countdown atomic.Int64

// RefuseAllocation lets the n-th allocation of host memory from now on fail, as if the system had none left; 0: none.
func RefuseAllocation(n int64) { countdown.Store(n) }

func refused() bool { return countdown.Add(-1) == 0 }
