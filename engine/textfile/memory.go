package textfile

import (
	"sync/atomic"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// budget counts the memory of a reading.
type budget struct {
	limit int64 // 0: any
	used  atomic.Int64
}

func (b *budget) claim(bytes int64) error {
	for {
		used := b.used.Load()
		if b.limit != 0 && bytes > 0 && used+bytes > b.limit {
			return fault.New(fault.OutOfMemory, "reading the text needs more memory than memory_limit, %s bytes; raise the "+
				"limit, or read a part of the text", fault.Grouped(b.limit))
		}
		if b.used.CompareAndSwap(used, used+bytes) {
			return nil
		}
	}
}

// list is a slice outside the Go heap. T has no pointers.
type list[T any] struct {
	budget *budget
	buffer *kernels.HostBuffer
	items  []T
}

// words is the size of n items in elements of a buffer.
func (l *list[T]) words(n int) int64 {
	var one T
	return (int64(n)*int64(unsafe.Sizeof(one)) + 3) / 4
}

// reserve makes room for n more items; those that it adds are 0. It may move the items.
func (l *list[T]) reserve(n int) error {
	least := len(l.items) + n
	if least <= cap(l.items) {
		return nil
	}
	const smallest = 4096
	err := l.resize(max(least+least/4, smallest))
	if err != nil && fault.KindOf(err) == fault.OutOfMemory {
		err = l.resize(least) // all that the limit allows
	}
	return err
}

// fit gives back the memory behind the items.
func (l *list[T]) fit() error { return l.resize(len(l.items)) }

func (l *list[T]) resize(room int) error {
	if l.buffer == nil {
		l.buffer = new(kernels.HostBuffer)
	}
	more := 4 * (l.words(room) - l.buffer.Len())
	if err := l.budget.claim(more); err != nil {
		return err
	}
	if err := l.buffer.Resize(l.words(room)); err != nil {
		l.budget.used.Add(-more)
		return err
	}
	length := min(len(l.items), room)
	l.items = nil
	if room > 0 {
		l.items = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(l.buffer.Int32()))), room)[:length]
	}
	return nil
}

// push appends an item.
func (l *list[T]) push(item T) error {
	if len(l.items) == cap(l.items) {
		if err := l.reserve(1); err != nil {
			return err
		}
	}
	l.items = append(l.items, item)
	return nil
}

// extend appends items.
func (l *list[T]) extend(items ...T) error {
	if err := l.reserve(len(items)); err != nil {
		return err
	}
	l.items = append(l.items, items...)
	return nil
}

// zeros makes a list of n zeros.
func (l *list[T]) zeros(n int) error {
	l.free()
	if err := l.reserve(n); err != nil {
		return err
	}
	l.items = l.items[:n]
	return nil
}

func (l *list[T]) free() {
	if l.buffer != nil {
		l.budget.used.Add(-4 * l.buffer.Len())
		l.buffer.Free()
	}
	l.items = nil
}
