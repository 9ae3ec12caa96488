package kernels

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"dsstne/internal/fault"
)

// HostBuffer is memory of the process outside the Go heap, in huge pages where the system has them. Several buffers may
// have the same memory until one of them is written, see Share.
type HostBuffer struct {
	mu    sync.Mutex // guards pages against Share, Own and Free at the same time
	pages *pages     // nil: none
	n     int64
}

// pages are memory that the system gave.
type pages struct {
	mapped   []byte
	bytes    []byte       // within mapped
	remapped bool         // package syscall does not know the memory
	users    atomic.Int64 // buffers that have it
	copying  sync.Mutex   // held by the one that is getting memory of its own
}

// hugePage is the size from which transparent huge pages can help.
const hugePage = 2 << 20

// madvHugepage is MADV_HUGEPAGE of Linux.
const madvHugepage = 14

// An update walks through a weight and its states side by side. Were they at the same place of their pages, as the
// system would put all large blocks, their lines would be in each other's way in the first-level cache, which finds
// them by a hash of the address: AMD's Zen 4 then updates rows at two thirds of the speed. So each large buffer begins
// a bit further within its page than the one before, by more than a kilobyte, so that short rows do not even share a
// set.
const (
	pageSize  = 4096
	pageShift = 1280
)

var largeBuffers atomic.Int64

// nextShift is where in its page the next large buffer begins; all multiples of 256 take their turns.
func nextShift() int64 { return largeBuffers.Add(1) * pageShift % pageSize }

// Small blocks are kept when they are free: a call for one row allocates several, and the system takes some
// microseconds to map, clear and unmap each.
const (
	blockSize  = 1 << 16
	mostBlocks = 16
)

var freeBlocks = make(chan []byte, mostBlocks)

// allocated is the number of bytes in all pages with a user, and hostLimit the most that there may be, 0 for any.
var allocated, hostLimit atomic.Int64

// LimitHost sets the most bytes that all buffers of the process may have together; 0 = no limit. Those that are there
// already stay.
func LimitHost(bytes int64) { hostLimit.Store(bytes) }

// claim counts bytes as allocated, unless they exceed the limit.
func claim(bytes int64) error {
	total, limit := allocated.Add(bytes), hostLimit.Load()
	if limit == 0 || total <= limit {
		return nil
	}
	allocated.Add(-bytes)
	return fault.New(fault.OutOfMemory, "all computations of this process may have %s bytes together, and %s are in use; "+
		"%s more were asked for", fault.Grouped(limit), fault.Grouped(total-bytes), fault.Grouped(bytes))
}

// AllocHost returns zeroed memory for n elements of 4 bytes outside the Go heap. Pages are taken when first written.
func AllocHost(n int64) (*HostBuffer, error) {
	if n < 0 || n > (1<<62)/4 {
		return nil, fault.New(fault.InvalidArgument, "cannot allocate %d elements", n)
	}
	if n == 0 {
		return &HostBuffer{}, nil
	}
	p, err := newPages(n, shiftOf(n))
	if err != nil {
		return nil, err
	}
	return &HostBuffer{pages: p, n: n}, nil
}

// shiftOf is where in its page a new buffer of n elements begins.
func shiftOf(n int64) int64 {
	if n*4 >= hugePage {
		return nextShift()
	}
	return 0
}

// newPages returns zeroed pages for n elements, with one user.
func newPages(n, shift int64) (*pages, error) {
	size := n * 4
	claimed := max(size+shift, blockSize)
	if err := claim(claimed); err != nil {
		return nil, err
	}
	mapped, err := mapMemory(size, shift)
	if err != nil {
		allocated.Add(-claimed)
		return nil, fault.From(fault.OutOfMemory, err, "the system refused %d bytes", size)
	}
	if size >= hugePage {
		// Only advice: a kernel without huge pages refuses it and nothing is lost but speed.
		_ = syscall.Madvise(mapped, madvHugepage)
	}
	p := &pages{mapped: mapped, bytes: mapped[shift:]}
	p.users.Store(1)
	return p, nil
}

// RefuseMemory, if it is not nil, reports whether an allocation of host memory fails, as if the system had none left.
// Only a library for tests sets it, in capi. Behind a build tag here, that library would compile all kernels again.
var RefuseMemory func() bool

// mapMemory returns zeroed memory: a block that is free if size is small, else at least size+shift bytes of the system.
func mapMemory(size, shift int64) ([]byte, error) {
	if RefuseMemory != nil && RefuseMemory() {
		return nil, syscall.ENOMEM
	}
	if size <= blockSize {
		select {
		case block := <-freeBlocks:
			clear(block[:size])
			return block, nil
		default:
			size = blockSize
		}
	}
	return syscall.Mmap(
		-1, 0, int(size+shift), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
}

// leave gives the memory back if the caller was its last user.
func (p *pages) leave() {
	if p.users.Add(-1) != 0 {
		return
	}
	allocated.Add(-int64(len(p.mapped)))
	if len(p.mapped) == blockSize {
		select {
		case freeBlocks <- p.mapped:
			return
		default:
		}
	}
	// An error here would mean that the address was not ours; there is nothing to be done about it.
	if p.remapped {
		_, _, _ = syscall.Syscall(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(unsafe.SliceData(p.mapped))),
			uintptr(len(p.mapped)), 0)
		return
	}
	_ = syscall.Munmap(p.mapped)
}

// Share returns another buffer with the same memory, which goes back to the system when the last of them is freed.
// Whoever is about to write one of them calls its Own before.
func (b *HostBuffer) Share() *HostBuffer {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pages != nil {
		b.pages.users.Add(1)
	}
	return &HostBuffer{pages: b.pages, n: b.n}
}

// IsShared reports whether another buffer has the same memory.
func (b *HostBuffer) IsShared() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pages != nil && b.pages.users.Load() > 1
}

// Own gives the buffer a copy of the memory for itself if another buffer has it too. Views by Slice are of the copy
// from then on; those by Float32 and Int32 are not. Nobody may use this buffer meanwhile; the others may be read.
func (b *HostBuffer) Own() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	shared := b.pages
	if shared == nil {
		return nil
	}
	// Of two buffers that ask at the same time, one gets a copy and the other keeps the memory.
	shared.copying.Lock()
	defer shared.copying.Unlock()
	if shared.users.Load() == 1 {
		return nil
	}
	p, err := newPages(b.n, shiftOf(b.n))
	if err != nil {
		return err
	}
	copy(p.bytes, shared.bytes)
	b.pages = p
	shared.leave()
	return nil
}

// Resize changes the number of elements. The first ones keep their values, and new ones are 0. The system moves large
// memory by its pages, without copying it. Views from before are not valid any more. Nobody may use the buffer
// meanwhile, and no other buffer may have its memory. After a failure it is as it was.
func (b *HostBuffer) Resize(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.pages
	switch {
	case n < 0 || n > (1<<62)/4:
		return fault.New(fault.InvalidArgument, "cannot allocate %d elements", n)
	case old == nil && n == 0:
		return nil
	case old == nil:
		p, err := newPages(n, shiftOf(n))
		if err == nil {
			b.pages, b.n = p, n
		}
		return err
	case n == 0:
		old.leave()
		b.pages, b.n = nil, 0
		return nil
	}
	if len(old.mapped) != blockSize && n*4 > blockSize {
		if err := old.remap(n * 4); err != nil {
			return err
		}
		b.n = n
		return nil
	}
	p, err := newPages(n, shiftOf(n))
	if err != nil {
		return err
	}
	copy(p.bytes, old.bytes[:min(n, b.n)*4])
	old.leave()
	b.pages, b.n = p, n
	return nil
}

// mremapMayMove is MREMAP_MAYMOVE of Linux.
const mremapMayMove = 1

// remap changes the size of large memory. It may move. Its beginning stays as it is, and what is new is 0.
func (p *pages) remap(size int64) error {
	shift := len(p.mapped) - len(p.bytes)
	before, after := int64(len(p.mapped)), int64(shift)+size
	if after > before {
		if err := claim(after - before); err != nil {
			return err
		}
	} else { // the rest of the last page, which would be there again after another change
		page := int64(syscall.Getpagesize())
		clear(p.mapped[after:min(before, (after+page-1)/page*page)])
	}
	at, failure := uintptr(0), syscall.ENOMEM
	if RefuseMemory == nil || !RefuseMemory() {
		at, _, failure = syscall.Syscall6(syscall.SYS_MREMAP, uintptr(unsafe.Pointer(unsafe.SliceData(p.mapped))),
			uintptr(before), uintptr(after), mremapMayMove, 0, 0)
	}
	if failure != 0 {
		allocated.Add(min(0, before-after))
		return fault.From(fault.OutOfMemory, failure, "the system refused %d bytes", size)
	}
	allocated.Add(min(0, after-before))
	p.mapped = unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), after)
	p.bytes, p.remapped = p.mapped[shift:], true
	if size >= hugePage {
		_ = syscall.Madvise(p.mapped, madvHugepage)
	}
	return nil
}

// Len is the number of elements.
func (b *HostBuffer) Len() int64 { return b.n }

// view is the memory as numbers of 4 bytes, nil if there is none.
func view[T float32 | int32](b *HostBuffer) []T {
	if b.pages == nil {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b.pages.bytes[0])), b.n)
}

func (b *HostBuffer) Float32() []float32 { return view[float32](b) }
func (b *HostBuffer) Int32() []int32     { return view[int32](b) }

// Slice is a view of a part.
func (b *HostBuffer) Slice(from, n int64) Buffer { return hostView{b, from, n} }

// Free gives the memory back, unless other buffers have it too.
func (b *HostBuffer) Free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pages != nil {
		b.pages.leave()
		b.pages, b.n = nil, 0
	}
}

// hostView is a part of a HostBuffer.
type hostView struct {
	of      *HostBuffer
	from, n int64
}

func part[T float32 | int32](v hostView) []T {
	if v.n == 0 {
		return nil
	}
	return view[T](v.of)[v.from : v.from+v.n : v.from+v.n]
}

func (v hostView) Len() int64         { return v.n }
func (v hostView) Float32() []float32 { return part[float32](v) }
func (v hostView) Int32() []int32     { return part[int32](v) }
func (v hostView) Free()              {}

func (v hostView) Slice(from, n int64) Buffer { return hostView{v.of, v.from + from, n} }
