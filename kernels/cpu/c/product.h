/* product.h: C[M, N] (+)= A[M, P] B[P, N], the one product that everything dense here is made of.
 *
 * A is read element by element at any stride and broadcast; B and C are read and written in vectors along their rows.
 * A register tile has TILE_ROWS x 2 vectors: TILE_ROWS broadcasts and two loads feed 2 TILE_ROWS fused multiply-adds.
 * N must be a multiple of PANEL (rows are padded); M and P may be anything.
 *
 * The elements of A and B are floats or, with `pairs`, words of two bfloat16 that follow each other along P (bfloat16.h); P
 * and strides count words then. */
#define PANEL (2 * LANES)
enum { AHEAD = 16 }; /* rows of B that are fetched ahead */

/* Matrices as wide as C, or none (0), of which the rows that belong to C's are needed soon after the product: they come
 * into the second-level cache meanwhile, a line at a time, so that no one waits for memory. */
typedef struct {
  const float *first[3];
  int64_t row;
} fetch_t;

INLINE void product_tile(const int pairs, const float *restrict a, int64_t a_row, int64_t a_col,
                         const float *restrict b, int64_t b_row, int64_t P, float *restrict c, int64_t c_row,
                         const int M, const int accumulate, const fetch_t *fetch, int64_t column) {
  vf r[TILE_ROWS][2];
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) r[m][0] = r[m][1] = splat(0);
  for (int64_t p = 0; p < P; p++) {
    vf b0 = load(b), b1 = load(b + LANES);
    if (!accumulate) { /* 1 to 2 % on Zen 4; a sum over a tile's items finds B in the first-level cache */
      __builtin_prefetch(b + AHEAD * b_row);
      __builtin_prefetch(b + AHEAD * b_row + LANES);
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; m++) {
      vf x = splat_bits(a[m * a_row]);
      r[m][0] = multiply_add(pairs, x, b0, r[m][0]);
      r[m][1] = multiply_add(pairs, x, b1, r[m][1]);
    }
    if (accumulate && p < M) {
      __builtin_prefetch(c + p * c_row, 1);
      __builtin_prefetch(c + p * c_row + LANES, 1);
    }
    if (fetch && p < M) {
#pragma GCC unroll 3
      for (int i = 0; i < 3; i++) {
        __builtin_prefetch(fetch->first[i] + p * fetch->row + column, 0, 2);
        __builtin_prefetch(fetch->first[i] + p * fetch->row + column + LANES, 0, 2);
      }
    }
    a += a_col;
    b += b_row;
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; m++) {
    store(c + m * c_row, accumulate ? load(c + m * c_row) + r[m][0] : r[m][0]);
    store(c + m * c_row + LANES, accumulate ? load(c + m * c_row + LANES) + r[m][1] : r[m][1]);
  }
}

/* The last rows, where M does not divide: the same sums in the same order, fewer registers. */
INLINE void product_rest(const int pairs, const float *a, int64_t a_row, int64_t a_col, const float *b, int64_t b_row,
                         int64_t P, float *c, int64_t c_row, int64_t M, int accumulate) {
  for (; M >= 4; M -= 4, a += 4 * a_row, c += 4 * c_row)
    product_tile(pairs, a, a_row, a_col, b, b_row, P, c, c_row, 4, accumulate, 0, 0);
  for (; M >= 1; M -= 1, a += a_row, c += c_row)
    product_tile(pairs, a, a_row, a_col, b, b_row, P, c, c_row, 1, accumulate, 0, 0);
}
static __attribute__((noinline)) void any_product_rest(int pairs, const float *a, int64_t a_row, int64_t a_col,
                                                       const float *b, int64_t b_row, int64_t P, float *c,
                                                       int64_t c_row, int64_t M, int accumulate) {
  if (pairs)
    product_rest(1, a, a_row, a_col, b, b_row, P, c, c_row, M, accumulate);
  else
    product_rest(0, a, a_row, a_col, b, b_row, P, c, c_row, M, accumulate);
}

/* Panels of B outside, strips of A inside: a panel stays in the first-level cache while the strips pass. The strides and the
 * kind of elements are written as constants where they are, which saves work in the innermost loop. */
#define PRODUCT_LOOP(pairs, a_row, a_col, accumulate, fetch)                                                      \
  for (int64_t n = 0; n < N; n += PANEL) {                                                                        \
    int64_t m = 0;                                                                                                \
    for (; m + TILE_ROWS <= M; m += TILE_ROWS)                                                                    \
      product_tile(pairs, a + m * (a_row), a_row, a_col, b + n * b_panel, b_row, P, c + m * c_row + n, c_row,     \
                   TILE_ROWS, accumulate, fetch, n);                                                              \
    if (m < M)                                                                                                    \
      any_product_rest(pairs, a + m * (a_row), a_row, a_col, b + n * b_panel, b_row, P, c + m * c_row + n, c_row, \
                       M - m, accumulate);                                                                        \
  }
#define PRODUCT(a_row, a_col, accumulate, fetch)     \
  if (pairs) {                                       \
    PRODUCT_LOOP(1, a_row, a_col, accumulate, fetch) \
  } else {                                           \
    PRODUCT_LOOP(0, a_row, a_col, accumulate, fetch) \
  }

/* C[M, N] = A[M, P] B with B in panels [N / PANEL][P][PANEL]. */
static void product_panels(int32_t pairs, const float *a, int64_t a_row, const float *b, int64_t P, float *c,
                           int64_t c_row, int64_t M, int64_t N) {
  const int64_t b_row = PANEL, b_panel = P;
  PRODUCT(a_row, 1, 0, 0)
}

/* C[M, N] += A'[M, P] B[P, N] with A' given as its transpose [P, M]. */
static void product_transposed(int32_t pairs, const float *a, int64_t a_col, const float *b, int64_t b_row, int64_t P,
                               float *c, int64_t c_row, int64_t M, int64_t N) {
  const int64_t b_panel = 1;
  PRODUCT(1, a_col, 1, 0)
}

/* C[M, N] = A[M, P] B[P, N], all row-major, M at most TILE_ROWS. */
static void product_rows(int32_t pairs, const float *a, int64_t a_row, const float *b, int64_t b_row, int64_t P,
                         float *c, int64_t c_row, int64_t M, int64_t N, const fetch_t *fetch) {
  const int64_t b_panel = 1;
  PRODUCT(a_row, 1, 0, fetch)
}
