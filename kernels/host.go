package kernels

import (
	"sync"
	"syscall"
	"unsafe"

	"dsstne/engine/fault"
)

// hostBuffer is memory of the process outside the Go heap, in huge pages where the system has them.
type hostBuffer struct {
	mu    sync.Mutex
	bytes []byte
	n     int64
}

// hugePage is the size from which transparent huge pages can help.
const hugePage = 2 << 20

// madvHugepage is MADV_HUGEPAGE of Linux.
const madvHugepage = 14

// AllocHost returns zeroed memory for n elements of 4 bytes outside the Go heap. Pages are taken when first written.
func AllocHost(n int64) (Buffer, error) {
	if n < 0 || n > (1<<62)/4 {
		return nil, fault.New(fault.InvalidArgument, "cannot allocate %d elements", n)
	}
	b := &hostBuffer{n: n}
	if n == 0 {
		return b, nil
	}
	bytes, err := syscall.Mmap(-1, 0, int(n*4), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, fault.From(fault.OutOfMemory, err, "the system refused %d bytes", n*4)
	}
	if len(bytes) >= hugePage {
		// Only advice: a kernel without huge pages refuses it and nothing is lost but speed.
		_ = syscall.Madvise(bytes, madvHugepage)
	}
	b.bytes = bytes
	return b, nil
}

func (b *hostBuffer) Len() int64 { return b.n }

func (b *hostBuffer) Float32() []float32 {
	if len(b.bytes) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b.bytes[0])), b.n)
}

func (b *hostBuffer) Int32() []int32 {
	if len(b.bytes) == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b.bytes[0])), b.n)
}

func (b *hostBuffer) Free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes != nil {
		// An error here would mean that the address was not ours; there is nothing to be done about it.
		_ = syscall.Munmap(b.bytes)
		b.bytes, b.n = nil, 0
	}
}
