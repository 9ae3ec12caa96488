// Finding the driver's functions by name, as libraries do that do not link against it.
#include <dlfcn.h>

#include "state.h"

// The newest version of a function: what cuda.h of version 12 makes of the plain name.
API CUresult cuGetProcAddress_v2(const char *name, void **out, int, uint64_t, int *status) {
  static void *const self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void *>(&cuGetProcAddress_v2), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  *out = nullptr;
  for (const char *version : {"_v3", "_v2", ""}) {
    *out = self ? dlsym(self, (std::string(name) + version).c_str()) : nullptr;
    if (*out) break;
  }
  if (status) *status = *out ? 0 : 1;  // found, or no such symbol
  return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
API CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}
