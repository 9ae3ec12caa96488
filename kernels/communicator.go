package kernels

import (
	"errors"
	"fmt"
)

// Communicator is one device's way to the others of its group. A collective is called by all of them, each with its own
// buffers, in the same order. When it returns, the caller's device may use its buffers in what it does next. The order
// in which a sum is added depends on the devices alone, so all of them get the same bits, whoever comes first.
type Communicator interface {
	// AllReduce replaces the first n numbers of every device's buffer by their sum over the devices.
	AllReduce(b Buffer, n int64) error
	// AllGather writes the first n numbers of every device's part to all, device after device.
	AllGather(part, all Buffer, n int64) error
	// Broadcast copies the first n numbers of the root's buffer to those of the others.
	Broadcast(b Buffer, n int64, root int) error
	// Agree makes a step that has failed on one device so far fail on all: their next operations, and the following
	// steps, change no weight, and Settle returns ErrAborted on devices where nothing else has failed. It does a
	// collective as well, with the communicator that it gives, which may carry the question. A device whose operations are
	// done when they return leaves the list at the failed one, so its Agree does the collective only.
	Agree(s *Step, collective func(Communicator) error) error
	// Abort makes every collective that has not ended, and every later one, fail with ErrAborted on all devices. A device
	// calls it that leaves its list before the end. Any goroutine may call it.
	Abort()
	// Reset ends an Abort. No device may be in a collective.
	Reset() error
	// Memory is how many bytes of the device's memory the group has taken.
	Memory() int64
}

// ErrAborted is what a collective returns when another device of the group has failed.
var ErrAborted = errors.New("another device of the group has failed")

// Count is how many numbers of a buffer a collective takes: PerRow for each row that the buffers of the list have room
// for, and Fixed ones.
type Count struct{ PerRow, Fixed int64 }

func (c Count) of(s *Step) int64 { return c.PerRow*s.MaxRows + c.Fixed }

// Agrees is whether the ranks agree in a collective that all devices are well (Communicator.Agree). They do in the last
// one before an operation that updates weights with results from other devices.
type Agrees bool

func (a Agrees) do(r Rank, s *Step, collective func(Communicator) error) error {
	if a {
		return r.Communicator.Agree(s, collective)
	}
	return collective(r.Communicator)
}

func (a Agrees) String() string {
	if a {
		return ", and agree that all devices are well"
	}
	return ""
}

// AllReduce sums a buffer over the ranks.
type AllReduce struct {
	What   string
	Count  Count
	Buffer Buffer
	Agrees Agrees
}

func (o *AllReduce) Do(r Rank, s *Step) error {
	return o.Agrees.do(r, s, func(c Communicator) error { return c.AllReduce(o.Buffer, o.Count.of(s)) })
}

func (o *AllReduce) String() string {
	return fmt.Sprintf("AllReduce %s[%d]%s", o.What, o.Count.PerRow+o.Count.Fixed, o.Agrees)
}

// AllGather collects the ranks' parts, one behind the other, on all of them.
type AllGather struct {
	What      string
	Count     Count // of a part
	Part, All Buffer
	Agrees    Agrees
}

func (o *AllGather) Do(r Rank, s *Step) error {
	return o.Agrees.do(r, s, func(c Communicator) error { return c.AllGather(o.Part, o.All, o.Count.of(s)) })
}

func (o *AllGather) String() string { return fmt.Sprintf("AllGather %s%s", o.What, o.Agrees) }

// Broadcast copies a buffer of the rank Root to the others.
type Broadcast struct {
	What   string
	Count  Count
	Buffer Buffer
	Root   int
}

func (o *Broadcast) Do(r Rank, s *Step) error {
	return r.Communicator.Broadcast(o.Buffer, o.Count.of(s), o.Root)
}

func (o *Broadcast) String() string { return fmt.Sprintf("Broadcast %s from %d", o.What, o.Root) }
