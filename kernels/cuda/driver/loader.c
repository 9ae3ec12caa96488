//go:build !nocuda && linux && amd64

#define _GNU_SOURCE
#include "loader.h"

#include <dlfcn.h>
#include <stddef.h>

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
