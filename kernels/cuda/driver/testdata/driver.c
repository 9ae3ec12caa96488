/* driver.c: a libcuda.so.1 for tests of the loader and of the manners of its user. It computes nothing. What it is like is said
 * by the environment:
 *   FAKE_VERSION    of the interface                    (12040)
 *   FAKE_INIT       what cuInit answers                 (0)
 *   FAKE_DEVICES    how many there are                  (2)
 *   FAKE_CAPABILITY times ten                           (90)
 *   FAKE_MODE       compute mode                        (0)
 *   FAKE_FAIL       "cuMemAlloc_v2=2": what a function answers
 *   FAKE_LOG        a file that gets a line for the loading and for each call
 * FAKE_OLD at compile time leaves out what came with later drivers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef struct {
  int device, references;
} context;

static context primary[8];
static _Thread_local context *stack[32];
static _Thread_local int depth;

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void note(const char *text) {
  const char *path = getenv("FAKE_LOG");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s\n", text);
  fclose(file);
}

static result answer(const char *call) {
  note(call);
  const char *fail = getenv("FAKE_FAIL"), *at = fail ? strstr(fail, call) : NULL;
  return at && at[strlen(call)] == '=' ? atoi(at + strlen(call) + 1) : 0;
}

__attribute__((constructor)) static void loaded(void) { note("loaded"); }

#define RETURN(condition, code)                    \
  do {                                             \
    result wrong = answer(__func__);               \
    return wrong ? wrong : (condition) ? 0 : code; \
  } while (0)

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };

result cuInit(unsigned flags) {
  (void)flags;
  note("cuInit");
  return number("FAKE_INIT", 0);
}
result cuDriverGetVersion(int *version) {
  *version = number("FAKE_VERSION", 12040);
  return 0;
}
result cuGetErrorName(result code, const char **name) {
  *name = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == 100 ? "CUDA_ERROR_NO_DEVICE"
          : code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
                        : "CUDA_ERROR_FAKE";
  return 0;
}
result cuGetErrorString(result code, const char **text) {
  *text = code == 2 ? "out of memory" : "a fake error";
  return 0;
}
result cuDeviceGetCount(int *count) {
  *count = number("FAKE_DEVICES", 2);
  return 0;
}
result cuDeviceGet(int *device, int id) {
  *device = id;
  RETURN(id >= 0 && id < number("FAKE_DEVICES", 2), INVALID_DEVICE);
}
result cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, size, "Fake %d", device);
  return 0;
}
result cuDeviceTotalMem_v2(size_t *bytes, int device) {
  *bytes = (size_t)(8 + device) << 30;
  return 0;
}
result cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  const int capability = number("FAKE_CAPABILITY", 90);
  switch (attribute) {
    case 75:
      *value = capability / 10;
      break;
    case 76:
      *value = capability % 10;
      break;
    case 20:
      *value = number("FAKE_MODE", 0);
      break;
    case 97:
      *value = 227 << 10;
      break;
    default:
      *value = 1;
  }
  return 0;
}
result cuDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, size, "0000:%02X:00.0", device + 1);
  return 0;
}
result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  *flags = 0, *active = primary[device].references > 0;
  return 0;
}
result cuDevicePrimaryCtxRetain(context **c, int device) {
  result wrong = answer(__func__);
  if (wrong) return wrong;
  primary[device].device = device, primary[device].references++;
  *c = &primary[device];
  return 0;
}
#ifndef FAKE_OLD
result cuDevicePrimaryCtxRelease_v2(int device) { RETURN(primary[device].references-- > 0, INVALID_CONTEXT); }
#endif
result cuCtxPushCurrent_v2(context *c) {
  stack[depth++] = c;
  RETURN(c, INVALID_CONTEXT);
}
result cuCtxPopCurrent_v2(context **c) {
  if (depth == 0) return INVALID_CONTEXT;
  *c = stack[--depth];
  return 0;
}
result cuCtxGetCurrent(context **c) {
  *c = depth ? stack[depth - 1] : NULL;
  return 0;
}
result cuCtxSetCurrent(context *c) {
  depth = depth ? depth : 1;
  stack[depth - 1] = c;
  return 0;
}
result cuMemAlloc_v2(uint64_t *at, size_t bytes) {
  *at = depth ? (uint64_t)(uintptr_t)calloc(1, bytes) : 0;
  RETURN(*at, INVALID_CONTEXT);
}
result cuMemFree_v2(uint64_t at) {
  free((void *)(uintptr_t)at);
  RETURN(depth, INVALID_CONTEXT);
}
result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  memcpy((void *)(uintptr_t)to, from, bytes);
  RETURN(depth, INVALID_CONTEXT);
}
result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  memcpy(to, (void *)(uintptr_t)from, bytes);
  RETURN(depth, INVALID_CONTEXT);
}
result cuModuleLoadDataEx(void **module, const char *image, unsigned options, int *option, void **value) {
  *module = NULL;
  for (unsigned i = 0; i < options; i++)
    if (option[i] == 5) strcpy(value[i], "ptxas: it is\n no image\n");
  RETURN(!strcmp(image, "image"), 200);
}
result cuModuleGetFunction(const char **function, void *module, const char *name) {
  (void)module;
  *function = "kernel";
  RETURN(!strcmp(name, "kernel"), 500);
}
/* Writes the sum of the words of its arguments to where the first one points. */
result cuLaunchKernel(const char *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **parameters, void **extra) {
  (void)stream;
  const int usual = !strcmp(f, "kernel") && !parameters && extra[0] == (void *)1 && extra[2] == (void *)2 && !extra[4];
  if (usual) {
    uint64_t *words = extra[1], sum = 0;
    for (size_t i = 1; i < *(size_t *)extra[3] / 8; i++) sum += words[i];
    *(uint64_t *)(uintptr_t)words[0] =
        sum + gx + 10 * gy + 100 * gz + 1000 * bx + 10000 * by + 100000 * bz + 1000000 * shared;
  }
  RETURN(usual, INVALID_VALUE);
}
