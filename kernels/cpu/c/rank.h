/* rank.h: top-k of a block of rows: the rows are packed, tiles of items are screened and the candidates scored exactly, the
 * lists are put in order. Workers share the rows and take tiles of items. */

/* What a block of rows needs, in floats: shared by the workers, and each worker's own. */
typedef struct {
  int64_t few, panels, panels8, numbers, state, square, shared;
  int64_t w, w8, row8, z, row, at, candidates, found, own, total;
} rank_layout_t;

enum { ROW_NUMBERS = 10 }; /* arrays in block_of */

static rank_layout_t rank_layout(int64_t rows, int64_t K, int64_t I, int32_t workers) {
  const int64_t most = round_up(smaller(RANK_ROWS, larger(rows, 1)), PANEL);
  rank_layout_t l = {0};
  int64_t at = 0;
#define PART(name, size) l.name = at, at += round_up(size, 16)
  PART(few, 2 * FEW_ROWS * (K + 8 * MAX_SOURCES));
  PART(panels, most * K);
  PART(panels8, SCREENS_INT8 ? most * round_up(K, 4) / 4 : 0);
  PART(numbers, most * ROW_NUMBERS);
  PART(state, 2 * most / PANEL);
  PART(square, 2 * most);
  l.shared = at;
  at = 0;
  const int64_t items = tile_items(K, I);
  PART(w, items * (round_up(K, 16) + 16)); /* 64 bytes more, against strides that are powers of two */
  PART(w8, SCREENS_INT8 ? items * round_up(K, 64) / 4 : 0);
  PART(row8, SCREENS_INT8 ? round_up(K, 16) / 4 : 0);
  PART(z, items * PANEL + LANES);
  PART(row, K);
  PART(at, SCREENS_INT8 ? items * PANEL + LANES : 0);
  PART(candidates, (int64_t)sizeof(candidate_t) / 4 * items * PANEL);
  PART(found, PANEL);
#undef PART
  l.own = at;
  l.total = l.shared + workers * l.own;
  return l;
}

static int64_t rank_workspace(int64_t rows, int64_t columns, int64_t items, int32_t workers) {
  return rank_layout(rows, columns, items, workers).total;
}

static block_t block_of(const rank_t *r, int32_t worker) {
  const int64_t K = units_of(r->source, r->sources), padded = round_up(r->block_rows, PANEL);
  const rank_layout_t l = rank_layout(r->rows, K, r->items, r->workers);
  float *ws = r->workspace, *own = ws + l.shared + worker * l.own, *numbers = ws + l.numbers;
  const float e = 0x1p-20f, g = (float)(K + 32) * 0x1.03p-24f;
  block_t b = {.K = K, .K4 = round_up(K, 4), .padded = padded, .items = tile_items(K, r->items)};
#define NEXT (numbers += padded) - padded
  b.lists = (lists_t){.first = r->block_first, .n = r->block_rows, .square = (double *)(ws + l.square)};
  b.lists.threshold = NEXT;
  b.lists.count = (int32_t *)(NEXT);
  b.lists.lock = (int32_t *)(NEXT);
  b.wide = (rows_t){.step = NEXT, .norm = NEXT, .error = NEXT, .e = g, .tiny = 1e-37f};
  b.narrow = (rows_t){.step = NEXT, .norm = NEXT, .error = NEXT, .tiny = 0x1p-50f};
  b.narrow.e = r->temperature != 0 ? e + 3 * g : e;
  b.scale = NEXT;
#undef NEXT
  b.few = (double *)(ws + l.few);
  b.panels = ws + l.panels;
  b.panels8 = (uint8_t *)(ws + l.panels8);
  b.packed = (int32_t *)(ws + l.state);
  b.patience = b.packed + padded / PANEL;
  b.w = own + l.w;
  b.w8 = (int8_t *)(own + l.w8);
  b.row8 = (int8_t *)(own + l.row8);
  b.z = own + l.z;
  b.row = own + l.row;
  b.at = (int32_t *)(own + l.at);
  b.candidate = (candidate_t *)(own + l.candidates);
  b.found = (int32_t *)(own + l.found);
  b.ldw = round_up(K, 16) + 16;
  b.ldw8 = round_up(K, 64);
  return b;
}

INLINE int has_kept(const rank_t *r) { return r->kept && r->block_rows <= KEPT_ROWS; }
INLINE int has_few(const rank_t *r) { return r->block_rows <= FEW_ROWS && !has_kept(r); }
INLINE int has_int8(const block_t *b) { return SCREENS_INT8 && b->K <= MOST_UNITS8; }
static int64_t few_units(const rank_t *r) { return padded_units(r->source, r->sources); }

#include "rank_kept.h"

/* First round: the rows. */
static void top_k_pack(rank_t *r, int32_t worker) {
  const block_t b = block_of(r, worker);
  const lists_t *l = &b.lists;
  for (int64_t v = l->n * worker / r->workers; v < l->n * (worker + 1) / r->workers; v++) {
    lists_start(r, l, v);
    if (has_few(r)) few_pack(r, l, v, b.few + v * few_units(r));
  }
  const int64_t panels = has_few(r) ? 0 : b.padded / PANEL;
  for (int64_t p = panels * worker / r->workers; p < panels * (worker + 1) / r->workers; p++) {
    b.patience[p] = 0;
    b.packed[p] = has_int8(&b) ? UNPACKED : PACKED;
    has_int8(&b) ? pack_panel8(r, &b, p) : pack_wide(r, &b, p);
  }
}

/* Scores the candidates of a row. The threshold may have risen since they were found. */
static int64_t rescore(const rank_t *r, const block_t *b, int64_t v, const tile_t *tile, const limits_t *limits,
                       int is_int8) {
  const rows_t *rows = is_int8 ? &b->narrow : &b->wide;
  const reading_t *of = is_int8 ? &tile->narrow : &tile->wide;
  const int64_t lane = v % PANEL, n = b->found[lane];
  float found_with = limits->threshold[lane], limit_with = found_with;
  limit_t limit = {0};
  int64_t scored = 0;
  b->found[lane] = 0;
  if (n > 2) sort_candidates(r, tile, of, rows->step[v], b->candidate + lane * b->items, n);
  for (int64_t c = 0; c < n; c++) {
    const candidate_t next = b->candidate[lane * b->items + c];
    const int32_t item = tile->item[next.t];
    const float threshold = threshold_of(&b->lists, v);
    if (threshold != limit_with)
      limit = limit_of(rows, of, splat(threshold), splat(rows->step[v]), splat(rows->norm[v]), splat(rows->error[v]),
                       of->error);
    limit_with = threshold;
    if (threshold != found_with && next.x < least(&limit, of, next.t)) continue;
    if (is_int8 && !is_possible8(r, b, v, tile, threshold, next.t)) continue;
    const float score = exact_score(r, b->lists.first + v, item, b->lists.square[v], b->row);
    scored++;
    if (score >= threshold_of(&b->lists, v) && !excluded(r, b->lists.first + v, item))
      offer(r, &b->lists, v, item, score);
  }
  return scored;
}

static void screen(rank_t *r, const block_t *b) {
  tile_t tile;
  limits_t limits;
  cursor_t cursor = {0};
  int64_t scored = 0;
  memset(b->found, 0, PANEL * sizeof *b->found);
  /* Tiles grow as thresholds rise, since until then candidates are many. */
  const int64_t largest = smaller(b->items, r->items / r->workers / 8);
  tile.seen = 0;
  for (int64_t most = FEWEST_ITEMS; (tile.n = next_items(r, &cursor, most, tile.item)) > 0; tile.seen += tile.n) {
    most = larger(FEWEST_ITEMS, smaller(largest, (tile.seen + tile.n) / 2) / FEWEST_ITEMS * FEWEST_ITEMS);
    tile.has_wide = 0;
    if (has_int8(b)) load_tile8(r, b, &tile);
    for (int64_t p = 0; p < b->padded / PANEL; p++) {
      uint32_t rows;
      int is_int8 = has_int8(b) && try_int8(r, b, p, &tile, &limits, &rows);
      if (!is_int8) rows = screen_wide(r, b, p, &tile, &limits);
      for (; rows; rows &= rows - 1) scored += rescore(r, b, p * PANEL + __builtin_ctz(rows), &tile, &limits, is_int8);
    }
  }
  __atomic_fetch_add(&r->scored, scored, __ATOMIC_RELAXED);
}

/* Second round: the items. */
static void top_k_screen(rank_t *r, int32_t worker) {
  const block_t b = block_of(r, worker);
  if (has_few(r))
    few_rank(r, &b.lists, b.few, few_units(r), b.row);
  else if (has_kept(r))
    kept_rank(r, &b);
  else
    screen(r, &b);
}

/* Third round: the lists. */
static void top_k_finish(rank_t *r, int32_t worker) {
  const lists_t l = block_of(r, worker).lists;
  for (int64_t v = l.n * worker / r->workers; v < l.n * (worker + 1) / r->workers; v++) {
    int32_t *ids = r->ids + (l.first + v) * r->k;
    heap_sort(r->scores + (l.first + v) * r->k, ids, l.count[v], r->k);
    for (int64_t i = 0; i < l.count[v]; i++) ids[i] += r->first_id;
  }
}
