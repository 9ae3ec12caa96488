// Allocations of device memory and of pinned host memory, and questions about pointers.
#include "../runtime/memory.h"

#include <sys/mman.h>

#include <unordered_map>

#include "state.h"

using namespace emulator;

namespace {

struct Pinned {
  size_t bytes;
  bool allocated;  // here, and not registered
  Context *owner;
};
std::unordered_map<void *, Pinned> pinned;

void unpin(void *p, const Pinned &entry) {
  remove_pinned(reinterpret_cast<uintptr_t>(p));
  count("live_host_bytes", -int64_t(entry.bytes));
  munmap(p, entry.bytes);
}

}  // namespace

void emulator::unpin_all(Context &owner) {
  std::erase_if(pinned, [&](const auto &entry) {
    if (entry.second.owner != &owner || !entry.second.allocated) return false;
    unpin(entry.first, entry.second);
    return true;
  });
}

API CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER_CONTEXT(cuMemGetInfo);
  const DeviceMemory &memory = device_memory(context->device);
  *total = memory.capacity();
  *free = memory.capacity() - memory.live_bytes();
  return CUDA_SUCCESS;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  ENTER_CONTEXT(cuMemAlloc);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (restrained()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const uintptr_t address = device_memory(context->device).allocate(bytes);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  context->allocations.insert(address);
  *out = address;
  count("allocations");
  count("live_allocations");
  count("live_bytes", int64_t(bytes));
  return CUDA_SUCCESS;
}

API CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER_CONTEXT(cuMemFree);
  if (address == 0) return CUDA_SUCCESS;
  const int device = device_of(address);
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  const Allocation *a = device_memory(device).find(address);
  if (!a || a->address != address) {
    tell("cuMemFree of 0x" + std::to_string(address) + ": " + device_memory(device).describe(address));
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (restrained()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  drain_context(*context, hold);  // freeing waits for all that was submitted
  if (CUresult bad = usable(context)) return bad;
  count("frees");
  count("live_allocations", -1);
  count("live_bytes", -int64_t(a->bytes));
  Context *owner = context;
  if (!owner->allocations.erase(address)) {
    devices[device]->primary.allocations.erase(address);
    for (auto &c : contexts.live) c.second->allocations.erase(address);
  }
  device_memory(device).release(address);
  return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  ENTER_CONTEXT(cuMemGetAddressRange);
  const int device = device_of(address);
  const Allocation *a = device < 0 ? nullptr : device_memory(device).find(address);
  if (!a) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = a->address;
  if (bytes) *bytes = a->bytes;
  return CUDA_SUCCESS;
}

// ---- host ----

API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned) {
  ENTER_CONTEXT(cuMemHostAlloc);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (restrained()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  pinned[p] = {bytes, true, context};
  add_pinned(reinterpret_cast<uintptr_t>(p), bytes);
  count("host_allocations");
  count("live_host_bytes", int64_t(bytes));
  *out = p;
  return CUDA_SUCCESS;
}
API CUresult cuMemAllocHost_v2(void **out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

API CUresult cuMemFreeHost(void *p) {
  ENTER_CONTEXT(cuMemFreeHost);
  const auto found = pinned.find(p);
  if (found == pinned.end() || !found->second.allocated) return CUDA_ERROR_INVALID_VALUE;
  if (restrained()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  drain_context(*context, hold);
  unpin(p, found->second);
  pinned.erase(found);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned) {
  ENTER_CONTEXT(cuMemHostRegister);
  if (!p || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (pinned.count(p)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  pinned[p] = {bytes, false, context};
  add_pinned(reinterpret_cast<uintptr_t>(p), bytes);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostUnregister(void *p) {
  ENTER_CONTEXT(cuMemHostUnregister);
  const auto found = pinned.find(p);
  if (found == pinned.end() || found->second.allocated) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  drain_context(*context, hold);
  remove_pinned(reinterpret_cast<uintptr_t>(p));
  pinned.erase(found);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned) {
  ENTER_CONTEXT(cuMemHostGetDevicePointer);
  if (!is_pinned(reinterpret_cast<uintptr_t>(p), 1)) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<uintptr_t>(p);
  return CUDA_SUCCESS;
}

API CUresult cuPointerGetAttribute(void *out, int attribute, CUdeviceptr address) {
  ENTER(cuPointerGetAttribute);
  const int device = device_of(address);
  const Allocation *a = device < 0 ? nullptr : device_memory(device).find(address);
  const bool host = is_pinned(address, 1);
  if (!a && !host) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case 1:
      *static_cast<void **>(out) = a ? static_cast<void *>(&devices[device]->primary) : nullptr;
      break;  // context
    case 2:
      *static_cast<unsigned *>(out) = a ? 2 : 1;
      break;                         // memory type: device, host
    case 3:
      *static_cast<CUdeviceptr *>(out) = address;
      break;
    case 8:
      *static_cast<unsigned *>(out) = 0;
      break;                                 // managed
    case 9:
      *static_cast<int *>(out) = a ? device : 0;
      break;
    case 11:
      *static_cast<CUdeviceptr *>(out) = a ? a->address : address;
      break;
    case 12:
      *static_cast<size_t *>(out) = a ? a->bytes : 0;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
