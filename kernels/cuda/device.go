//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/cublaslt"
	"dsstne/kernels/cuda/driver"
)

// device computes on one CUDA device, in one stream. Every method enters the device's primary context and leaves it
// again, which gives the caller's thread back the context that was current on it.
type device struct {
	info      kernels.DeviceInfo
	context   *driver.Context
	stream    driver.Stream // of ops, which follow each other
	side      side          // a second stream of a step
	copies    driver.Stream // of what the host sends for steps to come
	early     driver.Stream // of their early operations
	module    driver.Module
	kernel    map[string]driver.Kernel
	memory    pool
	step      steps
	graphs    map[*graph]bool
	capturing *captured  // that is made just now
	member    membership // of a group; nil if the device is alone
	agreement agreement  // by which steps hear of failures of the others
	launches  []site     // since the step began: what a failure of one of them is about
	failed    error      // the first of the operation that is being put into the stream
	closed    bool
	narrow    int32 // kernels.Precision of products
	form      string
	hardware  driver.DeviceInfo
	library   *cublaslt.Handle // nil where there is none
}

// open retains the device's primary context, loads the kernels and makes the streams.
func open(info driver.DeviceInfo, o kernels.Options) (*device, error) {
	context, err := driver.Open(info.ID)
	if err != nil {
		return nil, err
	}
	d := &device{
		info: describe(info), context: context, kernel: map[string]driver.Kernel{}, graphs: map[*graph]bool{},
		narrow: int32(o.Precision), form: o.Form, hardware: info,
	}
	d.info.Available, d.memory.device = -1, d
	err = d.do("opening", func() error {
		for _, open := range []func() error{d.load, d.openStreams, d.loadLibrary} {
			if err := open(); err != nil {
				return errors.Join(err, d.closeLibrary(), d.closeStreams(), d.module.Unload())
			}
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
	for _, stream := range []*driver.Stream{&d.stream, &d.side.stream, &d.copies, &d.early} {
		if *stream, err = driver.NewStream(); err != nil {
			return err
		}
	}
	for _, event := range append(d.step.events(), d.side.events()...) {
		if *event, err = driver.NewEvent(); err != nil {
			return err
		}
	}
	return nil
}

// closeStreams closes those that were made.
func (d *device) closeStreams() (err error) {
	d.leaveTurns()
	for _, event := range append(d.step.events(), d.side.events()...) {
		err = errors.Join(err, event.Close())
	}
	return errors.Join(err, d.early.Close(), d.copies.Close(), d.side.stream.Close(), d.stream.Close())
}

// idle waits for all streams.
func (d *device) idle() error {
	return errors.Join(d.copies.Synchronize(), d.early.Synchronize(), d.stream.Synchronize(), d.side.stream.Synchronize())
}

// load loads the image for the device's compute capability and looks the kernels up.
func (d *device) load() error {
	name, image := imageFor(d.hardware.Capability)
	var err error
	if d.module, err = driver.LoadModule(image); err != nil {
		return fault.Wrap(err, "the kernels (%s) do not load", name)
	}
	for _, name := range kernelNames {
		if d.kernel[name], err = d.module.Function(name); err != nil {
			return fault.Wrap(err, "kernel %s", name)
		}
	}
	return errors.Join(d.loadFused(), d.loadScreening())
}

// do runs a function inside the device's context; an error of the driver names the device and what it was doing.
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

// precision is that of products.
func (d *device) precision() kernels.Precision { return kernels.Precision(d.narrow) }

func (d *device) Info() kernels.DeviceInfo { return d.info }

// Available counts the pool's spare memory, too.
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

// Trim gives back the pool's spare memory and, if no step is under way, that of steps.
func (d *device) Trim() {
	_ = d.do("giving memory back", func() (err error) {
		if d.step.underWay == 0 {
			err = errors.Join(d.idle(), d.step.rates.free(), d.step.free())
		}
		return errors.Join(err, d.memory.trim())
	})
}

// Close gives everything back except buffers that are still held, which keep the context alive until they are freed.
func (d *device) Close() error {
	if d.closed {
		return nil
	}
	err := d.do("closing", func() error {
		err := errors.Join(d.idle(), d.closeGraphs())
		if d.member != nil {
			err = errors.Join(err, d.member.leave(), d.agreement.free())
		}
		err = errors.Join(err, d.step.rates.free(), d.step.free(), d.memory.trim(), d.closeLibrary())
		return errors.Join(err, d.closeStreams(), d.module.Unload())
	})
	d.closed = true
	if d.memory.close() {
		err = errors.Join(err, d.context.Close())
	}
	if driver.Lost(err) {
		return nil // its user has got the error already; what the device holds goes with its context
	}
	var family *fault.Error
	if errors.As(err, &family) {
		return family
	}
	return err
}
