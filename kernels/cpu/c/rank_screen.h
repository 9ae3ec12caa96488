/* rank_screen.h: throws out items that provably cannot enter a row's list; what is left is scored exactly.
 *
 * Screening knows a product x of a row h and a weight w, each scaled (by r and s), with |x - (r h).(s w)| <= D. Scales are
 * such that the score is (r h).(s w) / (f c) + b, where f is the row's factor, c the item's: f = r and c = s, but for
 * cosine scores f = r |h| temperature and c = s |w|. With N >= |r h|, N' >= |s w|, E >= |r h - q|, E' >= |s w - q'| for
 * the vectors q and q' that were multiplied, by Cauchy-Schwarz
 *
 *   |q.q' - (r h).(s w)| = |(q - r h).(s w) + q.(q' - s w)| <= E N' + (N + E) E',
 *
 * and D = E N' + (N + E) E' + e (N + E) N', where e covers all that is proportional to the product's size: the rounding of
 * x, the error of f and c (the norms of cosine scores), and that the score is itself computed, in float64. So the score is
 * below the threshold t if
 *
 *   x < t f c - D - f b c.
 *
 * The right side is computed as fma(a, c, -d) - f (b c), in float32 (u = 2^-24), for the largest N' and E' of the tile. To
 * be on the safe side, a = t f less 2^-21 of its size, b c is raised by 2^-21 of its size (each more than the four roundings
 * that it goes through), and d = D (1 + 2^-20) plus what underflows. t is lowered by 2^-22 of its size first: a score below
 * t by more than half a unit in t's last place is still below t once it is rounded to float32. Nothing is thrown out where
 * one of the numbers may leave the range of float32, and comparisons are "not below", so that NaN stays in. */

/* Items of a tile: at least FEWEST_ITEMS, more where there are few units, so that what has to be done once for a tile and a
 * panel counts less. */
enum { FEWEST_ITEMS = 8 * TILE_ROWS, RANK_ITEMS = 4 * FEWEST_ITEMS, TILE_NUMBERS = 1 << 17 };
static int64_t tile_items(int64_t K, int64_t items) {
  const int64_t fit = smaller(RANK_ITEMS, smaller(TILE_NUMBERS / larger(K, 1), items / 16));
  return larger(FEWEST_ITEMS, fit / FEWEST_ITEMS * FEWEST_ITEMS);
}

/* How the products of a tile are to be read. */
typedef struct {
  float norm, error; /* largest N', E' */
  float largest_step, largest_bias; /* of those below */
  float step[RANK_ITEMS]; /* c; NaN: unknown */
  float bias[RANK_ITEMS]; /* b c, raised */
} reading_t;

/* How the rows are. */
typedef struct {
  float *step, *norm, *error; /* f (NaN: unknown), N, E */
  float e, tiny; /* e above, and what may underflow, in the products' unit */
} rows_t;

/* A worker's tile of items. */
typedef struct {
  int64_t n, seen; /* seen: items of the worker's tiles before */
  int32_t item[RANK_ITEMS];
  int has_wide;
  reading_t wide, narrow; /* of float32 products, of int8 products */
  float scale[RANK_ITEMS]; /* s of the int8 weights */
  int32_t offset[RANK_ITEMS]; /* see rank_int8.h */
  float norm[RANK_ITEMS / TILE_ROWS], error[RANK_ITEMS / TILE_ROWS]; /* largest N', E' of a strip's int8 weights */
} tile_t;

/* Item t may enter a row's list. */
typedef struct {
  int32_t t;
  float x, score; /* its product, and the score that this means, for their order only */
} candidate_t;

/* A block of rows: what the workers share, and a worker's own part. */
typedef struct {
  lists_t lists;
  int64_t K, K4, padded;
  double *few;
  rows_t wide, narrow;
  float *panels; /* h in panels [K][PANEL] */
  uint8_t *panels8; /* in panels [K / 4][PANEL][4] */
  float *scale; /* r of the int8 rows */
  int32_t *packed; /* state of each float32 panel */
  int32_t *patience; /* of each panel: tiles to go without int8 */
  /* a worker's own */
  int64_t items; /* most of a tile */
  float *w, *z; /* float32 weights, products [items][PANEL] */
  float *row; /* of weights that are scored exactly, if these have 2 bytes */
  int32_t *at; /* what products there are, see rank_int8.h */
  int8_t *w8, *row8;
  int64_t ldw, ldw8;
  candidate_t *candidate; /* [PANEL][items] */
  int32_t *found; /* [PANEL] */
} block_t;

/* The numbers of the comparison above, for the rows of a vector; zero factors and an infinite d where nothing may be thrown
 * out. */
typedef struct {
  vf a, d, f;
} limit_t;

INLINE limit_t limit_of(const rows_t *rows, const reading_t *of, vf threshold, vf f, vf norm, vf error,
                        float tile_error) {
  const vf q = norm + error, size = q * of->norm;
  const vf low = (threshold - absolute(threshold) * 0x1p-22f) * f, a = low - absolute(low) * 0x1p-21f;
  const vf d = (error * of->norm + q * tile_error + rows->e * size) * (1 + 0x1p-20f) + rows->tiny;
  const vi known = absolute(a) * of->largest_step + f * of->largest_bias + size < 0x1p120f; /* false for NaN */
  return (limit_t){.a = (vf)((vi)a & known), .d = select_(known, d, splat(INFINITY)), .f = (vf)((vi)f & known)};
}

/* What a product must not be below. */
INLINE float least(const limit_t *l, const reading_t *of, int64_t t) {
  return fmaf(l->a[0], of->step[t], -l->d[0]) - l->f[0] * of->bias[t];
}
INLINE vf least_of_rows(vf a, vf d, vf f, float step, float bias) { return fma_(a, splat(step), -d) - f * bias; }

/* The limits of a panel. */
typedef struct {
  float threshold[PANEL], a[PANEL], d[PANEL], f[PANEL];
  float by_norm[PANEL], by_error[PANEL], rest[PANEL]; /* d = by_norm N' + by_error E' + rest */
  uint32_t rows, known; /* a bit for each row, and for those with a threshold */
} limits_t;

static void find_limits(const block_t *b, const rows_t *rows, const reading_t *of, int64_t p, limits_t *out) {
  const int64_t first = p * PANEL, n = smaller(PANEL, b->lists.n - first);
  out->known = 0;
  for (int64_t u = 0; u < PANEL; u += LANES) {
    vf threshold = load(b->lists.threshold + first + u);
    limit_t l = limit_of(rows, of, threshold, load(rows->step + first + u), load(rows->norm + first + u),
                         load(rows->error + first + u), of->error);
    store(out->threshold + u, threshold);
    store(out->a + u, l.a), store(out->d + u, l.d), store(out->f + u, l.f);
    const vf error = load(rows->error + first + u), q = load(rows->norm + first + u) + error;
    const vi known = l.d < INFINITY;
    store(out->by_norm + u, (vf)((vi)((error + rows->e * q) * (1 + 0x1p-20f)) & known));
    store(out->by_error + u, (vf)((vi)(q * (1 + 0x1p-20f)) & known));
    store(out->rest + u, select_(known, splat(rows->tiny), splat(INFINITY)));
    out->known |= mask_bits(threshold > -INFINITY) << u;
  }
  out->rows = (uint32_t)((1ull << n) - 1);
  out->known &= out->rows;
  for (int64_t u = n; u < PANEL; u++) { /* nothing is wanted */
    out->a[u] = out->f[u] = out->by_norm[u] = out->by_error[u] = 0;
    out->d[u] = out->rest[u] = -INFINITY;
  }
}

/* The k-th best of lower bounds of a tile's scores is a lower bound of what the lists will end with. This spares most exact
 * scores of the first tile. The bound is ((x - d) / c) / f + b, lowered by more than its roundings. Lists are kept in order
 * by insertion, for the rows of a vector at a time. */
static void raise_thresholds(const rank_t *r, const block_t *b, const rows_t *rows, const reading_t *of, int64_t p,
                             const tile_t *tile, const limits_t *limits) {
  float *low = (float *)b->candidate, *best = low + tile->n * PANEL;
  for (int64_t u = 0; u < PANEL; u += LANES) {
    const int64_t v = p * PANEL + u;
    const limit_t l =
        limit_of(rows, of, splat(0), load(rows->step + v), load(rows->norm + v), load(rows->error + v), of->error);
    for (int64_t t = 0; t < tile->n; t++) {
      const float bias = r->bias ? r->bias[tile->item[t]] : 0;
      vf q = (load(b->z + t * PANEL + u) - l.d) / of->step[t] / l.f;
      vf bound = q + bias - ((absolute(q) + fabsf(bias)) * 0x1p-20f + 0x1p-100f);
      store(low + t * PANEL + u, select_(bound == bound, bound, splat(-INFINITY)));
    }
  }
  for (int64_t u = 0; u < PANEL && r->exclude_offsets; u++) {
    const int64_t row = b->lists.first + p * PANEL + u;
    if (!(limits->rows >> u & 1)) break;
    const int32_t *list = r->exclude_items + r->exclude_offsets[row];
    const int64_t count = r->exclude_offsets[row + 1] - r->exclude_offsets[row];
    for (int64_t at = lower_bound(list, count, tile->item[0]); at < count && list[at] <= tile->item[tile->n - 1];
         at++) {
      int64_t t = lower_bound(tile->item, tile->n, list[at]);
      if (tile->item[t] == list[at]) low[t * PANEL + u] = -INFINITY;
    }
  }
  for (int64_t u = 0; u < PANEL; u += LANES) {
    for (int64_t j = 0; j < r->k; j++) store(best + j * LANES, splat(-INFINITY));
    float *last = best + (r->k - 1) * LANES;
    for (int64_t t = 0; t < tile->n; t++) {
      vf x = load(low + t * PANEL + u);
      if (!any(x > load(last))) continue;
      for (int64_t j = 0; j < r->k; j++) {
        vf other = load(best + j * LANES);
        vi more = x > other;
        store(best + j * LANES, select_(more, x, other));
        x = select_(more, other, x);
      }
    }
    for (int64_t i = 0; i < LANES; i++)
      if (limits->rows >> (u + i) & 1) raise(&b->lists, p * PANEL + u + i, last[i]);
  }
}

/* Notes an item and its product as a candidate of row u of the panel. */
INLINE void note(const block_t *b, int64_t t, int64_t u, float x) {
  b->candidate[u * b->items + b->found[u]++] = (candidate_t){.t = (int32_t)t, .x = x, .score = 0};
}

/* Notes all candidates of products that are in memory; returns the rows that have any. */
static uint32_t note_all(const block_t *b, const reading_t *of, const tile_t *tile, const limits_t *limits) {
  uint32_t all = 0;
  for (int64_t t = 0; t < tile->n; t++) {
    uint32_t mask = 0;
    for (int64_t u = 0; u < PANEL; u += LANES) {
      vf from = least_of_rows(load(limits->a + u), load(limits->d + u), load(limits->f + u), of->step[t], of->bias[t]);
      mask |= mask_bits(~(load(b->z + t * PANEL + u) < from)) << u;
    }
    mask &= limits->rows;
    all |= mask;
    for (; mask; mask &= mask - 1) note(b, t, __builtin_ctz(mask), b->z[t * PANEL + __builtin_ctz(mask)]);
  }
  return all;
}

/* Puts the candidates of a row in order, best first, where there are so many that this spares exact scores. */
static void sort_candidates(const rank_t *r, const tile_t *tile, const reading_t *of, float f, candidate_t *c,
                            int64_t n) {
  for (int64_t i = 0; i < n; i++)
    c[i].score = c[i].x / of->step[c[i].t] + (r->bias ? f * r->bias[tile->item[c[i].t]] : 0);
  for (int64_t i = 1; i < n; i++) {
    candidate_t x = c[i];
    int64_t at = i;
    for (; at > 0 && x.score > c[at - 1].score; at--) c[at] = c[at - 1];
    c[at] = x;
  }
}
