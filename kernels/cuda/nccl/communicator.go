//go:build !nocuda && linux && amd64

// Package nccl speaks to NVIDIA's library of collectives, libnccl.so.2, which is opened when several devices are
// joined, if it is installed. Communicators are of the non-blocking kind: a rank that waits for another can always be
// made to leave, and a call returns when its work is in the stream. The library's own settings, the environment
// variables NCCL_*, are the user's.
package nccl

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra
#include "nccl.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/dynamic"
)

// oldest is the first version whose communicators can be non-blocking.
const oldest = 21400

var version int

// Load finds the library: where the system's loader looks, then in the folders that were named for libraries. An error
// says in a sentence why there is none. The answer stays the same for the life of the process.
func Load() error { return load() }

var load = sync.OnceValue(func() error {
	f := dynamic.Functions{
		Names: unsafe.Pointer(C.function_names()), Slots: C.function_slots(), Count: C.COUNT,
		Hint: "; version 2.14 or newer is needed",
	}
	return f.Find([]kernels.LibraryFile{{Name: "libnccl.so.2", Folder: "nccl/lib"}}, "nvidia-nccl-cu12", tooOld)
})

// tooOld refuses a library by its version.
func tooOld(path string) string {
	var number C.int
	if code := C.nccl_version(&number); code != 0 {
		return fmt.Sprintf("%s does not tell its version (error %d)", path, code)
	}
	if version = int(number); version < oldest {
		return fmt.Sprintf("%s is version %s, and 2.14 or newer is needed", path, Version())
	}
	return ""
}

// Version of the loaded library for people: "2.27.3".
func Version() string { return fmt.Sprintf("%d.%d.%d", version/10000, version/100%100, version%100) }

// Results of the library, ncclResult_t.
const (
	success    = 0
	inProgress = 7
)

// Communicator is a rank's membership in a group. Collectives are for the rank's own thread; Abort is for any.
type Communicator struct {
	mu sync.Mutex // guards c: no two threads are in the library for one communicator at once
	c  C.nccl_comm
}

// Join makes the communicators of the ranks. Each begin enters the context of its rank's device and returns how to
// leave it.
func Join(begin []func() (leave func(), err error)) ([]*Communicator, error) {
	var id C.nccl_id
	if code := C.nccl_unique_id(&id); code != success {
		return nil, failure("ncclGetUniqueId", code, nil)
	}
	// The library may write to these places until the communicators are ready; therefore they are not Go's.
	places := C.calloc(C.size_t(len(begin)), C.size_t(unsafe.Sizeof(C.nccl_comm(nil))))
	defer C.free(places)
	made := unsafe.Slice((*C.nccl_comm)(places), len(begin))
	// All ranks are made in one group of calls, since each waits for the others.
	if code := C.nccl_group_start(); code != success {
		return nil, failure("ncclGroupStart", code, nil)
	}
	var err error
	for rank := range made {
		if err == nil {
			err = initialize(made, &id, rank, begin[rank])
		}
	}
	// The group is ended whatever happened, or the thread would stay in it.
	if code := C.nccl_group_end(); err == nil {
		err = failure("ncclGroupEnd", code, nil)
	}
	list := make([]*Communicator, len(begin))
	for rank := range list {
		list[rank] = &Communicator{c: made[rank]}
	}
	for _, c := range list {
		if err == nil {
			err = c.call("ncclCommInitRankConfig", c.background)
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

func initialize(made []C.nccl_comm, id *C.nccl_id, rank int, begin func() (func(), error)) error {
	leave, err := begin()
	if err != nil {
		return err
	}
	defer leave()
	return failure("ncclCommInitRankConfig", C.nccl_init(&made[rank], C.int(len(made)), id, C.int(rank)), nil)
}

// Collective is a function of the library for float32 numbers: it reads n at one address, and writes at the other.
type Collective struct {
	name string
	call func(c C.nccl_comm, from, to unsafe.Pointer, n C.size_t, stream unsafe.Pointer) C.int
}

// AllReduce is the Collective whose results are the sums of the numbers over the ranks.
var AllReduce = Collective{
	"ncclAllReduce", func(c C.nccl_comm, from, to unsafe.Pointer, n C.size_t, stream unsafe.Pointer) C.int {
		return C.nccl_all_reduce(c, from, to, n, stream)
	},
}

// AllGather is the Collective that writes n numbers of every rank, rank after rank.
var AllGather = Collective{
	"ncclAllGather", func(c C.nccl_comm, from, to unsafe.Pointer, n C.size_t, stream unsafe.Pointer) C.int {
		return C.nccl_all_gather(c, from, to, n, stream)
	},
}

// Broadcast is the Collective whose results are the numbers of the root.
func Broadcast(root int) Collective {
	return Collective{
		"ncclBroadcast", func(c C.nccl_comm, from, to unsafe.Pointer, n C.size_t, stream unsafe.Pointer) C.int {
			return C.nccl_broadcast(c, from, to, n, C.int(root), stream)
		},
	}
}

// Work is a collective with what it works on.
type Work struct {
	Collective
	From, To uint64
	N        int64
}

// Put puts works into a stream. The library does those of one call in one launch (its documentation, "Aggregated
// Operations"). The caller stays on its thread, to which the group of calls belongs.
func (c *Communicator) Put(stream unsafe.Pointer, works []Work) error {
	one := func(w Work) C.int { return w.call(c.c, pointer(w.From), pointer(w.To), C.size_t(w.N), stream) }
	return c.call(works[0].name, func() C.int {
		if len(works) == 1 {
			return one(works[0])
		}
		code := C.nccl_group_start()
		for _, w := range works {
			if code == success || code == inProgress {
				code = one(w)
			}
		}
		// The group is ended whatever happened, or the thread would stay in it.
		if end := C.nccl_group_end(); code == success || code == inProgress {
			code = end
		}
		return code
	})
}

// Check returns what went wrong in the background.
func (c *Communicator) Check() error { return c.call("a collective", c.background) }

// background is the state of the communicator; its lock is held.
func (c *Communicator) background() C.int {
	var state C.int
	if code := C.nccl_async_error(c.c, &state); code != success {
		return code
	}
	return state
}

// call makes a call and waits until its work is in the stream. Others may abort the communicator meanwhile.
func (c *Communicator) call(name string, work func() C.int) error {
	for wait := time.Duration(0); ; wait = min(2*wait+time.Microsecond, time.Millisecond) {
		c.mu.Lock()
		if c.c == nil {
			c.mu.Unlock()
			return kernels.ErrAborted
		}
		code := work()
		err := failure(name, code, c.c)
		c.mu.Unlock()
		if code != inProgress {
			return err
		}
		time.Sleep(wait)
		work = c.background
	}
}

// Abort ends the communicator: what it has in its stream ends without a result, and later calls fail with ErrAborted at
// once. This call itself returns when all graphs are gone that collectives were captured into. It may be called twice.
func (c *Communicator) Abort() {
	c.mu.Lock()
	ended := c.c
	c.c = nil // nobody finds it any more
	c.mu.Unlock()
	if ended != nil {
		C.nccl_abort(ended) // the communicator is gone, whatever the answer is
	}
}

// failure turns a result into an error, nil for success and for work in progress.
func failure(call string, code C.int, c C.nccl_comm) error {
	if code == success || code == inProgress {
		return nil
	}
	text := C.GoString(C.nccl_words(code))
	if more := C.GoString(C.nccl_last_words(c)); more != "" {
		text += ": " + more
	}
	return fault.New(fault.DeviceFailed, "%s: %s (ncclResult %d)", call, text, int(code))
}

// pointer is an address on a device for C.
func pointer(at uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
