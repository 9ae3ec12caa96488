//go:build !nocuda && linux && amd64

package driver

/*
#include <cuda.h>

static CUresult copy_rows(void *to, size_t pitch, CUdeviceptr from, size_t width, size_t rows, CUstream s) {
  CUDA_MEMCPY2D c = {0};
  c.srcMemoryType = CU_MEMORYTYPE_DEVICE, c.srcDevice = from, c.srcPitch = width;
  c.dstMemoryType = CU_MEMORYTYPE_HOST, c.dstHost = to, c.dstPitch = pitch;
  c.WidthInBytes = width, c.Height = rows;
  return cuMemcpy2DAsync(&c, s);
}
*/
import "C"

import "unsafe"

// Address is a place in the memory of a device.
type Address uint64

// Alloc takes memory of the current context's device, with unspecified content.
func Alloc(bytes int64) (Address, error) {
	var at C.CUdeviceptr
	err := failure("cuMemAlloc", C.cuMemAlloc(&at, C.size_t(bytes)))
	return Address(at), err
}

// Free gives memory of Alloc back, if there is some; no work under way may use it.
func Free(at Address) error {
	if at == 0 {
		return nil
	}
	return failure("cuMemFree", C.cuMemFree(C.CUdeviceptr(at)))
}

// HostAlloc takes pinned memory of the host, which copies reach directly; all contexts may use it.
func HostAlloc(bytes int64) (unsafe.Pointer, error) {
	var at unsafe.Pointer
	err := failure("cuMemHostAlloc", C.cuMemHostAlloc(&at, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE))
	return at, err
}

// HostFree gives memory of HostAlloc back, if there is some.
func HostFree(at unsafe.Pointer) error {
	if at == nil {
		return nil
	}
	return failure("cuMemFreeHost", C.cuMemFreeHost(at))
}

// MemoryInfo is how many bytes of the current context's device are free, and how many it has.
func MemoryInfo() (free, total int64, err error) {
	var f, t C.size_t
	err = failure("cuMemGetInfo", C.cuMemGetInfo(&f, &t))
	return int64(f), int64(t), err
}

// CopyToDeviceAsync copies in the order of a stream; the source is pinned memory that stays as it is until then.
func (s Stream) CopyToDeviceAsync(to Address, from unsafe.Pointer, bytes int64) error {
	return failure("cuMemcpyHtoDAsync", C.cuMemcpyHtoDAsync(C.CUdeviceptr(to), from, C.size_t(bytes), s.c()))
}

// CopyToHostAsync copies in the order of a stream, to pinned memory.
func (s Stream) CopyToHostAsync(to unsafe.Pointer, from Address, bytes int64) error {
	return failure("cuMemcpyDtoHAsync", C.cuMemcpyDtoHAsync(to, C.CUdeviceptr(from), C.size_t(bytes), s.c()))
}

// CopyRowsToHostAsync copies rows of width bytes, one behind the other on the device, to places in the host's memory
// that are pitch bytes apart, in the order of the stream.
func (s Stream) CopyRowsToHostAsync(to unsafe.Pointer, pitch int64, from Address, width, rows int64) error {
	return failure("cuMemcpy2DAsync",
		C.copy_rows(to, C.size_t(pitch), C.CUdeviceptr(from), C.size_t(width), C.size_t(rows), s.c()))
}

// Copy copies within the device, or between devices that were given access to each other, in the order of a stream.
func (s Stream) Copy(to, from Address, bytes int64) error {
	return failure("cuMemcpyDtoDAsync",
		C.cuMemcpyDtoDAsync(C.CUdeviceptr(to), C.CUdeviceptr(from), C.size_t(bytes), s.c()))
}

// CopyPeer copies between two devices in the order of a stream, by way of the host where they cannot reach each other.
func (s Stream) CopyPeer(to Address, toContext *Context, from Address, fromContext *Context, bytes int64) error {
	return failure("cuMemcpyPeerAsync", C.cuMemcpyPeerAsync(C.CUdeviceptr(to), toContext.c, C.CUdeviceptr(from),
		fromContext.c, C.size_t(bytes), s.c()))
}

// Fill8 sets bytes, in the order of a stream.
func (s Stream) Fill8(at Address, value byte, bytes int64) error {
	return failure("cuMemsetD8Async", C.cuMemsetD8Async(C.CUdeviceptr(at), C.uchar(value), C.size_t(bytes), s.c()))
}

// Fill32 sets words of four bytes, in the order of a stream.
func (s Stream) Fill32(at Address, value uint32, words int64) error {
	return failure("cuMemsetD32Async", C.cuMemsetD32Async(C.CUdeviceptr(at), C.uint(value), C.size_t(words), s.c()))
}
