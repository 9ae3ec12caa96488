/* rank.h: scores and exact top-k. A score is defined to the bit by kernels.Dot and kernels.Score; float32 products only
 * screen out items that provably cannot enter a row's list.
 *
 * Screening bound: with u = 2^-24, a float32 product of K terms differs from the exact one by at most g |h| |w|,
 * g = (K + 16) u 1.01 (the 16 covers normalisation, the bias and the rounding of the threshold; Higham, Accuracy and
 * Stability of Numerical Algorithms, 3.1), and 1e-37 more where products underflow. */

/* What is 1 where x is a normal number: neither 0, infinite, NaN nor too small for full precision. */
INLINE int is_normal(float x) { return fabsf(x) >= 0x1p-126f && fabsf(x) < INFINITY; }

/* Squares of the norms of a row of h and of a weight, for cosine scores (one source). */
INLINE double row_square(const rank_t *r, int64_t u) {
  int64_t K = r->source[0].weight.columns;
  return dot(r->source[0].h + u * K, r->source[0].h + u * K, K);
}
INLINE double item_square(const rank_t *r, int64_t i) {
  int64_t K = r->source[0].weight.columns;
  return dot(r->source[0].weight.value + i * K, r->source[0].weight.value + i * K, K);
}

/* kernels.Score of row u and item i; hh and ww count for cosine scores only. */
static float exact_score(const rank_t *r, int64_t u, int64_t i, double hh, double ww) {
  double total = 0;
  for (int32_t s = 0; s < r->sources; s++) {
    int64_t K = r->source[s].weight.columns;
    total += dot(r->source[s].h + u * K, r->source[s].weight.value + i * K, K);
  }
  if (r->temperature != 0) {
    double norm = sqrt(hh) * sqrt(ww);
    total = norm == 0 ? 0 : total / norm / (double)r->temperature;
  }
  return (float)(total + (double)(r->bias ? r->bias[i] : 0.0f));
}

enum { SCORE_BLOCK = 256 };

/* Every score. Workers take blocks of items, so that a block's weights stay in cache for all rows. */
static void scores(rank_t *r, int32_t worker) {
  (void)worker;
  double ww[SCORE_BLOCK];
  for (int64_t block; (block = take(&r->next)) * SCORE_BLOCK < r->items;) {
    int64_t first = block * SCORE_BLOCK, n = smaller(SCORE_BLOCK, r->items - first);
    for (int64_t t = 0; t < n; t++) ww[t] = r->temperature != 0 ? item_square(r, first + t) : 0;
    for (int64_t u = 0; u < r->rows; u++) {
      double hh = r->temperature != 0 ? row_square(r, u) : 0;
      for (int64_t t = 0; t < n; t++) r->out[u * r->stride + first + t] = exact_score(r, u, first + t, hh, ww[t]);
    }
  }
}

/* Is (score a, id i) better than (score b, id j)? */
INLINE int better(float a, int32_t i, float b, int32_t j) { return a > b || (a == b && i < j); }

/* A heap of up to k entries with the worst on top. */
static void sift_down(float *score, int32_t *id, int64_t n, int64_t at) {
  float s = score[at];
  int32_t d = id[at];
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && better(score[child], id[child], score[child + 1], id[child + 1])) child++;
    if (!better(s, d, score[child], id[child])) break;
    score[at] = score[child];
    id[at] = id[child];
  }
  score[at] = s;
  id[at] = d;
}

static void heap_add(float *score, int32_t *id, int64_t *count, int64_t k, float s, int32_t d) {
  if (*count == k) {
    if (!better(s, d, score[0], id[0])) return;
    score[0] = s, id[0] = d;
    sift_down(score, id, k, 0);
    return;
  }
  int64_t at = (*count)++;
  while (at > 0) {
    int64_t parent = (at - 1) / 2;
    if (better(score[parent], id[parent], s, d)) { /* the worse one rises */
      score[at] = score[parent];
      id[at] = id[parent];
      at = parent;
    } else {
      break;
    }
  }
  score[at] = s;
  id[at] = d;
}

/* Best first, in place; what is missing becomes -1. */
static void heap_sort(float *score, int32_t *id, int64_t count, int64_t k) {
  for (int64_t n = count - 1; n > 0; n--) {
    float s = score[0];
    int32_t d = id[0];
    score[0] = score[n], id[0] = id[n];
    score[n] = s, id[n] = d;
    sift_down(score, id, n, 0);
  }
  for (int64_t i = count; i < k; i++) score[i] = -INFINITY, id[i] = -1;
}

/* Rows a worker takes at once, items a tile; up to so many rows a panel would be mostly padding, and screening cost more
 * than it saves. */
enum { RANK_ROWS = 256, RANK_ITEMS = 8 * TILE_ROWS, FEW_ROWS = 5 };

typedef struct {
  int64_t K, Kp, ldw, ldz, panels, w, z, norm, limit, threshold, count, size;
} rank_layout_t;

static rank_layout_t rank_layout(int64_t rows, int64_t K) {
  int64_t most = round_up(smaller(RANK_ROWS, larger(rows, 1)), PANEL), at = 0;
  rank_layout_t l = {.K = K, .Kp = round_up(larger(K, 1), PANEL)};
  l.ldw = l.Kp + 16, l.ldz = most + 16;
#define PART(name, size) l.name = at, at += round_up(size, 16)
  PART(panels, most * l.K);
  PART(w, RANK_ITEMS * l.ldw);
  PART(z, RANK_ITEMS * l.ldz);
  PART(norm, most);
  PART(limit, most);
  PART(threshold, most);
  PART(count, 2 * most);
#undef PART
  l.size = at;
  return l;
}

static int64_t rank_workspace(int64_t rows, int64_t columns, int32_t workers) {
  return workers * rank_layout(rows, columns).size;
}

/* Blocks of rows: small enough that every worker gets some; few, or a whole number of panels. */
static int64_t rank_block(const rank_t *r) {
  int64_t share = (r->rows + r->workers - 1) / r->workers;
  if (share <= FEW_ROWS) return larger(share, 1);
  return smaller(RANK_ROWS, round_up(larger(share, 1), PANEL));
}

/* Rows first .. first + n of h as panels, normalised for cosine logits. */
static void rank_pack(const rank_t *r, const rank_layout_t *l, int64_t first, int64_t n, float *mine) {
  for (int64_t u = 0; u < round_up(n, PANEL); u++) {
    float *panel = mine + l->panels + u / PANEL * l->K * PANEL + u % PANEL;
    double norm = 0;
    int64_t at = 0;
    for (int32_t s = 0; s < r->sources; s++) {
      int64_t K = r->source[s].weight.columns;
      const float *h = r->source[s].h + (first + u) * K;
      for (int64_t k = 0; k < K; k++, at++) {
        panel[at * PANEL] = u < n ? h[k] : 0;
        if (u < n) norm += (double)h[k] * h[k];
      }
    }
    norm = sqrt(norm);
    if (r->temperature != 0) {
      float scale = norm > 0 ? (float)(1 / (norm * (double)r->temperature)) : 0;
      for (int64_t k = 0; k < l->K; k++) panel[k * PANEL] *= scale;
      norm = norm > 0 ? (is_normal(scale) ? 1 / (double)r->temperature : INFINITY) : 0;
    }
    mine[l->norm + u] = (float)(norm * 1.001);
  }
}

/* A tile of weights (normalised for cosine logits, where a factor that float32 cannot hold makes the bound infinite);
 * returns a bound of its largest norm, *bias_size of its largest bias. */
static double rank_load(const rank_t *r, const rank_layout_t *l, int64_t first, int64_t n, float *w,
                        double *bias_size) {
  double most = 0;
  *bias_size = 0;
  for (int64_t t = 0; t < n; t++) {
    float *row = w + t * l->ldw;
    concatenate(r->source, r->sources, 1, first + t, row);
    double norm = sqrt(dot(row, row, l->K));
    if (r->temperature != 0) {
      float inverse = norm > 0 ? (float)(1 / norm) : 0;
      for (int64_t k = 0; k < l->K; k++) row[k] *= inverse;
      norm = norm > 0 ? (is_normal(inverse) ? 1 : INFINITY) : 0;
    }
    for (int64_t k = l->K; k < l->Kp; k++) row[k] = 0;
    if (norm > most || norm != norm) most = norm;
    double b = r->bias ? fabs((double)r->bias[first + t]) : 0;
    if (b > *bias_size || b != b) *bias_size = b;
  }
  return most * 1.001;
}

static int excluded(const rank_t *r, int64_t u, int64_t item) {
  if (r->allowed && !(r->allowed[item >> 6] >> (item & 63) & 1)) return 1;
  if (!r->exclude_offsets) return 0;
  const int32_t *list = r->exclude_items + r->exclude_offsets[u];
  int64_t count = r->exclude_offsets[u + 1] - r->exclude_offsets[u], at = lower_bound(list, count, item);
  return at < count && list[at] == item;
}

/* The score that row's next entry must reach, less what the float32 product may be wrong by. Where a partial sum could
 * leave the range of float32, everything is looked at. */
INLINE float limit_of(float threshold, float norm, double tile_norm, double bias_size, int64_t K) {
  if (threshold == -INFINITY) return -INFINITY;
  double size = (double)norm * tile_norm;
  if (!(size + bias_size < 3e38)) return -INFINITY;
  double margin = (double)(K + 16) * 0x1p-24 * 1.01 * size + 0x1p-22 * (bias_size + fabs((double)threshold)) + 1e-37;
  double limit = (double)threshold - margin;
  return limit == limit ? (float)(limit - fabs(limit) * 0x1p-23) : -INFINITY;
}

/* Every item of a few rows, without screening. */
static void rank_few(const rank_t *r, int64_t base, int64_t n) {
  double hh[FEW_ROWS] = {0};
  int64_t count[FEW_ROWS] = {0};
  for (int64_t u = 0; u < n && r->temperature != 0; u++) hh[u] = row_square(r, base + u);
  for (int64_t i = 0; i < r->items; i++) {
    double ww = r->temperature != 0 ? item_square(r, i) : 0;
    for (int64_t u = 0; u < n; u++) {
      float *list = r->scores + (base + u) * r->k, score = exact_score(r, base + u, i, hh[u], ww);
      int32_t *ids = r->ids + (base + u) * r->k;
      int wanted = score == score && (count[u] < r->k || better(score, (int32_t)i, list[0], ids[0]));
      if (wanted && !excluded(r, base + u, i)) heap_add(list, ids, count + u, r->k, score, (int32_t)i);
    }
  }
  for (int64_t u = 0; u < n; u++) heap_sort(r->scores + (base + u) * r->k, r->ids + (base + u) * r->k, count[u], r->k);
}

static void top_k(rank_t *r, int32_t worker) {
  const int64_t K = units_of(r->source, r->sources), block_rows = rank_block(r);
  const rank_layout_t l = rank_layout(r->rows, K);
  float *mine = r->workspace + worker * l.size, *w = mine + l.w, *z = mine + l.z, *limit = mine + l.limit;
  float *threshold = mine + l.threshold;
  int64_t *count = (int64_t *)(mine + l.count);
  for (int64_t block; (block = take(&r->next)) * block_rows < r->rows;) {
    int64_t base = block * block_rows, n = smaller(block_rows, r->rows - base), padded = round_up(n, PANEL);
    if (block_rows <= FEW_ROWS) {
      rank_few(r, base, n);
      continue;
    }
    rank_pack(r, &l, base, n, mine);
    for (int64_t u = 0; u < padded; u++) {
      count[u] = 0;
      threshold[u] = u < n ? -INFINITY : INFINITY; /* rows that only fill the panel want nothing */
    }
    for (int64_t first = 0; first < r->items; first += RANK_ITEMS) {
      int64_t items = smaller(RANK_ITEMS, r->items - first);
      double bias_size, tile_norm = rank_load(r, &l, first, items, w, &bias_size);
      product_panels(0, w, l.ldw, mine + l.panels, K, z, l.ldz, items, padded);
      for (int64_t u = 0; u < padded; u++)
        limit[u] = u < n ? limit_of(threshold[u], mine[l.norm + u], tile_norm, bias_size, K) : INFINITY;
      for (int64_t t = 0; t < items; t++) {
        float bias = r->bias ? r->bias[first + t] : 0;
        for (int64_t u = 0; u < padded; u += LANES) {
          /* not "below" rather than "above", so that NaN and unknown overflow are looked at */
          uint32_t hits = mask_bits(~(load(z + t * l.ldz + u) + bias < load(limit + u)));
          for (; hits; hits &= hits - 1) {
            int64_t v = u + __builtin_ctz(hits), row = base + v;
            if (v >= n || excluded(r, row, first + t)) continue;
            double hh = r->temperature != 0 ? row_square(r, row) : 0,
                   ww = r->temperature != 0 ? item_square(r, first + t) : 0;
            float score = exact_score(r, row, first + t, hh, ww);
            if (score != score) continue;
            float *list = r->scores + row * r->k;
            heap_add(list, r->ids + row * r->k, count + v, r->k, score, (int32_t)(first + t));
            if (count[v] == r->k && list[0] != threshold[v]) {
              threshold[v] = list[0];
              limit[v] = limit_of(threshold[v], mine[l.norm + v], tile_norm, bias_size, K);
            }
          }
        }
      }
    }
    for (int64_t u = 0; u < n; u++)
      heap_sort(r->scores + (base + u) * r->k, r->ids + (base + u) * r->k, count[u], r->k);
  }
}
