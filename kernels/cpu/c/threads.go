package c

/*
#include "pool.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"time"
)

// Go ends the process if the system refuses it a thread (RLIMIT_NPROC, pids.max of a cgroup, RLIMIT_AS). Workers are
// therefore claimed before they are made, and a claim tries how many threads there are: what a limit leaves cannot be
// computed, because a container sees neither the user's other processes nor the cgroups around it.

// proof is how long a claim relies on what was tried. A system that starts ample threads more has enough for claims
// that are far above what is present, such as those of many idle devices.
const (
	proof = time.Second
	ample = 128
)

// threads counts the workers of the open devices.
var threads struct {
	mu      sync.Mutex
	claimed int
	present int // workers with a thread
	most    int // the most that were present; Go keeps their threads
	proven  int // claims for which there were threads
	tried   time.Time
}

// spare is how many threads a claim leaves for Go: one that runs and one that waits for the system on each processor,
// and some for its own work.
func spare() int { return 2*runtime.GOMAXPROCS(0) + 4 }

// Go makes threads up to GOMAXPROCS by itself.
func init() {
	if got := startable(spare()); got < spare() {
		runtime.GOMAXPROCS(max(1, (got-4)/2))
	}
}

// startable returns how many threads the system lets this process start, at most n.
func startable(n int) int { return int(C.pool_startable(C.int32_t(n))) }

// ClaimThreads returns for how many workers there are threads beside those that others have claimed, at most n. The
// caller gives them back by ReleaseThreads.
func ClaimThreads(n int) int {
	t := &threads
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted := t.claimed + n
	if wanted > t.most && (wanted > t.proven || time.Since(t.tried) > proof) {
		more := min(wanted-t.most, ample)
		got := max(0, startable(more+spare())-spare())
		if t.proven = t.most + got; got == ample {
			t.proven = wanted + ample
		}
		t.tried = time.Now()
	}
	n = max(0, min(n, max(t.most, t.proven)-t.claimed))
	t.claimed += n
	return n
}

// ReleaseThreads gives back what ClaimThreads returned.
func ReleaseThreads(n int) {
	threads.mu.Lock()
	defer threads.mu.Unlock()
	threads.claimed -= n
}

// countPresent adds to the number of workers with a thread.
func countPresent(n int) {
	threads.mu.Lock()
	defer threads.mu.Unlock()
	threads.present += n
	threads.most = max(threads.most, threads.present)
}
