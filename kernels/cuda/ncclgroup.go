//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
	"dsstne/kernels/cuda/nccl"
)

// ncclGroup is a group of devices that NCCL joins. A collective is work in each device's stream, where a kernel waits
// for those of the other ranks. Until it ends, the driver may keep back a thread that loads code, instantiates a graph
// or allocates, and with it the rank that the kernel waits for (NCCL's documentation warns of graphs of several devices
// in one process, and XLA has met both). Therefore the ranks meet on the host when all of them have done that, before
// the first launches; and behind a collective outside a graph, before the first goes on. No thread waits there for work
// of a device.
type ncclGroup struct {
	devices []*device
	meeting *kernels.Meeting
	taken   []int64 // by rank: memory of the device

	mu      sync.RWMutex // guards what follows
	ranks   []*nccl.Communicator
	aborted bool          // the communicators have been ended
	failure error         // of a collective, in the background
	apart   error         // why the group could not be joined again
	gone    chan struct{} // closed when the library has ended communicators that were aborted
	left    bool
}

type ncclRank struct {
	*ncclGroup
	rank int
	asks bool // each collective sums up the ranks' answers, too
}

func joinNCCL(devices []*device) ([]membership, error) {
	g := &ncclGroup{devices: devices, meeting: kernels.NewMeeting(len(devices))}
	if err := g.join(); err != nil {
		return nil, err
	}
	list := make([]membership, len(devices))
	for rank := range list {
		list[rank] = ncclRank{ncclGroup: g, rank: rank}
	}
	return list, nil
}

// join makes the communicators, and measures how much of the devices' memory the library takes. What it takes later,
// with the first collective of a kind, and what others take or give back meanwhile, is not known.
func (g *ncclGroup) join() error {
	before := g.free()
	enter := make([]func() (func(), error), len(g.devices))
	for rank, d := range g.devices {
		enter[rank] = d.context.Enter
	}
	var ranks []*nccl.Communicator
	// On one thread, in a context of ours: the library changes the current device, and may not restore it.
	err := g.devices[0].do("joining the devices", func() (err error) {
		if ranks, err = nccl.Join(enter); err != nil {
			return fault.Wrap(err, "%d devices cannot be joined by NCCL %s (without libnccl.so.2 they copy to each other)",
				len(g.devices), nccl.Version())
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.taken = make([]int64, len(before))
	for rank, after := range g.free() {
		if after > 0 {
			g.taken[rank] = max(0, before[rank]-after)
		}
		g.devices[rank].agreement.say(false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ranks, g.aborted, g.failure, g.apart = ranks, false, nil, nil
	g.meeting.Reset()
	return nil
}

// free is how many bytes of each device are free, 0 where that is unknown.
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

// launch holds no lock: if the group is aborted meanwhile, what the graph refers to lives as long as the graph. Abort
// therefore need not wait for a launch, which itself may wait for room in its queue, and for another rank.
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

// put puts a collective of n numbers, which writes toCount, into the rank's stream.
func (r ncclRank) put(what string, n int64, from, to kernels.Buffer, toCount int64, work nccl.Collective) error {
	d := r.devices[r.rank]
	in, err := d.numbers(from, n)
	if err != nil {
		return err
	}
	out, err := d.numbers(to, toCount)
	if err != nil {
		return err
	}
	c, err := r.communicator()
	var works []nccl.Work
	if n > 0 {
		works = append(works, nccl.Work{Collective: work, From: uint64(in), To: uint64(out), N: n})
	}
	if well := uint64(d.agreement.well); r.asks {
		works = append(works, nccl.Work{Collective: nccl.AllReduce, From: well, To: well, N: 1})
	}
	if err != nil || len(works) == 0 {
		return err
	}
	collective := func() error {
		return d.do(what, func() error {
			if err := d.enqueue(d.joinGradients); err != nil {
				return err
			}
			return c.Put(d.stream.Handle(), works)
		})
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
	return r.put("all-reduce", n, b, b, n, nccl.AllReduce)
}

func (r ncclRank) AllGather(part, all kernels.Buffer, n int64) error {
	return r.put("all-gather", n, part, all, n*int64(len(r.devices)), nccl.AllGather)
}

func (r ncclRank) Broadcast(b kernels.Buffer, n int64, root int) error {
	return r.put("broadcast", n, b, b, n, nccl.Broadcast(root))
}

func (r ncclRank) Memory() int64 { return r.taken[r.rank] + wordSize }

// Agree lets the collective carry the question: the library does both in one launch.
func (r ncclRank) Agree(s *kernels.Step, collective func(kernels.Communicator) error) error {
	r.asks = true
	return r.devices[r.rank].agree(s, len(r.devices), func() error { return collective(r) })
}

// Abort ends all communicators: a kernel of the library that waits for another rank returns, and what follows it in the
// stream goes on with wrong sums, of which the devices are told before. The library does not return from this call
// before the graphs are gone, so it is called in the background, for all ranks at once: the kernel of one may wait for
// another.
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

// ended returns when the library has ended the communicators of all ranks. Each call is made in the rank's context:
// without one the library would take device 0 for the current one, and make a context there. If a call panics, gone
// stays open, and the function that waits for it reports that.
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

// How long the library may take to end communicators that nothing refers to any more; if a device is lost, it may wait
// for ever.
const (
	patience         = time.Minute
	patienceWithLost = 200 * time.Millisecond
)

// end waits until communicators that were aborted are gone. The library keeps them as long as there are graphs that
// were captured with them; therefore all devices give their graphs back, when what is under way has ended. If one
// device fails in this, the others still want their memory back.
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
		limit = patienceWithLost
	}
	select {
	case <-g.gone:
		return err
	case <-time.After(limit):
		return errors.Join(err, fault.New(fault.DeviceFailed, "NCCL has not ended its communicators within %v", limit))
	}
}

// Reset joins the devices anew, if the group was aborted. If that fails, the group stays aborted, and says why when it
// is used.
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

// look asks the library about the rank's communicator; if it has failed, all are ended.
func (r ncclRank) look() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "panic: %s", fmt.Sprint(p))
		}
	}()
	r.mu.RLock()
	c, aborted, failure := r.ranks[r.rank], r.aborted, r.failure
	r.mu.RUnlock()
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
