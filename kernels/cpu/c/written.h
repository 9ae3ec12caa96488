/* written.h: the update of a whole weight from a gradient that was written before. Bound by memory. */

/* Workers take blocks of rows. */
static void update_written(update_t *u, UNUSED int32_t worker) {
  const weights_t *w = &u->weight;
  const int64_t K = w->columns, size = update_block(w->rows);
  for (span_t rows = {0}; !failed(&u->failure) && next_block(&rows, &u->next, size, w->rows);) {
    for (int64_t row = rows.from; row < rows.end; row++) {
      if (any_not_finite(u->gradient + row * K, K)) {
        fail(&u->failure, FAIL_GRADIENT, w->id, row);
        return;
      }
      if (apply_gradient(w, &u->optimizer, row * K, u->gradient + row * K, K)) {
        fail(&u->failure, FAIL_WEIGHT, w->id, row);
        return;
      }
    }
  }
}

/* ops.go has the number, too. */
enum { CLIP_BLOCK = 1 << 16, CLIP_SUMS = 16 /* that do not wait for each other */ };

/* The squares of a block of gradients, in a fixed order. */
static void clip_sum(clip_t *c, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&c->next)) * CLIP_BLOCK < c->count;) {
    const int64_t first = block * CLIP_BLOCK, end = smaller(first + CLIP_BLOCK, c->count);
    double sum[CLIP_SUMS] = {0}, total = 0;
    int64_t i = first;
    for (; i + CLIP_SUMS <= end; i += CLIP_SUMS)
      for (int n = 0; n < CLIP_SUMS; n++) sum[n] += (double)c->gradients[i + n] * (double)c->gradients[i + n];
    for (; i < end; i++) sum[0] += (double)c->gradients[i] * (double)c->gradients[i];
    for (int n = 0; n < CLIP_SUMS; n++) total += sum[n];
    c->squares[block] = total;
  }
}

static void clip_scale(clip_t *c, UNUSED int32_t worker) {
  double total = 0;
  for (int64_t block = 0; block * CLIP_BLOCK < c->count; block++) total += c->squares[block];
  const double norm = sqrt(total);
  if (!(norm > (double)c->limit)) return;
  const float factor = (float)((double)c->limit / norm);
  for (int64_t block; (block = take(&c->next_scaled)) * CLIP_BLOCK < c->count;) {
    const int64_t end = smaller((block + 1) * CLIP_BLOCK, c->count);
    for (int64_t i = block * CLIP_BLOCK; i < end; i += LANES) {
      const int64_t here = smaller(LANES, end - i);
      store_some(c->gradients + i, load_some(c->gradients + i, here) * splat(factor), here);
    }
  }
}
