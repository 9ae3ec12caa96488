//go:build !nocuda && linux && amd64

#define _GNU_SOURCE
#include "loader.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_DEVICE = 100, NOT_SUPPORTED = 801 }; /* CUresult */

/* What the slots answer without a driver, and for functions that a driver lacks. */
int dsstne_driver_success(void) { return 0; }
int dsstne_driver_no_device(void) { return NO_DEVICE; }
static int not_supported(void) { return NOT_SUPPORTED; }

extern void *dsstne_driver_slots[];

#define SYMBOL(name) #name,
static const char *const names[] = {
#include "symbols.h"
};

void dsstne_driver_connect(void *library) {
  for (size_t i = 0; i != sizeof names / sizeof *names; i++) {
    void *function = dlsym(library, names[i]);
    dsstne_driver_slots[i] = function ? function : (void *)not_supported;
  }
}

int dsstne_driver_version(void *library, int *version) {
  int (*get)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
  return get ? get(version) : -1;
}

int dsstne_driver_init(void *library) {
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  return init ? init(0) : -1;
}

/* The functions of libnvidia-ml.so.1 that are needed, and its types, written down from its documentation. */
typedef struct {
  unsigned long long total, free, used;
} nvml_memory;
typedef struct {
  unsigned pid;
  unsigned long long bytes;
  unsigned instance[2];
} nvml_process;

static struct {
  void *library;
  int (*by_bus_id)(const char *, void **);
  int (*memory)(void *, nvml_memory *);
  int (*processes)(void *, unsigned *, nvml_process *);
} nvml;

static int open_nvml(void) {
  if (nvml.library) return nvml.by_bus_id ? 0 : -1;
  if (!(nvml.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL))) return -1;
  int (*init)(void) = (int (*)(void))dlsym(nvml.library, "nvmlInit_v2");
  nvml.memory = (int (*)(void *, nvml_memory *))dlsym(nvml.library, "nvmlDeviceGetMemoryInfo");
  nvml.processes = (int (*)(void *, unsigned *, nvml_process *))dlsym(
      nvml.library, "nvmlDeviceGetComputeRunningProcesses_v3"); /* driver 510 and newer */
  if (!init || !nvml.memory || init()) return -1;
  nvml.by_bus_id = (int (*)(const char *, void **))dlsym(nvml.library, "nvmlDeviceGetHandleByPciBusId_v2");
  return nvml.by_bus_id ? 0 : -1;
}

/* Lists the processes that compute on a device, to be freed; NULL if the library does not tell. If there is too little room, it
 * says how many there are; there may be more of them when it is asked again. */
static nvml_process *list_processes(void *device, unsigned *count) {
  enum { INSUFFICIENT_SIZE = 7, ATTEMPTS = 4, SPARE = 64 };
  nvml_process *list = NULL;
  int code = nvml.processes ? INSUFFICIENT_SIZE : -1;
  *count = 0;
  for (int i = 0; i < ATTEMPTS && code == INSUFFICIENT_SIZE; i++) {
    const size_t room = (size_t)*count + SPARE;
    free(list);
    if (!(list = malloc(room * sizeof *list))) return NULL;
    *count = (unsigned)room;
    code = nvml.processes(device, count, list);
  }
  if (code == 0) return list;
  free(list);
  return NULL;
}

int dsstne_driver_usage(const char *bus_id, dsstne_device_usage *usage) {
  void *device;
  nvml_memory memory;
  memset(usage, 0, sizeof *usage);
  if (open_nvml() || nvml.by_bus_id(bus_id, &device) || nvml.memory(device, &memory)) return -1;
  usage->total = memory.total, usage->free = memory.free;
  unsigned count;
  nvml_process *list = list_processes(device, &count);
  for (unsigned i = 0; list && i < count; i++) {
    if (list[i].pid == (unsigned)getpid()) continue;
    if (usage->users == sizeof usage->user / sizeof *usage->user) {
      usage->others++;
      continue;
    }
    usage->user[usage->users].pid = list[i].pid;
    usage->user[usage->users++].bytes = list[i].bytes;
  }
  free(list);
  return 0;
}
