/* rank_exact.h: exact scores (kernels.Dot, kernels.Score), the lists of the best, and which items take part. */

/* Squares of the norms of a row of h and of a weight, for cosine scores (one source). scratch: room for a row of weights. */
INLINE double row_square(const rank_t *r, int64_t u) {
  int64_t K = r->source[0].weight.columns;
  return dot(r->source[0].h + u * K, r->source[0].h + u * K, K);
}
INLINE double item_square(const rank_t *r, int64_t i, float *scratch) {
  const float *w = weight_row(&r->source[0].weight, i, scratch);
  return dot(w, w, r->source[0].weight.columns);
}

/* The weights of an item, side by side. */
INLINE void item_weights(const rank_t *r, int64_t i, float *out) {
  for (int32_t s = 0; s < r->sources; s++) {
    const int64_t K = r->source[s].weight.columns;
    const float *w = weight_row(&r->source[s].weight, i, out);
    if (w != out) memcpy(out, w, K * sizeof *w);
    out += K;
  }
}

/* kernels.Score, from the sum of the sources' dot products; hh and ww count for cosine scores only. */
INLINE float finish_score(const rank_t *r, double total, int64_t i, double hh, double ww) {
  if (r->temperature != 0) {
    double norm = sqrt(hh) * sqrt(ww);
    total = norm == 0 ? 0 : total / norm / (double)r->temperature;
  }
  return (float)(total + (double)(r->bias ? r->bias[i] : 0.0f));
}

static float exact_score(const rank_t *r, int64_t u, int64_t i, double hh, float *scratch) {
  double total = 0, ww = 0;
  for (int32_t s = 0; s < r->sources; s++) {
    const int64_t K = r->source[s].weight.columns;
    const float *w = weight_row(&r->source[s].weight, i, scratch);
    total += dot(r->source[s].h + u * K, w, K);
    if (r->temperature != 0) ww = dot(w, w, K);
  }
  return finish_score(r, total, i, hh, ww);
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

static void heap_add(float *score, int32_t *id, int32_t *count, int64_t k, float s, int32_t d) {
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

/* The lists of a block of rows. They are r's results; all workers add to them, since an exact list is the same in whatever
 * order it is offered items. */
typedef struct {
  int64_t first, n;
  float *threshold; /* no lower score can be in the list at the end; read without the lock, since it only rises */
  int32_t *count, *lock;
  double *square; /* of the norm of a row, for cosine scores */
} lists_t;

static void lists_start(const rank_t *r, const lists_t *l, int64_t v) {
  l->threshold[v] = -INFINITY;
  l->count[v] = l->lock[v] = 0;
  l->square[v] = r->temperature != 0 ? row_square(r, l->first + v) : 0;
}

INLINE float threshold_of(const lists_t *l, int64_t v) {
  float x;
  __atomic_load(l->threshold + v, &x, __ATOMIC_RELAXED);
  return x;
}

/* The list will end with nothing below this. */
static void raise(const lists_t *l, int64_t v, float threshold) {
  while (__atomic_exchange_n(l->lock + v, 1, __ATOMIC_ACQUIRE)) sched_yield();
  if (threshold > threshold_of(l, v)) __atomic_store(l->threshold + v, &threshold, __ATOMIC_RELAXED);
  __atomic_store_n(l->lock + v, 0, __ATOMIC_RELEASE);
}

static void offer(const rank_t *r, const lists_t *l, int64_t v, int32_t item, float score) {
  if (!(score >= threshold_of(l, v))) return; /* NaN takes no place */
  while (__atomic_exchange_n(l->lock + v, 1, __ATOMIC_ACQUIRE)) sched_yield();
  float *list = r->scores + (l->first + v) * r->k;
  heap_add(list, r->ids + (l->first + v) * r->k, l->count + v, r->k, score, item);
  if (l->count[v] == r->k && list[0] > threshold_of(l, v)) __atomic_store(l->threshold + v, list, __ATOMIC_RELAXED);
  __atomic_store_n(l->lock + v, 0, __ATOMIC_RELEASE);
}

static int excluded(const rank_t *r, int64_t u, int64_t item) {
  if (!r->exclude_offsets) return 0;
  const int32_t *list = r->exclude_items + r->exclude_offsets[u];
  int64_t count = r->exclude_offsets[u + 1] - r->exclude_offsets[u], at = lower_bound(list, count, item);
  return at < count && list[at] == item;
}

/* Hands out the items that take part. Workers take ranges of items, and from these up to a tile of allowed ones. */
typedef struct {
  int64_t at, end;
} cursor_t;

static int64_t next_items(rank_t *r, cursor_t *c, int64_t most, int32_t *item) {
  /* Where few items may be allowed, a range has more than a tile, but there are still ranges enough for all workers. */
  int64_t n = 0, range = r->allowed ? larger(most, smaller(16 * most, r->items / 64)) : most;
  while (n < most) {
    if (c->at == c->end) {
      if (!r->allowed && n > 0) break;
      c->at = smaller(__atomic_fetch_add(&r->next, range, __ATOMIC_RELAXED), r->items);
      c->end = smaller(c->at + range, r->items);
      if (c->at == c->end) break;
    }
    if (!r->allowed || (r->allowed[c->at >> 6] >> (c->at & 63) & 1)) item[n++] = (int32_t)c->at;
    c->at++;
  }
  return n;
}
