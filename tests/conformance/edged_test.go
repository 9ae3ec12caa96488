//go:build unix

package conformance

import (
	"os"
	"sync"
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

// edgedFree are mappings to use again, by their size: to map and to unmap takes longer than most ops of the suite.
var edgedFree = struct {
	sync.Mutex
	mapped map[int64][][]byte
}{mapped: map[int64][][]byte{}}

func newEdged(n int64) kernels.Buffer {
	page := int64(os.Getpagesize())
	size := (4*n + page - 1) / page * page
	mapped := mappedBefore(size)
	if mapped == nil {
		var err error
		mapped, err = syscall.Mmap(-1, 0, int(size+page), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err == nil {
			err = syscall.Mprotect(mapped[size:], syscall.PROT_NONE)
		}
		if err != nil {
			panic(err)
		}
	}
	return &edged{mapped, unsafe.Slice((*float32)(unsafe.Pointer(&mapped[size-4*n])), n)}
}

// mappedBefore is a mapping of this size that is free, with zeros, or nil.
func mappedBefore(size int64) []byte {
	edgedFree.Lock()
	defer edgedFree.Unlock()
	list := edgedFree.mapped[size]
	if len(list) == 0 {
		return nil
	}
	mapped := list[len(list)-1]
	edgedFree.mapped[size] = list[:len(list)-1]
	clear(mapped[:size])
	return mapped
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
		edgedFree.Lock()
		defer edgedFree.Unlock()
		size := int64(len(b.mapped) - os.Getpagesize())
		edgedFree.mapped[size] = append(edgedFree.mapped[size], b.mapped)
	}
	b.mapped, b.words = nil, nil
}
