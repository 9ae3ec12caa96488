/* sparse.h: gather and scatter of weight rows, and the replay of missed optimizer steps. Bound by memory: a gather reads
 * nnz K floats, an update reads and writes the distinct rows with their states. Rows lie anywhere, so nothing but the list
 * of rows to come can tell the cache what to fetch. It is fetched into the second level, which follows more misses at a
 * time than the first: that alone is worth a factor of 1.7. */

enum {
  ROWS = 8, /* added in one pass */
  GATHER_AHEAD = 8 * 1024, /* bytes; at least */
  GATHER_AHEAD_LEAST = 2 * ROWS, /* rows */
  UPDATE_AHEAD = 8, /* rows, */
  UPDATE_AHEAD_BYTES = 256 * 1024, /* but not more than this, a quarter of a second-level cache; at least 2 rows */
  SHORT_ROW = 256, /* floats */
  PIECE = 64
};

/* How many rows of the given size to look ahead. */
INLINE int64_t gather_ahead(int64_t bytes) {
  return larger(GATHER_AHEAD_LEAST, smaller(128, GATHER_AHEAD / larger(bytes, 1)));
}
INLINE int64_t update_ahead(int64_t bytes) {
  return larger(2, smaller(UPDATE_AHEAD, UPDATE_AHEAD_BYTES / larger(bytes, 1)));
}

/* What a worker does now, from .. end, and what it does then, next .. next_end: taken early, so that it can look ahead. */
typedef struct {
  int64_t from, end, next, next_end;
} span_t;

/* The entry `by` places after n, or n itself if that is not known. */
INLINE int64_t look_ahead(const span_t *s, int64_t n, int64_t by) {
  if (n + by < s->end) return n + by;
  int64_t later = s->next + (n + by - s->end);
  return later < s->next_end ? later : n;
}

/* Moves on to the next block of size out of count; false when there is none. Begin with {0}. */
INLINE int next_block(span_t *s, int64_t *counter, int64_t size, int64_t count) {
  if (s->next_end == 0) s->next = take(counter) * size;
  s->from = s->next, s->end = smaller(s->from + size, count);
  if (s->from >= count) return 0;
  s->next = smaller(take(counter) * size, count), s->next_end = smaller(s->next + size, count);
  return 1;
}

/* The entries of blocks of rows or items. */
INLINE span_t entries_of(const span_t *s, const int32_t *offsets) {
  return (span_t){offsets[s->from], offsets[s->end], offsets[s->next], offsets[s->next_end]};
}

/* One vector of add_rows. */
INLINE void add_vector(const int rows, const float *const row[], const vf factor[], int64_t k, float *out, int begin) {
  vf sum = begin ? splat(0) : load(out + k);
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) sum = fma_(factor[i], load(row[i] + k), sum);
  store(out + k, sum);
}

/* out[k] (+)= x_0 row_0[k] + x_1 row_1[k] ..., added in this order; begin: from 0. Meanwhile the rows ahead are fetched: at
 * once, or piece by piece, a few lines for each vector. */
INLINE void add_rows(const int rows, const int pieces, const float *const row[], const float *const ahead[],
                     const float x[], int64_t K, float *out, int begin) {
  const int steps = PIECE / LANES, lines = PIECE / LINE;
  vf factor[ROWS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) factor[i] = splat(x[i]);
  for (int i = 0; i < rows && !pieces; i++)
    for (int64_t k = 0; k < K; k += LINE) __builtin_prefetch(ahead[i] + k, 0, 2);
  int64_t k = 0;
  for (; pieces && k + PIECE <= K; k += PIECE) {
#pragma GCC unroll 16
    for (int step = 0; step < steps; step++) {
#pragma GCC unroll 8
      for (int n = step * rows * lines / steps; n < (step + 1) * rows * lines / steps; n++)
        __builtin_prefetch(ahead[n / lines] + k + n % lines * LINE, 0, 2);
      add_vector(rows, row, factor, k + step * LANES, out, begin);
    }
  }
  for (; k + LANES <= K; k += LANES) add_vector(rows, row, factor, k, out, begin);
  for (; k < K; k++) {
    float sum = begin ? 0 : out[k];
    for (int i = 0; i < rows; i++) sum += x[i] * row[i][k];
    out[k] = sum;
  }
}

/* Vectors of sums that stay in registers. A gradient row is made and used up in such pieces: it is never stored. */
enum { PIECE_VECTORS = LANES == 16 ? 16 : 8 };

/* Does what add_entries does, for rows of the given number of vectors: the whole sum stays in registers. */
INLINE void add_short(const int vectors, const span_t *s, const int32_t *index, const float *value, int64_t from,
                      int64_t to, const float *matrix, float *out, int accumulate) {
  const int64_t K = vectors * LANES, by = gather_ahead(K * 4);
  vf sum[PIECE_VECTORS];
#pragma GCC unroll 16
  for (int v = 0; v < vectors; v++) sum[v] = accumulate ? load(out + v * LANES) : splat(0);
  for (int64_t e = from; e < to; e++) {
    const float *row = matrix + index[e] * K, *ahead = matrix + index[look_ahead(s, e, by)] * K;
    const vf x = splat(value[e]);
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) {
      if (v * LANES % LINE == 0) __builtin_prefetch(ahead + v * LANES, 0, 2);
      sum[v] = fma_(x, load(row + v * LANES), sum[v]);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < vectors; v++) store(out + v * LANES, sum[v]);
}

/* out[k] (+)= sum of value_e matrix[index_e, k] over the entries from .. to, added in this order. */
static void add_entries(const span_t *s, const int32_t *index, const float *value, int64_t from, int64_t to,
                        const float *matrix, int64_t K, float *out, int accumulate) {
#define SHORT(vectors) \
  if (K == vectors * LANES) return add_short(vectors, s, index, value, from, to, matrix, out, accumulate)
  SHORT(2);
  SHORT(4);
  SHORT(8);
  if (PIECE_VECTORS == 16) SHORT(16);
#undef SHORT
  const int64_t by = gather_ahead(K * 4);
  const float *row[ROWS], *ahead[ROWS];
  int begin = !accumulate;
  if (from == to && begin) memset(out, 0, K * 4);
  for (int64_t e = from; e < to;) {
    int64_t rows = smaller(ROWS, to - e);
    for (int64_t i = 0; i < rows; i++) {
      row[i] = matrix + index[e + i] * K;
      ahead[i] = matrix + index[look_ahead(s, e + i, by)] * K;
    }
    if (rows == ROWS && K > SHORT_ROW) {
      add_rows(ROWS, 1, row, ahead, value + e, K, out, begin);
    } else if (rows == ROWS) {
      add_rows(ROWS, 0, row, ahead, value + e, K, out, begin);
    } else if (rows >= 4) {
      add_rows(rows = 4, 0, row, ahead, value + e, K, out, begin);
    } else if (rows >= 2) {
      add_rows(rows = 2, 0, row, ahead, value + e, K, out, begin);
    } else {
      add_rows(1, 0, row, ahead, value + e, K, out, begin);
    }
    begin = 0;
    e += rows;
  }
}

/* Blocks of rows have about that many entries, so that taking one costs nothing beside it. */
enum { BLOCK_ENTRIES = 512, BLOCK_ROWS = 32 };

INLINE int gather_spreads(const gather_t *g, int64_t u) {
  return is_spread(g->workspace, GATHER_PARTS, g->offsets[u + 1] - g->offsets[u], g->items, g->columns);
}

/* Rows that are spread, a group and some columns at a time. */
static void gather_spread(gather_t *g, spread_t *s) {
  const int64_t K = g->columns, pieces = (K + SPREAD_WIDTH - 1) / SPREAD_WIDTH;
  const int64_t size = spread_group(g->rows, pieces, g->workers), groups = (g->rows + size - 1) / size;
  for (int64_t task; (task = take(&g->next_spread)) < groups * pieces;) {
    const int64_t first = task / pieces * size, k = task % pieces * SPREAD_WIDTH;
    const int64_t width = smaller(SPREAD_WIDTH, K - k);
    s->rows = 0;
    for (int64_t u = first; u < smaller(first + size, g->rows); u++)
      if (gather_spreads(g, u)) spread_add(s, u, g->indices, g->values, g->offsets[u], g->offsets[u + 1], 0);
    memset(s->sum, 0, s->rows * SPREAD_WIDTH * 4);
    for (int64_t m = 0; g->accumulate && m < s->rows; m++)
      memcpy(s->sum + m * SPREAD_WIDTH, g->out + s->number[m] * K + k, width * 4);
    if (s->rows) spread_sums(s, g->weight, g->items, K, k, width);
    for (int64_t m = 0; m < s->rows; m++) {
      float *out = g->out + s->number[m] * K + k;
      memcpy(out, s->sum + m * SPREAD_WIDTH, width * 4);
      if (g->has_epilogue) finish_row(&g->epilogue, s->number[m], k, width, out);
    }
  }
}

static void gather(gather_t *g, int32_t worker) {
  const int64_t K = g->columns, entries = g->offsets[g->rows];
  const int64_t size = larger(1, smaller(BLOCK_ROWS, g->rows * BLOCK_ENTRIES / larger(entries, 1)));
  int64_t spreads = 0; /* too few rows do not pay */
  for (int64_t u = 0; g->workspace && u < g->rows; u++) spreads += gather_spreads(g, u);
  if (spreads < GATHER_ROWS) spreads = 0;
  for (span_t rows = {0}; next_block(&rows, &g->next, size, g->rows);) {
    span_t s = entries_of(&rows, g->offsets);
    for (int64_t u = rows.from; u < rows.end; u++) {
      if (spreads && gather_spreads(g, u)) continue;
      add_entries(&s, g->indices, g->values, g->offsets[u], g->offsets[u + 1], g->weight, K, g->out + u * K,
                  g->accumulate);
      if (g->has_epilogue) finish_row(&g->epilogue, u, 0, K, g->out + u * K);
    }
  }
  if (spreads) gather_spread(g, spread_place(g->workspace, worker));
}

/* Is anything but zero in n floats? */
static int any_nonzero(const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES)
    if (any(load_some(x + i, n - i) != (vf){0})) return 1;
  return 0;
}

/* Blocks of weight rows: many, but few enough that taking one costs nothing beside it. */
INLINE int64_t update_block(int64_t count) { return larger(1, smaller(64, count / 64)); }

/* How far ahead of row items[n] (items null: row n) the one lies that is updated some rows later, in numbers. Its step of
 * last update is fetched. */
INLINE int64_t row_ahead(const weights_t *w, const int32_t *items, const span_t *s, int64_t n) {
  const int64_t states = (w->state0 != 0) + (w->state1 != 0);
  const int64_t later = look_ahead(s, n, update_ahead(w->columns * 4 * (1 + states)));
  const int64_t row = items ? items[n] : n, later_row = items ? items[later] : later;
  if (w->last) __builtin_prefetch(w->last + later_row, 1);
  return (later_row - row) * w->columns;
}

/* Vector v of a piece; a piece of one vector may have fewer numbers. */
INLINE vf load_piece(const int count, const float *p, int v, int64_t left) {
  return count == 1 ? load_some(p, left) : load(p + v * LANES);
}

/* Where a row's gradient comes from: its sums from column k on, or if there are none, from the entries. */
typedef struct {
  const float *sum;
  int64_t k;
} made_t;

/* Updates numbers k .. of the n-th distinct item's row, count vectors; false if a number is not finite. */
INLINE int scatter_piece(const int count, const int32_t kind, scatter_t *s, const optimizer_t *o, rates_t now,
                         int64_t n, int64_t k, int64_t ahead, made_t made) {
  const weights_t *w = &s->weight;
  const by_item_t *b = &s->batch;
  const int64_t K = w->columns, left = K - k, at = b->items[n] * K + k;
  vf sum[PIECE_VECTORS];
#pragma GCC unroll 16
  for (int v = 0; v < count; v++) sum[v] = s->tied ? load_piece(count, s->tied + n * K + k, v, left) : splat(0);
  if (s->own) {
    const vf own = splat(s->own[n]);
#pragma GCC unroll 16
    for (int v = 0; v < count; v++) sum[v] = own * load_piece(count, w->value + at, v, left);
  }
  if (made.sum) {
#pragma GCC unroll 16
    for (int v = 0; v < count; v++) sum[v] = load_piece(count, made.sum + k - made.k, v, left);
  }
  for (int64_t e = b->offsets[n]; !made.sum && e < b->offsets[n + 1]; e++) {
    const float *row = s->dz + b->rows[e] * K + k;
    const vf x = splat(b->values[e]);
    if (count == 1 && !s->dz) {
      sum[0] = sum[0] + x;
      continue;
    }
#pragma GCC unroll 16
    for (int v = 0; v < count; v++) sum[v] = fma_(x, load_piece(count, row, v, left), sum[v]);
  }
  vi residues = {0};
#pragma GCC unroll 16
  for (int v = 0; v < count; v++) residues |= residue(sum[v]);
  if (any(not_finite(residues))) {
    fail(&s->failure, FAIL_GRADIENT, w->id, b->items[n]);
    return 0;
  }
  if (w->gradient) {
#pragma GCC unroll 16
    for (int v = 0; v < count; v++) store_some(w->gradient + at + v * LANES, sum[v], left - v * LANES);
    return 1;
  }
  const penalty_t penalty = penalty_of(w, o);
  vi bad = {0};
  float *value = w->value + at;
  float *s0 = states_of[kind] > 0 ? w->state0 + at : 0, *s1 = states_of[kind] > 1 ? w->state1 + at : 0;
  if (count == 1) {
    float gradient[LANES];
    store(gradient, sum[0]);
    /* all bits, since any() may look at the highest one only */
    bad = splat_int(-update_span(kind, o, penalty, 0, 0, gradient, value, s0, s1, smaller(LANES, left), 0));
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < count; v += UPDATE_VECTORS) {
      const int64_t i = v * LANES;
      fetch_ahead(kind, value + i, s0 + i, s1 + i, ahead);
      bad |= update_vectors(UPDATE_VECTORS, kind, o, now, penalty, 0, 0, sum + v, value + i, s0 + i, s1 + i);
    }
  }
  if (any(bad)) fail(&s->failure, FAIL_WEIGHT, w->id, b->items[n]);
  return !any(bad);
}

/* Updates numbers k .. end - 1 of the n-th distinct item's row. */
INLINE int scatter_row(const int32_t kind, scatter_t *s, const optimizer_t *o, rates_t now, const span_t *items,
                       int64_t n, int64_t k, int64_t end, made_t made) {
  const weights_t *w = &s->weight;
  const int64_t ahead = row_ahead(w, s->batch.items, items, n);
  for (; k + PIECE_VECTORS * LANES <= end; k += PIECE_VECTORS * LANES)
    if (!scatter_piece(PIECE_VECTORS, kind, s, o, now, n, k, ahead, made)) return 0;
  for (; k + SPAN <= end; k += SPAN)
    if (!scatter_piece(UPDATE_VECTORS, kind, s, o, now, n, k, ahead, made)) return 0;
  for (; k < end; k += LANES)
    if (!scatter_piece(1, kind, s, o, now, n, k, 0, made)) return 0;
  if (w->last && end == w->columns) w->last[s->batch.items[n]] = (int32_t)o->step;
  return 1;
}

/* Sets a sum to what scatter_piece begins with. */
INLINE void begin_sum(const scatter_t *s, int64_t n, int64_t k, int64_t width, float *sum) {
  const int64_t K = s->weight.columns;
  const float *value = s->weight.value + s->batch.items[n] * K + k;
  memset(sum, 0, SPREAD_WIDTH * 4);
  if (s->tied) memcpy(sum, s->tied + n * K + k, width * 4);
  for (int64_t i = 0; s->own && i < width; i++) sum[i] = s->own[n] * value[i];
}

/* Finds which items from n on, up to end, are updated next: one, or of those that are spread a group. Returns where to go
 * on. */
static int64_t next_group(const scatter_t *s, int spread, int64_t n, int64_t end, int64_t *numbers, int64_t *count) {
  const int64_t most = spread ? SPREAD_ROWS : 1;
  *count = 0;
  for (; n < end && *count < most; n++)
    if (is_spread(s->workspace, SCATTER_PARTS, s->batch.offsets[n + 1] - s->batch.offsets[n], s->rows,
                  s->weight.columns) == spread)
      numbers[(*count)++] = n;
  return n;
}

/* Makes columns k .. k + width - 1 of the gradients of a group. */
static void group_sums(const scatter_t *s, spread_t *group, const int64_t *numbers, int64_t count, int64_t k,
                       int64_t width) {
  const by_item_t *b = &s->batch;
  group->rows = 0;
  for (int64_t m = 0; m < count; m++) {
    const int64_t n = numbers[m];
    begin_sum(s, n, k, width, group->sum + m * SPREAD_WIDTH);
    spread_add(group, n, b->rows, b->values, b->offsets[n], b->offsets[n + 1],
               s->weight.gradient ? 0 : s->weight.value + b->items[n] * s->weight.columns + k);
  }
  spread_sums(group, s->dz, s->rows, s->weight.columns, k, width);
}

/* Updates a block of items, first those that are not spread; false if a number is not finite. */
INLINE int scatter_block(const int32_t kind, scatter_t *s, const optimizer_t *o, rates_t now, const span_t *items,
                         spread_t *group) {
  const int64_t K = s->weight.columns;
  int64_t numbers[SPREAD_ROWS], count;
  for (int spread = 0; spread < 2; spread++) {
    const int64_t step = spread ? SPREAD_WIDTH : K;
    for (int64_t n = items->from; n < items->end;) {
      n = next_group(s, spread, n, items->end, numbers, &count);
      for (int64_t k = 0; count && k < K; k += step) {
        const int64_t end = smaller(k + step, K);
        if (spread) group_sums(s, group, numbers, count, k, end - k);
        for (int64_t m = 0; m < count; m++) {
          const made_t made = {spread ? group->sum + m * SPREAD_WIDTH : 0, k};
          if (!scatter_row(kind, s, o, now, items, numbers[m], k, end, made)) return 0;
        }
      }
    }
  }
  return 1;
}

/* With the optimizer as a constant, and in a copy whose address nobody has, so that no store can change it. */
INLINE void scatter_with(const int32_t kind, scatter_t *s, spread_t *group) {
  const optimizer_t o = s->optimizer;
  rates_t now = {0}; /* there may be no rates where gradients are only written */
  if (!s->weight.gradient) now = o.rates[o.step - o.rates_from];
  const int64_t count = s->batch.count;
  /* Where most items are spread, a block is a group of them. */
  const int dense = s->workspace && SCATTER_PARTS * s->batch.offsets[count] >= count * s->rows;
  const int64_t size = dense ? spread_group(count, 1, s->workers) : update_block(count);
  for (span_t items = {0}; !failed(&s->failure) && next_block(&items, &s->next, size, count);)
    if (!scatter_block(kind, s, &o, now, &items, group)) return;
}

static void scatter(scatter_t *s, int32_t worker) {
  spread_t *group = s->workspace ? spread_place(s->workspace, worker) : 0;
  switch (s->optimizer.kind) { OPTIMIZERS(OPTIMIZER_CASE, CASE_BY_NUMBER, scatter_with, s, group) }
  __builtin_unreachable();
}

static void replay_row(replay_t *r, const span_t *s, int64_t n) {
  const weights_t *w = &r->weight;
  const penalty_t penalty = penalty_of(w, &r->optimizer);
  const int64_t K = w->columns, row = r->items ? r->items[n] : n, ahead = row_ahead(w, r->items, s, n);
  /* no row can be behind the rates; if one were, its older steps would be lost and not read out of bounds */
  int64_t from = larger(w->last[row], r->optimizer.rates_from - 1);
  if (from >= r->upto) return;
  float *s0 = w->state0 ? w->state0 + row * K : 0, *s1 = w->state1 ? w->state1 + row * K : 0;
  /* Zero state stays zero, and moves nothing without decay and l1. */
  int moves = penalty.decay != 0 || penalty.l1 != 0 || (s0 && any_nonzero(s0, K)) || (s1 && any_nonzero(s1, K));
  /* Where new numbers are not finite the old ones stay, and the row counts as up to date all the same: every row is after
   * this, whatever happened to some. */
  if (moves && update_any(&r->optimizer, penalty, from, r->upto, 0, w->value + row * K, s0, s1, K, ahead))
    fail(&r->failure, FAIL_WEIGHT, w->id, row);
  w->last[row] = (int32_t)r->upto;
}

static void replay(replay_t *r, UNUSED int32_t worker) {
  const int64_t size = update_block(r->count);
  for (span_t rows = {0}; next_block(&rows, &r->next, size, r->count);)
    for (int64_t n = rows.from; n < rows.end; n++) replay_row(r, &rows, n);
}
