/* run.h: calls through the table for Go, which cannot call function pointers. */
#ifndef DSSTNE_CPU_RUN_H
#define DSSTNE_CPU_RUN_H

#include "kernels.h"

static inline void run_gather(const kernels_t *k, gather_t *a, int32_t w) { k->gather(a, w); }
static inline void run_scatter(const kernels_t *k, scatter_t *a, int32_t w) { k->scatter(a, w); }
static inline void run_replay(const kernels_t *k, replay_t *a, int32_t w) { k->replay(a, w); }
static inline void run_backward(const kernels_t *k, backward_t *a, int32_t w) { k->backward(a, w); }
static inline void run_pack(const kernels_t *k, layer_t *a, int32_t w) { k->layer_pack(a, w); }
static inline void run_dense(const kernels_t *k, layer_t *a, int32_t w) { k->dense_forward(a, w); }
static inline void run_stats(const kernels_t *k, layer_t *a, int32_t w) { k->output_stats(a, w); }
static inline void run_step(const kernels_t *k, layer_t *a, int32_t w) { k->output_step(a, w); }
static inline void run_finish(const kernels_t *k, layer_t *a, int32_t w) { k->output_finish(a, w); }
static inline void run_scores(const kernels_t *k, rank_t *a, int32_t w) { k->scores(a, w); }
static inline void run_top_k(const kernels_t *k, rank_t *a, int32_t w) { k->top_k(a, w); }
static inline int64_t scatter_workspace(const kernels_t *k, int64_t columns, int32_t workers) {
  return k->scatter_workspace(columns, workers);
}
static inline int64_t layer_workspace(const kernels_t *k, int64_t rows, int64_t columns, int64_t items,
                                      int32_t workers) {
  return k->layer_workspace(rows, columns, items, workers);
}
static inline int64_t rank_workspace(const kernels_t *k, int64_t rows, int64_t columns, int64_t top, int32_t workers) {
  return k->rank_workspace(rows, columns, top, workers);
}

#endif
