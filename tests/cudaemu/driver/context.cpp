// Contexts: the primary one of each device, others by cuCtxCreate, and every thread's stack of them.
#include "state.h"

using namespace emulator;

namespace {
thread_local std::vector<Context *> stack;
}

namespace emulator {

Context *current_context() { return stack.empty() ? nullptr : stack.back(); }

bool is_context(const void *handle) {
  for (const auto &d : devices)
    if (&d->primary == handle) return d->primary.references > 0;
  return contexts.find(const_cast<void *>(handle)) != nullptr;
}

CUresult usable(Context *context) {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!is_context(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (CUresult lost = devices[context->device]->lost) return lost;
  return context->error;
}

void make_ready(Context &context) {
  if (context.legacy) return;
  context.legacy = std::make_shared<Stream>(&context);
}

// What a context owned goes with it: what waits is done first, memory is given back.
CUresult destroy_contents(Context &context, Hold &hold) {
  if (context.error == 0 && !devices[context.device]->lost) drain_context(context, hold);
  for (auto &s : context.streams) s->waiting.clear(), s->done = s->submitted;
  if (context.legacy) context.legacy->waiting.clear(), context.legacy->done = context.legacy->submitted;
  context.streams.clear();
  context.legacy.reset();
  for (uintptr_t a : context.allocations) {
    const Allocation *found = device_memory(context.device).find(a);
    if (found) {
      count("live_bytes", -int64_t(found->bytes));
      count("live_allocations", -1);
    }
    device_memory(context.device).release(a);
  }
  context.allocations.clear();
  unpin_all(context);
  for (Module *m : std::set<Module *>(context.modules)) modules.remove(m);
  context.modules.clear();
  std::erase_if(events.live, [&](const auto &e) { return e.second->context == &context; });
  context.peers = 0;
  context.error = 0;
  return CUDA_SUCCESS;
}

}  // namespace emulator

#define ENTER_DEVICE(function)                                                       \
  ENTER(function);                                                                   \
  if (device < 0 || device >= int(devices.size())) return CUDA_ERROR_INVALID_DEVICE; \
  Context &primary = devices[device]->primary

API CUresult cuDevicePrimaryCtxRetain(Context **out, CUdevice device) {
  ENTER_DEVICE(cuDevicePrimaryCtxRetain);
  if (CUresult lost = devices[device]->lost) return lost;
  if (devices[device]->attributes[20] == 2) return CUDA_ERROR_DEVICE_UNAVAILABLE;  // compute mode: prohibited
  primary.references++;
  make_ready(primary);
  *out = &primary;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER_DEVICE(cuDevicePrimaryCtxRelease);
  if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (primary.references == 1) destroy_contents(primary, hold);
  primary.references--;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  ENTER_DEVICE(cuDevicePrimaryCtxReset);
  const int references = primary.references;
  destroy_contents(primary, hold);
  if (references) make_ready(primary);
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  ENTER_DEVICE(cuDevicePrimaryCtxSetFlags);
  primary.flags = flags;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  ENTER_DEVICE(cuDevicePrimaryCtxGetState);
  *flags = primary.flags;
  *active = primary.references > 0;
  return CUDA_SUCCESS;
}

API CUresult cuCtxCreate_v2(Context **out, unsigned flags, CUdevice device) {
  ENTER_DEVICE(cuCtxCreate);
  if (CUresult lost = devices[device]->lost) return lost;
  (void)primary;
  auto context = std::make_shared<Context>();
  context->device = device;
  context->references = 1;
  context->flags = flags;
  make_ready(*context);
  *out = contexts.add(context);
  stack.push_back(*out);
  return CUDA_SUCCESS;
}

API CUresult cuCtxDestroy_v2(Context *context) {
  ENTER(cuCtxDestroy);
  auto kept = contexts.find(context);
  if (!kept) return CUDA_ERROR_INVALID_CONTEXT;
  destroy_contents(*kept, hold);
  contexts.remove(context);
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuCtxPushCurrent_v2(Context *context) {
  ENTER(cuCtxPushCurrent);
  if (!context || !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  stack.push_back(context);
  return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(Context **out) {
  ENTER(cuCtxPopCurrent);
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(Context *context) {
  ENTER(cuCtxSetCurrent);
  if (context && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(Context **out) {
  ENTER(cuCtxGetCurrent);
  *out = current_context();
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device) {
  ENTER(cuCtxGetDevice);
  if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current_context()->device;
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetFlags(unsigned *flags) {
  ENTER_CONTEXT(cuCtxGetFlags);
  *flags = context->flags;
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetApiVersion(Context *of, unsigned *version) {
  ENTER(cuCtxGetApiVersion);
  if (of && !is_context(of)) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER_CONTEXT(cuCtxGetStreamPriorityRange);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetLimit(size_t *value, int) {
  ENTER_CONTEXT(cuCtxGetLimit);
  *value = 0;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetLimit(int, size_t) {
  ENTER_CONTEXT(cuCtxSetLimit);
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCacheConfig(int) {
  ENTER_CONTEXT(cuCtxSetCacheConfig);
  return CUDA_SUCCESS;
}

API CUresult cuCtxSynchronize() {
  ENTER_CONTEXT(cuCtxSynchronize);
  count("synchronisations");
  if (restrained()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  drain_context(*context, hold);
  close_memory();
  return usable(context);
}

API CUresult cuCtxEnablePeerAccess(Context *peer, unsigned flags) {
  ENTER_CONTEXT(cuCtxEnablePeerAccess);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!is_context(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  if (peer->device == context->device) return CUDA_ERROR_INVALID_DEVICE;
  if (context->peers >> peer->device & 1) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  context->peers |= 1u << peer->device;
  return CUDA_SUCCESS;
}

API CUresult cuCtxDisablePeerAccess(Context *peer) {
  ENTER_CONTEXT(cuCtxDisablePeerAccess);
  if (!is_context(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!(context->peers >> peer->device & 1)) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  context->peers &= ~(1u << peer->device);
  return CUDA_SUCCESS;
}
