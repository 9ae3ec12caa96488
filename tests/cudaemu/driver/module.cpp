// Modules: an image must look like one of ours for the device; its functions are the kernels compiled into this library.
#include <elf.h>

#include <cstdio>
#include <cstring>

#include "state.h"

using namespace emulator;

namespace {

const Registration *registered;  // all kernels of this library

}  // namespace

emulator::Registration::Registration(const char *name, size_t args_bytes, int max_threads, Entry entry)
    : name(name), args_bytes(args_bytes), max_threads(max_threads), entry(entry), next(registered) {
  registered = this;
}

namespace {

const Registration *find_kernel(const std::string &name) {
  for (const Registration *r = registered; r; r = r->next)
    if (name == r->name) return r;
  return nullptr;
}

// The bytes of an image and whether the device could run it. Cubins: an ELF file for processor 190, the architecture in its
// flags, good for the same major and at least the same minor number; PTX: text, good for its target and all later ones.
CUresult read_image(const void *data, int device, std::string &image) {
  const int major = devices[device]->attributes[75], minor = devices[device]->attributes[76];
  const char *bytes = static_cast<const char *>(data);
  if (!std::memcmp(bytes, ELFMAG, SELFMAG)) {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != 190) return CUDA_ERROR_INVALID_IMAGE;
    const unsigned low = header.e_flags & 255, high = header.e_flags >> 8 & 255;
    const int sm = int(header.e_ident[EI_ABIVERSION] >= 8 ? high : low);  // newer files have it one byte higher
    if (sm / 10 != major || sm % 10 > minor) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    size_t end = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
    const size_t segments = header.e_phoff + size_t(header.e_phnum) * header.e_phentsize;
    if (segments > end) end = segments;
    image.assign(bytes, end);
    return CUDA_SUCCESS;
  }
  const std::string text(bytes, strnlen(bytes, 64 << 20));
  const size_t target = text.find(".target sm_");
  if (text.find(".version ") == std::string::npos || target == std::string::npos) return CUDA_ERROR_INVALID_IMAGE;
  char *after;
  const long sm = std::strtol(text.c_str() + target + 11, &after, 10);
  if (sm > major * 10 + minor || (*after == 'a' && sm != major * 10 + minor)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  image = text;
  return CUDA_SUCCESS;
}

}  // namespace

API CUresult cuModuleLoadData(Module **out, const void *data) {
  ENTER_CONTEXT(cuModuleLoadData);
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  if (restrained()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto module = std::make_shared<Module>();
  if (CUresult bad = read_image(data, context->device, module->image)) return bad;
  module->context = context;
  context->modules.insert(module.get());
  *out = modules.add(module);
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadDataEx(Module **out, const void *data, unsigned, int *, void **) {
  return cuModuleLoadData(out, data);
}

API CUresult cuModuleUnload(Module *handle) {
  ENTER_CONTEXT(cuModuleUnload);
  const auto module = modules.find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  drain_context(*context, hold);
  module->context->modules.erase(handle);
  modules.remove(handle);
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunction(Function **out, Module *handle, const char *name) {
  ENTER_CONTEXT(cuModuleGetFunction);
  const auto module = modules.find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  auto &known = module->functions[name];
  if (!known) {
    const Registration *kernel = find_kernel(name);
    if (!kernel || module->image.find(name) == std::string::npos) {
      tell(std::string("no function ") + name +
           (kernel ? " in the image" : " among the kernels compiled for the emulator"));
      module->functions.erase(name);
      return CUDA_ERROR_NOT_FOUND;
    }
    known = std::make_unique<Function>();
    known->kernel = kernel;
    known->module = module.get();
  }
  *out = known.get();
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, Module *, const char *name) {
  ENTER_CONTEXT(cuModuleGetGlobal);
  tell(std::string("no global variable ") + name + ": kernels have none");
  return CUDA_ERROR_NOT_FOUND;
}

// The names of all kernels compiled into this library, a line each. Answers the bytes needed.
API size_t dsstne_cudaemu_kernels(char *buffer, size_t capacity) {
  std::string text;
  for (const Registration *r = registered; r; r = r->next) text += std::string(r->name) + "\n";
  if (capacity > text.size()) std::memcpy(buffer, text.c_str(), text.size() + 1);
  return text.size() + 1;
}
