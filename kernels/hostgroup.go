package kernels

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a rank looks before it sleeps: waking it takes as long as an op of a small network.
const patience = 50 * time.Microsecond

// hostGroup joins devices whose buffers the host can reach. Each device's goroutine does its share of the work of a
// collective, on the part of the numbers that has its rank.
type hostGroup struct {
	ranks int
	seat  []Buffer // by rank: what it brought to the collective at hand
	look  bool     // every rank has a processor, so that one may look on without keeping another from working

	round   atomic.Uint64 // meetings that have taken place
	aborted atomic.Bool
	mu      sync.Mutex // guards arrived, and changes of round and aborted
	arrived int
	changed *sync.Cond
}

// hostRank is one rank's access to its group.
type hostRank struct {
	*hostGroup
	rank int
}

// NewHostGroup makes the communicators of so many devices in the host's memory, by rank.
func NewHostGroup(ranks int) []Communicator {
	g := &hostGroup{ranks: ranks, seat: make([]Buffer, ranks), look: ranks <= runtime.GOMAXPROCS(0)}
	g.changed = sync.NewCond(&g.mu)
	list := make([]Communicator, ranks)
	for rank := range list {
		list[rank] = hostRank{g, rank}
	}
	return list
}

// meet returns when all ranks have called it.
func (g *hostGroup) meet() error {
	g.mu.Lock()
	if g.aborted.Load() {
		g.mu.Unlock()
		return ErrAborted
	}
	round := g.round.Load()
	if g.arrived++; g.arrived == g.ranks {
		g.arrived = 0
		g.round.Store(round + 1)
		g.changed.Broadcast()
	}
	g.mu.Unlock()
	if g.look {
		g.lookFor(round)
	}
	if g.round.Load() != round {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.round.Load() == round && !g.aborted.Load() {
		g.changed.Wait()
	}
	if g.round.Load() == round {
		return ErrAborted
	}
	return nil
}

// lookFor returns when the round is over, or nearly at once if that takes long.
func (g *hostGroup) lookFor(round uint64) {
	for begin := time.Now(); time.Since(begin) < patience; {
		for range 64 {
			if g.round.Load() != round || g.aborted.Load() {
				return
			}
		}
	}
}

// together shows every rank what all have brought, and returns when all have done their share. Nobody's buffer is touched
// before its rank has come or after it has left.
func (r hostRank) together(brought Buffer, share func(rank int)) error {
	r.seat[r.rank] = brought
	if err := r.meet(); err != nil {
		return err
	}
	share(r.rank)
	return r.meet()
}

// AllReduce sums a share of the numbers on each rank: in rank 0's buffer, from where the sums are copied to the others.
func (r hostRank) AllReduce(b Buffer, n int64) error {
	return r.together(b, func(rank int) {
		from, to := n*int64(rank)/int64(r.ranks), n*int64(rank+1)/int64(r.ranks)
		if from == to {
			return
		}
		sum := r.seat[0].Float32()[from:to]
		for _, other := range r.seat[1:] {
			add(sum, other.Float32()[from:to])
		}
		for _, other := range r.seat[1:] {
			copy(other.Float32()[from:to], sum)
		}
	})
}

func add(sum, x []float32) {
	sum = sum[:len(x)]
	for i, v := range x {
		sum[i] += v
	}
}

// AllGather copies on each rank into its own buffer.
func (r hostRank) AllGather(part, all Buffer, n int64) error {
	return r.together(part, func(int) {
		for rank, other := range r.seat {
			copy(all.Float32()[int64(rank)*n:int64(rank+1)*n], other.Float32()[:n])
		}
	})
}

// Broadcast copies on each rank but the root.
func (r hostRank) Broadcast(b Buffer, n int64, root int) error {
	return r.together(b, func(rank int) {
		if rank != root && n > 0 {
			copy(b.Float32()[:n], r.seat[root].Float32()[:n])
		}
	})
}

func (g *hostGroup) Abort() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.aborted.Store(true)
	g.changed.Broadcast()
}

func (g *hostGroup) Reset() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.aborted.Store(false)
	g.arrived = 0
	clear(g.seat)
	return nil
}
