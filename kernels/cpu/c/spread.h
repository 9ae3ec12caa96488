/* spread.h: sums of the rows of a matrix, as sparse.h makes them, for sparse rows that have most of the entries that they
 * could have: a product. The sparse rows are spread out, a few columns at a time, with zeros where they have no entry, and
 * a register tile adds up many of them at once. A sum is in the order of the entries, as that of add_entries. Whether a row
 * is spread depends on this row only, so that its bits do not depend on those beside it. */
enum {
  DEPTH = 64, /* columns that are spread at a time */
  SPREAD_ROWS = (TILE_ROWS < 8 ? 8 : 4) * TILE_ROWS, /* which share what is read of the matrix */
  SPREAD_WIDTH = 128 /* columns of the matrix at a time */
};

/* Sparse rows and their sums: 80 KB, which lie on the stack of a thread that may have 128. */
typedef struct {
  int64_t rows;
  const int32_t *index[SPREAD_ROWS]; /* of the entries that are not spread yet */
  const float *value[SPREAD_ROWS];
  const int32_t *end[SPREAD_ROWS];
  int64_t number[SPREAD_ROWS]; /* of the rows, for the caller */
  float x[SPREAD_ROWS * DEPTH] __attribute__((aligned(64)));
  float panels[DEPTH * SPREAD_WIDTH] __attribute__((aligned(64))); /* of the matrix, see product.h; DEPTH rows long */
  float sum[SPREAD_ROWS * SPREAD_WIDTH] __attribute__((aligned(64)));
} spread_t;

/* Is a row of that many entries, of depth possible ones, spread, for sums of K numbers? Only where they are whole vectors:
 * add_entries rounds the rest in another way, and several devices that each add a part of a row make the bits of one. */
INLINE int is_spread(int64_t entries, int64_t depth, int64_t K) {
  return 2 * entries >= depth && depth >= DEPTH && K >= PANEL && K % LANES == 0;
}

INLINE void spread_add(spread_t *s, int64_t number, const int32_t *index, const float *value, int64_t from,
                       int64_t to) {
  s->number[s->rows] = number;
  s->index[s->rows] = index + from, s->end[s->rows] = index + to, s->value[s->rows] = value + from;
  s->rows++;
}

/* Spreads the columns from .. from + DEPTH - 1 of row m. */
INLINE void spread_row(spread_t *s, int64_t m, int64_t from) {
  float *x = s->x + m * DEPTH;
  const int32_t *index = s->index[m], *end = s->end[m];
  const float *value = s->value[m];
  if (end - index >= DEPTH && index[DEPTH - 1] == from + DEPTH - 1) { /* all: they ascend, and begin at from at least */
    memcpy(x, value, DEPTH * 4);
    s->index[m] += DEPTH, s->value[m] += DEPTH;
    return;
  }
  memset(x, 0, DEPTH * 4);
  for (; index < end && *index < from + DEPTH; index++) x[*index - from] = *value++;
  s->index[m] = index, s->value[m] = value;
}

/* Copies rows of up to SPREAD_WIDTH columns into panels, with zeros behind them. */
INLINE void spread_panels(const float *matrix, int64_t K, int64_t rows, int64_t width, float *panels) {
  const int64_t whole = width / PANEL * PANEL;
  for (int64_t p = 0; p < rows; p++, matrix += K) {
    row_to_panels(matrix, whole, p, DEPTH, panels);
    if (whole == width) continue;
    float *last = panels + whole * DEPTH + p * PANEL;
    memset(last, 0, PANEL * 4);
    memcpy(last, matrix + whole, (width - whole) * 4);
  }
}

INLINE void spread_tile(const float *x, const float *panel, int64_t P, float *sum, const int M) {
  registers_t r;
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) r[m][0] = load(sum + m * SPREAD_WIDTH), r[m][1] = load(sum + m * SPREAD_WIDTH + LANES);
  pointers_t rows = rows_of(x, DEPTH, M);
  for (; P >= UNROLL; P -= UNROLL, panel += UNROLL * PANEL) {
#pragma GCC unroll 4
    for (int i = 0; i < UNROLL; i++) product_step(0, 0, &rows, i, DEPTH, panel + i * PANEL, M, 0, r);
    advance(&rows, UNROLL, M);
  }
  for (; P > 0; P--, panel += PANEL) {
    product_step(0, 0, &rows, 0, DEPTH, panel, M, 0, r);
    advance(&rows, 1, M);
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) store(sum + m * SPREAD_WIDTH, r[m][0]), store(sum + m * SPREAD_WIDTH + LANES, r[m][1]);
}

/* Adds to the sums: of columns k .. k + width - 1 of the matrix [depth, K], width at most SPREAD_WIDTH. */
static void spread_sums(spread_t *s, const float *matrix, int64_t depth, int64_t K, int64_t k, int64_t width) {
  for (int64_t from = 0; from < depth; from += DEPTH) {
    const int64_t P = smaller(DEPTH, depth - from);
    for (int64_t m = 0; m < s->rows; m++) spread_row(s, m, from);
    spread_panels(matrix + from * K + k, K, P, width, s->panels);
    for (int64_t n = 0; n < width; n += PANEL) {
      int64_t m = 0;
#define TILE(M) spread_tile(s->x + m * DEPTH, s->panels + n * DEPTH, P, s->sum + m * SPREAD_WIDTH + n, M)
      for (; m + TILE_ROWS <= s->rows; m += TILE_ROWS) TILE(TILE_ROWS);
      for (; m + 4 <= s->rows; m += 4) TILE(4);
      for (; m < s->rows; m++) TILE(1);
#undef TILE
    }
  }
}
