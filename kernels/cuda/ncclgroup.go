//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
	"dsstne/kernels/cuda/nccl"
)

// ncclGroup is a group of devices that NCCL joins. A collective is work in each device's stream, where a kernel waits for those of
// the other ranks. Until it ends, the driver may keep back whoever loads code, instantiates a graph or allocates, and with them
// the rank that is waited for (NCCL's documentation warns of graphs of several devices in one process, and XLA has met both). So
// the ranks meet on the host when all that is done, before the first of them launches; and behind a collective that is not
// in a graph, before the first goes on. Nobody waits there for work of a device.
type ncclGroup struct {
	devices []*device
	meeting *kernels.Meeting
	taken   []int64 // by rank: memory of the device

	mu      sync.RWMutex // guards what follows
	ranks   []*nccl.Communicator
	aborted bool          // the communicators are no more
	failure error         // of a collective, in the background
	apart   error         // why the group could not be joined again
	gone    chan struct{} // closed when the library has ended communicators that were aborted
	left    bool
}

type ncclRank struct {
	*ncclGroup
	rank int
}

func joinNCCL(devices []*device) ([]membership, error) {
	g := &ncclGroup{devices: devices, meeting: kernels.NewMeeting(len(devices))}
	if err := g.join(); err != nil {
		return nil, err
	}
	list := make([]membership, len(devices))
	for rank := range list {
		list[rank] = ncclRank{g, rank}
	}
	return list, nil
}

// join makes the communicators, and measures what the library takes of the devices' memory. What it takes later, with the first
// collective of a kind, and what others take or give back meanwhile, is not known.
func (g *ncclGroup) join() error {
	before := g.free()
	ranks, err := g.communicators()
	if err != nil {
		return err
	}
	g.taken = make([]int64, len(before))
	for rank, after := range g.free() {
		if after > 0 {
			g.taken[rank] = max(0, before[rank]-after)
		}
	}
	for _, d := range g.devices {
		d.agreement.say(false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ranks, g.aborted, g.failure, g.apart = ranks, false, nil, nil
	g.meeting.Reset()
	return nil
}

// free is how many bytes of each device are free, 0 where it does not say.
func (g *ncclGroup) free() []int64 {
	list := make([]int64, len(g.devices))
	for rank, d := range g.devices {
		_ = d.do("asking for free memory", func() (err error) {
			list[rank], _, err = driver.MemoryInfo()
			return err
		})
	}
	return list
}

func (g *ncclGroup) communicators() (ranks []*nccl.Communicator, err error) {
	enter := make([]func() (func(), error), len(g.devices))
	for rank, d := range g.devices {
		enter[rank] = d.context.Enter
	}
	// On one thread, which is in some context of ours: the library changes the current device, and gives it back or not.
	err = g.devices[0].do("joining the devices", func() (err error) {
		if ranks, err = nccl.Join(enter); err != nil {
			return fault.Wrap(err, "%d devices cannot be joined by NCCL %s (without libnccl.so.2 they copy to each other)",
				len(g.devices), nccl.Version())
		}
		return nil
	})
	return ranks, err
}

func (r ncclRank) String() string { return "NCCL " + nccl.Version() }

// captures: a collective is a launch like others.
func (ncclRank) captures() bool { return true }

// communicator is the rank's, or an error says why there is none.
func (r ncclRank) communicator() (*nccl.Communicator, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch {
	case !r.aborted:
		return r.ranks[r.rank], nil
	case r.apart != nil:
		return nil, r.apart
	}
	return nil, kernels.ErrAborted
}

// launch: a group that is aborted meanwhile does no harm, since what the graph refers to lives as long as it. So nobody who wants
// to abort it has to wait for a launch, which itself may wait for room in its queue, and for another rank.
func (r ncclRank) launch(work func() error) error {
	if _, err := r.communicator(); err != nil {
		return err
	}
	if err := r.meeting.Meet(); err != nil {
		return err
	}
	if err := r.devices[r.rank].takeTurn(); err != nil {
		return err
	}
	return work()
}

// put puts a collective of n numbers into the rank's stream.
func (r ncclRank) put(what string, n int64, work func(*nccl.Communicator, unsafe.Pointer) error) error {
	c, err := r.communicator()
	if err != nil || n == 0 {
		return err
	}
	d := r.devices[r.rank]
	collective := func() error {
		return d.do(what, func() error { return work(c, d.stream.Handle()) })
	}
	if d.capturing != nil {
		d.capturing.joint = true
		err = collective()
	} else if err = r.launch(collective); err == nil {
		err = r.meeting.Meet()
	}
	if err != nil && !errors.Is(err, kernels.ErrAborted) {
		return fault.Wrap(err, "%s, %s", d.info.Name, what)
	}
	return err
}

func (r ncclRank) AllReduce(b kernels.Buffer, n int64) error {
	at, err := r.devices[r.rank].numbers(b, n)
	if err != nil {
		return err
	}
	return r.put("all-reduce", n, func(c *nccl.Communicator, stream unsafe.Pointer) error {
		return c.AllReduce(uint64(at), n, stream)
	})
}

func (r ncclRank) AllGather(part, all kernels.Buffer, n int64) error {
	d := r.devices[r.rank]
	from, err := d.numbers(part, n)
	if err != nil {
		return err
	}
	to, err := d.numbers(all, n*int64(len(r.devices)))
	if err != nil {
		return err
	}
	return r.put("all-gather", n, func(c *nccl.Communicator, stream unsafe.Pointer) error {
		return c.AllGather(uint64(from), uint64(to), n, stream)
	})
}

func (r ncclRank) Broadcast(b kernels.Buffer, n int64, root int) error {
	at, err := r.devices[r.rank].numbers(b, n)
	if err != nil {
		return err
	}
	return r.put("broadcast", n, func(c *nccl.Communicator, stream unsafe.Pointer) error {
		return c.Broadcast(uint64(at), n, root, stream)
	})
}

func (r ncclRank) Memory() int64 { return r.taken[r.rank] + wordSize }

// Agree asks all ranks by a sum.
func (r ncclRank) Agree(s *kernels.Step) error { return r.devices[r.rank].agree(s, len(r.devices), r) }

// Abort ends all communicators: a kernel of the library that waits for another rank returns, and what is behind it in the
// stream goes on with sums that are none. So the devices are told before. The library does not return from this before the graphs
// are gone, so it is asked in the background, for all ranks at once: the kernel of one may wait for another.
func (g *ncclGroup) Abort() { g.abort(nil) }

func (g *ncclGroup) abort(failure error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failure == nil {
		g.failure = failure
	}
	if g.aborted {
		return
	}
	g.aborted = true
	g.meeting.Abort()
	for _, d := range g.devices {
		d.agreement.say(true)
	}
	g.gone = make(chan struct{})
	go g.ended(g.ranks, g.gone)
}

// ended returns when the library has ended the communicators of all ranks. It is asked in the rank's context: without one it
// would take device 0 for the current one, and a context there. If one panics, gone stays open, and who waits for it says so.
func (g *ncclGroup) ended(ranks []*nccl.Communicator, gone chan<- struct{}) {
	var all sync.WaitGroup
	var panics atomic.Bool
	for rank, c := range ranks {
		all.Go(func() {
			defer func() {
				if recover() != nil {
					panics.Store(true)
				}
			}()
			if leave, err := g.devices[rank].context.Enter(); err == nil { // the context of a device that is lost is none
				defer leave()
			}
			c.Abort()
		})
	}
	all.Wait()
	if !panics.Load() {
		close(gone)
	}
}

// How long the library may take to end communicators that nothing refers to any more; less if a device is lost, for which it may
// wait for ever.
const (
	patience = time.Minute
	moment   = 200 * time.Millisecond
)

// end waits until communicators that were aborted are gone. The library keeps them for as long as there are graphs that were
// captured with them, so these are given back on all devices, when what is under way has ended. A device that fails in this is no
// reason not to wait: the others want their memory back.
func (g *ncclGroup) end() error {
	var err error
	for _, d := range g.devices {
		if !d.closed {
			err = errors.Join(err, d.do("ending a group", func() error {
				return errors.Join(d.stream.Synchronize(), d.closeGraphs())
			}))
		}
	}
	limit := patience
	if driver.Lost(err) {
		limit = moment
	}
	select {
	case <-g.gone:
		return err
	case <-time.After(limit):
		return errors.Join(err, fault.New(fault.DeviceFailed, "NCCL has not ended its communicators within %v", limit))
	}
}

// Reset joins the devices anew, if the group was aborted. If it fails, the group stays so, and says why when it is used.
func (g *ncclGroup) Reset() error {
	g.mu.RLock()
	aborted := g.aborted
	g.mu.RUnlock()
	if !aborted {
		return nil
	}
	err := g.end()
	if err == nil {
		err = g.join()
	}
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.apart = err
	}
	return err
}

func (r ncclRank) watch() (end func() error) { return repeat(watchInterval, r.look) }

func (r ncclRank) now() (c *nccl.Communicator, aborted bool, failure error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ranks[r.rank], r.aborted, r.failure
}

// look asks the library about the rank's communicator; if it has failed, all are ended.
func (r ncclRank) look() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "panic: %s", fmt.Sprint(p))
		}
	}()
	c, aborted, failure := r.now()
	switch {
	case failure != nil:
		return failure
	case aborted:
		return kernels.ErrAborted
	}
	if err = c.Check(); err != nil && !errors.Is(err, kernels.ErrAborted) {
		err = fault.Wrap(err, "%s", r.devices[r.rank].info.Name)
		r.abort(err)
	}
	return err
}

// leave ends the communicators, with the first of the devices that is closed. One that is lost says so when it is used.
func (g *ncclGroup) leave() error {
	if g.left {
		return nil
	}
	g.left = true
	g.Abort()
	if err := g.end(); !driver.Lost(err) {
		return err
	}
	return nil
}
