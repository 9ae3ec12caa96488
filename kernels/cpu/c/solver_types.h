/* solver_types.h: the arguments of what solvers and the models they make compute; a part of kernels.h. */
#ifndef DSSTNE_CPU_SOLVER_TYPES_H
#define DSSTNE_CPU_SOLVER_TYPES_H

/* A whole matrix, see kernels.SparseMatrix. */
typedef struct {
  int64_t rows, columns;
  const int64_t *offsets;
  const int32_t *indices;
  const float *values;
} sparse_matrix_t;

/* What a worker needs for a neighborhood, in floats: sums in float64 and numbers of items; a multiple of 16. */
#define NEIGHBORHOOD_WORKSPACE(items) ((3 * (items) + 15) / 16 * 16)

/* See kernels.Neighborhood; items first .. end of this step. */
typedef struct {
  sparse_matrix_t by_item, by_row;
  const double *row_weights, *left, *right, *norms;
  double product, sum, shared, constant;
  int64_t first, end, k;
  int32_t *ids;
  float *similarities;
  float *workspace;
  int64_t next;
} neighborhood_t;

/* out = matrix in, see kernels.SparseProduct. */
typedef struct {
  sparse_matrix_t matrix;
  int64_t panels, width;
  const float *in; /* [panels, matrix.columns, width] */
  float *out;      /* [panels, matrix.rows, width] */
  int64_t next;
} sparse_product_t;

/* See kernels.Solve. */
typedef struct {
  sparse_matrix_t by_row, by_item;
  const float *ridge, *diagonal;
  int64_t width;
  float *residual, *solution;            /* [items, width]; residual: at first, the right-hand sides */
  float *direction, *product, *between;  /* [items, width], [items, width], [rows, width] */
  double *products, *squares;            /* of blocks of items: direction product, and residual^2 / diagonal */
  double tolerance;
  int32_t iterations;
  int32_t *report;
  /* filled while it runs */
  int64_t next[5];
  double norms[2][64], first[64]; /* residual^2 / diagonal, before and after an iteration, and after the first one */
  int32_t moves[64];
  int32_t iteration, done;
} solve_t;

/* What Solve needs for its panels and sums, in floats. */
#define SOLVE_WORKSPACE(rows, items, width) \
  ((width) * ((rows) + 2 * (items)) + 2 * 2 * (width) * (((items) + 511) / 512))

/* What a worker needs for the inverse of a part, in floats: the part, padded, three lists of its items, and a place for
 * each item. */
#define RESTRICTED_STRIDE(neighbors) (((neighbors) + 16) / 16 * 16)
#define RESTRICTED_WORKSPACE(items, neighbors) \
  (RESTRICTED_STRIDE(neighbors) * ((neighbors) + 17 + 3) + ((items) + 15) / 16 * 16)

/* See kernels.RestrictedInverse; items first .. end of this step. */
typedef struct {
  int64_t items, neighbors, first, end;
  const int32_t *ids;
  const float *values, *factors;
  float *weights;
  float *workspace;
  int64_t next;
} restricted_t;

/* See kernels.RowsToPanel and PanelToRows. */
typedef struct {
  int64_t rows; /* of the batch, from the first one of the panel on */
  const int32_t *offsets, *indices;
  const float *values;
  int64_t items, width;
  const float *factors, *own, *if_empty;
  float *panel, *out;
  int64_t next;
} panel_rows_t;

/* See kernels.KeepLargest; columns first .. end, which are the first ones of the panel. */
typedef struct {
  int64_t rows, width, first, end, k;
  const float *panel, *weights;
  int32_t *ids;
  float *values, *diagonal;
  int64_t next;
} keep_largest_t;

/* out = a' b for pairs of panels, see kernels.PanelGram. */
enum { BLOCK_WIDTH = 64 /* kernels.BlockWidth */ };
typedef struct {
  int64_t rows, as, bs;
  const float *a, *b;
  double *out, *parts; /* parts: of all groups of rows but the first */
  int64_t groups;
  int64_t next, next_sum;
} panel_gram_t;

/* Into how many groups PanelGram cuts the rows, so that there is work for several workers. */
static inline int64_t gram_groups(int64_t rows, int64_t pairs) {
  const int64_t most = (rows + 2047) / 2048, wanted = (16 + pairs - 1) / (pairs > 0 ? pairs : 1);
  return most < 1 ? 1 : most < wanted ? most : wanted;
}

/* out (+)= in matrix, see kernels.PanelProduct. */
typedef struct {
  int64_t rows, ins, outs;
  const float *in, *matrix;
  float *out;
  int32_t add, in_place;
  float *workspace;
  int64_t next;
} panel_blocks_t;

/* See kernels.RowsToBlocks. */
typedef struct {
  int64_t rows; /* of the batch, from the first one on */
  const int32_t *offsets, *indices;
  const float *values;
  int64_t items, ins;
  const float *factors, *in;
  float *out;
  int64_t next;
} rows_to_blocks_t;

/* See kernels.PanelScale. */
typedef struct {
  int64_t rows, width;
  float factor;
  const float *factors, *in;
  float *out;
  int32_t add;
  int64_t next;
} panel_scale_t;
/* Rows of P at once where it has more than there are unknowns; and what a worker needs, in floats: see factors.h. */
enum { LEAST_SQUARES_BLOCK = 64 };
#define LEAST_SQUARES_STRIDE(unknowns) (((unknowns) + 15) / 16 * 16)
#define LEAST_SQUARES_ROWS(stride) ((stride) > LEAST_SQUARES_BLOCK ? (stride) : LEAST_SQUARES_BLOCK)
#define LEAST_SQUARES_FLOATS(stride) ((stride) * ((stride) + 3) + LEAST_SQUARES_ROWS(stride) * ((stride) + 1))
#define LEAST_SQUARES_WORKSPACE(unknowns) LEAST_SQUARES_FLOATS(LEAST_SQUARES_STRIDE(unknowns))

/* See kernels.LeastSquares; rows first .. end of this step. */
typedef struct {
  const float *factors;
  int64_t width;
  const float *squares; /* null: 0 */
  const float *offsets; /* null: a row has no bias */
  const int64_t *row_offsets;
  const int32_t *indices;
  const float *values;
  int64_t first, end;
  float unobserved, weight, center;
  const float *ridge; /* of the rows from first on */
  float *out, *bias;
  float *workspace;
  failure_t failure;
  int64_t next;
} least_squares_t;

/* The workspace of axes_t, in floats: see factors.h. */
enum { AXES_ROWS = 64, MOST_AXES_GROUPS = 16 };
#define AXES_STRIDE(width) (((width) + 31) / 32 * 32)
#define AXES_GROUPS(rows) ((rows) < 1024 * MOST_AXES_GROUPS ? (rows) / 1024 + 1 : MOST_AXES_GROUPS)
#define AXES_WORKSPACE(rows, stride, workers) \
  ((AXES_GROUPS(rows) + 4) * (stride) * (stride) + 6 * (stride) + (workers) * 2 * AXES_ROWS * (stride))

/* See kernels.PrincipalAxes. */
typedef struct {
  float *factors;
  int64_t rows, width;
  float *squares;
  float *workspace;
  failure_t failure;
  int64_t next_group, next_find, next_rows;
} axes_t;

#endif
