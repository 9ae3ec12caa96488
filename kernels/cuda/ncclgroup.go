//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"dsstne/engine/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
	"dsstne/kernels/cuda/nccl"
)

// ncclGroup is a group of devices that NCCL joins. Nobody waits on the host: a collective is work in each device's stream.
type ncclGroup struct {
	devices []*device
	taken   []int64 // by rank: memory of the device

	mu      sync.RWMutex // guards what follows
	ranks   []*nccl.Communicator
	aborted bool
	failure error // of a collective, in the background
}

type ncclRank struct {
	*ncclGroup
	rank int
}

func joinNCCL(devices []*device) ([]membership, error) {
	g := &ncclGroup{devices: devices}
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
	if err := g.communicators(); err != nil {
		return err
	}
	g.taken = make([]int64, len(before))
	for rank, after := range g.free() {
		if after > 0 {
			g.taken[rank] = max(0, before[rank]-after)
		}
	}
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

func (g *ncclGroup) communicators() error {
	enter := make([]func() (func(), error), len(g.devices))
	for rank, d := range g.devices {
		enter[rank] = d.context.Enter
	}
	// On one thread, which is in some context of ours: the library changes the current device, and gives it back or not.
	return g.devices[0].do("joining the devices", func() (err error) {
		if g.ranks, err = nccl.Join(enter); err != nil {
			return fault.Wrap(err, "%d devices cannot be joined", len(g.devices))
		}
		return nil
	})
}

func (r ncclRank) String() string { return "NCCL " + nccl.Version() }

// captures: a collective is a launch like others.
func (ncclRank) captures() bool { return true }

// launch: nobody ends the communicators between the look at them and the launch.
func (r ncclRank) launch(graph func() error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.aborted {
		return kernels.ErrAborted
	}
	return graph()
}

// put puts a collective into the rank's stream.
func (r ncclRank) put(what string, work func(*nccl.Communicator) error) error {
	r.mu.Lock()
	c, aborted := r.ranks[r.rank], r.aborted
	r.mu.Unlock()
	if aborted {
		return kernels.ErrAborted
	}
	d := r.devices[r.rank]
	err := d.do(what, func() error { return work(c) })
	if err != nil && !errors.Is(err, kernels.ErrAborted) {
		return fault.Wrap(err, "%s, %s", d.info.Name, what)
	}
	return err
}

func (r ncclRank) AllReduce(b kernels.Buffer, n int64) error {
	return r.put("all-reduce", func(c *nccl.Communicator) error {
		at, err := r.devices[r.rank].numbers(b, n)
		if err != nil || n == 0 {
			return err
		}
		return c.AllReduce(uint64(at), n, r.devices[r.rank].stream.Handle())
	})
}

func (r ncclRank) AllGather(part, all kernels.Buffer, n int64) error {
	return r.put("all-gather", func(c *nccl.Communicator) error {
		from, err := r.devices[r.rank].numbers(part, n)
		if err != nil {
			return err
		}
		to, err := r.devices[r.rank].numbers(all, n*int64(len(r.devices)))
		if err != nil || n == 0 {
			return err
		}
		return c.AllGather(uint64(from), uint64(to), n, r.devices[r.rank].stream.Handle())
	})
}

func (r ncclRank) Broadcast(b kernels.Buffer, n int64, root int) error {
	return r.put("broadcast", func(c *nccl.Communicator) error {
		at, err := r.devices[r.rank].numbers(b, n)
		if err != nil || n == 0 {
			return err
		}
		return c.Broadcast(uint64(at), n, root, r.devices[r.rank].stream.Handle())
	})
}

func (r ncclRank) Memory() int64 { return r.taken[r.rank] + wordSize }

// Agree asks all ranks by a sum.
func (r ncclRank) Agree(s *kernels.Step) error { return r.devices[r.rank].agree(s, len(r.devices), r) }

// Abort ends all communicators: a kernel of the library that waits for another rank returns, and what is behind it in the
// stream goes on with sums that are none. So the devices are told before.
func (g *ncclGroup) Abort() { g.abort(nil) }

func (g *ncclGroup) abort(failure error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failure == nil {
		g.failure = failure
	}
	g.aborted = true
	for _, d := range g.devices {
		d.agreement.say(true)
	}
	for _, c := range g.ranks {
		c.Abort()
	}
}

// Reset joins the devices anew: communicators that were aborted are gone.
func (g *ncclGroup) Reset() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.aborted {
		return nil
	}
	// Steps that are under way must not see the word change.
	for _, d := range g.devices {
		if err := d.do("joining the devices again", d.stream.Synchronize); err != nil {
			return err
		}
	}
	if err := g.join(); err != nil {
		return err
	}
	for _, d := range g.devices {
		d.joined++
		d.agreement.say(false)
	}
	g.aborted, g.failure = false, nil
	return nil
}

// watchInterval is how often a group is looked at while it is waited for. What goes wrong in the background is rare, and
// would be waited for in vain.
const watchInterval = 100 * time.Millisecond

func (r ncclRank) watch() (end func() error) {
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		if r.look() == nil {
			timer.Reset(watchInterval)
		}
	})
	timer.Reset(watchInterval)
	return func() error {
		timer.Stop()
		return r.look()
	}
}

// look asks the library about the rank's communicator; if it has failed, all are ended.
func (r ncclRank) look() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "panic: %s", fmt.Sprint(p))
		}
	}()
	r.mu.Lock()
	c, aborted, failure := r.ranks[r.rank], r.aborted, r.failure
	r.mu.Unlock()
	if failure != nil {
		return failure
	}
	if aborted {
		return kernels.ErrAborted
	}
	if err := c.Check(); err != nil {
		if !errors.Is(err, kernels.ErrAborted) {
			err = fault.Wrap(err, "%s", r.devices[r.rank].info.Name)
			r.abort(err)
		}
		return err
	}
	return nil
}

// leave ends the communicators, with the first of the devices that is closed.
func (g *ncclGroup) leave() error {
	g.Abort()
	return nil
}
