//go:build !nocuda && linux && amd64

package driver

/*
#include <cuda.h>

// The thread's mode before, or -1 if there is nothing to restore. A thread that captures for us stays restrained.
static int relax(void) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (cuThreadExchangeStreamCaptureMode(&mode)) return -1;
  if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return (int)mode;
  cuThreadExchangeStreamCaptureMode(&mode);
  return -1;
}

static void restrain(int before) {
  CUstreamCaptureMode mode = (CUstreamCaptureMode)before;
  if (before >= 0) cuThreadExchangeStreamCaptureMode(&mode);
}

static CUresult enter(CUcontext c, int *mode) {
  const CUresult failed = cuCtxPushCurrent(c);
  if (!failed) *mode = relax();
  return failed;
}

static void leave(int mode) {
  restrain(mode);
  CUcontext c;
  cuCtxPopCurrent(&c); // fails only if the context is lost, and then nothing is left to restore
}
*/
import "C"

import (
	"runtime"
	"sync"

	"gorgonia.org/cu"

	"dsstne/internal/fault"
)

// Context is a device's primary context, which all libraries of a process share.
type Context struct {
	id     int
	device cu.Device
	c      C.CUcontext
	close  sync.Once
}

// Open retains the primary context of a device.
func Open(id int) (*Context, error) {
	info, err := Check(id)
	if err != nil {
		return nil, err
	}
	c := &Context{id: id, device: cu.Device(info.handle)}
	if err := failure("cuDevicePrimaryCtxRetain", C.cuDevicePrimaryCtxRetain(&c.c, C.CUdevice(info.handle))); err != nil {
		return nil, fault.Wrap(err, "device \"cuda:%d\", %s", id, info.usageWords())
	}
	return c, nil
}

// ID is the number of the device.
func (c *Context) ID() int { return c.id }

// Close releases the context; what was allocated in it must be freed before.
func (c *Context) Close() (err error) {
	c.close.Do(func() { err = wrapped("cuDevicePrimaryCtxRelease", c.device.ReleasePrimaryCtx()) })
	return err
}

// Enter makes the context the current one of this thread, to which it binds the goroutine, until the function that it
// returns is called. It may be entered again meanwhile. The context that was current before is current afterwards.
//
// Another user of the process may be capturing a stream of theirs meanwhile, in the mode that forbids all threads to
// allocate or to query an event (PyTorch's default): such a call would fail, and their capture with it. Streams here
// have nothing to do with theirs; therefore the thread leaves that mode.
func (c *Context) Enter() (leave func(), err error) {
	runtime.LockOSThread()
	var mode C.int
	if err := failure("cuCtxPushCurrent", C.enter(c.c, &mode)); err != nil {
		runtime.UnlockOSThread()
		return func() {}, err
	}
	return func() {
		C.leave(mode)
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

// Reaches reports whether kernels and copies on the device can use the memory of another directly.
func (c *Context) Reaches(peer *Context) (bool, error) {
	can, err := c.device.CanAccessPeer(peer.device)
	return can != 0, wrapped("cuDeviceCanAccessPeer", err)
}

// EnablePeer lets kernels and copies on the device use the memory of another directly; doing it again is no error.
func (c *Context) EnablePeer(peer *Context) error {
	return c.Do(func() error {
		err := failure("cuCtxEnablePeerAccess", C.cuCtxEnablePeerAccess(peer.c, 0))
		if e, ok := err.(*Error); ok && e.Code == C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED {
			return nil
		}
		return err
	})
}
