/* panel.h: products of a sparse matrix and panels, and what is made of them. A panel is [rows, width], and its width so
 * small that the sums of a row stay in registers.
 *
 * A product reads a row of the panel for each entry, 2 FLOP for 4 bytes: the bound is how fast caches deliver rows that
 * lie anywhere, which `limits.py` in tests/bench measures. */

enum { PANEL_ROWS = 32, /* of a product, taken at once */ PANEL_AHEAD = 32 /* entries */ };

/* sum = the entries of a row of m times rows of a panel. */
INLINE void panel_row(const int vectors, const sparse_matrix_t *m, int64_t row, const float *in, vf sum[]) {
  const int64_t width = vectors * LANES, last = m->offsets[m->rows] - 1;
#pragma GCC unroll 16
  for (int v = 0; v < vectors; v++) sum[v] = splat(0);
  for (int64_t e = m->offsets[row]; e < m->offsets[row + 1]; e++) {
    const float *from = in + m->indices[e] * width, *ahead = in + m->indices[smaller(e + PANEL_AHEAD, last)] * width;
    const vf x = splat(m->values[e]);
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) {
      if (v * LANES % LINE == 0) __builtin_prefetch(ahead + v * LANES);
      sum[v] = fma_(x, load(from + v * LANES), sum[v]);
    }
  }
}

/* Calls function(vectors, ...) with a constant for the width. */
#define BY_WIDTH(width, function, ...)   \
  do {                                   \
    if ((width) == 16)                   \
      function(16 / LANES, __VA_ARGS__); \
    else if ((width) == 32)              \
      function(32 / LANES, __VA_ARGS__); \
    else                                 \
      function(64 / LANES, __VA_ARGS__); \
  } while (0)

INLINE void panel_product(const int vectors, const sparse_matrix_t *m, const float *in, float *out, int64_t panels,
                          int64_t *next) {
  const int64_t width = vectors * LANES, blocks = (m->rows + PANEL_ROWS - 1) / PANEL_ROWS;
  vf sum[64 / LANES];
  for (int64_t task; (task = take(next)) < panels * blocks;) {
    const int64_t panel = task / blocks, first = task % blocks * PANEL_ROWS;
    const float *from = in + panel * m->columns * width;
    float *to = out + panel * m->rows * width;
    for (int64_t row = first; row < smaller(first + PANEL_ROWS, m->rows); row++) {
      panel_row(vectors, m, row, from, sum);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++) store(to + row * width + v * LANES, sum[v]);
    }
  }
}

static void sparse_product(sparse_product_t *p, UNUSED int32_t worker) {
  BY_WIDTH(p->width, panel_product, &p->matrix, p->in, p->out, p->panels, &p->next);
}

/* Conjugate gradients, preconditioned by the diagonal, for all columns of a panel at once. An iteration has four phases;
 * each resets the counter of the one before it. Sums over the items are made per block and added in the order of the
 * blocks, by each worker for itself. A column that is done does not move any more, so what a column becomes does not depend
 * on the others. */
enum { SOLVE_ITEMS = 512 /* of a block */, SOLVE_START = 0, SOLVE_ROWS, SOLVE_PRODUCT, SOLVE_STEP, SOLVE_DIRECTION };

INLINE void add_block(const int vectors, double *parts, int64_t block, const vf sum[]) {
  for (int v = 0; v < vectors; v++)
    for (int lane = 0; lane < LANES; lane++) parts[block * vectors * LANES + v * LANES + lane] = sum[v][lane];
}

INLINE void add_parts(const solve_t *s, const double *parts, double *sum) {
  for (int64_t c = 0; c < s->width; c++) sum[c] = 0;
  for (int64_t block = 0; block * SOLVE_ITEMS < s->by_item.rows; block++)
    for (int64_t c = 0; c < s->width; c++) sum[c] += parts[block * s->width + c];
}

INLINE int moves(const solve_t *s, int64_t c, double norm) {
  return norm > 0 && (s->iteration == 0 || norm > s->tolerance * s->tolerance * s->first[c]);
}

INLINE void solve_blocks(const int vectors, solve_t *s, const int phase) {
  const int64_t width = vectors * LANES;
  double norm[64], with[64];
  vf scale[64 / LANES], sum[64 / LANES];
  if (phase == SOLVE_STEP) {
    add_parts(s, s->products, with);
    for (int64_t c = 0; c < width; c++)
      with[c] = with[c] > 0 && s->moves[c] ? s->norms[(s->iteration - 1) % 2][c] / with[c] : 0;
  } else if (phase == SOLVE_DIRECTION) {
    add_parts(s, s->squares, norm);
    for (int64_t c = 0; c < width; c++) with[c] = s->moves[c] ? norm[c] / s->norms[(s->iteration - 1) % 2][c] : 0;
  }
  for (int64_t c = 0; c < width && phase >= SOLVE_STEP; c++) scale[c / LANES][c % LANES] = (float)with[c];
  for (int64_t block; (block = take(s->next + phase)) * SOLVE_ITEMS < s->by_item.rows;) {
    vf total[64 / LANES];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) total[v] = splat(0);
    for (int64_t i = block * SOLVE_ITEMS; i < smaller((block + 1) * SOLVE_ITEMS, s->by_item.rows); i++) {
      const vf inverse = splat(1 / s->diagonal[i]), ridge = splat(s->ridge[i]);
      float *x = s->solution + i * width, *r = s->residual + i * width, *p = s->direction + i * width,
            *z = s->product + i * width;
      if (phase == SOLVE_PRODUCT) panel_row(vectors, &s->by_item, i, s->between, sum);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++, x += LANES, r += LANES, p += LANES, z += LANES) {
        if (phase == SOLVE_START) {
          store(x, splat(0));
          store(p, load(r) * inverse);
          total[v] = fma_(load(r), load(p), total[v]);
        } else if (phase == SOLVE_PRODUCT) {
          const vf product = fma_(ridge, load(p), sum[v]);
          store(z, product);
          total[v] = fma_(load(p), product, total[v]);
        } else if (phase == SOLVE_STEP) {
          store(x, fma_(scale[v], load(p), load(x)));
          const vf rest = fma_(-scale[v], load(z), load(r));
          store(r, rest);
          total[v] = fma_(rest * inverse, rest, total[v]);
        } else {
          store(p, fma_(scale[v], load(p), load(r) * inverse));
        }
      }
    }
    if (phase != SOLVE_DIRECTION) add_block(vectors, phase == SOLVE_PRODUCT ? s->products : s->squares, block, total);
  }
}

static void solve_start(solve_t *s, UNUSED int32_t worker) { BY_WIDTH(s->width, solve_blocks, s, SOLVE_START); }

static void solve_rows(solve_t *s, int32_t worker) {
  if (s->done) return;
  if (worker == 0) {
    if (s->iteration == 0) {
      add_parts(s, s->squares, s->norms[0]);
      for (int64_t c = 0; c < s->width; c++) s->moves[c] = moves(s, c, s->norms[0][c]);
    }
    s->next[SOLVE_DIRECTION] = 0;
  }
  BY_WIDTH(s->width, panel_product, &s->by_row, s->direction, s->between, 1, s->next + SOLVE_ROWS);
}

static void solve_product(solve_t *s, int32_t worker) {
  if (s->done) return;
  if (worker == 0) s->iteration++, s->next[SOLVE_STEP] = 0;
  BY_WIDTH(s->width, solve_blocks, s, SOLVE_PRODUCT);
}

static void solve_step(solve_t *s, int32_t worker) {
  if (s->done) return;
  if (worker == 0) s->next[SOLVE_ROWS] = 0;
  BY_WIDTH(s->width, solve_blocks, s, SOLVE_STEP);
}

static void solve_direction(solve_t *s, int32_t worker) {
  if (s->done) return;
  if (worker == 0) s->next[SOLVE_PRODUCT] = 0;
  BY_WIDTH(s->width, solve_blocks, s, SOLVE_DIRECTION);
}

/* After the phases of an iteration, which all have read the state: who moves on. */
static void solve_check(solve_t *s, int32_t worker) {
  if (s->done || worker != 0) return;
  double *norm = s->norms[s->iteration % 2];
  int64_t moving = 0;
  add_parts(s, s->squares, norm);
  for (int64_t c = 0; c < s->width; c++) {
    if (s->iteration == 1) s->first[c] = norm[c];
    s->moves[c] = s->moves[c] && moves(s, c, norm[c]);
    moving += s->moves[c];
  }
  s->done = moving == 0 || s->iteration == s->iterations;
  if (s->done) {
    s->report[0] = s->iteration > s->report[0] ? s->iteration : s->report[0];
    s->report[1] += (int32_t)moving;
  }
}

/* The largest entries of columns, LANES of them at a time: most entries are less than the least that each column keeps, and
 * one comparison says so. */
static void keep_largest(keep_largest_t *o, UNUSED int32_t worker) {
  for (int64_t group; (group = take(&o->next)) * LANES < o->width && o->first + group * LANES < o->end;) {
    const int64_t from = group * LANES, columns = smaller(LANES, o->end - o->first - from);
    int32_t count[LANES] = {0};
    vf least = splat(-INFINITY);
    for (int64_t i = 0; i < o->rows; i++) {
      const vf x = load(o->panel + i * o->width + from) * splat(o->weights[i]);
      const vi larger = x > least;
      if (!any(larger)) continue;
      for (int64_t c = 0; c < columns; c++) {
        const int64_t column = o->first + from + c;
        if (!larger[c] || x[c] == 0 || i == column) continue;
        float *list = o->values + column * o->k;
        heap_add(list, o->ids + column * o->k, count + c, o->k, x[c], (int32_t)i);
        if (count[c] == o->k) least[c] = list[0];
      }
    }
    for (int64_t c = 0; c < columns; c++) {
      const int64_t column = o->first + from + c;
      float *list = o->values + column * o->k;
      int32_t *ids = o->ids + column * o->k;
      sort_by_item(list, ids, count[c]);
      for (int64_t at = 0; at < o->k; at++) {
        if (at < count[c])
          list[at] = o->panel[ids[at] * o->width + from + c];
        else
          list[at] = 0, ids[at] = -1;
      }
      o->diagonal[column] = o->panel[column * o->width + from + c];
    }
  }
}

/* A worker has a block of items, of which it finds the entries in each row. */
enum { TURN_ITEMS = 1024 };

INLINE int64_t first_entry(const panel_rows_t *o, int64_t c, int64_t item) {
  return o->offsets[c] + lower_bound(o->indices + o->offsets[c], o->offsets[c + 1] - o->offsets[c], item);
}

static void rows_to_panel(panel_rows_t *o, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&o->next)) * TURN_ITEMS < o->items;) {
    const int64_t first = block * TURN_ITEMS, end = smaller(first + TURN_ITEMS, o->items);
    memset(o->panel + first * o->width, 0, (end - first) * o->width * sizeof *o->panel);
    for (int64_t c = 0; c < smaller(o->width, o->rows); c++)
      for (int64_t e = first_entry(o, c, first), i; e < o->offsets[c + 1] && (i = o->indices[e]) < end; e++)
        o->panel[i * o->width + c] = o->factors[i] * o->values[e];
  }
}

static void panel_to_rows(panel_rows_t *o, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&o->next)) * TURN_ITEMS < o->items;) {
    const int64_t first = block * TURN_ITEMS, end = smaller(first + TURN_ITEMS, o->items);
    for (int64_t c = 0; c < smaller(o->width, o->rows); c++) {
      float *out = o->out + c * o->items;
      if (o->offsets[c] == o->offsets[c + 1]) {
        memcpy(out + first, o->if_empty + first, (end - first) * sizeof *out);
        continue;
      }
      for (int64_t i = first; i < end; i++) out[i] = o->factors[i] * o->panel[i * o->width + c];
      for (int64_t e = first_entry(o, c, first), i; o->own && e < o->offsets[c + 1] && (i = o->indices[e]) < end; e++)
        out[i] += o->own[i] * o->values[e];
    }
  }
}
