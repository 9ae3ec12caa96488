/* rank_int8.h: screening with products of int8 numbers (vpdpbusd: four of them in the time of one float32).
 *
 * A vector x is multiplied by a scale r of about 127 / max |x_k|: y_k = fl(r x_k), q_k = y_k rounded to an integer in
 * [-127, 127]. With u = 2^-24, g = (K + 32) u 1.01 (rounding of a float32 sum of K terms; Higham, Accuracy and Stability of
 * Numerical Algorithms, 3.1) and the float32 sums S = sum (y_k - q_k)^2, whose differences are exact because q_k is the
 * nearest integer, and Y = sum y_k^2, there is
 *
 *   |r x|     <= N = (1 + g) sqrt(Y) (1 + 4u) + 2^-60       (2^-60: squares and products that underflow)
 *   |r x - q| <= E = (1 + g) sqrt(S) (1 + 4u) + 4u N + 2^-60       (y_k is wrong by u |y_k|)
 *
 * Products of integers are exact, since K 127^2 < 2^31; e (rank_screen.h) covers their conversion to float32 and, for cosine
 * scores, two norms within g. (No input shows the first alone: 4u N in E and E' allows for 2^-21 N N', and it is 2^-24.) */
#ifdef __AVX512VNNI__

enum { SCREENS_INT8 = 1, MOST_UNITS8 = 133143 };

/* Bits of the largest magnitude: as integers they rise with it, and are largest for NaN. */
static int32_t largest_bits(const float *x, int64_t n) {
  __m512i all = _mm512_setzero_si512(), magnitude = _mm512_set1_epi32(0x7fffffff);
  int64_t k = 0;
  for (; k + LANES <= n; k += LANES) all = _mm512_max_epi32(all, _mm512_and_si512((__m512i)load(x + k), magnitude));
  if (k < n) all = _mm512_max_epi32(all, _mm512_and_si512((__m512i)load_some(x + k, n - k), magnitude));
  return _mm512_reduce_max_epi32(all);
}

/* Steps to a unit; 0 if a number is infinite or NaN. Tiny rows get fewer, so that products of scales stay in range. */
static float scale_of(int32_t bits) {
  float most;
  memcpy(&most, &bits, 4);
  if (!(most < INFINITY)) return 0;
  return most == 0 ? 1 : most < 127 * 0x1p-40f ? 0x1p40f : 127 / most;
}

/* A vector in steps: its scale, bounds of its norm N and of its error E, its length for cosine scores (within g), the sum of
 * its integers. */
typedef struct {
  float scale, norm, error, length;
  int32_t sum;
} steps_t;

/* out = x in steps, with zeros up to a multiple of 16. Pieces of CHUNK numbers are stride apart. */
enum { CHUNK = 64 };
static steps_t to_steps(const float *x, int64_t n, int8_t *out, int64_t stride) {
  const float g = (float)(n + 32) * 0x1.03p-24f, up = (1 + g) * (1 + 0x1p-22f);
  const float scale = scale_of(largest_bits(x, n));
  const vf magic = splat(12582912.0f); /* 1.5 2^23: adding it rounds to an integer, which is left in the low bits */
  vf squares = {0}, errors = {0};
  const vi known = splat_int(scale == 0 ? 0 : -1); /* zeros for what is not finite, whose integers mean nothing */
  vi sums = {0};
  for (int64_t k = 0; k < n; k += LANES) {
    vf y = (k + LANES <= n ? load(x + k) : load_some(x + k, n - k)) * scale;
    y = (vf)((vi)y & known);
    vf shifted = y + magic, q = shifted - magic;
    vf e = y - q;
    squares = fma_(y, y, squares);
    errors = fma_(e, e, errors);
    sums += (vi)shifted - (vi)magic;
    _mm_storeu_si128((__m128i *)(out + k / CHUNK * stride + k % CHUNK), _mm512_cvtepi32_epi8((__m512i)shifted));
  }
  steps_t s = {.scale = scale,
               .length = sqrtf(_mm512_reduce_add_ps((__m512)squares)),
               .sum = _mm512_reduce_add_epi32((__m512i)sums)};
  s.norm = s.length * up + 0x1p-60f;
  s.error = sqrtf(_mm512_reduce_add_ps((__m512)errors)) * up + 0x1p-22f * s.norm + 0x1p-60f;
  return s;
}

/* A row of h or of the weights. */
static steps_t row_to_steps(const rank_t *r, const block_t *b, int weights, int64_t row, int8_t *out, int64_t stride) {
  if (r->sources == 1) {
    const source_t *s = r->source;
    const int64_t K = s->weight.columns;
    return to_steps(weights ? weight_row(&s->weight, row, b->w) : s->h + row * K, K, out, stride);
  }
  if (weights)
    item_weights(r, row, b->w);
  else
    concatenate(r->source, r->sources, 0, row, b->w);
  return to_steps(b->w, b->K, out, stride);
}

/* The factor f or c of rank_screen.h; NaN: unknown. */
static float factor_of(const rank_t *r, const steps_t *s, float temperature) {
  if (s->scale == 0) return NAN;
  if (r->temperature == 0) return s->scale;
  if (s->scale == 1 && s->length == 0) return 1; /* a zero vector scores the bias */
  float factor = s->length * temperature;
  return s->length > 0x1p-30f && factor > 0x1p-80f && factor < 0x1p80f ? factor : NAN;
}

/* Panel p of h, moved by 128, since vpdpbusd multiplies unsigned with signed numbers. */
static void pack_panel8(const rank_t *r, const block_t *b, int64_t p) {
  uint8_t *panel = b->panels8 + p * PANEL * b->K4;
  memset(panel, 128, PANEL * b->K4);
  for (int64_t u = 0; u < PANEL; u++) {
    const int64_t v = p * PANEL + u;
    steps_t s = {.scale = 0};
    if (v < b->lists.n) {
      s = row_to_steps(r, b, 0, b->lists.first + v, b->row8, CHUNK);
      for (int64_t k = 0; k < b->K; k++) panel[(k / 4 * PANEL + u) * 4 + k % 4] = (uint8_t)(b->row8[k] + 128);
    }
    b->scale[v] = s.scale;
    b->narrow.step[v] = factor_of(r, &s, r->temperature);
    b->narrow.norm[v] = s.norm;
    b->narrow.error[v] = s.error;
  }
}

/* The tile's weights, in strips of TILE_ROWS items: [K / CHUNK][TILE_ROWS][CHUNK]. */
static void load_tile8(const rank_t *r, const block_t *b, tile_t *tile) {
  reading_t *of = &tile->narrow;
  of->largest_step = of->largest_bias = of->norm = of->error = 0;
  for (int64_t t = 0; t < tile->n; t++) {
    const int64_t strip = t / TILE_ROWS, m = t % TILE_ROWS;
    int8_t *to = b->w8 + strip * TILE_ROWS * b->ldw8 + m * CHUNK;
    if (m == 0) tile->norm[strip] = tile->error[strip] = 0;
    steps_t s = row_to_steps(r, b, 1, tile->item[t], to, TILE_ROWS * CHUNK);
    float step = factor_of(r, &s, 1), bias = (r->bias ? r->bias[tile->item[t]] : 0) * step;
    tile->offset[t] = (int32_t)(-128u * (uint32_t)s.sum);
    tile->scale[t] = s.scale;
    of->step[t] = bias - bias == 0 ? step : NAN; /* an item that is not finite stays in, alone */
    of->bias[t] = bias + fabsf(bias) * 0x1p-21f;
    if (of->step[t] != step) continue;
    if (step > of->largest_step) of->largest_step = step;
    if (fabsf(of->bias[t]) > of->largest_bias) of->largest_bias = fabsf(of->bias[t]);
    if (s.norm > tile->norm[strip]) tile->norm[strip] = s.norm;
    if (s.error > tile->error[strip]) tile->error[strip] = s.error;
    if (s.norm > of->norm) of->norm = s.norm;
    if (s.error > of->error) of->error = s.error;
  }
}

/* sum += four products of unsigned h and signed w, lane by lane. gcc 12 copies and spills the sums around its intrinsic,
 * which halves the speed. */
INLINE void dot_fours(__m512i *sum, __m512i h, __m512i w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(h), "v"(w));
}

/* d of rank_screen.h for the largest N' and E' of a strip, which are often much smaller than those of the tile. */
INLINE vf limit_of_strip(const limits_t *limits, const tile_t *tile, int64_t strip, int64_t u) {
  const vf d = fma_(load(limits->by_error + u), splat(tile->error[strip]), load(limits->rest + u));
  return fma_(load(limits->by_norm + u), splat(tile->norm[strip]), d);
}

/* Products of a strip of items with a panel of rows. Those that are not below their limits are appended to b->z, and what
 * they are, item * PANEL + row, to b->at; returns their number with those before. */
INLINE int64_t screen_strip(const block_t *b, const uint8_t *panel, const tile_t *tile, int64_t t,
                            const limits_t *limits, int64_t count, const int biased) {
  const int8_t *w = b->w8 + t * b->ldw8;
  __m512i sum[TILE_ROWS][2];
#pragma GCC unroll 16
  for (int m = 0; m < TILE_ROWS; m++) sum[m][0] = sum[m][1] = _mm512_set1_epi32(tile->offset[t + m]);
  for (int64_t left = b->K4, here; left > 0; left -= here, w += TILE_ROWS * CHUNK) {
    here = smaller(left, CHUNK);
    for (const int8_t *end = w + here, *at = w; at < end; at += 4, panel += 4 * PANEL) {
      const __m512i h0 = _mm512_loadu_si512(panel), h1 = _mm512_loadu_si512(panel + 64);
      __builtin_prefetch(panel + AHEAD * 4 * PANEL);
      __builtin_prefetch(panel + AHEAD * 4 * PANEL + 64);
#pragma GCC unroll 16
      for (int m = 0; m < TILE_ROWS; m++) {
        int32_t four;
        memcpy(&four, at + m * CHUNK, 4);
        const __m512i y = _mm512_set1_epi32(four);
        dot_fours(&sum[m][0], h0, y);
        dot_fours(&sum[m][1], h1, y);
      }
    }
  }
  const __m512 d0 = (__m512)limit_of_strip(limits, tile, t / TILE_ROWS, 0);
  const __m512 d1 = (__m512)limit_of_strip(limits, tile, t / TILE_ROWS, LANES);
  __mmask16 mask[TILE_ROWS][2];
#pragma GCC unroll 16
  for (int m = 0; m < TILE_ROWS; m++) {
    const __m512 step = _mm512_set1_ps(tile->narrow.step[t + m]);
    __m512 from0 = _mm512_fmsub_ps(_mm512_loadu_ps(limits->a), step, d0);
    __m512 from1 = _mm512_fmsub_ps(_mm512_loadu_ps(limits->a + LANES), step, d1);
    if (biased) {
      const __m512 bias = _mm512_set1_ps(tile->narrow.bias[t + m]);
      from0 = _mm512_fnmadd_ps(_mm512_loadu_ps(limits->f), bias, from0);
      from1 = _mm512_fnmadd_ps(_mm512_loadu_ps(limits->f + LANES), bias, from1);
    }
    sum[m][0] = (__m512i)_mm512_cvtepi32_ps(sum[m][0]);
    sum[m][1] = (__m512i)_mm512_cvtepi32_ps(sum[m][1]);
    mask[m][0] = _mm512_cmp_ps_mask((__m512)sum[m][0], from0, _CMP_NLT_UQ);
    mask[m][1] = _mm512_cmp_ps_mask((__m512)sum[m][1], from1, _CMP_NLT_UQ);
  }
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 16
  for (int m = 0; m < TILE_ROWS; m++) {
    if (!(mask[m][0] | mask[m][1]) || t + m >= tile->n) continue;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      const __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32((int32_t)(t + m) * PANEL + i * LANES));
      _mm512_storeu_ps(b->z + count, _mm512_maskz_compress_ps(mask[m][i], (__m512)sum[m][i]));
      _mm512_storeu_si512(b->at + count, _mm512_maskz_compress_epi32(mask[m][i], at));
      count += __builtin_popcount(mask[m][i]);
    }
  }
  return count;
}

/* Functions of their own: inlined together they would run out of registers. */
static __attribute__((noinline)) int64_t screen_plain(const block_t *b, const uint8_t *panel, const tile_t *tile,
                                                      int64_t t, const limits_t *limits, int64_t count) {
  return screen_strip(b, panel, tile, t, limits, count, 0);
}
static __attribute__((noinline)) int64_t screen_biased(const block_t *b, const uint8_t *panel, const tile_t *tile,
                                                       int64_t t, const limits_t *limits, int64_t count) {
  return screen_strip(b, panel, tile, t, limits, count, 1);
}

/* From that many units on a candidate is checked in float32 before it is scored exactly. */
enum { FLOAT_UNITS = 384 };

/* A tile and a panel are given up when so large a share of the products are candidates that float32 would be faster; beside
 * those that are candidates with any precision, k n / seen a row in the mean. */
enum { SHARE_LEFT = 8, SHARE_LEFT_FLOAT = 3, PATIENCE = 16 };

/* The candidates of a panel in a tile; returns the rows that have any. Sets *given_up instead if they are too many. */
static uint32_t screen8(const rank_t *r, const block_t *b, int64_t p, const tile_t *tile, limits_t *limits,
                        int *given_up) {
  find_limits(b, &b->narrow, &tile->narrow, p, limits);
  const int first = !limits->known && r->k <= tile->n, biased = tile->narrow.largest_bias > 0;
  const uint8_t *panel = b->panels8 + p * PANEL * b->K4;
  uint32_t all = 0;
  int64_t count = 0;
  if (first) /* everything is wanted, in its place */
    for (int64_t u = 0; u < PANEL; u++) limits->rest[u] = INFINITY;
  for (int64_t t = 0; t < tile->n; t += TILE_ROWS)
    count = biased ? screen_biased(b, panel, tile, t, limits, count) : screen_plain(b, panel, tile, t, limits, count);
  *given_up = 0;
  if (first) {
    raise_thresholds(r, b, &b->narrow, &tile->narrow, p, tile, limits);
    find_limits(b, &b->narrow, &tile->narrow, p, limits);
    return note_all(b, &tile->narrow, tile, limits);
  }
  const int64_t unknown = __builtin_popcount(limits->rows & ~limits->known) * tile->n;
  const int64_t any_precision = 2 * PANEL * r->k * tile->n / larger(tile->seen, 1);
  *given_up =
      (count - unknown - any_precision) * (b->K < FLOAT_UNITS ? SHARE_LEFT : SHARE_LEFT_FLOAT) > tile->n * PANEL;
  if (*given_up) return 0;
  for (int64_t i = 0; i < count; i++) {
    const uint32_t u = b->at[i] % PANEL;
    if (!(limits->rows >> u & 1)) continue; /* a limit is NaN where an item is, even if there is no row */
    note(b, b->at[i] / PANEL, u, b->z[i]);
    all |= 1u << u;
  }
  return all;
}

/* screen8, where it pays: after it was given up, a panel's next tiles do without it. */
static int try_int8(const rank_t *r, const block_t *b, int64_t p, const tile_t *tile, limits_t *limits,
                    uint32_t *rows) {
  if (__atomic_load_n(b->patience + p, __ATOMIC_RELAXED) > 0) {
    __atomic_fetch_sub(b->patience + p, 1, __ATOMIC_RELAXED);
    return 0;
  }
  int given_up;
  *rows = screen8(r, b, p, tile, limits, &given_up);
  if (given_up) __atomic_store_n(b->patience + p, PATIENCE, __ATOMIC_RELAXED);
  return !given_up;
}

static float dot_float(const rank_t *r, int64_t u, int64_t i, float *scratch) {
  vf sum[4] = {{0}};
  for (int32_t s = 0; s < r->sources; s++) {
    const int64_t K = r->source[s].weight.columns;
    const float *h = r->source[s].h + u * K, *w = weight_row(&r->source[s].weight, i, scratch);
    int64_t k = 0;
    for (; k + 4 * LANES <= K; k += 4 * LANES)
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) sum[j] = fma_(load(h + k + j * LANES), load(w + k + j * LANES), sum[j]);
    for (; k < K; k += LANES) {
      int64_t n = smaller(LANES, K - k);
      sum[0] = fma_(load_some(h + k, n), load_some(w + k, n), sum[0]);
    }
  }
  return _mm512_reduce_add_ps((__m512)((sum[0] + sum[1]) + (sum[2] + sum[3])));
}

/* Can a candidate enter the list, by its float32 product? That is read like the int8 one, with E = E' = 0. */
static int is_possible8(const rank_t *r, const block_t *b, int64_t v, const tile_t *tile, float threshold, int32_t t) {
  const float scales = b->scale[v] * tile->scale[t], norm = b->narrow.norm[v];
  if (b->K < FLOAT_UNITS || !(norm * tile->narrow.norm < scales * 0x1p100f)) return 1; /* there it might overflow */
  rows_t rows = b->narrow;
  rows.e += (float)(b->K + 32) * 0x1.03p-24f;
  limit_t l = limit_of(&rows, &tile->narrow, splat(threshold), splat(rows.step[v]), splat(norm), splat(0), 0);
  return !(dot_float(r, b->lists.first + v, tile->item[t], b->row) * scales < least(&l, &tile->narrow, t));
}

#else
enum { SCREENS_INT8 = 0, MOST_UNITS8 = 0 };
#define pack_panel8(r, b, p) ((void)0)
#define load_tile8(r, b, tile) ((void)0)
#define try_int8(r, b, p, tile, limits, rows) 0
#define is_possible8(r, b, v, tile, threshold, t) 1
#endif
