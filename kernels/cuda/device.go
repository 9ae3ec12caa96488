//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"runtime"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/cublaslt"
	"dsstne/kernels/cuda/driver"
)

// device computes on one CUDA device, in one stream. Every method enters the device's primary context and leaves it again, so
// that the caller's thread keeps the context that was current on it.
type device struct {
	info      kernels.DeviceInfo
	context   *driver.Context
	stream    driver.Stream // of ops, which follow each other
	copies    driver.Stream // of what the host sends for steps to come
	module    driver.Module
	kernel    map[string]driver.Kernel
	memory    pool
	step      steps
	graphs    map[*graph]bool
	capturing *graph     // that is made just now
	member    membership // of a group; nil if the device is alone
	agreement agreement  // how steps hear of failures of the others
	// launches are those since the step began: what a failure of one of them is about.
	launches []site
	unknown  error // the kind of an op that no kernel knows; the launch that was to have it is not made
	closed   bool
	narrow   int32 // kernels.Precision: what products are of
	form     string
	// What the forms of the output depend on; library is nil where there is none.
	capability, sharedBytes, multiprocessors int
	cacheBytes                               int64
	library                                  *cublaslt.Handle
}

// open takes part in the device's primary context, loads the kernels and makes the stream.
func open(info driver.DeviceInfo, o kernels.Options) (*device, error) {
	context, err := driver.Open(info.ID)
	if err != nil {
		return nil, err
	}
	d := &device{info: describe(info), context: context, kernel: map[string]driver.Kernel{}, graphs: map[*graph]bool{}}
	d.info.Available = -1
	d.memory.device, d.narrow, d.form = d, int32(o.Precision), o.Form
	d.capability, d.sharedBytes, d.multiprocessors = info.Capability, info.SharedBytes, info.Multiprocessors
	d.cacheBytes = int64(info.L2Bytes)
	err = d.do("opening", func() error {
		if err := d.load(info.Capability); err != nil {
			return err
		}
		if err = d.openStreams(); err == nil {
			err = d.loadLibrary()
		}
		if err != nil {
			return errors.Join(err, d.closeLibrary(), d.closeStreams(), d.module.Unload())
		}
		return nil
	})
	if err != nil {
		_ = context.Close()
		return nil, err
	}
	return d, nil
}

// openStreams makes the streams and the events of steps.
func (d *device) openStreams() (err error) {
	for _, stream := range []*driver.Stream{&d.stream, &d.copies} {
		if *stream, err = driver.NewStream(); err != nil {
			return err
		}
	}
	for _, event := range d.step.events() {
		if *event, err = driver.NewEvent(false); err != nil {
			return err
		}
	}
	return nil
}

// closeStreams closes those that there are.
func (d *device) closeStreams() (err error) {
	d.leaveTurns()
	for _, event := range d.step.events() {
		if *event != (driver.Event{}) {
			err = errors.Join(err, event.Close())
		}
	}
	for _, stream := range []driver.Stream{d.copies, d.stream} {
		if stream != (driver.Stream{}) {
			err = errors.Join(err, stream.Close())
		}
	}
	return err
}

// load loads the image for a compute capability and looks the kernels up.
func (d *device) load(capability int) error {
	name, image := imageFor(capability)
	var err error
	if d.module, err = driver.LoadModule(image); err != nil {
		return fault.Wrap(err, "the kernels (%s) do not load", name)
	}
	for _, name := range kernelNames {
		if d.kernel[name], err = d.module.Function(name); err != nil {
			return errors.Join(fault.Wrap(err, "kernel %s", name), d.module.Unload())
		}
	}
	return d.loadFused()
}

// do runs a function inside the device's context and says of an error where it was.
func (d *device) do(what string, work func() error) error {
	if d.closed {
		return fault.New(fault.InvalidState, "%s is closed", d.info.Name)
	}
	leave, err := d.context.Enter()
	if err == nil {
		defer leave()
		err = work()
	}
	var driverError *driver.Error
	if errors.As(err, &driverError) {
		return fault.Wrap(err, "%s, %s", d.info.Name, what)
	}
	return err
}

func (d *device) Info() kernels.DeviceInfo { return d.info }

// Available counts what the pool holds back, too.
func (d *device) Available() int64 {
	available := int64(-1)
	_ = d.do("asking for free memory", func() error {
		free, _, err := driver.MemoryInfo()
		if err == nil {
			available = free + d.memory.idle
		}
		return err
	})
	return available
}

// Trim gives back the pool's spare memory and, where none is under way, that of steps.
func (d *device) Trim() {
	_ = d.do("giving memory back", func() (err error) {
		if d.step.underWay == 0 {
			err = errors.Join(d.copies.Synchronize(), d.stream.Synchronize(), d.step.rates.free(), d.step.free())
		}
		return errors.Join(err, d.memory.trim())
	})
}

// Close gives everything back but for buffers that are still held, which keep the context alive until they are freed.
func (d *device) Close() error {
	if d.closed {
		return nil
	}
	err := d.do("closing", func() error {
		err := errors.Join(d.copies.Synchronize(), d.stream.Synchronize())
		err = errors.Join(err, d.closeGraphs())
		if d.member != nil {
			err = errors.Join(err, d.member.leave(), d.agreement.free())
		}
		err = errors.Join(err, d.step.rates.free(), d.step.free(), d.memory.trim(), d.closeLibrary())
		return errors.Join(err, d.closeStreams(), d.module.Unload())
	})
	d.closed = true
	if d.memory.live == 0 {
		err = errors.Join(err, d.context.Close())
	}
	if driver.Lost(err) {
		return nil // it refuses all of this, as who used it has been told; what it holds goes with its context
	}
	var family *fault.Error
	if errors.As(err, &family) {
		return family
	}
	return err
}

// launch puts a kernel into the stream. The arguments are laid out as the kernel's struct.
func launch[T any](d *device, name string, grid, block driver.Dim, args *T) error {
	return launchShared(d, name, grid, block, 0, args)
}

// mostY is how many blocks a grid has in y at most.
const mostY = 65535

// launchShared gives the kernel dynamic shared memory as well.
func launchShared[T any](d *device, name string, grid, block driver.Dim, shared int, args *T) error {
	if err := d.unknown; err != nil {
		d.unknown = nil
		return err
	}
	if grid.Y > mostY {
		return fault.New(fault.Unsupported, "kernel %s would need %d blocks of rows or units, and %d is the most: take a smaller batch, or "+
			"fewer units in a layer", name, grid.Y, mostY)
	}
	err := driver.Launch(d.stream, d.kernel[name], grid, block, shared, args)
	runtime.KeepAlive(args)
	if err != nil {
		return fault.Wrap(err, "kernel %s", name)
	}
	return nil
}

// site is what a launch works on, for messages about numbers that are not finite: a word for each kind of failure.
type site struct {
	tensor string
	what   [2]string
	err    [2]error // what is told instead, where it is something else that failed
	noRow  bool
}

var updateWords = [2]string{"the gradient", "the updated weight"}

// next numbers a launch.
func (d *device) next(s site) int32 {
	d.launches = append(d.launches, s)
	return int32(len(d.launches) - 1)
}

// notFinite turns the word that kernels leave (step.cuh, fail) into an error.
func (d *device) notFinite(failure uint64, sites []site) error {
	const noRow = 1<<40 - 1
	word := ^failure
	number, kind, row := int(word>>42), word>>40&3, int64(word&noRow)
	if number >= len(sites) || kind > 1 {
		return fault.New(fault.Internal, "%s: the failure record holds %#x", d.info.Name, failure)
	}
	s := sites[number]
	if err := s.err[kind]; err != nil {
		return err
	}
	if row == noRow || s.noRow {
		row = -1
	}
	return &kernels.NotFiniteError{Tensor: s.tensor, What: s.what[kind], Row: row}
}

// blocks is how many blocks of a size cover a number of things.
func blocks(n, size int64) uint32 { return uint32((n + size - 1) / size) }

// grid2 spreads rows over y and, where they are more than y can count, z.
func grid2(x uint32, rows int64) driver.Dim {
	const most = 32768
	if rows <= most {
		return driver.Dim{X: x, Y: uint32(rows)}
	}
	return driver.Dim{X: x, Y: most, Z: blocks(rows, most)}
}
