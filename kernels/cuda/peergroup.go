//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"iter"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// peerGroup is a group of devices that copy to each other. In a collective their goroutines meet twice: when all have
// announced where their numbers are, and when all have put their share of the work into their streams. Events order
// what the devices do in between; no goroutine waits for a device.
type peerGroup struct {
	*kernels.Meeting
	devices []*device
	seat    []driver.Address // by rank: what it brought to the collective at hand
	// ready happens when a rank's buffers may be read and written by all, done when it has read and written those of
	// others.
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
	var list []membership
	for rank, d := range devices {
		r := &peerRank{peerGroup: g, rank: rank, own: d}
		list = append(list, r)
		if err := d.do("joining the devices", r.take); err != nil {
			for _, member := range list {
				err = errors.Join(err, member.leave())
			}
			return nil, err
		}
	}
	return list, nil
}

// take makes what a rank needs.
func (r *peerRank) take() (err error) {
	for _, peer := range r.others() {
		// Without access to each other's memory copies go by way of the host: they are slower, and as good.
		if can, err := r.own.context.Reaches(peer.context); err == nil && can {
			_ = r.own.context.EnablePeer(peer.context)
		}
	}
	for _, event := range []*driver.Event{&r.ready[r.rank], &r.done[r.rank]} {
		if *event, err = driver.NewEvent(); err != nil {
			return err
		}
	}
	r.scratch, err = driver.Alloc(r.scratchSize())
	return err
}

func (r *peerRank) scratchSize() int64 { return 4 * pieceSize * int64(len(r.devices)-1) }

// Memory is that for the numbers of others.
func (r *peerRank) Memory() int64 { return r.scratchSize() + wordSize }

func (*peerRank) String() string { return "peer copies" }

// captures: the hosts agree on addresses and events in each collective.
func (*peerRank) captures() bool { return false }

func (*peerRank) launch(graph func() error) error { return graph() }

// watch: a rank that has failed does not come to the meeting, and devices wait only for what was put into a stream.
func (*peerRank) watch() func() error { return func() error { return nil } }

// together shows every rank what all have brought, lets each put its share of the work into its stream, and makes the
// stream wait for what others do with the rank's buffers.
func (r *peerRank) together(what string, brought kernels.Buffer, n int64, share func()) error {
	return r.own.do(what, func() (err error) {
		if r.seat[r.rank], err = r.own.numbers(brought, n); err != nil {
			return err
		}
		if err := r.own.enqueue(r.own.joinGradients); err != nil {
			return err
		}
		if err := r.arrive(r.ready); err != nil {
			return err
		}
		if err := r.own.enqueue(share); err != nil {
			return err
		}
		return r.arrive(r.done)
	})
}

// arrive records how far the rank is, and makes its stream wait until all ranks are as far.
func (r *peerRank) arrive(events []driver.Event) error {
	if err := r.own.stream.Record(events[r.rank]); err != nil {
		return err
	}
	if err := r.Meet(); err != nil {
		return err
	}
	for rank := range r.others() {
		if err := r.own.stream.Wait(events[rank]); err != nil {
			return err
		}
	}
	return nil
}

// others are the other ranks and their devices.
func (r *peerRank) others() iter.Seq2[int, *device] {
	return func(yield func(int, *device) bool) {
		for rank, d := range r.devices {
			if rank != r.rank && !yield(rank, d) {
				return
			}
		}
	}
}

// copy copies n numbers between the own device and another, or within it.
func (r *peerRank) copy(to driver.Address, receiver *device, from driver.Address, sender *device, n int64) {
	switch {
	case r.own.failed != nil:
	case receiver == sender:
		r.own.failed = r.own.stream.Copy(to, from, 4*n)
	default:
		r.own.failed = r.own.stream.CopyPeer(to, receiver.context, from, sender.context, 4*n)
	}
}

// send copies n numbers of the own device to every other rank, to element `at` of what that has brought.
func (r *peerRank) send(from driver.Address, n, at int64) {
	for rank, d := range r.others() {
		r.copy(r.seat[rank]+driver.Address(4*at), d, from, r.own, n)
	}
}

// AllReduce adds up a share of the numbers on each rank and sends the sums to the others.
func (r *peerRank) AllReduce(b kernels.Buffer, n int64) error {
	return r.together("all-reduce", b, n, func() {
		ranks := int64(len(r.devices))
		at, end := n*int64(r.rank)/ranks, n*int64(r.rank+1)/ranks
		for ; at < end; at += pieceSize {
			r.sum(at, min(pieceSize, end-at))
		}
	})
}

func (r *peerRank) sum(at, n int64) {
	type args struct {
		own, parts    driver.Address
		count, stride int64
		rank, ranks   int32
	}
	place := r.scratch
	for rank, d := range r.others() {
		r.copy(place, r.own, r.seat[rank]+driver.Address(4*at), d, n)
		place += driver.Address(4 * n)
	}
	own := r.seat[r.rank] + driver.Address(4*at)
	launch(r.own, "add_parts", driver.Dim{X: min(blocks(n, 256), 4096)}, 256,
		&args{own, r.scratch, n, n, int32(r.rank), int32(len(r.devices))})
	r.send(own, n, at)
}

// AllGather sends each rank's part to all.
func (r *peerRank) AllGather(part, all kernels.Buffer, n int64) error {
	return r.together("all-gather", all, n*int64(len(r.devices)), func() {
		from, err := r.own.numbers(part, n)
		r.own.note(err)
		if n > 0 {
			at := n * int64(r.rank)
			r.copy(r.seat[r.rank]+driver.Address(4*at), r.own, from, r.own, n)
			r.send(from, n, at)
		}
	})
}

// Broadcast sends the root's numbers to all.
func (r *peerRank) Broadcast(b kernels.Buffer, n int64, root int) error {
	return r.together("broadcast", b, n, func() {
		if r.rank == root && n > 0 {
			r.send(r.seat[root], n, 0)
		}
	})
}

// Agree asks all ranks by a sum of its own.
func (r *peerRank) Agree(s *kernels.Step, collective func(kernels.Communicator) error) error {
	return r.own.agree(s, len(r.devices), func() error {
		if err := collective(r); err != nil {
			return err
		}
		return r.AllReduce(&buffer{device: r.own, at: r.own.agreement.well, n: 1}, 1)
	})
}

// Reset waits for copies that ranks had begun when another left. A device that does not answer says so when it is used.
func (r *peerRank) Reset() error {
	_ = r.own.do("joining the devices again", r.own.stream.Synchronize)
	r.Meeting.Reset()
	return nil
}

// leave gives back what the rank has of the driver's.
func (r *peerRank) leave() error {
	r.Abort()
	err := errors.Join(r.ready[r.rank].Close(), r.done[r.rank].Close(), driver.Free(r.scratch))
	r.ready[r.rank], r.done[r.rank], r.scratch = driver.Event{}, driver.Event{}, 0
	return err
}
