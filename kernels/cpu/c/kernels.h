/* kernels.h: what the C side of the CPU backend offers to Go.
 *
 * Every instruction set compiles the same sources (isa_*.c set the vector width and include the rest) into one table of
 * functions. A function that works in parallel is called once per worker with the same arguments; workers take work from
 * the counters in the arguments. Work is cut by shape only, never by the number of workers, and sums that cross pieces are
 * merged in the order of the pieces, so the bits do not depend on the number of workers.
 *
 * Matrices are row-major. Sizes: B rows, I items, K units. "Padded" buffers round a dimension up to a whole panel
 * (two vectors) and hold zeros there.
 */
#ifndef DSSTNE_CPU_KERNELS_H
#define DSSTNE_CPU_KERNELS_H

#include <stdint.h>

#include "../../kinds.h"

enum { FAIL_NONE, FAIL_LOSS, FAIL_GRADIENT, FAIL_WEIGHT, FAIL_LOGITS, FAIL_SOLUTION };
enum { MAX_SOURCES = 64 /* kernels.MaxSources */ };
enum { RANK_ROWS = 2048 /* rows of a block of top-k */ };
enum { KEPT_ROWS = 16 /* rows of a block with kept weights */ };
/* A tile of items of a sparse source; and what a worker needs for it, in floats: sums in float64, and scores. */
enum { SUM_TILE = 4096, SUM_WORKSPACE = 3 * SUM_TILE };
/* Rows of a register tile of scores (scores.h), and the most rows and items of a block in float64, the bytes of these. */
enum {
  SCORE_ROWS = 3,
  SCORE_MOST_ROWS = 96,
  SCORE_MOST_ITEMS = 256,
  SCORE_ROW_BYTES = 1 << 18,
  SCORE_ITEM_BYTES = 1 << 19
};
/* Instruction sets: portable, AVX2 + FMA, AVX-512, AVX-512 with VNNI (8-bit integers), the same with bfloat16. */
enum { LEVELS = 5 };

typedef struct {
  float learning_rate, scale1, scale2;
} rates_t;

typedef struct {
  int32_t kind;
  float momentum, beta1, beta2, epsilon, decay, l1;
  const rates_t *rates; /* rates[n - rates_from] belongs to step n */
  int64_t rates_from;
  int64_t step;
} optimizer_t;

typedef struct {
  float *value, *state0, *state1;
  int32_t *last;   /* per row, or null */
  float *gradient; /* null: update in place */
  int64_t rows, columns;
  int32_t no_decay;
  int32_t locked; /* stays as it is */
  int32_t id; /* of the weight, in failures */
  int32_t storage; /* STORAGE_float32, or value has numbers of 2 bytes: only those of rank_t's sources may */
} weights_t;

/* The first number that was not finite; workers stop taking work once kind is set. */
typedef struct {
  int32_t kind;
  int32_t id;
  int64_t row;
} failure_t;

/* Entries of a batch ordered by item. */
typedef struct {
  int64_t count; /* distinct items */
  const int32_t *items, *offsets, *rows;
  const float *values;
} by_item_t;

typedef struct {
  const float *bias; /* null = none */
  int32_t activation;
  float alpha; /* of the activation */
  float dropout;
  float scale, shift, dropped, undo; /* of units, see kernels.Drop */
  uint64_t seed;
  uint32_t stream;
  uint32_t step;
  int64_t first; /* row of the whole batch that row 0 is */
} epilogue_t;

typedef struct {
  int32_t kind;
  int32_t normalize_rows;
  int32_t activation; /* linear unless the loss is one of values */
  float alpha;
  float weight, one_scale, zero_scale, one_target, zero_target;
  float one_boost, zero_boost; /* see kernels.Loss.Boosts */
} loss_t;

typedef struct {
  const float *h; /* [B, weight.columns] */
  float *dh;      /* or null */
  int32_t accumulate;
  weights_t weight;
} source_t;

/* Initial numbers, see kernels.Fill. */
typedef struct {
  int32_t kind;
  float scale;
  uint64_t seed;
  uint32_t stream;
  int64_t rows, columns;
  float *out;
  int64_t next;
} fill_t;

/* A worker's place for rows that are spread (spread.h), in floats: 340 KB. What is read again and again of it, for each
 * PANEL columns, are a panel and the rows. */
enum {
  LEAST_LANES = 4, /* of all instruction sets */
  SPREAD_MOST_ROWS = 140,
  SPREAD_DEPTH = 128, /* columns of the rows at a time */
  SPREAD_WIDTH = 256, /* columns of the matrix at a time */
  SPREAD_WORKSPACE = SPREAD_MOST_ROWS * (SPREAD_DEPTH + SPREAD_WIDTH + 16) + SPREAD_DEPTH * SPREAD_WIDTH
};

/* out (+)= x W for a batch of sparse rows, see kernels.Gather. */
typedef struct {
  int64_t rows;
  const int32_t *offsets, *indices;
  const float *values;
  const float *weight;
  int64_t items, columns; /* I, K */
  float *out;
  float *workspace; /* for each worker */
  int32_t workers;
  int32_t accumulate, has_epilogue;
  epilogue_t epilogue;
  int64_t next, next_spread;
} gather_t;

typedef struct {
  by_item_t batch;
  int64_t rows; /* B */
  const float *dz; /* [B, K]; null: ones, K = 1 */
  weights_t weight;
  const float *tied; /* [count, K] or null */
  const float *own;  /* [count] or null */
  float *workspace;  /* for each worker */
  int32_t workers;
  optimizer_t optimizer;
  failure_t failure;
  int64_t next;
} scatter_t;

typedef struct {
  const int32_t *items; /* null: all rows */
  int64_t count;
  int64_t upto;
  weights_t weight;
  optimizer_t optimizer;
  failure_t failure;
  int64_t next;
} replay_t;

/* See kernels.ClipNorm. */
typedef struct {
  float *gradients;
  int64_t count;
  float limit;
  double *squares; /* of each block */
  int64_t next, next_scaled;
} clip_t;

/* See kernels.ColumnNorms and CapWeight. */
typedef struct {
  float *value; /* [rows, columns] */
  int64_t rows, columns;
  float *norms; /* of ColumnNorms: [columns]; of CapWeight: [ranks, columns] */
  double *squares; /* of ColumnNorms: [blocks of rows, columns] */
  int64_t blocks, ranks;
  double most;
  int64_t next, next_summed;
} cap_weight_t;

/* The optimizer on every row, with the gradient that was written, see kernels.Update. */
typedef struct {
  const float *gradient;
  weights_t weight; /* without a gradient */
  optimizer_t optimizer;
  failure_t failure;
  int64_t next;
} update_t;

/* See kernels.UnitSums. */
typedef struct {
  int64_t rows, units;
  const float *x;
  float *sums;
  int64_t next;
} unit_sums_t;

/* See kernels.Sample and SampleBackward. */
typedef struct {
  int64_t rows, units;
  float *heads; /* [B, 2 units]: means, log-variances; sample_backward puts their gradients there */
  float *out;   /* of sample: [B, units] */
  const float *dh; /* of sample_backward: [B, units] */
  int32_t training;
  float weight, most; /* of a row's divergence; the largest log-variance */
  double *losses;     /* [B] */
  uint64_t seed;
  uint32_t stream, step;
  int64_t first; /* row of the whole batch that row 0 is */
  failure_t failure;
  int64_t next;
} sample_t;
/* See kernels.Norm. */
typedef struct {
  const float *mean, *variance, *scale; /* mean null = none */
  float epsilon;
  int32_t by_row;
} norm_t;

/* See kernels.RowMoments. */
typedef struct {
  int64_t rows, units;
  const float *x;
  float *mean, *variance;
  int64_t next;
} row_moments_t;

/* See kernels.UnitMoments. */
typedef struct {
  int64_t rows, units;
  const float *x;
  float *moments; /* [2 units + 1] */
  int64_t next;
} unit_moments_t;

/* See kernels.NormSums. */
typedef struct {
  int64_t rows, units;
  const float *dy, *x;
  norm_t norm;
  float *sums; /* [2, units] */
  int64_t next;
} norm_sums_t;

/* See kernels.NormBackward. */
typedef struct {
  int64_t rows, units, whole;
  float *dy;
  const float *x;
  norm_t norm;
  const float *parts; /* [ranks, 2, units] */
  int64_t ranks;      /* 0: the moments are constant, or those of rows */
  const float *own;   /* [units], the gradient of the scale */
  weights_t scale;
  optimizer_t optimizer;
  failure_t failure;
  int64_t next, next_scaled;
} norm_backward_t;

typedef struct {
  int64_t rows, units;
  const float *h, *shift; /* shift: [units] or null */
  float *dh;
  epilogue_t epilogue;
  weights_t bias; /* value null = none */
  optimizer_t optimizer;
  failure_t failure;
  int64_t next;
} backward_t;

/* A hidden layer's sums to its output, see kernels.Activate. */
typedef struct {
  int64_t rows, units;
  const float *in; /* may be out */
  float *out;
  norm_t norm;
  epilogue_t epilogue;
  int64_t next;
} activate_t;

/* See kernels.Merge and MergeBackward. */
typedef struct {
  const float *h; /* [B, units] */
  float *dh;      /* null: not needed */
  int32_t accumulate;
} merge_source_t;
typedef struct {
  int64_t rows, units;
  int32_t kind, sources;
  const merge_source_t *source; /* [sources] */
  float *out;                   /* [B, columns] */
  const float *dout;            /* of the way back */
  int64_t next;
} merge_t;

/* See kernels.Skip. */
typedef struct {
  int64_t rows, units, stride, first;
  const float *in; /* [B, stride] */
  float *out;      /* [B, units] */
  int32_t accumulate;
  int64_t next;
} skip_t;

/* See kernels.SoftmaxRows, SoftmaxRowsBackward and CapRows. */
typedef struct {
  int64_t rows, units;
  float *x; /* [B, units]: the sums, or a gradient in the way back */
  const float *h, *shift; /* of the way back; shift: [units] or null */
  double limit; /* of the norm of a row */
  int64_t next;
} whole_rows_t;

/* See kernels.CopyMatrix. */
typedef struct {
  int64_t rows, columns;
  const float *in;
  float *out; /* [rows, columns] */
  int32_t transposed, accumulate;
  int64_t next;
} copy_matrix_t;

/* A layer whose weight rows are its items or units: the output layer with its loss, and a dense layer forward (out) and
 * backward (dz). */
typedef struct {
  int64_t rows, items;
  int32_t sources;
  const source_t *source; /* [sources], MAX_SOURCES at most */
  float *workspace;
  int32_t workers;
  int32_t bfloat16; /* operands of products are rounded to it */
  int32_t continues; /* output_step finds the workspace as output_stats left it */
  /* dense forward */
  float *out; /* [B, items] */
  int32_t accumulate, has_epilogue;
  epilogue_t epilogue;
  /* dense backward: [B, items]; null: output layer */
  const float *dz;
  /* output */
  weights_t bias; /* value null = none */
  float temperature;
  int64_t whole; /* rows of the batch that this is a part of, or is */
  loss_t loss;
  by_item_t target;
  const float *row_sum;     /* [B] */
  const float *row_weights; /* [B] or null: all are 1 */
  const int32_t *tied_items;
  int64_t tied_count;
  float *tied_gradient;
  float *stats; /* [B, 2] or null */
  float *addend; /* [B, addend_stride] or null; addend_first: the column of item 0 */
  int64_t addend_stride, addend_first;
  int32_t addend_empty; /* it only gets the gradient */
  optimizer_t optimizer;
  /* filled while it runs */
  int64_t next, turn;
  double loss_sum;
  failure_t failure;
} layer_t;

/* An output at the stored entries of its target, see kernels.OutputEntries; or what kernels.MarginalTargets computes there. */
typedef struct {
  int64_t rows;
  const int32_t *offsets, *indices, *item_rows;
  int64_t item_count;
  const int32_t *item_offsets;
  const float *values;
  int32_t sources;
  const source_t *source; /* [sources], MAX_SOURCES at most */
  const float *bias; /* null = none */
  loss_t loss;       /* its weight is that of a row, but for row_weights */
  const float *row_sum; /* [B] of the targets */
  int64_t items;        /* I */
  float temperature;    /* of cosine logits, or 0 */
  float *cosine, *inverse; /* [entries] in the order by row: c_e and 1 / |w_i|; then the parts of y, and x */
  float *directions, *x, *y; /* see kernels.OutputEntries */
  int32_t pairs;
  uint64_t seed;
  uint32_t stream, step;
  int64_t first; /* row of the whole batch that row 0 is */
  const float *row_weights; /* [B] or null: all are 1 */
  double *losses;    /* [B] */
  int32_t *next_entry; /* [B] */
  float *dz;         /* [entries] in the order by row */
  float *by_item;    /* [entries] */
  /* of marginal targets */
  const float *addend; /* [B, addend_stride] or null; addend_first: the column of item 0 */
  int64_t addend_stride, addend_first;
  const float *stats; /* [B, 2] */
  float one_scale, log_target;
  float *sums; /* [B] */
  failure_t failure;
  int64_t next, taken;
} entries_t;

/* A matrix W and the rows of a batch that choose rows of it, see kernels.SparseSource. */
typedef struct {
  const int32_t *row_offsets, *row_items;
  const float *row_values;
  int64_t columns, first;
  const float *values;
  const int64_t *offsets; /* null: values is [rows of W, columns] */
  const int32_t *indices;
  int32_t bias_if_empty;
} sparse_source_t;

typedef struct {
  int64_t rows, items;
  int32_t sources;
  const source_t *source; /* [sources], MAX_SOURCES at most */
  sparse_source_t sparse;
  const float *given; /* [B, items]: the scores; null: none */
  const float *bias;
  float temperature;
  float *out; /* scores: [B, stride] */
  int64_t stride;
  int64_t k; /* top-k */
  const int32_t *exclude_offsets, *exclude_items;
  const uint64_t *allowed;
  int32_t first_id; /* of item 0 */
  int32_t *ids; /* [B, k] */
  float *scores;
  float *workspace;
  int8_t *kept; /* 8-bit weights, see rank_kept.h; null: none */
  int32_t workers;
  int64_t block_first, block_rows; /* of top-k, at most RANK_ROWS */
  /* filled while it runs */
  int64_t next, scored; /* scored: exact scores after screening */
} rank_t;

/* How scores of dense sources are cut, and their workspace: a block of items and one of rows for each worker. units is the
 * sum of the sources' columns, each rounded up to a multiple of 8. */
typedef struct {
  int64_t items, rows;
} score_block_t;

static inline int64_t score_limit(int64_t n, int64_t most, int64_t fit, int64_t step) {
  n = (n + step - 1) / step * step;
  if (n > fit / step * step) n = fit / step * step;
  if (n > most) n = most;
  return n < step ? step : n;
}

static inline score_block_t score_block(int64_t rows, int64_t units, int64_t items, int32_t workers) {
  const int64_t bytes = 8 * (units > 0 ? units : 1);
  score_block_t b;
  b.items = score_limit(items / (4 * workers), SCORE_MOST_ITEMS, SCORE_ITEM_BYTES / bytes, 8);
  b.rows = score_limit(rows, SCORE_MOST_ROWS, SCORE_ROW_BYTES / bytes, SCORE_ROWS);
  return b;
}

/* See kernels.Moments. */
enum { MOMENT_LANES = 256 };
typedef struct {
  int64_t rows, items;
  const float *scores; /* [B, items] */
  const int32_t *stored_offsets, *stored_items;
  int64_t first; /* how stored_items number item 0 */
  double *out;   /* [B, 4] */
  int64_t next;
} moments_t;

/* See kernels.Blend. */
enum { MAX_PARTS = 8 };
typedef struct {
  int64_t rows, items;
  int32_t parts;
  const float *scores[MAX_PARTS];  /* [B, items] */
  const double *means, *factors;   /* [B, parts] */
  float *out;                      /* [B, items] */
  int64_t next;
} blend_t;

/* What limits are measured with, see machine.h. */
typedef struct {
  int32_t bfloat16;
  int64_t rounds, each; /* each: multiply-adds of a round by a worker */
  float *memory;        /* count floats, whole blocks of 1 MiB */
  int32_t update;       /* instead of reading it */
  int64_t count, next;
  uint32_t sink; /* depends on all results, so that the compiler leaves nothing out */
} machine_t;

#include "solver_types.h"

/* What workers do together: PHASE(function, its arguments, whether it flushes to zero (run.c)); those whose products may be of
 * bfloat16, those whose products may be of 8-bit integers, and all. */
/* clang-format off */
#define BFLOAT16_PHASES(PHASE) \
  PHASE(layer_pack, layer_t, 1) PHASE(dense_forward, layer_t, 1) PHASE(output_stats, layer_t, 1) \
  PHASE(output_step, layer_t, 1) PHASE(output_finish, layer_t, 1) PHASE(limit_products, machine_t, 1)
#define INT8_PHASES(PHASE) \
  PHASE(top_k_keep, rank_t, 0) PHASE(top_k_pack, rank_t, 0) PHASE(top_k_screen, rank_t, 0) \
  PHASE(top_k_finish, rank_t, 0)
#define PHASES(PHASE) \
  BFLOAT16_PHASES(PHASE) INT8_PHASES(PHASE) \
  PHASE(fill, fill_t, 0) PHASE(gather, gather_t, 1) PHASE(scatter, scatter_t, 1) PHASE(replay, replay_t, 1) \
  PHASE(update_written, update_t, 1) PHASE(activate_rows, activate_t, 1) PHASE(unit_sums, unit_sums_t, 1) \
  PHASE(unit_moments, unit_moments_t, 1) PHASE(norm_sums, norm_sums_t, 1) PHASE(norm_backward, norm_backward_t, 1) \
  PHASE(norm_scale, norm_backward_t, 1) PHASE(row_moments, row_moments_t, 1) \
  PHASE(norm_backward_rows, norm_backward_t, 1) \
  PHASE(merge, merge_t, 1) PHASE(merge_backward, merge_t, 1) PHASE(skip, skip_t, 1) \
  PHASE(softmax_rows, whole_rows_t, 1) PHASE(softmax_rows_backward, whole_rows_t, 1) PHASE(cap_rows, whole_rows_t, 1) \
  PHASE(copy_matrix, copy_matrix_t, 1) PHASE(clip_sum, clip_t, 0) PHASE(clip_scale, clip_t, 0) \
  PHASE(column_squares, cap_weight_t, 0) \
  PHASE(column_norms, cap_weight_t, 0) PHASE(cap_weight_rows, cap_weight_t, 0) \
  PHASE(cap_weight_columns, cap_weight_t, 0) \
  PHASE(backward, backward_t, 1) PHASE(sample, sample_t, 1) PHASE(sample_backward, sample_t, 1) \
  PHASE(entries_rows, entries_t, 1) PHASE(marginal_rows, entries_t, 1) PHASE(entries_by_item, entries_t, 1) \
  PHASE(scores, rank_t, 0) PHASE(scores_sparse, rank_t, 0) PHASE(top_k_sparse, rank_t, 0) \
  PHASE(moments, moments_t, 0) PHASE(blend, blend_t, 0) \
  PHASE(neighborhood, neighborhood_t, 0) PHASE(sparse_product, sparse_product_t, 0) \
  PHASE(solve_start, solve_t, 0) PHASE(solve_rows, solve_t, 0) PHASE(solve_product, solve_t, 0) \
  PHASE(solve_step, solve_t, 0) PHASE(solve_direction, solve_t, 0) PHASE(solve_check, solve_t, 0) \
  PHASE(keep_largest, keep_largest_t, 0) PHASE(rows_to_panel, panel_rows_t, 0) \
  PHASE(panel_to_rows, panel_rows_t, 0) PHASE(restricted_inverse, restricted_t, 0) \
  PHASE(panel_gram, panel_gram_t, 0) PHASE(panel_gram_add, panel_gram_t, 0) \
  PHASE(panel_product_blocks, panel_blocks_t, 0) PHASE(rows_to_blocks, rows_to_blocks_t, 0) \
  PHASE(panel_scale, panel_scale_t, 0) PHASE(least_squares, least_squares_t, 1) PHASE(axes_sum, axes_t, 1) \
  PHASE(axes_find, axes_t, 1) PHASE(axes_turn, axes_t, 1) \
  PHASE(limit_memory, machine_t, 1)
/* clang-format on */

/* The functions of an instruction set. One that adds a few instructions to another has only the phases that use them; the others are
 * those of its base, which select.c puts in their places. */
typedef struct kernels {
  const char *name;
  const struct kernels *base;
  int32_t has_bfloat16; /* has instructions for it */
#define PHASE(function, arguments, flush) void (*function)(arguments *, int32_t worker);
  PHASES(PHASE)
#undef PHASE
  int64_t (*layer_workspace)(int64_t rows, int64_t columns, int64_t items, int32_t workers, int32_t bfloat16,
                             int32_t continues, int32_t activated);
  int64_t (*rank_workspace)(int64_t rows, int64_t columns, int64_t items, int32_t workers);
  int64_t (*kept_size)(int64_t items, int64_t columns);
} kernels_t;

/* The functions of a level, narrowest first; null if this CPU or this build lacks it. */
const kernels_t *dsstne_cpu_kernels(int32_t level);

/* Whether this CPU multiplies bfloat16 faster than float32, where it has instructions for it. */
int32_t dsstne_cpu_fast_bfloat16(void);

#endif
