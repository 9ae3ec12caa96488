/* spread.h: sums of the rows of a matrix, as sparse.h makes them, for sparse rows that have many of the entries that they
 * could have: a product. The sparse rows are spread out, a few columns at a time, with zeros where they have no entry, and
 * a register tile adds up many of them at once. A sum is in the order of the entries, and has the bits of add_entries. */
enum {
  SPREAD_ROWS = SPREAD_MOST_ROWS / TILE_ROWS * TILE_ROWS, /* which share what is read of the matrix */
  SPREAD_LEAST = 64, /* columns of a row that may be spread */
  /* From where on it pays, see RATIONALE.md. */
  GATHER_PARTS = 4,
  GATHER_ROWS = 16,
  SCATTER_PARTS = 2
};

/* Sparse rows and their sums. */
typedef struct {
  int64_t rows;
  const int32_t *index[SPREAD_ROWS]; /* of the entries that are not spread yet */
  const float *value[SPREAD_ROWS];
  const int32_t *end[SPREAD_ROWS];
  const float *wanted[SPREAD_ROWS]; /* what the caller needs next, as wide as the sums, or null */
  int64_t number[SPREAD_ROWS]; /* of the rows, for the caller */
  float x[SPREAD_ROWS * SPREAD_DEPTH] __attribute__((aligned(64)));
  float panels[SPREAD_DEPTH * SPREAD_WIDTH]
      __attribute__((aligned(64))); /* of the matrix, see product.h; SPREAD_DEPTH rows long */
  float sum[SPREAD_ROWS * SPREAD_WIDTH] __attribute__((aligned(64)));
} spread_t;
_Static_assert(sizeof(spread_t) + 64 <= SPREAD_WORKSPACE * sizeof(float), "the workspace is too small");

/* A worker's place. The workspace need not begin at a line of the cache; the place does, which is worth a tenth. */
INLINE spread_t *spread_place(float *workspace, int32_t worker) {
  return (spread_t *)(((uintptr_t)(workspace + worker * (int64_t)SPREAD_WORKSPACE) + 63) & ~(uintptr_t)63);
}

/* How many rows a worker spreads at once: as many as there is room for, unless others would have nothing to do. pieces:
 * into how many tasks each group of rows is cut otherwise. A sum does not depend on the other rows of its group. */
INLINE int64_t spread_group(int64_t rows, int64_t pieces, int32_t workers) {
  const int64_t groups = larger((rows + SPREAD_ROWS - 1) / SPREAD_ROWS, (2 * workers + pieces - 1) / pieces);
  return smaller(SPREAD_ROWS, round_up((rows + groups - 1) / groups, TILE_ROWS));
}

/* Is a row of that many entries, of depth possible ones, spread, for sums of K numbers, if that pays from one part in so
 * many on? Only where they are whole vectors: add_entries rounds the rest in another way, and several devices that each add
 * a part of a row make the bits of one. */
INLINE int is_spread(const float *workspace, int64_t parts, int64_t entries, int64_t depth, int64_t K) {
  return workspace && parts * entries >= depth && depth >= SPREAD_LEAST && K >= PANEL && K % LANES == 0;
}

INLINE void spread_add(spread_t *s, int64_t number, const int32_t *index, const float *value, int64_t from, int64_t to,
                       const float *wanted) {
  s->number[s->rows] = number, s->wanted[s->rows] = wanted;
  s->index[s->rows] = index + from, s->end[s->rows] = index + to, s->value[s->rows] = value + from;
  s->rows++;
}

/* Spreads the columns from .. from + SPREAD_DEPTH - 1 of row m. */
INLINE void spread_row(spread_t *s, int64_t m, int64_t from) {
  float *x = s->x + m * SPREAD_DEPTH;
  const int32_t *index = s->index[m], *end = s->end[m];
  const float *value = s->value[m];
  if (end - index >= SPREAD_DEPTH &&
      index[SPREAD_DEPTH - 1] == from + SPREAD_DEPTH - 1) { /* all: they ascend, and begin at from at least */
    memcpy(x, value, SPREAD_DEPTH * 4);
    s->index[m] += SPREAD_DEPTH, s->value[m] += SPREAD_DEPTH;
    return;
  }
  memset(x, 0, SPREAD_DEPTH * 4);
  for (; index < end && *index < from + SPREAD_DEPTH; index++) x[*index - from] = *value++;
  s->index[m] = index, s->value[m] = value;
}

/* Copies rows of up to SPREAD_WIDTH columns into panels, with zeros behind them. */
INLINE void spread_panels(const float *matrix, int64_t K, int64_t rows, int64_t width, float *panels) {
  const int64_t whole = width / PANEL * PANEL;
  for (int64_t p = 0; p < rows; p++, matrix += K) {
    row_to_panels(matrix, whole, p, SPREAD_DEPTH, panels);
    if (whole == width) continue;
    float *last = panels + whole * SPREAD_DEPTH + p * PANEL;
    memset(last, 0, PANEL * 4);
    memcpy(last, matrix + whole, (width - whole) * 4);
  }
}

INLINE void spread_tile(const float *x, const float *panel, int64_t P, float *sum, const int M) {
  registers_t r;
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) r[m][0] = load(sum + m * SPREAD_WIDTH), r[m][1] = load(sum + m * SPREAD_WIDTH + LANES);
  pointers_t rows = rows_of(x, SPREAD_DEPTH, M);
  for (; P >= UNROLL; P -= UNROLL, panel += UNROLL * PANEL) {
#pragma GCC unroll 4
    for (int i = 0; i < UNROLL; i++) product_step(0, 0, &rows, i, SPREAD_DEPTH, panel + i * PANEL, M, 0, r);
    advance(&rows, UNROLL, M);
  }
  for (; P > 0; P--, panel += PANEL) {
    product_step(0, 0, &rows, 0, SPREAD_DEPTH, panel, M, 0, r);
    advance(&rows, 1, M);
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) store(sum + m * SPREAD_WIDTH, r[m][0]), store(sum + m * SPREAD_WIDTH + LANES, r[m][1]);
}

/* Brings numbers n .. n + PANEL - 1 of rows from .. end - 1 into the second-level cache. */
INLINE void spread_fetch(const float *const *rows, const float *first, int64_t stride, int64_t n, int64_t from,
                         int64_t end) {
  for (int64_t m = from; m < end; m++)
    for (int i = 0; i < PANEL; i += LINE) __builtin_prefetch((rows ? rows[m] : first + m * stride) + n + i, 0, 2);
}

/* Adds to the sums: of columns k .. k + width - 1 of the matrix [depth, K], width at most SPREAD_WIDTH. Beside each tile, a
 * few rows of the matrix that come next are fetched, or at the end those that are wanted: no hardware expects them, since
 * a row of the matrix is much longer than what is read of it. */
static void spread_sums(spread_t *s, const float *matrix, int64_t depth, int64_t K, int64_t k, int64_t width) {
  enum { FETCHED = 2 * SPREAD_DEPTH / (SPREAD_MOST_ROWS / TILE_ROWS) };
  for (int64_t from = 0; from < depth; from += SPREAD_DEPTH) {
    const int64_t P = smaller(SPREAD_DEPTH, depth - from), after = smaller(SPREAD_DEPTH, depth - from - P);
    const float *next = matrix + (from + P) * K + k;
    for (int64_t m = 0; m < s->rows; m++) spread_row(s, m, from);
    spread_panels(matrix + from * K + k, K, P, width, s->panels);
    for (int64_t n = 0; n < width; n += PANEL) {
      int64_t m = 0, fetched = 0;
#define TILE(M)                                                                                              \
  {                                                                                                          \
    if (after > 0) {                                                                                         \
      spread_fetch(0, next, K, n, fetched, smaller(fetched + FETCHED, after));                               \
      fetched += FETCHED;                                                                                    \
    } else if (s->wanted[0]) {                                                                               \
      spread_fetch(s->wanted, 0, 0, n, m, m + M);                                                            \
    }                                                                                                        \
    spread_tile(s->x + m * SPREAD_DEPTH, s->panels + n * SPREAD_DEPTH, P, s->sum + m * SPREAD_WIDTH + n, M); \
    m += M;                                                                                                  \
  }
      while (m + TILE_ROWS <= s->rows) TILE(TILE_ROWS);
      while (m + 4 <= s->rows) TILE(4);
      while (m < s->rows) TILE(1);
#undef TILE
    }
  }
}
