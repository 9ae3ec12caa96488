//go:build !nocuda && linux && amd64

package cuda

import (
	"sync"

	"dsstne/kernels/cuda/driver"
)

// turns are the last steps with collectives of NCCL, by the number of the device. Kernels of two groups that wait for
// their other ranks must not meet on a device: each could hold the place that the other waits for elsewhere (NCCL's
// documentation, "Using multiple NCCL communicators concurrently"). Groups put these steps into the streams one after
// the other; therefore it is enough that a step waits on each device for the last step of another group.
var turns = struct {
	sync.Mutex
	last map[int]turn
}{last: map[int]turn{}}

type turn struct {
	device *device
	done   driver.Event
}

// takeTurn is called before a collective, or a graph that has some, is put into the stream.
func (d *device) takeTurn() error {
	if d.step.joint {
		return nil
	}
	d.step.joint = true
	turns.Lock()
	defer turns.Unlock()
	if last, is := turns.last[d.context.ID()]; is && last.device != d {
		return d.stream.Wait(last.done)
	}
	return nil
}

// passTurn is called when a step is in the stream, with the event of its end.
func (d *device) passTurn(done driver.Event) {
	if !d.step.joint {
		return
	}
	turns.Lock()
	defer turns.Unlock()
	turns.last[d.context.ID()] = turn{d, done}
}

// leaveTurns is called before the events of the device are no more.
func (d *device) leaveTurns() {
	turns.Lock()
	defer turns.Unlock()
	if turns.last[d.context.ID()].device == d {
		delete(turns.last, d.context.ID())
	}
}
