/* run.h: calls through the table for Go, which cannot call function pointers. */
#ifndef DSSTNE_CPU_RUN_H
#define DSSTNE_CPU_RUN_H

#include "kernels.h"

/* The floating-point environment of a thread belongs to whoever made the thread, so ours is set for the length of a call:
 * round to nearest, no traps. Training flushes numbers below the normal ones to zero, because optimizer state that decays
 * would else end up there, where arithmetic is slow and decay stops. Ranking does not: its scores are defined with them. */
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

/* RUN(name, arguments, function, flush) defines run_name. */
#define RUN(name, type, function, flush)                                       \
  static inline void run_##name(const kernels_t *k, type *a, int32_t worker) { \
    environment_t before = set_environment(flush);                             \
    k->function(a, worker);                                                    \
    restore_environment(before);                                               \
  }

RUN(gather, gather_t, gather, 1)
RUN(scatter, scatter_t, scatter, 1)
RUN(replay, replay_t, replay, 1)
RUN(backward, backward_t, backward, 1)
RUN(pack, layer_t, layer_pack, 1)
RUN(dense, layer_t, dense_forward, 1)
RUN(stats, layer_t, output_stats, 1)
RUN(step, layer_t, output_step, 1)
RUN(finish, layer_t, output_finish, 1)
RUN(scores, rank_t, scores, 0)
RUN(top_k, rank_t, top_k, 0)
static inline int64_t scatter_workspace(const kernels_t *k, int64_t columns, int32_t workers) {
  return k->scatter_workspace(columns, workers);
}
static inline int64_t layer_workspace(const kernels_t *k, int64_t rows, int64_t columns, int64_t items, int32_t workers,
                                      int32_t bfloat16) {
  return k->layer_workspace(rows, columns, items, workers, bfloat16);
}
static inline int64_t rank_workspace(const kernels_t *k, int64_t rows, int64_t columns, int32_t workers) {
  return k->rank_workspace(rows, columns, workers);
}

#endif
