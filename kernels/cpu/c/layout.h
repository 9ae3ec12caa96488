/* layout.h: how a layer is cut into tiles and groups, its workspace, and how its operands are packed. */

/* How a shape is cut. Depends on B, I, K and the vector width only. */
typedef struct {
  int64_t B, K, Bp, Kp, ldw, ldz, ldh; /* padded sizes and row strides */
  int64_t tile, tiles, groups;         /* items a tile, tiles, groups of tiles */
  /* offsets into the workspace, in floats */
  int64_t panels, rows, dh, norm, weight, count, lse, most, worker;
  /* offsets inside a worker's part */
  int64_t w, z, dw, partial, inverse, db, extra, worker_size, total;
} layout_t;

/* Groups are about GROUP_ITEMS items, and a multiple of GROUP_STEP in number, so that 2, 4 or 8 workers get equal shares.
 * EXTRA: floats a row of scratch. */
enum {
  GROUP_ITEMS = 1024,
  GROUP_STEP = 8,
  MAX_GROUPS = 64,
  TILE_BYTES = 640 * 1024,
  EXTRA = 6,
  MAX_TILE = 16 * TILE_ROWS
};

static layout_t layout_of(int64_t B, int64_t K, int64_t I, int32_t workers) {
  layout_t l = {.B = B, .K = K, .Bp = round_up(larger(B, 1), PANEL), .Kp = round_up(larger(K, 1), PANEL)};
  l.ldw = l.ldh = l.Kp + 16; /* 64 bytes more, against strides that are powers of two */
  l.ldz = l.Bp + 16;
  int64_t groups = (I + GROUP_STEP * GROUP_ITEMS / 2) / (GROUP_STEP * GROUP_ITEMS) * GROUP_STEP;
  groups = larger(GROUP_STEP, smaller(groups, MAX_GROUPS));
  int64_t fit = TILE_BYTES / (4 * (l.Kp + l.Bp)) / TILE_ROWS * TILE_ROWS; /* items whose weights and logits fit */
  fit = larger(TILE_ROWS, smaller(fit, MAX_TILE));
  int64_t tiles = groups * ((I + groups * fit - 1) / (groups * fit)); /* as many in each group, if the tile allows */
  l.tile = round_up(larger((I + tiles - 1) / tiles, 1), TILE_ROWS);
  l.tiles = (I + l.tile - 1) / l.tile;
  l.groups = smaller(groups, l.tiles);
  int64_t at = 0;
#define PART(name, size) l.name = at, at += round_up(size, 16)
  PART(panels, l.Bp * l.K);
  PART(rows, l.Bp * l.ldh);
  PART(dh, l.Bp * l.Kp);
  PART(norm, l.Bp);
  PART(weight, l.Bp);
  PART(count, l.Bp);
  PART(lse, l.Bp);
  PART(most, (int64_t)workers * 16);
  l.worker = at;
  at = 0;
  PART(w, l.tile * l.ldw);
  PART(z, l.tile * l.ldz);
  PART(dw, TILE_ROWS * l.Kp);
  PART(partial, l.Bp * l.Kp);
  PART(inverse, l.tile);
  PART(db, l.tile);
  PART(extra, EXTRA * l.Bp); /* statistics: a float and a double a row; losses: loss_scratch_t */
#undef PART
  l.worker_size = at;
  l.total = l.worker + workers * l.worker_size;
  return l;
}

/* The first tile of a group; the tiles are spread evenly. */
INLINE int64_t group_start(const layout_t *l, int64_t group) { return group * l->tiles / l->groups; }

/* For batches of up to so many rows: a smaller batch has larger tiles, and may need more. */
static int64_t layer_workspace(int64_t rows, int64_t columns, int64_t items, int32_t workers) {
  int64_t most = 0;
  for (int64_t b = PANEL; b <= round_up(larger(rows, 1), PANEL); b += PANEL)
    most = larger(most, layout_of(b, columns, items, workers).total);
  return most;
}

static int64_t units_of(const source_t *source, int32_t sources) {
  int64_t K = 0;
  for (int32_t s = 0; s < sources; s++) K += source[s].weight.columns;
  return K;
}

/* A row of all sources, or of all their weights, side by side. */
INLINE void concatenate(const source_t *source, int32_t sources, int weights, int64_t row, float *out) {
  for (int32_t s = 0; s < sources; s++) {
    int64_t n = source[s].weight.columns;
    memcpy(out, (weights ? source[s].weight.value : source[s].h) + row * n, n * 4);
    out += n;
  }
}

/* Row u of the sources as a padded row, normalised and divided by the temperature for cosine logits; and its numbers. */
static void pack_row(const layer_t *o, const layout_t *l, int64_t u) {
  float *ws = o->workspace, *row = ws + l->rows + u * l->ldh, weight = 0, total = 0;
  memset(row, 0, l->ldh * 4);
  memset(ws + l->dh + u * l->Kp, 0, l->Kp * 4);
  ws[l->norm + u] = ws[l->lse + u] = 0;
  if (u < l->B) {
    concatenate(o->source, o->sources, 0, u, row);
    if (o->temperature != 0) {
      double norm = sqrt(dot(row, row, l->K));
      float scale = norm > 0 ? (float)(1 / (norm * o->temperature)) : 0;
      ws[l->norm + u] = norm > 0 ? (float)(1 / norm) : 0;
      for (int64_t k = 0; k < l->K; k++) row[k] *= scale;
    }
    weight = o->loss.weight / (float)l->B;
    total = o->row_sum ? o->row_sum[u] : 0;
    if (o->loss.normalize_rows) weight = total > 0 ? weight / total : 0;
    if (o->stats) ws[l->lse + u] = o->stats[2 * u + 1];
  }
  ws[l->weight + u] = weight;
  ws[l->count + u] = total * weight;
}

/* First round: rows of h as padded rows and as panels, and the largest magnitude among them; static split over workers. */
static void layer_pack(layer_t *o, int32_t worker) {
  const int64_t K = units_of(o->source, o->sources);
  const layout_t l = layout_of(o->rows, K, o->items, o->workers);
  float *ws = o->workspace;
  vf largest = {0};
  int64_t count = l.Bp / PANEL;
  for (int64_t p = count * worker / o->workers; p < count * (worker + 1) / o->workers; p++) {
    const float *rows = ws + l.rows + p * PANEL * l.ldh;
    float *panel = ws + l.panels + p * PANEL * K;
    for (int64_t u = 0; u < PANEL; u++) {
      pack_row(o, &l, p * PANEL + u);
      for (int64_t k = 0; k < l.Kp; k += LANES) {
        vf a = absolute(load(rows + u * l.ldh + k));
        largest = select_((a > largest) | (a != a), a, largest);
      }
    }
    for (int64_t k = 0; k < K; k++)
      for (int64_t u = 0; u < PANEL; u++) panel[k * PANEL + u] = rows[u * l.ldh + k];
  }
  float most = 0;
  for (int i = 0; i < LANES; i++) most = largest[i] > most || largest[i] != largest[i] ? largest[i] : most;
  ws[l.most + worker * 16] = most;
}

/* Copies the tile's weight rows; for cosine logits divided by their norms. */
static void load_tile(const layer_t *o, const layout_t *l, int64_t first, int64_t n, float *w, float *inverse) {
  for (int64_t t = 0; t < n; t++) {
    float *row = w + t * l->ldw;
    concatenate(o->source, o->sources, 1, first + t, row);
    if (o->temperature != 0) {
      double norm = sqrt(dot(row, row, l->K));
      inverse[t] = norm > 0 ? (float)(1 / norm) : 0;
      for (int64_t k = 0; k < l->K; k++) row[k] *= inverse[t];
    }
    for (int64_t k = l->K; k < l->Kp; k++) row[k] = 0;
  }
}

/* First entry of a sorted list that is not below x. */
INLINE int64_t lower_bound(const int32_t *list, int64_t count, int64_t x) {
  int64_t low = 0;
  while (count > 0) {
    int64_t half = count / 2;
    if (list[low + half] < x) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}
