// Launches of kernels, their attributes and occupancy, and the doing of work.
#include <cstring>

#include "../runtime/counts.h"
#include "../runtime/engine.h"
#include "state.h"

using namespace emulator;

namespace emulator {

CUresult perform_copy(const Work &w);
CUresult perform_fill(const Work &w);

namespace {

int blocks_of_multiprocessor(const Device &d, int threads, size_t shared) {
  auto attribute = [&](int number) { return d.attributes.at(number); };
  const int warps = (threads + 31) / 32;
  int blocks = std::min(attribute(106), attribute(39) / (warps * 32));
  const size_t taken = (shared + size_t(attribute(111)) + 127) / 128 * 128;
  return std::min(blocks, int(size_t(attribute(81)) / taken));
}

CUresult code_of(Failure failure) {
  switch (failure) {
    case Failure::none:
      return CUDA_SUCCESS;
    case Failure::illegal_address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case Failure::misaligned:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case Failure::resources:
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

CUresult perform_kernel(const Work &w, Context &context) {
  const Registration &kernel = *w.function->kernel;
  count("launches");
  count(std::string("launches.") + kernel.name);
  if (CUresult fault = fault_of_kernel(kernel.name)) return fault;
  Launch launch;
  launch.kernel = &kernel;
  launch.args = w.bytes.data();
  launch.grid = w.grid;
  launch.block = w.block;
  launch.dynamic_shared = w.shared;
  launch.device = context.device;
  launch.peers = context.peers;
  const Device &d = *devices[context.device];
  launch.resident_blocks =
      d.attributes.at(16) * blocks_of_multiprocessor(d, int(w.block.x * w.block.y * w.block.z), w.shared);
  const CountedLaunch counted(launch);
  const Outcome outcome = Engine::run(launch);
  if (outcome.failure != Failure::none) tell(outcome.message);
  return code_of(outcome.failure);
}

CUresult check_launch(const Function &f, const Context &context, const Work &w) {
  const Device &d = *devices[context.device];
  if (f.module->context->device != context.device) return CUDA_ERROR_INVALID_HANDLE;
  if (w.grid.x == 0 || w.grid.y == 0 || w.grid.z == 0 || w.block.x == 0 || w.block.y == 0 || w.block.z == 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto beyond = [&](unsigned value, int number) { return value > unsigned(d.attributes.at(number)); };
  if (beyond(w.block.x, 2) || beyond(w.block.y, 3) || beyond(w.block.z, 4) || beyond(w.grid.x, 5) ||
      beyond(w.grid.y, 6) || beyond(w.grid.z, 7))
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t threads = uint64_t(w.block.x) * w.block.y * w.block.z;
  if (threads > uint64_t(std::min(f.kernel->max_threads, d.attributes.at(1)))) return CUDA_ERROR_INVALID_VALUE;
  if (w.shared > f.dynamic_limit) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult touch(uintptr_t address, size_t bytes, bool writes) {
  if (writes) mark_written(address, bytes);
  const std::string wrong = note_range(address, bytes, writes);
  if (wrong.empty()) return CUDA_SUCCESS;
  tell(wrong);
  return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult perform(const Work &work, Context &context, Position &at) {
  switch (work.kind) {
    case Work::kernel: {
      const Task launch(at, work.function->kernel->name);
      return perform_kernel(work, context);
    }
    case Work::copy: {
      const Task copy(at, "a copy");
      return perform_copy(work);
    }
    case Work::fill: {
      const Task fill(at, "a fill");
      return perform_fill(work);
    }
    case Work::nodes:
      return perform_nodes(work, context, at);
    default:
      if (!work.call) return CUDA_SUCCESS;
      if (!work.name) return work.call();
      const Task call(at, work.name);
      return work.call();
  }
}

}  // namespace emulator

namespace {

CUresult launch(Function *f, Work work, void *handle, void **params, void **extra, bool cooperative, Hold &hold) {
  CUresult why;
  const std::shared_ptr<Stream> stream = stream_of(handle, why);
  if (why) return why;
  if (!f || !modules.find(f->module)) return CUDA_ERROR_INVALID_HANDLE;
  work.kind = Work::kernel;
  work.function = f;
  if (CUresult bad = check_launch(*f, *stream->context, work)) {
    tell(std::string("launch of ") + f->kernel->name + " refused: grid (" + std::to_string(work.grid.x) + ", " +
         std::to_string(work.grid.y) + ", " + std::to_string(work.grid.z) + "), block (" +
         std::to_string(work.block.x) + ", " + std::to_string(work.block.y) + ", " + std::to_string(work.block.z) +
         "), shared memory " + std::to_string(work.shared));
    return bad;
  }
  if (cooperative) {
    const Device &d = *devices[stream->context->device];
    const int resident =
        d.attributes.at(16) * blocks_of_multiprocessor(d, int(work.block.x * work.block.y * work.block.z), work.shared);
    if (uint64_t(work.grid.x) * work.grid.y * work.grid.z > uint64_t(resident))
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  const char *args = nullptr;
  size_t bytes = f->kernel->args_bytes;
  if (extra) {
    for (int i = 0; extra[i] != nullptr; i += 2) {  // 1: the buffer, 2: its size; a null key ends the list
      if (extra[i] == reinterpret_cast<void *>(1)) args = static_cast<const char *>(extra[i + 1]);
      if (extra[i] == reinterpret_cast<void *>(2)) bytes = *static_cast<size_t *>(extra[i + 1]);
    }
  } else if (params) {
    args = static_cast<const char *>(params[0]);
  }
  if (!args || bytes != f->kernel->args_bytes) {
    tell(std::string("launch of ") + f->kernel->name + " refused: " + std::to_string(bytes) +
         " bytes of arguments, its struct has " + std::to_string(f->kernel->args_bytes));
    return CUDA_ERROR_INVALID_VALUE;
  }
  work.bytes.assign(args, args + bytes);
  stream->computes = true;
  return submit(stream, std::move(work), hold);
}

Work shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared) {
  Work w;
  w.grid = {gx, gy, gz};
  w.block = {bx, by, bz};
  w.shared = shared;
  return w;
}

}  // namespace

API CUresult cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, void *stream, void **params, void **extra) {
  ENTER(cuLaunchKernel);
  return launch(f, shape(gx, gy, gz, bx, by, bz, shared), stream, params, extra, false, hold);
}

API CUresult cuLaunchCooperativeKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                       unsigned bz, unsigned shared, void *stream, void **params) {
  ENTER(cuLaunchCooperativeKernel);
  return launch(f, shape(gx, gy, gz, bx, by, bz, shared), stream, params, nullptr, true, hold);
}

API CUresult cuLaunchKernelEx(const CUlaunchConfig *c, Function *f, void **params, void **extra) {
  ENTER(cuLaunchKernelEx);
  Work w = shape(c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes);
  return launch(f, std::move(w), c->hStream, params, extra, false, hold);
}

API CUresult cuFuncGetAttribute(int *value, int attribute, Function *f) {
  ENTER_CONTEXT(cuFuncGetAttribute);
  switch (attribute) {
    case 0:
      *value = f->kernel->max_threads;
      break;
    case 4:
      *value = 32;
      break;  // registers
    case 5:
    case 6:
      *value = devices[context->device]->attributes[75] * 10 + devices[context->device]->attributes[76];
      break;
    case 8:
      *value = int(f->dynamic_limit);
      break;
    case 9:
      *value = -1;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

API CUresult cuFuncSetAttribute(Function *f, int attribute, int value) {
  ENTER_CONTEXT(cuFuncSetAttribute);
  if (attribute == 9) return CUDA_SUCCESS;  // preferred share of shared memory
  if (attribute != 8 || value < 0 || value > devices[context->device]->attributes[97]) return CUDA_ERROR_INVALID_VALUE;
  f->dynamic_limit = size_t(value);
  return CUDA_SUCCESS;
}

API CUresult cuFuncSetCacheConfig(Function *, int) {
  ENTER_CONTEXT(cuFuncSetCacheConfig);
  return CUDA_SUCCESS;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *, int threads, size_t shared) {
  ENTER_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  *blocks = blocks_of_multiprocessor(*devices[context->device], threads, shared);
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, Function *f, int threads, size_t shared,
                                                                  unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
