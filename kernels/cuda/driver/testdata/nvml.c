/* nvml.c: a libnvidia-ml.so.1 for tests of who is said to use a device. What it tells is said by the environment:
 *   FAKE_NVML_INIT       what nvmlInit_v2 answers                                    (0)
 *   FAKE_NVML_MEMORY     what nvmlDeviceGetMemoryInfo answers                        (0)
 *   FAKE_NVML_TOTAL      MiB of a device                                             (8192)
 *   FAKE_NVML_FREE       MiB of them that are free                                   (3072)
 *   FAKE_NVML_PROCESSES  of the first device, "4711:1536 12:-1": pid and MiB, -1 unknown; the pid 0 is that of the process itself
 *   FAKE_NVML_GROWS      by how many processes of pid 1 the list grows after each answer that there is too little room
 * FAKE_OLD at compile time leaves out what came with later drivers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct {
  unsigned long long total, free, used;
} memory;
typedef struct {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
} process;

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}

int nvmlInit_v2(void) { return (int)number("FAKE_NVML_INIT", SUCCESS); }

/* The devices of driver.c; a handle is the number, counted from 1. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device) {
  unsigned bus;
  if (sscanf(bus_id, "0000:%2X:00.0", &bus) != 1 || bus > 2) return NOT_FOUND;
  *device = (void *)(size_t)bus;
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, memory *m) {
  (void)device;
  m->total = (unsigned long long)number("FAKE_NVML_TOTAL", 8192) << 20;
  m->free = (unsigned long long)number("FAKE_NVML_FREE", 3072) << 20;
  m->used = m->total - m->free;
  return (int)number("FAKE_NVML_MEMORY", SUCCESS);
}

#ifndef FAKE_OLD
/* With too little room it tells how much is needed, and writes nothing. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *list) {
  static unsigned grown;
  const char *first = (size_t)device == 1 ? getenv("FAKE_NVML_PROCESSES") : NULL;
  unsigned long pid;
  long mebibytes;
  int length;
  unsigned n = 0;
  for (const char *at = first; at && sscanf(at, "%lu:%ld%n", &pid, &mebibytes, &length) == 2; at += length) n++;
  const unsigned room = *count, more = first ? grown : 0;
  *count = n + more;
  if (*count > room) {
    grown += (unsigned)number("FAKE_NVML_GROWS", 0);
    return INSUFFICIENT_SIZE;
  }
  memset(list, 0xff, *count * sizeof *list);
  for (const char *at = first; at && sscanf(at, "%lu:%ld%n", &pid, &mebibytes, &length) == 2; at += length, list++) {
    list->pid = pid ? (unsigned)pid : (unsigned)getpid();
    list->bytes = mebibytes < 0 ? ~0ull : (unsigned long long)mebibytes << 20;
  }
  for (unsigned i = 0; i != more; i++) list[i].pid = 1;
  return SUCCESS;
}
#endif
