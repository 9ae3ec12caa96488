//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// peerGroup is a group of devices that copy to each other. In a collective their goroutines meet twice: when each has told
// where its numbers are, and when each has put its part of the work into its stream. What the devices do in between they
// order by events, and no goroutine waits for a device.
type peerGroup struct {
	*kernels.Meeting
	devices []*device
	seat    []driver.Address // by rank: what it brought to the collective at hand
	// ready happens when a rank's buffers may be read and written by all, done when it has read and written those of others.
	ready, done []driver.Event
}

type peerRank struct {
	*peerGroup
	rank    int
	own     *device
	scratch driver.Address // [ranks - 1, pieceSize]
}

// pieceSize is how many numbers of an all-reduce are added at a time: 4 MiB from each rank.
const pieceSize = 1 << 20

func joinPeers(devices []*device) ([]membership, error) {
	ranks := len(devices)
	g := &peerGroup{
		Meeting: kernels.NewMeeting(ranks), devices: devices, seat: make([]driver.Address, ranks),
		ready: make([]driver.Event, ranks), done: make([]driver.Event, ranks),
	}
	list := make([]membership, ranks)
	for rank, d := range devices {
		r := &peerRank{peerGroup: g, rank: rank, own: d}
		if err := d.do("joining the devices", r.take); err != nil {
			for _, other := range list[:rank] {
				err = errors.Join(err, other.leave())
			}
			return nil, errors.Join(err, r.leave())
		}
		list[rank] = r
	}
	return list, nil
}

// take makes what a rank needs.
func (r *peerRank) take() (err error) {
	for _, peer := range r.devices {
		if peer == r.own {
			continue
		}
		// Without access to each other's memory copies go by way of the host: they are slower, and as good.
		if can, err := r.own.context.Reaches(peer.context); err == nil && can {
			_ = r.own.context.EnablePeer(peer.context)
		}
	}
	if r.ready[r.rank], err = driver.NewEvent(); err != nil {
		return err
	}
	if r.done[r.rank], err = driver.NewEvent(); err != nil {
		return err
	}
	r.scratch, err = driver.Alloc(r.scratchSize())
	return err
}

func (r *peerRank) scratchSize() int64 { return 4 * pieceSize * int64(len(r.devices)-1) }

// Memory is that for the numbers of others.
func (r *peerRank) Memory() int64 { return r.scratchSize() + wordSize }

func (*peerRank) String() string { return "peer copies" }

// captures: where a rank's numbers are, and what it waits for, is agreed upon by the host in each collective.
func (*peerRank) captures() bool { return false }

func (*peerRank) launch(graph func() error) error { return graph() }

// watch: who has failed does not come to the meeting, and devices do not wait for what was not put into a stream.
func (*peerRank) watch() func() error { return func() error { return nil } }

// together shows every rank what all have brought, lets each put its share of the work into its stream, and makes the stream
// wait for what others do with the rank's buffers.
func (r *peerRank) together(what string, brought kernels.Buffer, n int64, share func() error) error {
	return r.own.do(what, func() (err error) {
		if r.seat[r.rank], err = r.own.numbers(brought, n); err != nil {
			return err
		}
		if err := r.arrive(r.ready); err != nil {
			return err
		}
		if err := share(); err != nil {
			return err
		}
		return r.arrive(r.done)
	})
}

// arrive tells the others how far the rank is, and makes its stream wait until all are as far.
func (r *peerRank) arrive(events []driver.Event) error {
	if err := r.own.stream.Record(events[r.rank]); err != nil {
		return err
	}
	if err := r.Meet(); err != nil {
		return err
	}
	for rank, event := range events {
		if rank == r.rank {
			continue
		}
		if err := r.own.stream.Wait(event); err != nil {
			return err
		}
	}
	return nil
}

// each is called with the rank and the context of every other device.
func (r *peerRank) others(work func(rank int, context *driver.Context) error) error {
	for rank, d := range r.devices {
		if rank == r.rank {
			continue
		}
		if err := work(rank, d.context); err != nil {
			return err
		}
	}
	return nil
}

// send copies n numbers of the rank's own to every other rank, to the place that is that far from what it brought.
func (r *peerRank) send(from driver.Address, n, at int64) error {
	return r.others(func(rank int, context *driver.Context) error {
		return r.own.stream.CopyPeer(r.seat[rank]+driver.Address(4*at), context, from, r.own.context, 4*n)
	})
}

// AllReduce adds up a share of the numbers on each rank and sends the sums to the others.
func (r *peerRank) AllReduce(b kernels.Buffer, n int64) error {
	return r.together("all-reduce", b, n, func() error {
		ranks := int64(len(r.devices))
		at, end := n*int64(r.rank)/ranks, n*int64(r.rank+1)/ranks
		for ; at < end; at += pieceSize {
			if err := r.sum(at, min(pieceSize, end-at)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *peerRank) sum(at, n int64) error {
	type args struct {
		own, parts    driver.Address
		count, stride int64
		rank, ranks   int32
	}
	place := r.scratch
	err := r.others(func(rank int, context *driver.Context) error {
		to := place
		place += driver.Address(4 * n)
		return r.own.stream.CopyPeer(to, r.own.context, r.seat[rank]+driver.Address(4*at), context, 4*n)
	})
	if err != nil {
		return err
	}
	own := r.seat[r.rank] + driver.Address(4*at)
	a := &args{own, r.scratch, n, n, int32(r.rank), int32(len(r.devices))}
	err = r.own.enqueue(func() { launch(r.own, "add_parts", driver.Dim{X: min(blocks(n, 256), 4096)}, 256, a) })
	if err != nil {
		return err
	}
	return r.send(own, n, at)
}

// AllGather sends each rank's part to all.
func (r *peerRank) AllGather(part, all kernels.Buffer, n int64) error {
	return r.together("all-gather", all, n*int64(len(r.devices)), func() error {
		from, err := r.own.numbers(part, n)
		if err != nil || n == 0 {
			return err
		}
		at := n * int64(r.rank)
		if err := r.own.stream.Copy(r.seat[r.rank]+driver.Address(4*at), from, 4*n); err != nil {
			return err
		}
		return r.send(from, n, at)
	})
}

// Broadcast sends the root's numbers to all.
func (r *peerRank) Broadcast(b kernels.Buffer, n int64, root int) error {
	return r.together("broadcast", b, n, func() error {
		if r.rank != root || n == 0 {
			return nil
		}
		return r.send(r.seat[root], n, 0)
	})
}

// Agree asks all ranks by a sum.
func (r *peerRank) Agree(s *kernels.Step) error { return r.own.agree(s, len(r.devices), r) }

// Reset waits for copies that ranks had begun when another left. A device that does not answer says so when it is used.
func (r *peerRank) Reset() error {
	_ = r.own.do("joining the devices again", r.own.stream.Synchronize)
	r.Meeting.Reset()
	return nil
}

// leave gives back what the rank has of the driver's.
func (r *peerRank) leave() (err error) {
	r.Abort()
	for _, events := range [][]driver.Event{r.ready, r.done} {
		if events[r.rank] != (driver.Event{}) {
			err = errors.Join(err, events[r.rank].Close())
			events[r.rank] = driver.Event{}
		}
	}
	if r.scratch != 0 {
		err = errors.Join(err, driver.Free(r.scratch))
		r.scratch = 0
	}
	return err
}
