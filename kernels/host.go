package kernels

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"dsstne/engine/fault"
)

// hostBuffer is memory of the process outside the Go heap, in huge pages where the system has them.
type hostBuffer struct {
	mu     sync.Mutex
	mapped []byte
	bytes  []byte // within mapped
	n      int64
}

// hugePage is the size from which transparent huge pages can help.
const hugePage = 2 << 20

// madvHugepage is MADV_HUGEPAGE of Linux.
const madvHugepage = 14

// An update walks through a weight and its states side by side. Were they at the same place of their pages, as the system
// would put all large blocks, their lines would be in each other's way in the first-level cache, which finds them by a hash
// of the address: AMD's Zen 4 then updates rows at two thirds of the speed. So each large buffer begins a bit further within
// its page than the one before, by more than a kilobyte, so that short rows do not even share a set.
const (
	pageSize  = 4096
	pageShift = 1280
)

var largeBuffers atomic.Int64

// nextShift is where in its page the next large buffer begins; all multiples of 256 take their turns.
func nextShift() int64 { return largeBuffers.Add(1) * pageShift % pageSize }

// AllocHost returns zeroed memory for n elements of 4 bytes outside the Go heap. Pages are taken when first written.
func AllocHost(n int64) (Buffer, error) {
	if n < 0 || n > (1<<62)/4 {
		return nil, fault.New(fault.InvalidArgument, "cannot allocate %d elements", n)
	}
	b := &hostBuffer{n: n}
	if n == 0 {
		return b, nil
	}
	size, shift := n*4, int64(0)
	if size >= hugePage {
		shift = nextShift()
	}
	mapped, err := syscall.Mmap(-1, 0, int(size+shift), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, fault.From(fault.OutOfMemory, err, "the system refused %d bytes", size)
	}
	if size >= hugePage {
		// Only advice: a kernel without huge pages refuses it and nothing is lost but speed.
		_ = syscall.Madvise(mapped, madvHugepage)
	}
	b.mapped, b.bytes = mapped, mapped[shift:]
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

func (b *hostBuffer) Slice(from, n int64) Buffer { return hostView{b, from, n} }

// hostView is a part of a hostBuffer.
type hostView struct {
	of      *hostBuffer
	from, n int64
}

func (v hostView) Len() int64 { return v.n }

func (v hostView) Float32() []float32 {
	if v.n == 0 {
		return nil
	}
	return v.of.Float32()[v.from : v.from+v.n : v.from+v.n]
}

func (v hostView) Int32() []int32 {
	if v.n == 0 {
		return nil
	}
	return v.of.Int32()[v.from : v.from+v.n : v.from+v.n]
}

func (v hostView) Slice(from, n int64) Buffer { return hostView{v.of, v.from + from, n} }

func (v hostView) Free() {}

func (b *hostBuffer) Free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mapped != nil {
		// An error here would mean that the address was not ours; there is nothing to be done about it.
		_ = syscall.Munmap(b.mapped)
		b.mapped, b.bytes, b.n = nil, nil, 0
	}
}
