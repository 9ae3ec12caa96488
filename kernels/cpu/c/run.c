/* run.c: the phases of run.h, each in a floating-point environment of its own. */
#include "run.h"

/* The floating-point environment of a thread belongs to its owner, so a phase sets its own and restores the owner's:
 * round to nearest, no traps. Training flushes numbers below the normal ones to zero, because optimizer state that decays
 * would else end up there, where arithmetic is slow and decay stops. Ranking and initial weights do not: they are defined
 * with them. */
#if defined(__x86_64__)
typedef unsigned int environment_t;
static inline environment_t set_environment(int flush) {
  environment_t before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(flush ? 0x9fc0 : 0x1f80);
  return before;
}
static inline void restore_environment(environment_t before) { __builtin_ia32_ldmxcsr(before); }
#elif defined(__aarch64__)
typedef uint64_t environment_t;
static inline environment_t set_environment(int flush) {
  environment_t before, ours = flush ? (uint64_t)1 << 24 : 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" : : "r"(ours));
  return before;
}
static inline void restore_environment(environment_t before) { __asm__ volatile("msr fpcr, %0" : : "r"(before)); }
#else
typedef int environment_t;
static inline environment_t set_environment(int flush) { return flush; }
static inline void restore_environment(environment_t before) { (void)before; }
#endif

#define PHASE(function, arguments, flush)                            \
  void run_##function(const kernels_t *k, void *a, int32_t worker) { \
    environment_t before = set_environment(flush);                   \
    k->function((arguments *)a, worker);                             \
    restore_environment(before);                                     \
  }
PHASES(PHASE)
