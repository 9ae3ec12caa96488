//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"sync/atomic"
	"time"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/nccl"
)

// membership is a device's part in a group. Its collectives put work into the device's stream and return.
type membership interface {
	kernels.Communicator
	// captures reports whether collectives may be captured into a graph.
	captures() bool
	// launch launches such a graph, unless the group was aborted.
	launch(graph func() error) error
	// watch looks for failures of the group while the caller waits for the device's work, until the caller calls the
	// function that it returns. That returns the group's failure, after which results of the device since then may be
	// anything.
	watch() (end func() error)
	// leave ends the group. It may be called twice.
	leave() error
}

// Join makes devices a group: by NCCL where it is installed, else by copies from device to device.
func (backend) Join(devices []kernels.Device) ([]kernels.Communicator, error) {
	group := make([]*device, len(devices))
	for rank, d := range devices {
		own, is := d.(*device)
		if !is || own.member != nil {
			return nil, fault.New(fault.Internal, "%s cannot be joined", d.Info().Name)
		}
		group[rank] = own
	}
	join := joinPeers
	if nccl.Load() == nil {
		join = joinNCCL
	}
	return joinBy(join, group)
}

func joinBy(join func([]*device) ([]membership, error), group []*device) ([]kernels.Communicator, error) {
	var members []membership
	var err error
	for _, d := range group {
		if err == nil {
			err = d.do("joining the devices", d.agreement.take)
		}
	}
	if err == nil {
		members, err = join(group)
	}
	if err != nil {
		for _, d := range group {
			err = errors.Join(err, d.do("leaving a group", d.agreement.free))
		}
		return nil, err
	}
	list := make([]kernels.Communicator, len(group))
	for rank, m := range members {
		group[rank].member, list[rank] = m, m
	}
	return list, nil
}

// wait waits for the work in the stream; it returns the group's failure if there was one.
func (d *device) wait() error {
	group, err := d.watched(d.stream.Synchronize)
	if err == nil {
		err = group
	}
	return err
}

// watched waits for work of the device. If the group has failed meanwhile, the work is done, but its results may be
// anything.
func (d *device) watched(wait func() error) (group, err error) {
	if d.member == nil {
		return nil, wait()
	}
	end := d.member.watch()
	err = wait()
	return end(), err
}

// watchInterval is how often a group is asked for failures in the background, which are rare.
const watchInterval = 100 * time.Millisecond

// repeat looks at intervals, until it finds something or end is called, which looks once more.
func repeat(interval time.Duration, look func() error) (end func() error) {
	var ended atomic.Bool
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		if look() != nil || ended.Load() {
			return
		}
		timer.Reset(interval)
		if ended.Load() { // meanwhile: end may have stopped the timer before it was set
			timer.Stop()
		}
	})
	timer.Reset(interval)
	return func() error {
		ended.Store(true)
		timer.Stop()
		return look()
	}
}
