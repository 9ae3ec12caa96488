/* run.h: calls through the table for Go, which cannot call function pointers. */
#ifndef DSSTNE_CPU_RUN_H
#define DSSTNE_CPU_RUN_H

#include "pool.h"

#define PHASE(function, arguments, flush) void run_##function(const kernels_t *k, void *a, int32_t worker);
PHASES(PHASE)
#undef PHASE

static inline int64_t layer_workspace(const kernels_t *k, int64_t rows, int64_t columns, int64_t items, int32_t workers,
                                      int32_t bfloat16, int32_t continues, int32_t activated) {
  return k->layer_workspace(rows, columns, items, workers, bfloat16, continues, activated);
}
static inline int64_t rank_workspace(const kernels_t *k, int64_t rows, int64_t columns, int64_t items,
                                     int32_t workers) {
  return k->rank_workspace(rows, columns, items, workers);
}
static inline int64_t score_workspace(int64_t rows, int64_t units, int64_t items, int32_t workers) {
  const score_block_t b = score_block(rows, units, items, workers);
  return 2 * workers * (b.items + b.rows) * units; /* of 8 bytes */
}
static inline int64_t neighborhood_workspace(int64_t items) { return NEIGHBORHOOD_WORKSPACE(items); }
static inline int64_t solve_workspace(int64_t rows, int64_t items, int64_t width) {
  return SOLVE_WORKSPACE(rows, items, width);
}
static inline int64_t restricted_workspace(int64_t items, int64_t neighbors) {
  return RESTRICTED_WORKSPACE(items, neighbors);
}
static inline int64_t least_squares_workspace(int64_t unknowns) { return LEAST_SQUARES_WORKSPACE(unknowns); }
static inline int64_t axes_workspace(int64_t rows, int64_t width, int32_t workers) {
  return AXES_WORKSPACE(rows, AXES_STRIDE(width), workers);
}
static inline int64_t kept_size(const kernels_t *k, int64_t items, int64_t columns) {
  return k->kept_size(items, columns);
}

#endif
