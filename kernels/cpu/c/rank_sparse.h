/* rank_sparse.h: scores that the stored entries of a row give, kernels.SparseSource, or that are there already. A worker has a row at a time, and of that a
 * tile of items after the other: their sums stay in the first-level cache while the entries of the row go by. */

INLINE void add_dense(double *sum, const float *w, double x, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += x * (double)w[i];
}

/* The entries of a row of W in columns first .. first + n. */
INLINE void add_stored(const sparse_source_t *s, int64_t row, double *sum, double x, int64_t first, int64_t n) {
  const int64_t begin = s->offsets[row], end = s->offsets[row + 1];
  int64_t at = begin + lower_bound(s->indices + begin, end - begin, first);
  for (; at < end && s->indices[at] < first + n; at++) sum[s->indices[at] - first] += x * (double)s->values[at];
}

/* The scores of items first .. first + n for row u. */
static void sparse_scores(const rank_t *r, int64_t u, int64_t first, int64_t n, double *sum, float *score) {
  const sparse_source_t *s = &r->sparse;
  if (r->given) {
    memcpy(score, r->given + u * r->items + first, n * sizeof *score);
    return;
  }
  const int biased = r->bias && !(s->bias_if_empty && s->row_offsets[u] < s->row_offsets[u + 1]);
  memset(sum, 0, n * sizeof *sum);
  for (int32_t e = s->row_offsets[u]; e < s->row_offsets[u + 1]; e++) {
    const int64_t row = s->row_items[e];
    const double x = s->row_values[e];
    if (s->offsets)
      add_stored(s, row, sum, x, s->first + first, n);
    else
      add_dense(sum, s->values + row * s->columns + s->first + first, x, n);
  }
  for (int64_t i = 0; i < n; i++) score[i] = (float)(sum[i] + (double)(biased ? r->bias[first + i] : 0.0f));
}

/* Every score. */
static void scores_sparse(rank_t *r, int32_t worker) {
  double *sum = (double *)(r->workspace + (int64_t)worker * SUM_WORKSPACE);
  for (int64_t u; (u = take(&r->next)) < r->rows;)
    for (int64_t first = 0; first < r->items; first += SUM_TILE)
      sparse_scores(r, u, first, smaller(SUM_TILE, r->items - first), sum, r->out + u * r->stride + first);
}

/* The best of each row. Items go by in rising order, so one that only equals the worst of a full list is not better. */
static void top_k_sparse(rank_t *r, int32_t worker) {
  double *sum = (double *)(r->workspace + (int64_t)worker * SUM_WORKSPACE);
  float *score = (float *)(sum + SUM_TILE);
  for (int64_t u; (u = take(&r->next)) < r->rows;) {
    float *list = r->scores + u * r->k;
    int32_t *ids = r->ids + u * r->k, count = 0;
    for (int64_t first = 0; first < r->items; first += SUM_TILE) {
      const int64_t n = smaller(SUM_TILE, r->items - first);
      sparse_scores(r, u, first, n, sum, score);
      for (int64_t t = 0; t < n; t++) {
        const int64_t i = first + t;
        if (!(count < r->k ? score[t] == score[t] : score[t] > list[0])) continue; /* NaN takes no place */
        if (r->allowed && !(r->allowed[i >> 6] >> (i & 63) & 1)) continue;
        if (!excluded(r, u, (int32_t)i)) heap_add(list, ids, &count, r->k, score[t], (int32_t)i);
      }
    }
    heap_sort(list, ids, count, r->k);
    for (int64_t i = 0; i < count; i++) ids[i] += r->first_id;
  }
}
