//go:build !nocuda && linux && amd64

package cuda

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// pool keeps freed memory for the next user of the same size, since cuMemAlloc and cuMemFree wait for the device. All
// work is in one stream, or the stream waits for it and it for the stream; therefore memory is not touched before its
// former use is over.
type pool struct {
	device *device
	mu     sync.Mutex
	spare  map[int64][]driver.Address // by size
	idle   int64                      // bytes that are spare
	live   int64                      // buffers that are held
	closed bool                       // the device
}

// sizeClass rounds a size up so that few sizes occur and at most an eighth is lost: 512 bytes, then eighths of powers
// of two.
func sizeClass(bytes int64) int64 {
	step := int64(512)
	for step*16 <= bytes {
		step *= 2
	}
	return (bytes + step - 1) / step * step
}

// take returns memory of a size class. If the device has none left, the pool first gives all spare memory back.
func (p *pool) take(size int64) (driver.Address, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.spare[size]; len(list) > 0 {
		at := list[len(list)-1]
		p.spare[size], p.idle = list[:len(list)-1], p.idle-size
		p.live++
		return at, nil
	}
	at, err := driver.Alloc(size)
	if fault.KindOf(err) == fault.OutOfMemory && p.idle > 0 {
		if err := p.release(); err != nil {
			return 0, err
		}
		at, err = driver.Alloc(size)
	}
	if err == nil {
		p.live++
	}
	return at, err
}

// give keeps memory that take has returned for the next user. A device that is closed gets it back at once, and one
// whose goroutine is not the caller's, since the order of its stream says nothing about the caller's work.
func (p *pool) give(at driver.Address, size int64, elsewhere bool) {
	if !elsewhere && p.keep(at, size) {
		return
	}
	_ = p.device.context.Do(func() error { return driver.Free(at) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live--; p.closed && p.live == 0 {
		_ = p.device.context.Close()
	}
}

// keep makes memory spare, unless the device is closed.
func (p *pool) keep(at driver.Address, size int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.spare == nil {
		p.spare = map[int64][]driver.Address{}
	}
	p.spare[size] = append(p.spare[size], at)
	p.idle += size
	p.live--
	return true
}

// close reports whether all buffers were given back; otherwise the last of them closes the context.
func (p *pool) close() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.live == 0
}

// trim gives all spare memory back to the device.
func (p *pool) trim() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.release()
}

func (p *pool) release() (err error) {
	if p.idle > 0 { // it may be in use by what is still in the stream
		err = p.device.stream.Synchronize()
	}
	for size, list := range p.spare {
		for _, at := range list {
			err = errors.Join(err, driver.Free(at))
		}
		p.idle -= size * int64(len(list))
		delete(p.spare, size)
	}
	return err
}

// buffer is memory of the device. The host has no view of it.
type buffer struct {
	device *device
	at     driver.Address
	n      int64
	size   int64 // bytes taken from the pool
}

func (b *buffer) Len() int64         { return b.n }
func (b *buffer) Float32() []float32 { return nil }
func (b *buffer) Int32() []int32     { return nil }

// Slice is a view; it has no size of its own to give back.
func (b *buffer) Slice(from, n int64) kernels.Buffer {
	return &buffer{device: b.device, at: b.at + driver.Address(4*from), n: n}
}

// Free gives the memory to the pool.
func (b *buffer) Free() { b.free(false) }

func (b *buffer) free(elsewhere bool) {
	if b.size > 0 {
		at, size := b.at, b.size
		b.at, b.n, b.size = 0, 0, 0
		b.device.memory.give(at, size, elsewhere)
	}
}

// Alloc zeroes in the order of the stream.
func (d *device) Alloc(n int64) (kernels.Buffer, error) {
	if n < 0 || n > (1<<62)/4 {
		return nil, fault.New(fault.InvalidArgument, "cannot allocate %d elements", n)
	}
	b := &buffer{device: d, n: n}
	if n == 0 {
		return b, nil
	}
	size := sizeClass(4 * n)
	err := d.do("allocating", func() error {
		at, err := d.memory.take(size)
		if err != nil {
			return fault.Wrap(err, "%d bytes", size)
		}
		if err := d.stream.Fill32(at, 0, n); err != nil {
			d.memory.give(at, size, false)
			return err
		}
		b.at, b.size = at, size
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Reaches: other devices' memory is not used in place.
func (d *device) Reaches(b kernels.Buffer) bool {
	own, is := b.(*buffer)
	return is && own.device == d
}

// Write waits for the copy, since the source is the caller's.
func (d *device) Write(to kernels.Buffer, at int64, from []float32) error {
	return d.copyHost("writing to a buffer", to, at, from,
		func(t *transfer, place driver.Address) error { return send(t, place, from) },
		func(place driver.Address, host unsafe.Pointer, bytes int64) error {
			return cmp.Or(d.stream.CopyToDeviceAsync(place, host, bytes), d.stream.Synchronize())
		})
}

// Read first waits for what is under way, as long as the device's group is well.
func (d *device) Read(from kernels.Buffer, at int64, to []float32) error {
	return d.copyHost("reading a buffer", from, at, to,
		func(t *transfer, place driver.Address) error {
			return cmp.Or(d.wait(), fetch(t, to, place))
		},
		func(place driver.Address, host unsafe.Pointer, bytes int64) error {
			return cmp.Or(d.stream.CopyToHostAsync(host, place, bytes), d.wait())
		})
}

// copyHost copies between a buffer and the host, much of it through pinned buffers if there is memory for them.
func (d *device) copyHost(what string, b kernels.Buffer, at int64, host []float32,
	pinned func(*transfer, driver.Address) error, direct func(driver.Address, unsafe.Pointer, int64) error) error {
	if len(host) == 0 {
		return nil
	}
	return d.do(what, func() error {
		defer runtime.KeepAlive(host)
		place, err := d.within(b, at, len(host))
		if err != nil {
			return err
		}
		if 4*len(host) >= leastPinned {
			err = d.throughPinned(func(t *transfer) error { return pinned(t, place) })
			if fault.KindOf(err) != fault.OutOfMemory {
				return err
			}
		}
		return direct(place, unsafe.Pointer(&host[0]), 4*int64(len(host)))
	})
}

// within is the address of n elements of a buffer, if it has them.
func (d *device) within(b kernels.Buffer, at int64, n int) (driver.Address, error) {
	if !d.Reaches(b) || at < 0 || at+int64(n) > b.Len() {
		return 0, fault.New(fault.Internal, "%s: elements %d to %d are outside the buffer", d.info.Name, at, at+int64(n))
	}
	return addressOf(b) + driver.Address(4*at), nil
}

// numbers is the address of the first n numbers of a buffer, 0 if there are none.
func (d *device) numbers(b kernels.Buffer, n int64) (driver.Address, error) {
	if n == 0 {
		return 0, nil
	}
	return d.within(b, 0, int(n))
}

// addressOf is where a buffer lies, 0 for none. Programs give a device only buffers that it reaches.
func addressOf(b kernels.Buffer) driver.Address {
	if b == nil {
		return 0
	}
	return b.(*buffer).at
}
