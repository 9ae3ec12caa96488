/* loader.h: points the slots at the functions of libcuda.so.1. Functions return 0, or what failed. */
#include <stdint.h>

/* Points the slots at the functions of the library. One that it lacks, because it is older than the headers, answers
 * CUDA_ERROR_NOT_SUPPORTED from then on. */
void dsstne_driver_connect(void *library);

/* cuDriverGetVersion and cuInit of the library; -1 if it lacks them. */
int dsstne_driver_version(void *library, int *version);
int dsstne_driver_init(void *library);

/* What NVIDIA's management library tells of a device, without a context on it. */
typedef struct {
  uint64_t total, free; /* bytes */
  int32_t users, others; /* processes that compute on the device, this one left out: those below, and how many more */
  struct {
    uint32_t pid;
    uint64_t bytes; /* all ones: unknown */
  } user[16];
} dsstne_device_usage;

/* -1 if the library or the device is not there. bus_id is that of cuDeviceGetPCIBusId. */
int dsstne_driver_usage(const char *bus_id, dsstne_device_usage *usage);
