/* run.h: calls through the table for Go, which cannot call function pointers. */
#ifndef DSSTNE_CPU_RUN_H
#define DSSTNE_CPU_RUN_H

#include "pool.h"

/* RUN(name, arguments, function, flush) declares run_name, a phase_t; run.c defines it. */
#ifndef RUN
#define RUN(name, type, function, flush) void run_##name(const kernels_t *k, void *a, int32_t worker);
#endif

RUN(fill, fill_t, fill, 0)
RUN(gather, gather_t, gather, 1)
RUN(scatter, scatter_t, scatter, 1)
RUN(replay, replay_t, replay, 1)
RUN(update, update_t, update, 1)
RUN(activate, activate_t, activate, 1)
RUN(backward, backward_t, backward, 1)
RUN(pack, layer_t, layer_pack, 1)
RUN(dense, layer_t, dense_forward, 1)
RUN(stats, layer_t, output_stats, 1)
RUN(step, layer_t, output_step, 1)
RUN(finish, layer_t, output_finish, 1)
RUN(scores, rank_t, scores, 0)
RUN(top_k_pack, rank_t, top_k_pack, 0)
RUN(top_k_screen, rank_t, top_k_screen, 0)
RUN(top_k_finish, rank_t, top_k_finish, 0)
RUN(scores_sparse, rank_t, scores_sparse, 0)
RUN(top_k_sparse, rank_t, top_k_sparse, 0)
static inline int64_t layer_workspace(const kernels_t *k, int64_t rows, int64_t columns, int64_t items, int32_t workers,
                                      int32_t bfloat16, int32_t continues) {
  return k->layer_workspace(rows, columns, items, workers, bfloat16, continues);
}
static inline int64_t rank_workspace(const kernels_t *k, int64_t rows, int64_t columns, int32_t workers) {
  return k->rank_workspace(rows, columns, workers);
}
static inline int64_t sparse_workspace(const kernels_t *k, int32_t workers) { return k->sparse_workspace(workers); }

#endif
