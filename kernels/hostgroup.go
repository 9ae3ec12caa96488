package kernels

// hostGroup joins devices whose buffers the host can reach. Each device's goroutine does its share of the work of a
// collective, on the part of the numbers that has its rank.
type hostGroup struct {
	*Meeting
	seat []Buffer // by rank: what it brought to the collective at hand
}

// hostRank is one rank's access to its group.
type hostRank struct {
	*hostGroup
	rank int
}

// NewHostGroup makes communicators for the given number of devices in the host's memory, by rank.
func NewHostGroup(ranks int) []Communicator {
	g := &hostGroup{Meeting: NewMeeting(ranks), seat: make([]Buffer, ranks)}
	list := make([]Communicator, ranks)
	for rank := range list {
		list[rank] = hostRank{g, rank}
	}
	return list
}

// together shows every rank what all have brought, and returns when all have done their share. Nobody's buffer is
// touched before its rank has come or after it has left.
func (r hostRank) together(brought Buffer, share func(rank int)) error {
	r.seat[r.rank] = brought
	if err := r.Meet(); err != nil {
		return err
	}
	share(r.rank)
	return r.Meet()
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

// Agree asks nobody: a rank that has failed does not come here.
func (r hostRank) Agree(_ *Step, collective func(Communicator) error) error { return collective(r) }

// Memory is 0: a group has no buffers of its own.
func (hostRank) Memory() int64 { return 0 }

func (g *hostGroup) Reset() error {
	clear(g.seat)
	g.Meeting.Reset()
	return nil
}
