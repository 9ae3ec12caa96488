//go:build !nocuda && linux && amd64

package nccl

/*
#include <stdlib.h>
#include "loader.h"
*/
import "C"

import (
	"sync"
	"time"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Results of the library, ncclResult_t.
const (
	success    = 0
	inProgress = 7
)

// Communicator is a rank's membership in a group. Collectives are for the rank's own thread; Abort is for any.
type Communicator struct {
	mu sync.Mutex // guards c: no two threads are in the library for one communicator at once
	c  C.dsstne_nccl_comm
}

// Join makes the communicators of so many ranks. Each begin enters the context of its rank's device and returns how to
// leave it.
func Join(begin []func() (leave func(), err error)) ([]*Communicator, error) {
	var id C.dsstne_nccl_id
	if code := C.dsstne_nccl_id_new(&id); code != success {
		return nil, failure("ncclGetUniqueId", code, nil)
	}
	// The library may write to these places until the communicators are ready, so they are not Go's.
	places := C.calloc(C.size_t(len(begin)), C.size_t(unsafe.Sizeof(C.dsstne_nccl_comm(nil))))
	defer C.free(places)
	made := unsafe.Slice((*C.dsstne_nccl_comm)(places), len(begin))
	err := initialize(made, &id, begin)
	list := make([]*Communicator, len(begin))
	for rank := range list {
		list[rank] = &Communicator{c: made[rank]}
	}
	for _, c := range list {
		if err == nil {
			err = c.settled("ncclCommInitRankConfig", inProgress)
		}
	}
	if err != nil {
		for _, c := range list {
			c.Abort()
		}
		return nil, err
	}
	return list, nil
}

// initialize asks for all ranks in one group of calls, since each waits for the others.
func initialize(made []C.dsstne_nccl_comm, id *C.dsstne_nccl_id, begin []func() (leave func(), err error)) error {
	if code := C.dsstne_nccl_group_start(); code != success {
		return failure("ncclGroupStart", code, nil)
	}
	var err error
	for rank := range made {
		if err == nil {
			err = one(made, id, rank, begin[rank])
		}
	}
	// The group is ended whatever happened, or the thread would stay in it.
	if code := C.dsstne_nccl_group_end(); err == nil {
		err = failure("ncclGroupEnd", code, nil)
	}
	return err
}

func one(made []C.dsstne_nccl_comm, id *C.dsstne_nccl_id, rank int, begin func() (func(), error)) error {
	leave, err := begin()
	if err != nil {
		return err
	}
	defer leave()
	return failure("ncclCommInitRankConfig", C.dsstne_nccl_init(&made[rank], C.int(len(made)), id, C.int(rank)), nil)
}

// AllReduce puts into the stream: the first n float32 numbers of the buffer become their sum over the ranks.
func (c *Communicator) AllReduce(buffer uint64, n int64, stream unsafe.Pointer) error {
	return c.call("ncclAllReduce", func() C.int {
		return C.dsstne_nccl_all_reduce(c.c, pointer(buffer), C.size_t(n), stream)
	})
}

// AllGather puts into the stream: n numbers of every rank's part come to all, rank after rank.
func (c *Communicator) AllGather(part, all uint64, n int64, stream unsafe.Pointer) error {
	return c.call("ncclAllGather", func() C.int {
		return C.dsstne_nccl_all_gather(c.c, pointer(part), pointer(all), C.size_t(n), stream)
	})
}

// Broadcast puts into the stream: n numbers of the root's buffer come to those of the others.
func (c *Communicator) Broadcast(buffer uint64, n int64, root int, stream unsafe.Pointer) error {
	return c.call("ncclBroadcast", func() C.int {
		return C.dsstne_nccl_broadcast(c.c, pointer(buffer), C.size_t(n), C.int(root), stream)
	})
}

// Check tells of what went wrong in the background.
func (c *Communicator) Check() error {
	return c.call("a collective", c.background)
}

// background is the state of the communicator; its lock is held.
func (c *Communicator) background() C.int {
	var state C.int
	if code := C.dsstne_nccl_async_error(c.c, &state); code != success {
		return code
	}
	return state
}

// call makes a call and waits until its work is in the stream.
func (c *Communicator) call(name string, work func() C.int) error {
	c.mu.Lock()
	if c.c == nil {
		c.mu.Unlock()
		return kernels.ErrAborted
	}
	code := work()
	err := failure(name, code, c.c)
	c.mu.Unlock()
	if code == inProgress {
		return c.settled(name, code)
	}
	return err
}

// settled waits until a call that is in progress is not any more. Others may abort the communicator meanwhile.
func (c *Communicator) settled(name string, code C.int) error {
	for wait := time.Microsecond; code == inProgress; wait = min(2*wait, time.Millisecond) {
		c.mu.Lock()
		if c.c == nil {
			c.mu.Unlock()
			return kernels.ErrAborted
		}
		code = c.background()
		err := failure(name, code, c.c)
		c.mu.Unlock()
		if code != inProgress && err != nil {
			return err
		}
		if code == inProgress {
			time.Sleep(wait)
		}
	}
	return nil
}

// Abort ends the communicator: what it has in its stream ends without a result, and later calls fail with ErrAborted. That is
// so at once, but the library waits in this call until all graphs are gone that collectives were captured into. It may be
// called twice.
func (c *Communicator) Abort() {
	c.mu.Lock()
	ended := c.c
	c.c = nil // nobody finds it any more
	c.mu.Unlock()
	if ended != nil {
		C.dsstne_nccl_abort(ended) // the communicator is gone, whatever the answer is
	}
}

// failure turns a result into an error, nil for success and for work in progress.
func failure(call string, code C.int, c C.dsstne_nccl_comm) error {
	if code == success || code == inProgress {
		return nil
	}
	text := C.GoString(C.dsstne_nccl_words(code))
	if more := C.GoString(C.dsstne_nccl_last(c)); more != "" {
		text += ": " + more
	}
	return fault.New(fault.DeviceFailed, "%s: %s (ncclResult %d)", call, text, int(code))
}

// pointer is an address on a device for C.
func pointer(at uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
