//go:build !nocuda && linux && amd64

package cuda

import (
	"cmp"
	"unsafe"

	"dsstne/internal/parallel"
	"dsstne/kernels/cuda/driver"
)

// Copies between a device and memory that is not pinned go through a pinned buffer of the driver, in one thread, and
// the device waits for that thread. What is large goes through two pinned buffers in turn instead: one is filled or
// emptied, by several threads, while the other is on its way.

const (
	pinnedBlock = 8 << 20  // bytes of each of the two
	leastPinned = 64 << 20 // bytes of an array for which it pays to take them
	copyBlock   = 1 << 20  // what a thread of the host copies at a time
	copyThreads = 4        // more do not make the host's memory faster
)

// transfer copies arrays through two pinned buffers, in the device's stream.
type transfer struct {
	device *device
	stage  [2]pinned
	turn   int
	used   int64 // bytes of the buffer whose turn it is
}

type pinned struct {
	memory unsafe.Pointer
	copied driver.Event
	busy   bool
}

// throughPinned does some transfers, and waits until everything has arrived, also after an error.
func (d *device) throughPinned(work func(*transfer) error) error {
	t := &transfer{device: d}
	err := t.open()
	if err == nil {
		err = work(t)
	}
	err = cmp.Or(err, d.stream.Synchronize())
	for _, stage := range t.stage {
		err = cmp.Or(err, driver.HostFree(stage.memory), stage.copied.Close())
	}
	return err
}

func (t *transfer) open() (err error) {
	for i := range t.stage {
		if t.stage[i].copied, err = driver.NewEvent(); err != nil {
			return err
		}
		if t.stage[i].memory, err = driver.HostAlloc(pinnedBlock); err != nil {
			return err
		}
	}
	return nil
}

// free waits until a buffer is not on its way.
func (s *pinned) free() error {
	if !s.busy {
		return nil
	}
	s.busy = false
	return s.copied.Synchronize()
}

// send copies an array to the device.
func send[T any](t *transfer, place driver.Address, x []T) error {
	for from := bytesOf(x); len(from) > 0; {
		stage := &t.stage[t.turn]
		if err := stage.free(); err != nil {
			return err
		}
		n := copyWide(unsafe.Slice((*byte)(stage.memory), pinnedBlock)[t.used:], from)
		if err := t.device.stream.CopyToDeviceAsync(place, unsafe.Add(stage.memory, t.used), int64(n)); err != nil {
			return err
		}
		t.used, place, from = t.used+int64(n), place+driver.Address(n), from[n:]
		if t.used == pinnedBlock {
			if err := t.device.stream.Record(stage.copied); err != nil {
				return err
			}
			stage.busy, t.turn, t.used = true, 1-t.turn, 0
		}
	}
	return nil
}

// fetch copies numbers of the device to an array. Nothing else goes through the same buffers.
func fetch[T any](t *transfer, x []T, from driver.Address) error {
	to, waiting := bytesOf(x), 0 // bytes that are on their way
	for len(to) > 0 {
		ahead := min(pinnedBlock, len(to)-waiting)
		if stage := &t.stage[t.turn]; ahead > 0 {
			err := t.device.stream.CopyToHostAsync(stage.memory, from, int64(ahead))
			if err = cmp.Or(err, t.device.stream.Record(stage.copied)); err != nil {
				return err
			}
			stage.busy, from = true, from+driver.Address(ahead)
		}
		t.turn = 1 - t.turn
		if waiting > 0 {
			stage := &t.stage[t.turn]
			if err := stage.free(); err != nil {
				return err
			}
			copyWide(to, unsafe.Slice((*byte)(stage.memory), waiting))
			to = to[waiting:]
		}
		waiting = ahead
	}
	return nil
}

func bytesOf[T any](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

// copyWide is copy by several threads, if there is much.
func copyWide(to, from []byte) int {
	n := min(len(to), len(from))
	_ = parallel.Do(copyThreads, max(1, (n+copyBlock-1)/copyBlock), func(part int) error {
		end := min(n, (part+1)*copyBlock)
		copy(to[part*copyBlock:end], from[part*copyBlock:end])
		return nil
	})
	return n
}
