/* nvml.h: calls NVIDIA's management library. Its types are written down from its documentation. */
#include <stddef.h>

typedef struct {
  unsigned long long total, free, used; /* bytes */
} nvml_memory;

typedef struct {
  unsigned pid;
  unsigned long long bytes; /* all ones: unknown */
  unsigned instance[2];
} nvml_process;

/* Result, name and arguments of each function; the last came with driver 510. */
/* clang-format off */
#define FUNCTIONS(F)                                              \
  F(int, nvmlInit_v2, void)                                       \
  F(int, nvmlDeviceGetHandleByPciBusId_v2, const char *, void **) \
  F(int, nvmlDeviceGetMemoryInfo, void *, nvml_memory *)          \
  F(int, nvmlDeviceGetComputeRunningProcesses_v3, void *, unsigned *, nvml_process *)
/* clang-format on */

#define POINTER(result, name, ...) result (*name)(__VA_ARGS__);
#define NAME(result, name, ...) #name,
static struct {
  FUNCTIONS(POINTER)
} nvml;
static const char *const nvml_function_names[] = {FUNCTIONS(NAME)};
enum { COUNT = sizeof nvml_function_names / sizeof *nvml_function_names };

static inline const char *const *nvml_names(void) { return nvml_function_names; }
static inline void *nvml_slots(void) { return &nvml; }

static inline int nvml_init(void) { return nvml.nvmlInit_v2(); }

static inline int nvml_device(const char *bus_id, void **device) {
  return nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

static inline int nvml_memory_of(void *device, nvml_memory *to) { return nvml.nvmlDeviceGetMemoryInfo(device, to); }

static inline int nvml_processes_of(void *device, unsigned *count, nvml_process *list) {
  if (!nvml.nvmlDeviceGetComputeRunningProcesses_v3) return -1;
  return nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, count, list);
}
