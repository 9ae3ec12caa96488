/* rank_kept.h: top-k of at most KEPT_ROWS rows from 8-bit weights that are kept from call to call (kernels.Screening):
 * a quarter of the bytes. An item is read by its own N' and E' (rank_screen.h), not by the largest of a tile.
 *
 * A strip has KEPT_ITEMS items: fours of their integers [K / 4][KEPT_ITEMS][4], which a vector of sums takes as they are, and
 * their numbers. */
#ifdef __AVX512VNNI__

enum { KEPT_ITEMS = 16, KEPT_RANGE = 8 /* strips that a worker takes */ };

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
      of->step[i] = bias - bias == 0 ? step : NAN;
      of->bias[i] = bias + fabsf(bias) * 0x1p-21f;
      of->norm[i] = x.norm;
      of->error[i] = x.error;
      of->offset[i] = (int32_t)(-128u * (uint32_t)x.sum);
    }
  }
}

/* Which items of a strip may enter the list of row v. */
INLINE uint32_t screen_kept(const block_t *b, const int8_t *strip, int64_t v) {
  const kept_t *of = (const kept_t *)(strip + KEPT_ITEMS * b->K4);
  const uint8_t *h = b->panels8 + 4 * v;
  __m512i sum[4] = {_mm512_loadu_si512(of->offset)};
  for (int64_t k = 0; k < b->K4;)
#pragma GCC unroll 4
    for (int j = 0; j < 4 && k < b->K4; j++, k += 4) {
      int32_t four;
      memcpy(&four, h + k * PANEL, 4);
      dot_fours(&sum[j], _mm512_set1_epi32(four), _mm512_loadu_si512(strip + k * KEPT_ITEMS));
    }
  const __m512i pair = _mm512_add_epi32(sum[0], sum[1]), other = _mm512_add_epi32(sum[2], sum[3]);
  const vf x = (vf)_mm512_cvtepi32_ps(_mm512_add_epi32(pair, other));
  const vf step = load(of->step), bias = load(of->bias), norm = load(of->norm);
  const rows_t *rows = &b->narrow;
  const float f = rows->step[v], e = rows->error[v], q = rows->norm[v] + e, t = threshold_of(&b->lists, v);
  const float low = (t - fabsf(t) * 0x1p-22f) * f, a = low - fabsf(low) * 0x1p-21f;
  const vf size = q * norm, d = (e * norm + q * load(of->error) + rows->e * size) * (1 + 0x1p-20f) + rows->tiny;
  const vi known = fabsf(a) * step + f * absolute(bias) + size < 0x1p120f; /* false for NaN */
  return mask_bits(~known | ~(x < fma_(splat(a), step, -d) - f * bias));
}

static void kept_rank(rank_t *r, const block_t *b) {
  const int64_t strips = kept_strips(r->items), stride = kept_stride(b->K);
  int64_t scored = 0;
  for (int64_t first; (first = __atomic_fetch_add(&r->next, KEPT_RANGE, __ATOMIC_RELAXED)) < strips;)
    for (int64_t s = first; s < smaller(first + KEPT_RANGE, strips); s++) {
      const int64_t n = smaller(KEPT_ITEMS, r->items - s * KEPT_ITEMS);
      uint32_t wanted = (1u << n) - 1;
      if (r->allowed) wanted &= (uint32_t)(r->allowed[s / 4] >> s % 4 * KEPT_ITEMS);
      if (!wanted) continue;
      for (int64_t v = 0; v < b->lists.n; v++)
        for (uint32_t mask = screen_kept(b, r->kept + s * stride, v) & wanted; mask; mask &= mask - 1) {
          const int32_t item = (int32_t)(s * KEPT_ITEMS + __builtin_ctz(mask));
          const double ww = r->temperature != 0 ? item_square(r, item) : 0;
          const float score = exact_score(r, b->lists.first + v, item, b->lists.square[v], ww);
          scored++;
          if (score >= threshold_of(&b->lists, v) && !excluded(r, b->lists.first + v, item))
            offer(r, &b->lists, v, item, score);
        }
    }
  __atomic_fetch_add(&r->scored, scored, __ATOMIC_RELAXED);
}

#else
static int64_t kept_size(UNUSED int64_t items, UNUSED int64_t columns) { return 0; }
static void top_k_keep(UNUSED rank_t *r, UNUSED int32_t worker) {}
#define kept_rank(r, b) ((void)0)
#endif
