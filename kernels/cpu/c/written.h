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

/* clip.go has the number, too. */
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

enum { CAP_COLUMNS = 512 /* whose sums stay in the first-level cache */, CAP_ROWS = 64 };

/* Rows a->rows n / a->blocks to a->rows (n + 1) / a->blocks, and some columns, of the next task; false: none is left. */
INLINE int next_part(const cap_weight_t *a, int64_t *next, int64_t blocks, span_t *rows, span_t *columns,
                     int64_t *block) {
  const int64_t task = take(next), across = (a->columns + CAP_COLUMNS - 1) / CAP_COLUMNS;
  if (task >= blocks * across) return 0;
  *block = task / across;
  rows->from = a->rows / blocks * *block + smaller(*block, a->rows % blocks);
  rows->end = rows->from + a->rows / blocks + (*block < a->rows % blocks);
  columns->from = task % across * CAP_COLUMNS;
  columns->end = smaller(columns->from + CAP_COLUMNS, a->columns);
  return 1;
}

/* The squares of the columns over blocks of rows, each in the order of the rows. */
static void column_squares(cap_weight_t *a, UNUSED int32_t worker) {
  span_t rows, columns;
  for (int64_t block; next_part(a, &a->next, a->blocks, &rows, &columns, &block);) {
    double sum[CAP_COLUMNS] = {0};
    const int64_t n = columns.end - columns.from;
    for (int64_t row = rows.from; row < rows.end; row++) {
      const float *x = a->value + row * a->columns + columns.from;
      for (int64_t k = 0; k < n; k++) sum[k] += (double)x[k] * (double)x[k];
    }
    for (int64_t k = 0; k < n; k++) a->squares[block * a->columns + columns.from + k] = sum[k];
  }
}

/* Workers take blocks of columns. */
static void column_norms(cap_weight_t *a, UNUSED int32_t worker) {
  for (int64_t first; (first = take(&a->next_summed) * CAP_COLUMNS) < a->columns;)
    for (int64_t k = first; k < smaller(first + CAP_COLUMNS, a->columns); k++) {
      double total = 0;
      for (int64_t block = 0; block < a->blocks; block++) total += a->squares[block * a->columns + k];
      const double norm = sqrt(total);
      a->norms[k] = norm < (double)FLT_MAX ? (float)norm : FLT_MAX;
    }
}

/* Workers take blocks of rows. */
static void cap_weight_rows(cap_weight_t *a, UNUSED int32_t worker) {
  for (int64_t first; (first = take(&a->next) * CAP_ROWS) < a->rows;)
    for (int64_t row = first; row < smaller(first + CAP_ROWS, a->rows); row++) {
      float *x = a->value + row * a->columns;
      const double norm = sqrt(dot(x, x, a->columns)), by = a->most / norm;
      for (int64_t k = 0; norm > a->most && k < a->columns; k++) x[k] = (float)((double)x[k] * by);
    }
}

/* Where no column of a part is too long, its weights are not read. */
static void cap_weight_columns(cap_weight_t *a, UNUSED int32_t worker) {
  span_t rows, columns;
  const int64_t blocks = (a->rows + CAP_ROWS - 1) / CAP_ROWS;
  for (int64_t block; next_part(a, &a->next, blocks, &rows, &columns, &block);) {
    double by[CAP_COLUMNS];
    int capped = 0;
    const int64_t n = columns.end - columns.from;
    for (int64_t k = 0; k < n; k++) {
      double squares = 0;
      for (int64_t rank = 0; rank < a->ranks; rank++) {
        const double part = (double)a->norms[rank * a->columns + columns.from + k];
        squares += part * part;
      }
      const double norm = sqrt(squares);
      by[k] = norm > a->most ? a->most / norm : 1;
      capped |= norm > a->most;
    }
    for (int64_t row = rows.from; capped && row < rows.end; row++) {
      float *x = a->value + row * a->columns + columns.from;
      for (int64_t k = 0; k < n; k++) x[k] = (float)((double)x[k] * by[k]);
    }
  }
}
