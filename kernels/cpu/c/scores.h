/* scores.h: every score of every row, to the bits of kernels.Dot and kernels.Score.
 *
 * A dot product by itself waits for its own sum, four cycles for eight products, and converts both of its vectors. Here a
 * register tile has SCORE_ROWS rows x TILE_ITEMS items, and rows and items are converted to float64 once for a block. What a
 * tile reads is contiguous: a group of rows or items is [source][part][steps of eight][row or item][WIDE], where part p of
 * eight lanes is the p-th vector of them. The last eight of a source are filled up with zeros, which change no bit, since a
 * lane is never -0.
 *
 * A group of items stays in the first-level cache while a block of rows, which stays in the second, passes: a tile reads
 * SCORE_ROWS + TILE_ITEMS vectors from there for SCORE_ROWS x TILE_ITEMS multiply-adds, about half of what a CPU could read. */

#if LANES == 16
typedef __m512d mmd;
#elif LANES == 8
typedef __m256d mmd;
#endif

enum { WIDE = LANES / 2, PARTS = 8 / WIDE, TILE_ITEMS = LANES == 16 ? 8 : 4 };

typedef double vd __attribute__((vector_size(VECTOR_BYTES)));
typedef double vd_any __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef int64_t vd_mask __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf_half __attribute__((vector_size(VECTOR_BYTES / 2), aligned(4), may_alias));

/* WIDE floats in float64, sum + a b, and WIDE numbers rounded to floats. (gcc 12 makes several conversions of a
 * convertvector from or to 512 bits.) */
#if LANES >= 8
INLINE vd add_wide(vd a, vd b, vd sum) { return (vd)MM(fmadd_pd)((mmd)a, (mmd)b, (mmd)sum); }
INLINE void narrow_wide(vd x, float *out) { *(vf_half *)out = (vf_half)MM(cvtpd_ps)((mmd)x); }
#else
#if defined(__aarch64__)
INLINE vd add_wide(vd a, vd b, vd sum) { return (vd)vfmaq_f64((float64x2_t)sum, (float64x2_t)a, (float64x2_t)b); }
#else
INLINE vd add_wide(vd a, vd b, vd sum) { return sum + a * b; }
#endif
INLINE void narrow_wide(vd x, float *out) {
  for (int i = 0; i < WIDE; i++) out[i] = (float)x[i];
}
#endif
#if LANES == 16
INLINE vd widen_wide(const float *p) { return widen(p); }
#else
INLINE vd widen_wide(const float *p) { return __builtin_convertvector(*(const vf_half *)p, vd); }
#endif

/* Sums of the lanes of WIDE items in the order of dot, an item each. Two vectors of sums become one in each step: what one of
 * them keeps in place and what the other does are blended, and the rest is brought there by a single shuffle. */
#define FOLD(a, b, kept, moved) (__builtin_shufflevector(a, b, kept) + __builtin_shufflevector(a, b, moved))
#define LIST(...) __VA_ARGS__
INLINE vd add_dot_lanes(vd sum[PARTS][TILE_ITEMS], int64_t first) {
#if LANES == 16
  vd x[4], y[2];
  (void)first;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    x[i] = FOLD(sum[0][i], sum[0][i + 4], LIST(0, 1, 2, 3, 12, 13, 14, 15), LIST(4, 5, 6, 7, 8, 9, 10, 11));
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)
    y[i] = FOLD(x[i], x[i + 2], LIST(0, 1, 10, 11, 4, 5, 14, 15), LIST(2, 3, 8, 9, 6, 7, 12, 13));
  return FOLD(y[0], y[1], LIST(0, 9, 2, 11, 4, 13, 6, 15), LIST(1, 8, 3, 10, 5, 12, 7, 14));
#elif LANES == 8
  vd x[4], y[2];
  (void)first;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) x[i] = sum[0][i] + sum[1][i];
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) y[i] = FOLD(x[i], x[i + 2], LIST(0, 1, 6, 7), LIST(2, 3, 4, 5));
  return FOLD(y[0], y[1], LIST(0, 5, 2, 7), LIST(1, 4, 3, 6));
#else
  vd x[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) x[i] = (sum[0][first + i] + sum[2][first + i]) + (sum[1][first + i] + sum[3][first + i]);
  return FOLD(x[0], x[1], LIST(0, 3), LIST(1, 2));
#endif
}
#undef FOLD
#undef LIST

/* Keeps a vector that several products need in a register; else the compiler has each of them read it. */
#if LANES >= 8
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#else
#define IN_REGISTER(x) ((void)0)
#endif

typedef vd totals_t[SCORE_ROWS][TILE_ITEMS / WIDE];

/* Adds the dot products of one source to total. */
INLINE void add_dots(const double *h, const double *w, int64_t steps, const int M, totals_t total) {
  vd sum[SCORE_ROWS][PARTS][TILE_ITEMS];
  for (int p = 0; p < PARTS; p++) {
    vd x[SCORE_ROWS][TILE_ITEMS];
#pragma GCC unroll 4
    for (int m = 0; m < M; m++)
#pragma GCC unroll 8
      for (int i = 0; i < TILE_ITEMS; i++) x[m][i] = (vd){0};
    for (int64_t s = 0; s < steps; s++, h += M * WIDE, w += TILE_ITEMS * WIDE) {
      vd row[SCORE_ROWS];
#pragma GCC unroll 4
      for (int m = 0; m < M; m++) row[m] = *(const vd_any *)(h + m * WIDE);
#pragma GCC unroll 8
      for (int i = 0; i < TILE_ITEMS; i++) {
        vd item = *(const vd_any *)(w + i * WIDE);
        IN_REGISTER(item);
#pragma GCC unroll 4
        for (int m = 0; m < M; m++) x[m][i] = add_wide(row[m], item, x[m][i]);
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < M; m++)
#pragma GCC unroll 8
      for (int i = 0; i < TILE_ITEMS; i++) sum[m][p][i] = x[m][i];
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; m++)
#pragma GCC unroll 2
    for (int i = 0; i < TILE_ITEMS; i += WIDE) total[m][i / WIDE] += add_dot_lanes(sum[m], i);
}

/* What the scores of a tile need beside the dot products: norms are those of cosine scores. */
typedef struct {
  const double *row_norm, *item_norm, *bias;
} finish_t;

/* kernels.Score for M rows and n items. */
INLINE void score_tile(const rank_t *r, const double *h, const double *w, const int M, int64_t n, const finish_t *f,
                       float *out) {
  totals_t total = {0};
  for (int32_t s = 0; s < r->sources; s++) {
    const int64_t steps = (r->source[s].weight.columns + 7) / 8;
    add_dots(h, w, steps, M, total);
    h += 8 * steps * M;
    w += 8 * steps * TILE_ITEMS;
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; m++, out += r->stride) {
    float score[TILE_ITEMS];
#pragma GCC unroll 2
    for (int i = 0; i < TILE_ITEMS; i += WIDE) {
      vd x = total[m][i / WIDE];
      if (r->temperature != 0) {
        const vd norm = f->row_norm[m] * *(const vd_any *)(f->item_norm + i);
        x = x / norm / (double)r->temperature;
        x = (vd)((vd_mask)x & ~(vd_mask)(norm == 0.0)); /* 0 for a zero vector */
      }
      narrow_wide(x + *(const vd_any *)(f->bias + i), score + i);
    }
    if (n >= TILE_ITEMS)
      memcpy(out, score, sizeof score);
    else
      memcpy(out, score, n * sizeof *score);
  }
}

/* A group in float64: n rows of h, or with scratch for a row of the weights, from `first` on, and zeros where it has room
 * for more. */
static void widen_group(const rank_t *r, float *scratch, int64_t first, int64_t n, int64_t group, double *out) {
  for (int32_t s = 0; s < r->sources; s++) {
    const int64_t K = r->source[s].weight.columns, steps = (K + 7) / 8;
    if (n < group) memset(out, 0, 8 * steps * group * sizeof *out);
    for (int64_t j = 0; j < n; j++) {
      const float *from =
          scratch ? weight_row(&r->source[s].weight, first + j, scratch) : r->source[s].h + (first + j) * K;
      float last[8] = {0};
      for (int64_t k = 0; k < steps; k++, from += 8) {
        if (8 * k + 8 > K) from = (const float *)memcpy(last, from, (K - 8 * k) * 4);
        for (int p = 0; p < PARTS; p++)
          *(vd_any *)(out + ((p * steps + k) * group + j) * WIDE) = widen_wide(from + p * WIDE);
      }
    }
    out += 8 * steps * group;
  }
}

/* Workers take blocks of items. */
static void scores(rank_t *r, int32_t worker) {
  const int64_t units = padded_units(r->source, r->sources);
  const score_block_t block = score_block(r->rows, units, r->items, r->workers);
  double *w = (double *)r->workspace + worker * (block.items + block.rows) * units, *h = w + block.items * units;
  float *scratch = (float *)h; /* which is not in use while items are widened */
  double item_norm[SCORE_MOST_ITEMS], row_norm[SCORE_MOST_ROWS], bias[SCORE_MOST_ITEMS];
  const int cosine = r->temperature != 0;
  for (int64_t first; (first = take(&r->next) * block.items) < r->items;) {
    const int64_t n = smaller(block.items, r->items - first);
    for (int64_t t = 0; t < round_up(n, TILE_ITEMS); t++) {
      bias[t] = t < n && r->bias ? r->bias[first + t] : 0;
      item_norm[t] = t < n && cosine ? sqrt(item_square(r, first + t, scratch)) : 0;
    }
    for (int64_t t = 0; t < n; t += TILE_ITEMS)
      widen_group(r, scratch, first + t, smaller(TILE_ITEMS, n - t), TILE_ITEMS, w + t * units);
    for (int64_t u = 0; u < r->rows; u += block.rows) {
      const int64_t rows = smaller(block.rows, r->rows - u);
      for (int64_t v = 0; v < rows; v += SCORE_ROWS) {
        const int64_t group = smaller(SCORE_ROWS, rows - v);
        widen_group(r, NULL, u + v, group, group, h + v * units);
      }
      for (int64_t v = 0; v < rows && cosine; v++) row_norm[v] = sqrt(row_square(r, u + v));
      for (int64_t t = 0; t < n; t += TILE_ITEMS)
        for (int64_t v = 0; v < rows; v += SCORE_ROWS) {
          const finish_t f = {row_norm + v, item_norm + t, bias + t};
          const double *rows_from = h + v * units, *items_from = w + t * units;
          float *out = r->out + (u + v) * r->stride + first + t;
          if (rows - v >= 3)
            score_tile(r, rows_from, items_from, 3, n - t, &f, out);
          else if (rows - v == 2)
            score_tile(r, rows_from, items_from, 2, n - t, &f, out);
          else
            score_tile(r, rows_from, items_from, 1, n - t, &f, out);
        }
    }
  }
}
