/* product.h: C[M, N] (+)= A[M, P] B[P, N], the one product that everything dense here is made of.
 *
 * A is read element by element and broadcast; B and C are read and written in vectors along their rows. A register tile has
 * TILE_ROWS x 2 vectors: TILE_ROWS broadcasts and two loads feed 2 TILE_ROWS fused multiply-adds.
 * N must be a multiple of PANEL (rows are padded); M and P may be anything.
 *
 * A matrix in panels is [columns / PANEL][rows][PANEL]: what a register tile reads or writes of it is contiguous, whatever
 * the width. So it lies in few pages, does not crowd into few sets of a cache, and has strides that are constants.
 * tests/python/test_instructions.py counts what the innermost loops are compiled to.
 *
 * The elements of A and B are floats or, with `pairs`, words of two bfloat16 that follow each other along P (bfloat16.h); P
 * and strides count words then. */
#define PANEL (2 * LANES)
enum {
  LINE = 16 /* floats in a cache line */,
  AHEAD = 16 /* rows of B that are fetched ahead */,
  COLUMNS_AHEAD = 4,
  UNROLL = 4
};

/* Matrices as wide as C of which the rows that belong to C's are needed soon after the product; the first null ends the
 * list. They come into the second-level cache meanwhile, a line at a time, so that no one waits for memory. */
enum { FETCHES = 3 };
typedef struct {
  const float *first[FETCHES];
  int64_t row;
} fetch_t;

typedef vf registers_t[TILE_ROWS][2];

INLINE void tile_clear(const int M, registers_t r) {
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) r[m][0] = r[m][1] = splat(0);
}

INLINE void tile_store(const int M, const int accumulate, registers_t r, float *restrict c, int64_t c_row) {
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) {
    store(c + m * c_row, accumulate ? load(c + m * c_row) + r[m][0] : r[m][0]);
    store(c + m * c_row + LANES, accumulate ? load(c + m * c_row + LANES) + r[m][1] : r[m][1]);
  }
}

/* Keeps a pointer in a register of its own; else the compiler computes some from others in the innermost loop. */
#if defined(__x86_64__)
#define OWN_REGISTER(p) __asm__("" : "+r"(p))
#else
#define OWN_REGISTER(p) ((void)0)
#endif

/* Row m of A begins at a[m / 3] + m % 3 * a_row: x86 reads three rows by one pointer, with the stride in a register. */
typedef struct {
  const float *a[(TILE_ROWS + 2) / 3];
} pointers_t;

INLINE pointers_t rows_of(const float *a, int64_t a_row, const int M) {
  pointers_t rows;
#pragma GCC unroll 8
  for (int i = 0; 3 * i < M; i++) {
    rows.a[i] = a + 3 * i * a_row;
    OWN_REGISTER(rows.a[i]);
  }
  return rows;
}

INLINE void advance(pointers_t *rows, int64_t by, const int M) {
#pragma GCC unroll 8
  for (int i = 0; 3 * i < M; i++) rows->a[i] += by;
}

/* c + *a b, where the multiplication reads *a itself: one instruction less than with a broadcast, but a load for each. */
#if LANES == 16
enum { READING_ROWS = 6 };
INLINE vf add_product_at(const float *a, vf b, vf c) {
  __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*a));
  return c;
}
#else
enum { READING_ROWS = 0 };
INLINE vf add_product_at(const float *a, vf b, vf c) { return fma_(splat(*a), b, c); }
#endif

/* A step of the sum: element m of A's column is at a + m * a_row or, if there are rows, at place p of them. Of rows, a third
 * of the first READING_ROWS are read by the multiplications: those that are addressed without a stride. */
INLINE void product_step(const int pairs, const float *restrict a, const pointers_t *rows, int64_t p, int64_t a_row,
                         const float *restrict b, const int M, const int ahead, registers_t r) {
  vf b0 = load(b), b1 = load(b + LANES);
  if (ahead) {
    __builtin_prefetch(b + AHEAD * PANEL);
    __builtin_prefetch(b + AHEAD * PANEL + LANES);
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) {
    if (rows && !pairs && m % 3 == 0 && m < READING_ROWS) {
      r[m][0] = add_product_at(rows->a[m / 3] + p, b0, r[m][0]);
      r[m][1] = add_product_at(rows->a[m / 3] + p, b1, r[m][1]);
      continue;
    }
    vf x = splat_bits(rows ? rows->a[m / 3][m % 3 * a_row + p] : a[m * a_row]);
    r[m][0] = multiply_add(pairs, x, b0, r[m][0]);
    r[m][1] = multiply_add(pairs, x, b1, r[m][1]);
  }
}

/* A in panels that are a_panel apart. What is read of A's next panel, or of its next strip, is fetched line by line: it
 * begins far from where the hardware expects it. */
INLINE void tile_panels(const int pairs, const float *restrict a, int64_t a_panel, const float *restrict b, int64_t P,
                        float *restrict c, int64_t c_row, const int M) {
  const float *strip = a + M * PANEL;
  registers_t r;
  tile_clear(M, r);
  for (; P > 0; P -= PANEL, a += a_panel) {
    const float *x = a, *end = a + smaller(P, PANEL), *next = P > PANEL ? a + a_panel : strip;
    for (; x + 2 <= end; x += 2, b += 2 * PANEL, next += 2 * LINE) {
      __builtin_prefetch(next);
      product_step(pairs, x, 0, 0, PANEL, b, M, 1, r);
      __builtin_prefetch(next + LINE);
      product_step(pairs, x + 1, 0, 0, PANEL, b + PANEL, M, 1, r);
    }
    if (x < end) product_step(pairs, x, 0, 0, PANEL, b, M, 1, r), b += PANEL;
  }
  tile_store(M, 0, r, c, c_row);
}

/* Fetches what a step some columns later reads of A: its stride is too large for the hardware to follow. With fewer lanes
 * than 16 several strips share a line, and most are in the cache. */
INLINE void fetch_column(const float *a, int64_t a_col, const int M) {
  if (LANES < 16) return;
  __builtin_prefetch(a + COLUMNS_AHEAD * a_col);
  __builtin_prefetch(a + COLUMNS_AHEAD * a_col + M - 1);
}

/* A by columns that are a_col apart. A line of C is fetched with each step: all at once would occupy every buffer between
 * the caches. */
INLINE void tile_transposed(const int pairs, const float *restrict a, int64_t a_col, const float *restrict b, int64_t P,
                            float *restrict c, const int M) {
  registers_t r;
  tile_clear(M, r);
  int64_t p = 0;
  for (; p < smaller(2 * M, P); p++, a += a_col, b += PANEL) {
    __builtin_prefetch(c + p * LANES, 1);
    fetch_column(a, a_col, M);
    product_step(pairs, a, 0, 0, 1, b, M, 0, r);
  }
  const float *next = a + a_col;
  OWN_REGISTER(next);
  for (; p + 2 <= P; p += 2, a += 2 * a_col, next += 2 * a_col, b += 2 * PANEL) {
    fetch_column(a, a_col, M);
    fetch_column(next, a_col, M);
    product_step(pairs, a, 0, 0, 1, b, M, 0, r);
    product_step(pairs, next, 0, 0, 1, b + PANEL, M, 0, r);
  }
  if (p < P) product_step(pairs, a, 0, 0, 1, b, M, 0, r);
  tile_store(M, 1, r, c, PANEL);
}

/* A by rows that are a_row apart. */
INLINE void tile_rows(const int pairs, const float *restrict a, int64_t a_row, const float *restrict b, int64_t P,
                      float *restrict c, int64_t c_row, const int M, const fetch_t *fetch, int64_t column) {
  registers_t r;
  tile_clear(M, r);
  pointers_t x = rows_of(a, a_row, M);
  for (int i = 0; fetch && i < FETCHES && fetch->first[i]; i++) {
    const float *f = fetch->first[i] + column;
    for (int m = 0; m < M && P >= 2; m++, P -= 2, b += 2 * PANEL, f += fetch->row) {
      __builtin_prefetch(f, 0, 2);
      product_step(pairs, 0, &x, 0, a_row, b, M, 1, r);
      __builtin_prefetch(f + LANES, 0, 2);
      product_step(pairs, 0, &x, 1, a_row, b + PANEL, M, 1, r);
      advance(&x, 2, M);
    }
  }
  for (; P >= UNROLL; P -= UNROLL, b += UNROLL * PANEL) {
#pragma GCC unroll 4
    for (int i = 0; i < UNROLL; i++) product_step(pairs, 0, &x, i, a_row, b + i * PANEL, M, 1, r);
    advance(&x, UNROLL, M);
  }
  for (; P > 0; P--, b += PANEL) {
    product_step(pairs, 0, &x, 0, a_row, b, M, 1, r);
    advance(&x, 1, M);
  }
  tile_store(M, 0, r, c, c_row);
}

/* Panels of B outside, strips of A inside: a panel stays in the first-level cache while the strips pass. TILE(M) is a tile
 * function's call for the M rows of A from row m and the columns of C from n; the last rows, where M does not divide, are
 * the same sums in the same order with fewer registers. */
#define PRODUCT_LOOP(TILE, pairs)                                            \
  for (int64_t n = 0; n < N; n += PANEL) {                                   \
    int64_t m = 0;                                                           \
    for (; m + TILE_ROWS <= M; m += TILE_ROWS) TILE(pairs, m, n, TILE_ROWS); \
    for (; m + 4 <= M; m += 4) TILE(pairs, m, n, 4);                         \
    for (; m < M; m++) TILE(pairs, m, n, 1);                                 \
  }
#define PRODUCT(TILE)       \
  do {                      \
    if (pairs) {            \
      PRODUCT_LOOP(TILE, 1) \
    } else {                \
      PRODUCT_LOOP(TILE, 0) \
    }                       \
  } while (0)

/* C[M, N] = A[M, P] B with A and B in panels, A's a_panel apart. */
static void product_panels(int32_t pairs, const float *a, int64_t a_panel, const float *b, int64_t P, float *c,
                           int64_t c_row, int64_t M, int64_t N) {
#define TILE(pairs, m, n, rows) \
  tile_panels(pairs, a + (m) * PANEL, a_panel, b + (n) * P, P, c + (m) * c_row + (n), c_row, rows)
  PRODUCT(TILE);
#undef TILE
}

/* C[M, N] += A'[M, P] B with A' given as its transpose [P, M], rows a_col apart; B and C in panels, b_rows and c_rows rows
 * long. */
static void product_transposed(int32_t pairs, const float *a, int64_t a_col, const float *b, int64_t b_rows, int64_t P,
                               float *c, int64_t c_rows, int64_t M, int64_t N) {
#define TILE(pairs, m, n, rows) \
  tile_transposed(pairs, a + (m), a_col, b + (n) * b_rows, P, c + (n) * c_rows + (m) * PANEL, rows)
  PRODUCT(TILE);
#undef TILE
}

/* C[M, N] = A[M, P] B with B in panels that are b_rows rows long. */
static void product_rows(int32_t pairs, const float *a, int64_t a_row, const float *b, int64_t b_rows, int64_t P,
                         float *c, int64_t c_row, int64_t M, int64_t N, const fetch_t *fetch) {
#define TILE(pairs, m, n, rows) \
  tile_rows(pairs, a + (m) * a_row, a_row, b + (n) * b_rows, P, c + (m) * c_row + (n), c_row, rows, fetch, n)
  PRODUCT(TILE);
#undef TILE
}

/* Copies row r of a matrix into panels of PANEL columns (`columns` is a multiple of it) and `rows` rows. */
INLINE void row_to_panels(const float *row, int64_t columns, int64_t r, int64_t rows, float *panels) {
  for (int64_t k = 0; k < columns; k += PANEL, panels += rows * PANEL) {
    store(panels + r * PANEL, load(row + k));
    store(panels + r * PANEL + LANES, load(row + k + LANES));
  }
}
/* Copies it back. */
INLINE void row_of_panels(const float *panels, int64_t columns, int64_t r, int64_t rows, float *row) {
  for (int64_t k = 0; k < columns; k += PANEL, panels += rows * PANEL) {
    store(row + k, load(panels + r * PANEL));
    store(row + k + LANES, load(panels + r * PANEL + LANES));
  }
}
