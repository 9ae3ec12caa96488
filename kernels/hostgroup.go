package kernels

import "sync"

// hostGroup joins devices whose buffers the host can reach. Each device's goroutine does its share of the work of a
// collective, on the part of the numbers that has its rank.
type hostGroup struct {
	ranks int
	seat  []Buffer // by rank: what it brought to the collective at hand

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	arrived int
	round   uint64
	aborted bool
}

// hostRank is one rank's access to its group.
type hostRank struct {
	*hostGroup
	rank int
}

// NewHostGroup makes the communicators of so many devices in the host's memory, by rank.
func NewHostGroup(ranks int) []Communicator {
	g := &hostGroup{ranks: ranks, seat: make([]Buffer, ranks)}
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
	defer g.mu.Unlock()
	if g.aborted {
		return ErrAborted
	}
	round := g.round
	if g.arrived++; g.arrived == g.ranks {
		g.arrived, g.round = 0, round+1
		g.changed.Broadcast()
	}
	for g.round == round && !g.aborted {
		g.changed.Wait()
	}
	if g.round == round {
		return ErrAborted
	}
	return nil
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
	g.aborted = true
	g.changed.Broadcast()
}

func (g *hostGroup) Reset() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.aborted, g.arrived = false, 0
	clear(g.seat)
	return nil
}
