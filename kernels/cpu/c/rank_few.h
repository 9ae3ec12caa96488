/* rank_few.h: top-k of so few rows that reading the weights takes longer than scoring: every item is scored exactly, one after
 * the other, since a single stream is what the memory is fastest with. */
enum { FEW_ROWS = 4, FEW_RANGE = 128 };

typedef double vd8_any __attribute__((vector_size(64), aligned(8), may_alias));

/* Adds dot of a weight with each of U rows to total, *square is dot of the weight with itself. The zeros that fill the last
 * eight change no bit: a lane is never -0. */
INLINE void few_dots(const float *w, const double *h, int64_t ldh, int64_t K, const int U, const int squares,
                     double *total, double *square) {
  vd8 sum[4] = {{0}}, own = {0};
  float last[8] = {0};
  for (int64_t k = 0; k < K; k += 8) {
    const float *eight = k + 8 <= K ? w + k : (const float *)memcpy(last, w + k, (K - k) * 4);
    vd8 x = widen(eight);
    if (squares) own = add_product(x, x, own);
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) sum[u] = add_product(x, *(const vd8_any *)(h + u * ldh + k), sum[u]);
  }
  if (squares) *square = add_eight(own);
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) total[u] += add_eight(sum[u]);
}

/* An item for U rows. */
INLINE void few_scores(const rank_t *r, const lists_t *l, const double *h, int64_t ldh, int64_t v, int32_t item,
                       float *scratch, const int U, const int squares) {
  double total[4] = {0}, square = 0;
  h += v * ldh;
  for (int32_t s = 0; s < r->sources; s++) {
    const int64_t K = r->source[s].weight.columns;
    few_dots(weight_row(&r->source[s].weight, item, scratch), h, ldh, K, U, squares, total, &square);
    h += round_up(K, 8);
  }
  for (int u = 0; u < U; u++) {
    float score = finish_score(r, total[u], item, l->square[v + u], square);
    if (score >= threshold_of(l, v + u) && !excluded(r, l->first + v + u, item)) offer(r, l, v + u, item, score);
  }
}

/* Row v in float64, each source padded to a multiple of 8. */
static void few_pack(const rank_t *r, const lists_t *l, int64_t v, double *h) {
  for (int32_t s = 0; s < r->sources; s++) {
    int64_t K = r->source[s].weight.columns;
    const float *from = r->source[s].h + (l->first + v) * K;
    for (int64_t k = 0; k < round_up(K, 8); k++) *h++ = k < K ? (double)from[k] : 0;
  }
}

static void few_rank(rank_t *r, const lists_t *l, const double *h, int64_t ldh, float *scratch) {
  const int cosine = r->temperature != 0;
  int32_t item[FEW_RANGE];
  cursor_t cursor = {0};
  for (int64_t n; (n = next_items(r, &cursor, FEW_RANGE, item)) > 0;)
    for (int64_t t = 0; t < n; t++) {
      int64_t v = 0;
      for (; v + 4 <= l->n; v += 4)
        cosine ? few_scores(r, l, h, ldh, v, item[t], scratch, 4, 1)
               : few_scores(r, l, h, ldh, v, item[t], scratch, 4, 0);
      for (; v + 2 <= l->n; v += 2)
        cosine ? few_scores(r, l, h, ldh, v, item[t], scratch, 2, 1)
               : few_scores(r, l, h, ldh, v, item[t], scratch, 2, 0);
      for (; v < l->n; v++)
        cosine ? few_scores(r, l, h, ldh, v, item[t], scratch, 1, 1)
               : few_scores(r, l, h, ldh, v, item[t], scratch, 1, 0);
    }
}
