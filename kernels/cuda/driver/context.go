//go:build !nocuda && linux && amd64

package driver

// #include <cuda.h>
import "C"

import (
	"runtime"
	"sync"

	"gorgonia.org/cu"

	"dsstne/engine/fault"
)

// Context is a device's primary context, which all libraries of a process share.
type Context struct {
	id      int
	device  cu.Device
	context cu.CUContext
	c       C.CUcontext
	close   sync.Once
}

// Open takes part in the primary context of a device.
func Open(id int) (*Context, error) {
	info, err := Check(id)
	if err != nil {
		return nil, err
	}
	c := &Context{id: id, device: cu.Device(info.handle)}
	if c.context, err = c.device.RetainPrimaryCtx(); err != nil {
		return nil, fault.Wrap(wrapped("cuDevicePrimaryCtxRetain", err), "device \"cuda:%d\", %s", id, info.usageWords())
	}
	leave, err := c.Enter()
	if err != nil {
		_ = c.device.ReleasePrimaryCtx()
		return nil, err
	}
	defer leave()
	if err := failure("cuCtxGetCurrent", C.cuCtxGetCurrent(&c.c)); err != nil {
		_ = c.device.ReleasePrimaryCtx()
		return nil, err
	}
	return c, nil
}

func (c *Context) raw() C.CUcontext { return c.c }

// ID is the number of the device.
func (c *Context) ID() int { return c.id }

// Close takes leave of the context; what was allocated in it must be freed before.
func (c *Context) Close() (err error) {
	c.close.Do(func() { err = wrapped("cuDevicePrimaryCtxRelease", c.device.ReleasePrimaryCtx()) })
	return err
}

// Enter makes the context the current one of this thread, to which it binds the goroutine, until the function that it
// returns is called. It may be entered again meanwhile. The context that was current before is current afterwards.
func (c *Context) Enter() (leave func(), err error) {
	runtime.LockOSThread()
	if err := cu.PushCurrentCtx(c.context); err != nil {
		runtime.UnlockOSThread()
		return func() {}, wrapped("cuCtxPushCurrent", err)
	}
	return func() {
		_, _ = cu.PopCurrentCtx() // fails only if the context is lost, and then nothing is left to restore
		runtime.UnlockOSThread()
	}, nil
}

// Do runs a function inside the context.
func (c *Context) Do(work func() error) error {
	leave, err := c.Enter()
	if err != nil {
		return err
	}
	defer leave()
	return work()
}

// Synchronize waits until all work in the current context is done.
func Synchronize() error { return wrapped("cuCtxSynchronize", cu.Synchronize()) }

// Reaches tells whether kernels and copies on the device can use the memory of another directly.
func (c *Context) Reaches(peer *Context) (bool, error) {
	can, err := c.device.CanAccessPeer(peer.device)
	return can != 0, wrapped("cuDeviceCanAccessPeer", err)
}

// EnablePeer lets kernels and copies on the device use the memory of another directly; doing it again is no error.
func (c *Context) EnablePeer(peer *Context) error {
	return c.Do(func() error {
		err := wrapped("cuCtxEnablePeerAccess", peer.context.EnablePeerAccess(0))
		if e, ok := err.(*Error); ok && e.Code == C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED {
			return nil
		}
		return err
	})
}
