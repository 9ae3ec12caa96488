// The driver itself and its devices.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../runtime/engine.h"
#include "state.h"

using namespace emulator;

namespace {

long number(const char *name, long otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::atol(text) : otherwise;
}

// An H100 as far as its attributes go; DSSTNE_CUDAEMU_CAPABILITY (90) chooses another generation.
std::unordered_map<int, int> attributes(int ordinal) {
  const int capability = int(number("DSSTNE_CUDAEMU_CAPABILITY", 90));
  return {
      {1, 1024},
      {2, 1024},
      {3, 1024},
      {4, 64},         // threads of a block, and along x, y, z
      {5, 2147483647},
      {6, 65535},
      {7, 65535},                   // blocks along x, y, z
      {8, 49152},
      {9, 65536},
      {10, 32},
      {11, 2147483647},  // shared and constant memory, warp, pitch
      {12, 65536},
      {13, 1755000},
      {14, 512},
      {16, 132},       // registers, kHz, texture alignment, multiprocessors
      {17, 0},
      {18, 0},
      {19, 1},
      {20, 0},         // time limit, integrated, maps host memory, compute mode
      {31, 1},
      {32, 1},
      {33, ordinal + 1},
      {34, 0},   // concurrent kernels, ECC, PCI bus and device
      {36, 2619000},
      {37, 5120},
      {38, int(number("DSSTNE_CUDAEMU_L2", 50 << 20))},
      {39, 2048},   // memory kHz and bits, L2, threads of a multiprocessor
      {40, 3},
      {41, 1},
      {50, 0},                      // copy engines, unified addresses, PCI domain
      {75, capability / 10},
      {76, capability % 10},
      {78, 1},
      {79, 1},
      {80, 1},                      // stream priorities, L1 caches
      {81, 233472},
      {82, 65536},
      {83, 0},
      {88, 0},         // of a multiprocessor: shared memory, registers; managed; pageable
      {89, 0},
      {95, 1},
      {97, 232448},
      {106, 32},      // concurrent managed, cooperative, shared opt-in, blocks
      {111, 1024},
      {115, 0},                                   // shared memory reserved of a block, memory pools
  };
}

}  // namespace

API CUresult cuInit(unsigned) {
  ENTER(cuInit);
  if (settings.initialised) return CUDA_SUCCESS;
  const int n = int(number("DSSTNE_CUDAEMU_DEVICES", 4));
  if (n == 0) return CUDA_ERROR_NO_DEVICE;
  settings.lazy = number("DSSTNE_CUDAEMU_LAZY", settings.lazy) != 0;
  checks = unsigned(number("DSSTNE_CUDAEMU_CHECKS", checks));
  truncates = number("DSSTNE_CUDAEMU_TRUNCATE", truncates) != 0;
  ulps = int(number("DSSTNE_CUDAEMU_ULPS", ulps));
  make_arena(n, size_t(number("DSSTNE_CUDAEMU_MEMORY", 2L << 30)));
  for (int i = 0; i < n; i++) {
    devices.push_back(std::make_unique<Device>());
    Device &d = *devices.back();
    d.name = "Emulated H100";
    d.attributes = attributes(i);
    d.primary.device = i;
    d.primary.primary = true;
  }
  settings.initialised = true;
  return CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int *version) {
  ENTER(cuDriverGetVersion);
  *version = settings.driver_version != 12090 ? settings.driver_version : int(number("DSSTNE_CUDAEMU_DRIVER", 12090));
  return CUDA_SUCCESS;
}

#define ENTER_DEVICE(function)                                                       \
  ENTER(function);                                                                   \
  if (device < 0 || device >= int(devices.size())) return CUDA_ERROR_INVALID_DEVICE; \
  Device &d = *devices[device];                                                      \
  (void)d

API CUresult cuDeviceGetCount(int *count) {
  ENTER(cuDeviceGetCount);
  *count = int(devices.size());
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *out, int device) {
  ENTER_DEVICE(cuDeviceGet);
  *out = device;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int capacity, CUdevice device) {
  ENTER_DEVICE(cuDeviceGetName);
  std::snprintf(name, size_t(capacity), "%s", d.name.c_str());
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  ENTER_DEVICE(cuDeviceGetUuid);
  std::memset(uuid, 0xe0, sizeof *uuid);
  uuid->bytes[15] = char(device);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

API CUresult cuDeviceGetPCIBusId(char *id, int capacity, CUdevice device) {
  ENTER_DEVICE(cuDeviceGetPCIBusId);
  std::snprintf(id, size_t(capacity), "%04x:%02x:%02x.0", d.attributes[50], d.attributes[33], d.attributes[34]);
  return CUDA_SUCCESS;
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER_DEVICE(cuDeviceTotalMem);
  *bytes = device_memory(device).capacity();
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  ENTER_DEVICE(cuDeviceGetAttribute);
  if (attribute <= 0 || attribute > 160) return CUDA_ERROR_INVALID_VALUE;
  const auto found = d.attributes.find(attribute);
  *value = found == d.attributes.end() ? 0 : found->second;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  ENTER_DEVICE(cuDeviceCanAccessPeer);
  if (peer < 0 || peer >= int(devices.size())) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer && number("DSSTNE_CUDAEMU_PEERS", 1) != 0;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer) {
  ENTER_DEVICE(cuDeviceGetP2PAttribute);
  if (peer < 0 || peer >= int(devices.size()) || peer == device) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute == 2 && number("DSSTNE_CUDAEMU_PEERS", 1) != 0;  // 2: access supported
  return CUDA_SUCCESS;
}
