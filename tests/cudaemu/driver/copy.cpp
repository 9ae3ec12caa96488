// Copies and fills.
#include <cstring>

#include "state.h"

using namespace emulator;

namespace {

enum class Where { host, pinned, device };

Where where(uintptr_t address, size_t bytes) {
  if (device_of(address) >= 0) return Where::device;
  return is_pinned(address, bytes) ? Where::pinned : Where::host;
}

// The span that a two-dimensional range covers.
size_t span(const Work &w, size_t pitch) { return w.height == 0 ? 0 : (w.height - 1) * pitch + w.width; }

const char *kind_of(const Work &w) {
  const bool from = device_of(w.from) >= 0, to = device_of(w.to) >= 0;
  if (from && to) return device_of(w.from) == device_of(w.to) ? "device_to_device" : "peer";
  return from ? "device_to_host" : to ? "host_to_device" : "host_to_host";
}

bool inside(uintptr_t address, size_t bytes, const char *what) {
  if (device_of(address) < 0 || is_allocated(address, bytes)) return true;
  tell(std::string(what) + " of " + std::to_string(bytes) + " bytes out of bounds: begins " +
       device_memory(device_of(address)).describe(address));
  return false;
}

Rows source(const Work &w) { return {w.from, w.width, w.height, w.from_pitch}; }

enum class Return { when_submitted, when_done };

CUresult copy(const std::shared_ptr<Stream> &stream, Work work, Return returns, Hold &hold) {
  if (work.width == 0 || work.height == 0) return CUDA_SUCCESS;
  work.kind = Work::copy;
  if (work.to_pitch == 0) work.to_pitch = work.width;
  if (work.from_pitch == 0) work.from_pitch = work.width;
  const size_t to_bytes = span(work, work.to_pitch), from_bytes = span(work, work.from_pitch);
  if (!inside(work.to, to_bytes, "copy to a range") || !inside(work.from, from_bytes, "copy from a range"))
    return CUDA_ERROR_INVALID_VALUE;
  if (!work.to || !work.from) return CUDA_ERROR_INVALID_VALUE;
  if (!stream->capture && where(work.from, from_bytes) == Where::host) {
    // What cannot be read by the device later is read now.
    const char *from = reinterpret_cast<const char *>(work.from);
    work.bytes.assign(from, from + from_bytes);
  }
  if (!stream->capture && settings.lazy) work.expected = expect_pinned(source(work));
  if (stream->computes && !std::strcmp(kind_of(work), "host_to_device")) count("copies.host_to_device_behind_kernels");
  // A device cannot write to memory that may be moved: the driver waits and copies itself.
  const bool wait = returns == Return::when_done || (!stream->capture && where(work.to, to_bytes) == Where::host);
  if (wait && stream->capture) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (CUresult bad = submit(stream, std::move(work), hold)) return bad;
  if (!wait) return CUDA_SUCCESS;
  if (returns == Return::when_done) count("synchronisations");
  drain(*stream, stream->submitted, hold);
  host_waits(*stream->context, stream->clock);
  close_memory();
  return usable(stream->context);
}

Work plain(uintptr_t to, uintptr_t from, size_t bytes) {
  Work w;
  w.to = to;
  w.from = from;
  w.width = bytes;
  return w;
}

uintptr_t address(const void *p) { return reinterpret_cast<uintptr_t>(p); }

CUresult fill(const std::shared_ptr<Stream> &stream, CUdeviceptr to, uint32_t value, int element, size_t n,
              Hold &hold) {
  if (n == 0) return CUDA_SUCCESS;
  if (to % element) return CUDA_ERROR_INVALID_VALUE;
  if (device_of(to) < 0 && !is_pinned(to, n * element)) return CUDA_ERROR_INVALID_VALUE;
  if (!inside(to, n * element, "fill")) return CUDA_ERROR_INVALID_VALUE;
  Work w = plain(to, 0, n * element);
  w.kind = Work::fill;
  w.value = value;
  w.element = element;
  return submit(stream, std::move(w), hold);
}

CUresult copy_rectangle(const CUDA_MEMCPY2D &c, const std::shared_ptr<Stream> &stream, Return returns, Hold &hold) {
  if (c.srcMemoryType == 3 || c.dstMemoryType == 3) return CUDA_ERROR_NOT_SUPPORTED;  // arrays
  Work w;
  const uintptr_t from = c.srcMemoryType == 1 ? address(c.srcHost) : c.srcDevice;
  const uintptr_t to = c.dstMemoryType == 1 ? address(c.dstHost) : c.dstDevice;
  w.width = c.WidthInBytes;
  w.height = c.Height;
  w.from_pitch = c.srcPitch ? c.srcPitch : w.width;
  w.to_pitch = c.dstPitch ? c.dstPitch : w.width;
  if (w.from_pitch < w.width || w.to_pitch < w.width) return CUDA_ERROR_INVALID_VALUE;
  w.from = from + c.srcY * w.from_pitch + c.srcXInBytes;
  w.to = to + c.dstY * w.to_pitch + c.dstXInBytes;
  return copy(stream, std::move(w), returns, hold);
}

}  // namespace

namespace emulator {

CUresult perform_copy(const Work &w) {
  count(std::string("copies.") + kind_of(w));
  count(std::string("bytes.") + kind_of(w), int64_t(w.width * w.height));
  Access open;
  const uintptr_t from = w.bytes.empty() ? w.from : address(w.bytes.data());
  for (size_t row = 0; row < w.height; row++) {
    CUresult early = w.bytes.empty() ? touch(from + row * w.from_pitch, w.width, false) : CUresult(CUDA_SUCCESS);
    if (!early) early = touch(w.to + row * w.to_pitch, w.width, true);
    if (early) return early;
    std::memmove(reinterpret_cast<void *>(w.to + row * w.to_pitch),
                 reinterpret_cast<const void *>(from + row * w.from_pitch), w.width);
    copy_written(w.to + row * w.to_pitch, w.from + row * w.from_pitch, w.width);
  }
  const std::string wrong = w.bytes.empty() ? watch_pinned(source(w), false, w.expected) : "";
  watch_pinned({w.to, w.width, w.height, w.to_pitch}, true);
  if (wrong.empty()) return CUDA_SUCCESS;
  tell(wrong);
  return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult perform_fill(const Work &w) {
  count("fills");
  count("bytes.filled", int64_t(w.width));
  Access open;
  if (CUresult early = touch(w.to, w.width, true)) return early;
  if (w.element == 1) {
    std::memset(reinterpret_cast<void *>(w.to), int(w.value), w.width);
  } else if (w.element == 4) {  // that of most: a buffer is filled as it is allocated
    std::fill_n(reinterpret_cast<uint32_t *>(w.to), w.width / 4, uint32_t(w.value));
  } else {
    for (size_t i = 0; i < w.width; i += w.element)
      std::memcpy(reinterpret_cast<void *>(w.to + i), &w.value, w.element);
  }
  watch_pinned({w.to, w.width, 1, w.width}, true);
  return CUDA_SUCCESS;
}

}  // namespace emulator

#define ENTER_STREAM(function)                                   \
  ENTER(function);                                               \
  CUresult why;                                                  \
  const std::shared_ptr<Stream> stream = stream_of(handle, why); \
  if (why) return why
#define ENTER_LEGACY(function)  \
  void *const handle = nullptr; \
  ENTER_STREAM(function)

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) {
  ENTER_LEGACY(cuMemcpyHtoD);
  return copy(stream, plain(to, address(from), n), Return::when_done, hold);
}
API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) {
  ENTER_LEGACY(cuMemcpyDtoH);
  return copy(stream, plain(address(to), from, n), Return::when_done, hold);
}
API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
  ENTER_LEGACY(cuMemcpyDtoD);
  return copy(stream, plain(to, from, n), Return::when_submitted, hold);
}
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  ENTER_LEGACY(cuMemcpy);
  return copy(stream, plain(to, from, n), Return::when_done, hold);
}
API CUresult cuMemcpyPeer(CUdeviceptr to, void *, CUdeviceptr from, void *, size_t n) {
  ENTER_LEGACY(cuMemcpyPeer);
  return copy(stream, plain(to, from, n), Return::when_submitted, hold);
}
API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c) {
  ENTER_LEGACY(cuMemcpy2D);
  return copy_rectangle(*c, stream, Return::when_done, hold);
}
API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c) { return cuMemcpy2D_v2(c); }

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, void *handle) {
  ENTER_STREAM(cuMemcpyHtoDAsync);
  return copy(stream, plain(to, address(from), n), Return::when_submitted, hold);
}
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, void *handle) {
  ENTER_STREAM(cuMemcpyDtoHAsync);
  return copy(stream, plain(address(to), from, n), Return::when_submitted, hold);
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, void *handle) {
  ENTER_STREAM(cuMemcpyDtoDAsync);
  return copy(stream, plain(to, from, n), Return::when_submitted, hold);
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, void *handle) {
  ENTER_STREAM(cuMemcpyAsync);
  return copy(stream, plain(to, from, n), Return::when_submitted, hold);
}
API CUresult cuMemcpyPeerAsync(CUdeviceptr to, void *, CUdeviceptr from, void *, size_t n, void *handle) {
  ENTER_STREAM(cuMemcpyPeerAsync);
  return copy(stream, plain(to, from, n), Return::when_submitted, hold);
}
API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, void *handle) {
  ENTER_STREAM(cuMemcpy2DAsync);
  return copy_rectangle(*c, stream, Return::when_submitted, hold);
}

API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) {
  ENTER_LEGACY(cuMemsetD8);
  return fill(stream, to, value, 1, n, hold);
}
API CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n) {
  ENTER_LEGACY(cuMemsetD16);
  return fill(stream, to, value, 2, n, hold);
}
API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) {
  ENTER_LEGACY(cuMemsetD32);
  return fill(stream, to, value, 4, n, hold);
}
API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, void *handle) {
  ENTER_STREAM(cuMemsetD8Async);
  return fill(stream, to, value, 1, n, hold);
}
API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, void *handle) {
  ENTER_STREAM(cuMemsetD16Async);
  return fill(stream, to, value, 2, n, hold);
}
API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, void *handle) {
  ENTER_STREAM(cuMemsetD32Async);
  return fill(stream, to, value, 4, n, hold);
}
