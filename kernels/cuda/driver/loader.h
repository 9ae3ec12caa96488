/* loader.h: finds libcuda.so.1 and points the slots at it. */
#include <stddef.h>
#include <stdint.h>

/* Opens the driver's library, without calling anything in it. Returns 0, or -1 with the loader's words in text. */
int dsstne_driver_open(char *text, size_t size);

/* Points the slots at the functions of the opened library. One that it lacks, because it is older than the headers,
 * answers CUDA_ERROR_NOT_SUPPORTED from then on; the result is how many it lacks. */
int dsstne_driver_connect(void);

/* cuDriverGetVersion and cuInit of the opened library; -1 if it lacks them. */
int dsstne_driver_version(int *version);
int dsstne_driver_init(void);

/* What NVIDIA's management library tells of a device, without a context on it. */
typedef struct {
  uint64_t total, used, free; /* bytes */
  int32_t users, others; /* processes that compute on the device, this one left out: those below, and how many more */
  struct {
    uint32_t pid;
    uint64_t bytes; /* all ones: unknown */
  } user[16];
} dsstne_device_usage;

/* Returns 0, or -1 if the library or the device is not there. bus_id is that of cuDeviceGetPCIBusId. */
int dsstne_driver_usage(const char *bus_id, dsstne_device_usage *usage);
