package devices

import (
	"cmp"
	"runtime"
	"slices"
	"sync"

	"dsstne/kernels"
)

// running are the placements on the host that compute at the moment. Those whose user named a number of threads have
// it; the others share what is left of the process's threads, as equally as their sizes allow, with at least one for
// each device. No result depends on it.
var running struct {
	sync.Mutex
	list []*Opened
}

// Compute announces a run on the devices, which is the only one on them until the caller calls end.
func (o *Opened) Compute() (end func()) {
	if o.threads == 0 {
		return func() {}
	}
	running.Lock()
	defer running.Unlock()
	running.list = append(running.list, o)
	share()
	return o.computed
}

// Threads is on how many threads the host works for a run at the moment.
func (o *Opened) Threads() int {
	running.Lock()
	defer running.Unlock()
	return cmp.Or(o.share, o.threads, Threads(0), runtime.GOMAXPROCS(0))
}

// computed ends a run: outside of one, devices use all of their threads, as when they are measured.
func (o *Opened) computed() {
	running.Lock()
	defer running.Unlock()
	running.list = slices.DeleteFunc(running.list, func(r *Opened) bool { return r == o })
	o.useThreads(o.threads)
	share()
}

// share divides the threads among the runs.
func share() {
	left := cmp.Or(Threads(0), runtime.GOMAXPROCS(0))
	sharing := make([]*Opened, 0, len(running.list))
	for _, o := range running.list {
		if o.named {
			left -= o.threads
		} else {
			sharing = append(sharing, o)
		}
	}
	// What a small one cannot use is for those behind it.
	slices.SortStableFunc(sharing, func(a, b *Opened) int { return a.threads - b.threads })
	for i, o := range sharing {
		n := min(o.threads, max(len(o.Ranks), left/(len(sharing)-i)))
		o.useThreads(n)
		left -= n
	}
}

// useThreads divides threads among the ranks.
func (o *Opened) useThreads(n int) {
	o.share = n
	for id, r := range o.Ranks {
		r.Device.(kernels.Threaded).UseThreads(kernels.VirtualThreads(n, id, len(o.Ranks)))
	}
}
