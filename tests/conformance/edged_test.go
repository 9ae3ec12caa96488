//go:build unix

package conformance

import (
	"os"
	"syscall"
	"unsafe"

	"dsstne/kernels"
)

// edged is memory of the host that ends where a page begins that nobody may touch, so that an op that reads or writes behind
// a buffer ends the process there. Large buffers of the engine begin anywhere in a page, so ops may not count on more than
// what the first element has of alignment.
type edged struct {
	mapped []byte
	words  []float32
}

func newEdged(n int64) kernels.Buffer {
	page := int64(os.Getpagesize())
	size := (4*n + page - 1) / page * page
	mapped, err := syscall.Mmap(-1, 0, int(size+page), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err == nil {
		err = syscall.Mprotect(mapped[size:], syscall.PROT_NONE)
	}
	if err != nil {
		panic(err)
	}
	return &edged{mapped, unsafe.Slice((*float32)(unsafe.Pointer(&mapped[size-4*n])), n)}
}

func (b *edged) Len() int64         { return int64(len(b.words)) }
func (b *edged) Float32() []float32 { return b.words }

func (b *edged) Int32() []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b.words))), len(b.words))
}

func (b *edged) Slice(from, n int64) kernels.Buffer {
	return &edged{words: b.words[from : from+n : from+n]}
}

func (b *edged) Free() {
	if b.mapped != nil {
		_ = syscall.Munmap(b.mapped)
	}
	b.mapped, b.words = nil, nil
}
