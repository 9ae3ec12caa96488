//go:build !nocuda && linux && amd64

package driver

// #include <cuda.h>
import "C"

import (
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// Stream is an order of work on a device; the zero value is the context's default stream, which is not ours to use.
type Stream struct{ s cu.Stream }

func (s Stream) c() C.CUstream { return C.CUstream(unsafe.Pointer(s.s.C())) }

// Handle is the driver's own, for libraries that work in a stream of ours.
func (s Stream) Handle() unsafe.Pointer { return unsafe.Pointer(s.s.C()) }

// NewStream makes a stream that does not wait for the default one.
func NewStream() (Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return Stream{s}, wrapped("cuStreamCreate", err)
}

// Close gives the stream back, if there is one; its work goes on to the end.
func (s Stream) Close() error {
	if s == (Stream{}) {
		return nil
	}
	return wrapped("cuStreamDestroy", s.s.Destroy())
}

// Synchronize waits until all work of the stream is done. It returns errors of kernels at the latest.
func (s Stream) Synchronize() error { return wrapped("cuStreamSynchronize", s.s.Synchronize()) }

// Wait makes later work of the stream wait for an event.
func (s Stream) Wait(e Event) error { return wrapped("cuStreamWaitEvent", s.s.Wait(e.e, 0)) }

// Record makes an event happen when the stream's work so far is done.
func (s Stream) Record(e Event) error { return wrapped("cuEventRecord", e.e.Record(s.s)) }

// Event is a point in a stream.
type Event struct{ e cu.Event }

// NewEvent makes an event that takes no time.
func NewEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DisableTiming)
	return Event{e}, wrapped("cuEventCreate", err)
}

// NewTimedEvent makes an event that notes when it happens.
func NewTimedEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return Event{e}, wrapped("cuEventCreate", err)
}

// Since is the time between two timed events that have happened, to about half a microsecond.
func (e Event) Since(before Event) (time.Duration, error) {
	milliseconds, err := before.e.Elapsed(e.e)
	return time.Duration(milliseconds * float64(time.Millisecond)), wrapped("cuEventElapsedTime", err)
}

// Close gives the event back, if there is one.
func (e Event) Close() error {
	if e == (Event{}) {
		return nil
	}
	return wrapped("cuEventDestroy", cu.DestroyEvent(&e.e))
}

// Synchronize waits until the event has happened.
func (e Event) Synchronize() error { return wrapped("cuEventSynchronize", e.e.Synchronize()) }

// Happened reports whether the event has happened, without waiting.
func (e Event) Happened() (bool, error) {
	err := wrapped("cuEventQuery", e.e.Query())
	if f, ok := err.(*Error); ok && f.Code == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return err == nil, err
}
