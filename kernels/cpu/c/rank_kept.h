/* rank_kept.h: top-k of at most KEPT_ROWS rows from 8-bit weights that are kept from call to call (kernels.Screener):
 * a quarter of the bytes. An item is read by its own N' and E' (rank_screen.h), not by the largest of a tile.
 *
 * A strip has KEPT_ITEMS items: fours of their integers [K / 4][KEPT_ITEMS][4], which a vector of sums takes as they are, and
 * their numbers. */
#ifdef __AVX512VNNI__

enum { KEPT_ITEMS = 16, KEPT_RANGE = 8 /* strips that a worker takes */ };

/* Products of two smaller numbers are finite. Larger ones become NaN, which no comparison throws out. */
#define KEPT_LARGE 0x1p60f

typedef struct {
  float step[KEPT_ITEMS], bias[KEPT_ITEMS], norm[KEPT_ITEMS], error[KEPT_ITEMS]; /* c, b c raised, N', E' */
  int32_t offset[KEPT_ITEMS];
} kept_t;

static int64_t kept_stride(int64_t K) { return KEPT_ITEMS * round_up(K, 4) + (int64_t)sizeof(kept_t); }
static int64_t kept_strips(int64_t items) { return (items + KEPT_ITEMS - 1) / KEPT_ITEMS; }

/* In elements of 4 bytes; 0: there is no use for them. */
static int64_t kept_size(int64_t items, int64_t columns) {
  return columns > MOST_UNITS8 ? 0 : kept_strips(items) * kept_stride(columns) / 4;
}

/* Makes the 8-bit weights. */
static void top_k_keep(rank_t *r, int32_t worker) {
  const block_t b = block_of(r, worker);
  const int64_t strips = kept_strips(r->items);
  for (int64_t s = strips * worker / r->workers; s < strips * (worker + 1) / r->workers; s++) {
    int8_t *strip = r->kept + s * kept_stride(b.K);
    kept_t *of = (kept_t *)(strip + KEPT_ITEMS * b.K4);
    memset(strip, 0, kept_stride(b.K));
    for (int64_t i = 0; i < smaller(KEPT_ITEMS, r->items - s * KEPT_ITEMS); i++) {
      const int64_t item = s * KEPT_ITEMS + i;
      const steps_t x = row_to_steps(r, &b, 1, item, b.row8, CHUNK);
      for (int64_t k = 0; k < b.K4; k += 4) memcpy(strip + k * KEPT_ITEMS + i * 4, b.row8 + k, 4);
      const float step = factor_of(r, &x, 1), bias = (r->bias ? r->bias[item] : 0) * step;
      of->step[i] = step < KEPT_LARGE && fabsf(bias) < KEPT_LARGE ? step : NAN;
      of->bias[i] = bias + fabsf(bias) * 0x1p-21f;
      of->norm[i] = x.norm;
      of->error[i] = x.error;
      of->offset[i] = (int32_t)(-128u * (uint32_t)x.sum);
    }
  }
}

/* The most rows and strips whose sums are in registers: two of weights for each of four rows, or four for one. */
enum { KEPT_BLOCK = 4 };

/* Which items of n strips may enter the lists of `rows` rows from v on; rows behind the last one have a place in the panel.
 * Rows and n are constants, so that all sums are registers. */
INLINE void screen_kept(const block_t *b, const int8_t *strip, int64_t v, const int rows, const int n,
                        uint32_t mask[KEPT_BLOCK][KEPT_BLOCK]) {
  const int64_t stride = kept_stride(b->K);
  const uint8_t *h = b->panels8 + 4 * v;
  __m512i sum[KEPT_BLOCK][KEPT_BLOCK];
#pragma GCC unroll 4
  for (int s = 0; s < n; s++) {
    const kept_t *of = (const kept_t *)(strip + s * stride + KEPT_ITEMS * b->K4);
#pragma GCC unroll 4
    for (int u = 0; u < rows; u++) sum[u][s] = _mm512_loadu_si512(of->offset);
  }
  for (int64_t k = 0; k < b->K4; k += 4) {
    __m512i w[KEPT_BLOCK];
#pragma GCC unroll 4
    for (int s = 0; s < n; s++) w[s] = _mm512_loadu_si512(strip + s * stride + k * KEPT_ITEMS);
#pragma GCC unroll 4
    for (int u = 0; u < rows; u++) {
      int32_t four;
      memcpy(&four, h + k * PANEL + 4 * u, 4);
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int s = 0; s < n; s++) dot_fours(&sum[u][s], x, w[s]);
    }
  }
  /* The limit of rank_screen.h term by term: a step and d and f bias go through six, six and three roundings. */
  const rows_t *of_rows = &b->narrow;
#pragma GCC unroll 4
  for (int u = 0; u < rows; u++) {
    const float f = of_rows->step[v + u], e = of_rows->error[v + u], q = of_rows->norm[v + u] + e;
    const float t = threshold_of(&b->lists, v + u);
    const float low = (t - fabsf(t) * 0x1p-22f) * f, lowest = low - fabsf(low) * 0x1p-21f;
    const float a = fabsf(lowest) < KEPT_LARGE && f < KEPT_LARGE ? lowest : NAN;
    const vf by_norm = splat(-(e + of_rows->e * q) * (1 + 0x1p-20f)), by_error = splat(-q * (1 + 0x1p-20f));
#pragma GCC unroll 4
    for (int s = 0; s < n; s++) {
      const kept_t *of = (const kept_t *)(strip + s * stride + KEPT_ITEMS * b->K4);
      const vf near = fma_(by_norm, load(of->norm), fma_(splat(a), load(of->step), splat(-of_rows->tiny)));
      const vf limit = fma_(splat(-f), load(of->bias), fma_(by_error, load(of->error), near));
      mask[u][s] = mask_bits(~((vf)_mm512_cvtepi32_ps(sum[u][s]) < limit));
    }
  }
}

/* Scores the items of a strip that may enter the list of row v. */
static int64_t kept_rescore(const rank_t *r, const block_t *b, int64_t strip, int64_t v, uint32_t mask) {
  int64_t scored = 0;
  for (; mask; mask &= mask - 1, scored++) {
    const int32_t item = (int32_t)(strip * KEPT_ITEMS + __builtin_ctz(mask));
    const float score = exact_score(r, b->lists.first + v, item, b->lists.square[v], b->row);
    if (score >= threshold_of(&b->lists, v) && !excluded(r, b->lists.first + v, item))
      offer(r, &b->lists, v, item, score);
  }
  return scored;
}

/* Which items of a strip take part. */
INLINE uint32_t kept_allowed(const rank_t *r, int64_t strip) {
  const uint32_t there = (1u << smaller(KEPT_ITEMS, r->items - strip * KEPT_ITEMS)) - 1;
  return r->allowed ? there & (uint32_t)(r->allowed[strip / 4] >> strip % 4 * KEPT_ITEMS) : there;
}

/* Ranks n strips for `rows` rows from v on; both are constants. */
INLINE int64_t kept_block(const rank_t *r, const block_t *b, int64_t strip, int64_t v, const int rows, const int n) {
  uint32_t mask[KEPT_BLOCK][KEPT_BLOCK];
  int64_t scored = 0;
  screen_kept(b, r->kept + strip * kept_stride(b->K), v, rows, n, mask);
  for (int s = 0; s < n; s++) {
    const uint32_t allowed = kept_allowed(r, strip + s);
    for (int u = 0; u < smaller(rows, b->lists.n - v); u++)
      if (mask[u][s] & allowed) scored += kept_rescore(r, b, strip + s, v + u, mask[u][s] & allowed);
  }
  return scored;
}

static void kept_rank(rank_t *r, const block_t *b) {
  const int64_t strips = kept_strips(r->items), rows = b->lists.n;
  int64_t scored = 0;
  for (int64_t first; (first = __atomic_fetch_add(&r->next, KEPT_RANGE, __ATOMIC_RELAXED)) < strips;) {
    const int64_t end = smaller(first + KEPT_RANGE, strips);
    for (int64_t v = 0; v < rows; v += rows == 1 ? 1 : KEPT_BLOCK)
      for (int64_t s = first; s < end;) {
        /* One at a time until there is a threshold, because every item may enter a list that has room. */
        const int64_t left = threshold_of(&b->lists, v) == -INFINITY ? 1 : end - s;
        if (rows == 1 && left >= 4)
          scored += kept_block(r, b, s, v, 1, 4), s += 4;
        else if (rows == 1)
          scored += kept_block(r, b, s, v, 1, 1), s++;
        else if (left >= 2)
          scored += kept_block(r, b, s, v, KEPT_BLOCK, 2), s += 2;
        else
          scored += kept_block(r, b, s, v, KEPT_BLOCK, 1), s++;
      }
  }
  __atomic_fetch_add(&r->scored, scored, __ATOMIC_RELAXED);
}

#else
static int64_t kept_size(UNUSED int64_t items, UNUSED int64_t columns) { return 0; }
static void top_k_keep(UNUSED rank_t *r, UNUSED int32_t worker) {}
#define kept_rank(r, b) ((void)0)
#endif
