/* Lets a library that was linked on a new system run on every glibc since 2.28.
 *
 * When glibc 2.32 and 2.34 moved the threads into libc, their functions got new version numbers without changing, and
 * whatever is linked since then asks for those. The definitions below stand in for
 * them inside this library (hidden, so nobody else sees them) and pass the call on to the version that every glibc has.
 * libpthread, where the threads were before, is loaded with the library because the build asks for it by name.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

/* PASS_ON(type, name, (parameters), (arguments)) defines name as a call of name@OLDEST. */
#define PASS_ON(type, name, parameters, arguments)       \
  __asm__(".symver oldest_" #name "," #name "@" OLDEST); \
  extern type oldest_##name parameters;                  \
  __attribute__((visibility("hidden"))) type name parameters { return oldest_##name arguments; }

PASS_ON(int, pthread_create,
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
        (thread, attributes, start, argument))
PASS_ON(int, pthread_join, (pthread_t thread, void **result), (thread, result))
PASS_ON(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
PASS_ON(int, pthread_key_create, (pthread_key_t * key, void (*destructor)(void *)), (key, destructor))
PASS_ON(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value))
PASS_ON(int, pthread_getattr_np, (pthread_t thread, pthread_attr_t *attributes), (thread, attributes))
PASS_ON(int, pthread_attr_getstack, (const pthread_attr_t *attributes, void **address, size_t *size),
        (attributes, address, size))
PASS_ON(int, pthread_attr_getstacksize, (const pthread_attr_t *attributes, size_t *size), (attributes, size))

#endif
