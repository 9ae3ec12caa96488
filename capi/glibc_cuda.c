//go:build !nocuda && linux && amd64

/* The same for the functions by which the CUDA driver is opened, which glibc 2.34 moved into libc; see glibc.c. */
#include <dlfcn.h>

#if defined(__GLIBC__)

#define PASS_ON(type, name, parameters, arguments)           \
  __asm__(".symver oldest_" #name "," #name "@GLIBC_2.2.5"); \
  extern type oldest_##name parameters;                      \
  __attribute__((visibility("hidden"))) type name parameters { return oldest_##name arguments; }

PASS_ON(void *, dlopen, (const char *file, int mode), (file, mode))
PASS_ON(int, dlclose, (void *library), (library))
PASS_ON(void *, dlsym, (void *restrict library, const char *restrict name), (library, name))
PASS_ON(char *, dlerror, (void), ())

#endif
