/* layout.h: how a layer is cut into tiles and groups, its workspace, and how its operands are packed.
 *
 * With float32 products an operand is stored once or twice as it is. With bfloat16 products (`pairs`) two numbers that follow
 * each other along the sum stand in a word, so what is summed along rows in one product and along columns in another is
 * stored both ways:
 *     h   panels: neighbours along K       rows: zipped from two rows u, u + 1
 *     W   w: neighbours along K            v: zipped from two items
 *     dz  z: neighbours along the rows u   y: zipped from two items
 * With floats, w is v and z is y. All but z and y lie in panels (product.h), and so does dh. */

/* How a shape is cut. Depends on B, I, K, the vector width and the precision only. */
typedef struct {
  int32_t pairs;
  int64_t B, K, Bp, Kp, ldz, ldh;      /* padded sizes and row strides, in words */
  int64_t Kw, Bw;                      /* words of a sum over K and over B */
  int64_t tile, tiles, groups;         /* items a tile, tiles, groups of tiles */
  int64_t reused_tiles;                /* whose logits stay from output_stats to output_step */
  /* offsets into the workspace, in floats */
  int64_t panels, rows, dh, norm, scale, weight, absent, most, reused, worker;
  /* offsets inside a worker's part */
  int64_t w, v, z, y, dw, partial, inverse, db, extra, worker_size, total;
} layout_t;

/* Groups are about GROUP_ITEMS items, and a multiple of GROUP_STEP in number, so that 2, 4 or 8 workers get equal shares.
 * BLOCK_ITEMS: items whose loss is taken at a time. EXTRA: floats a row of scratch.
 * REUSED_BYTES: of logits that are not made twice, for each of up to 128 units, because
 * reading them costs memory bandwidth and making them costs arithmetic in proportion to K; a bound, so that nothing grows
 * with B I. */
enum {
  GROUP_ITEMS = 1024,
  GROUP_STEP = 8,
  MAX_GROUPS = 64,
  TILE_BYTES = 640 * 1024,
  BLOCK_ITEMS = 4,
  EXTRA = 3 + BLOCK_ITEMS,
  REUSED_BYTES = 512 << 10,
  MAX_TILE = 16 * TILE_ROWS
};

static layout_t layout_of(int64_t B, int64_t K, int64_t I, int32_t workers, int32_t pairs, int32_t continues,
                          int32_t activated) {
  layout_t l = {
      .pairs = pairs, .B = B, .K = K, .Bp = round_up(larger(B, 1), PANEL), .Kp = round_up(larger(K, 1), PANEL)};
  l.ldh = l.Kp + 16; /* 64 bytes more, against strides that are powers of two */
  l.ldz = l.Bp + 16;
  l.Kw = pairs ? (K + 1) / 2 : K;
  l.Bw = pairs ? (B + 1) / 2 : B;
  int64_t groups = (I + GROUP_STEP * GROUP_ITEMS / 2) / (GROUP_STEP * GROUP_ITEMS) * GROUP_STEP;
  groups = larger(GROUP_STEP, smaller(groups, MAX_GROUPS));
  int64_t fit = TILE_BYTES / (4 * (l.Kp + l.Bp)) / TILE_ROWS * TILE_ROWS; /* items whose weights and logits fit */
  fit = larger(TILE_ROWS, smaller(fit, MAX_TILE));
  int64_t tiles = groups * ((I + groups * fit - 1) / (groups * fit)); /* as many in each group, if the tile allows */
  l.tile = round_up(larger((I + tiles - 1) / tiles, 1), TILE_ROWS);
  l.tiles = (I + l.tile - 1) / l.tile;
  l.groups = smaller(groups, l.tiles);
  if (continues) l.reused_tiles = smaller(l.tiles, smaller(l.Kp, 128) * REUSED_BYTES / (4 * l.tile * l.ldz));
  int64_t at = 0;
#define PART(name, size) l.name = at, at += round_up(size, 16)
  PART(panels, l.Bp * l.Kw);
  PART(rows, (pairs ? l.Bp / 2 : l.Bp) * l.Kp);
  PART(dh, l.Bp * l.Kp);
  PART(norm, l.Bp);
  PART(scale, l.Bp);
  PART(weight, l.Bp);
  PART(absent, l.Bp);
  PART(most, (int64_t)workers * 16);
  PART(reused, l.reused_tiles * l.tile * l.ldz);
  l.worker = at;
  at = 0;
  PART(w, l.tile * round_up(pairs ? l.Kp / 2 : l.Kp, PANEL));
  PART(z, l.tile * l.ldz);
  l.v = l.w, l.y = l.z;
  if (pairs) {
    PART(v, l.tile / 2 * l.Kp);
    PART(y, l.tile / 2 * l.ldz);
  }
  PART(dw, TILE_ROWS * l.ldh);
  PART(partial, l.Bp * l.Kp + PANEL * 16); /* and PANEL rows, ldh apart */
  PART(inverse, l.tile);
  PART(db, l.tile);
  PART(extra, (EXTRA + (activated ? BLOCK_ITEMS : 0)) * l.Bp); /* statistics: stats_scratch_t; losses: loss_scratch_t */
#undef PART
  l.worker_size = at;
  l.total = l.worker + workers * l.worker_size;
  return l;
}

static int64_t units_of(const source_t *source, int32_t sources) {
  int64_t K = 0;
  for (int32_t s = 0; s < sources; s++) K += source[s].weight.columns;
  return K;
}

/* The same with each source rounded up to a multiple of 8. */
static int64_t padded_units(const source_t *source, int32_t sources) {
  int64_t K = 0;
  for (int32_t s = 0; s < sources; s++) K += round_up(source[s].weight.columns, 8);
  return K;
}

static layout_t layout(const layer_t *o) {
  return layout_of(o->rows, units_of(o->source, o->sources), o->items, o->workers, o->bfloat16, o->continues,
                   o->loss.activation != ACTIVATION_linear);
}

/* The first tile of a group; the tiles are spread evenly. */
INLINE int64_t group_start(const layout_t *l, int64_t group) { return group * l->tiles / l->groups; }

/* For batches of up to the given number of rows: a smaller batch has larger tiles, and may need more. */
static int64_t layer_workspace(int64_t rows, int64_t columns, int64_t items, int32_t workers, int32_t bfloat16,
                               int32_t continues, int32_t activated) {
  int64_t most = 0;
  for (int64_t b = PANEL; b <= round_up(larger(rows, 1), PANEL); b += PANEL)
    most = larger(most, layout_of(b, columns, items, workers, bfloat16, continues, activated).total);
  return most;
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
static void pack_row(const layer_t *o, const layout_t *l, int64_t u, float *row) {
  float *ws = o->workspace, weight = 0, total = 0;
  memset(row, 0, l->Kp * 4);
  ws[l->norm + u] = ws[l->scale + u] = 0;
  if (u < l->B) {
    concatenate(o->source, o->sources, 0, u, row);
    if (o->temperature != 0) {
      double norm = sqrt(dot(row, row, l->K));
      float scale = norm > 0 ? (float)(1 / (norm * o->temperature)) : 0;
      ws[l->norm + u] = norm > 0 ? (float)(1 / norm) : 0;
      ws[l->scale + u] = scale;
      for (int64_t k = 0; k < l->K; k++) row[k] *= scale;
    }
    weight = o->loss.weight / (float)o->whole;
    if (o->row_weights) weight *= o->row_weights[u];
    total = o->row_sum ? o->row_sum[u] : 0;
    if (o->loss.normalize_rows) weight = total > 0 ? weight / total : 0;
  }
  ws[l->weight + u] = weight;
  ws[l->absent + u] = weight * (o->loss.kind == LOSS_softmax ? total : o->loss.zero_boost);
}

/* A panel of PANEL rows, which are ld words apart: columns become rows. */
static void pack_panel(const float *rows, int64_t ld, int64_t words, float *panel) {
  for (int64_t k = 0; k < words; k++)
    for (int64_t u = 0; u < PANEL; u++) memcpy(panel + k * PANEL + u, rows + u * ld + k, 4);
}

/* Words of two rows as a row of panels. */
INLINE void zip_to_panels(const float *even, const float *odd, int64_t columns, int64_t r, int64_t rows,
                          float *panels) {
  for (int64_t k = 0; k < columns; k += PANEL, panels += rows * PANEL) {
    store(panels + r * PANEL, zip(load(even + k), load(odd + k)));
    store(panels + r * PANEL + LANES, zip(load(even + k + LANES), load(odd + k + LANES)));
  }
}

/* First round: rows of h as padded rows and as panels, and the largest magnitude among them; static split over workers. */
static void layer_pack(layer_t *o, int32_t worker) {
  const layout_t l = layout(o);
  float *ws = o->workspace, *rows = ws + l.worker + worker * l.worker_size + l.partial; /* which is not in use yet */
  vf largest = {0};
  int64_t count = l.Bp / PANEL;
  for (int64_t p = count * worker / o->workers; p < count * (worker + 1) / o->workers; p++) {
    float *panel = ws + l.panels + p * PANEL * l.Kw, *all = ws + l.rows;
    const int64_t ld = l.ldh;
    for (int64_t u = 0; u < PANEL; u++) {
      pack_row(o, &l, p * PANEL + u, rows + u * ld);
      for (int64_t k = 0; k < l.Kp; k += LANES) {
        vf a = absolute(load(rows + u * ld + k));
        largest = select_((a > largest) | (a != a), a, largest);
      }
    }
    for (int64_t u = 0; u < PANEL && !l.pairs; u++) row_to_panels(rows + u * ld, l.Kp, p * PANEL + u, l.Bp, all);
    for (int64_t u = 0; u < PANEL && l.pairs; u += 2) {
      zip_to_panels(rows + u * ld, rows + (u + 1) * ld, l.Kp, (p * PANEL + u) / 2, l.Bp / 2, all);
      narrow_row(rows + u * ld, l.Kp, rows + u * ld);
      narrow_row(rows + (u + 1) * ld, l.Kp, rows + (u + 1) * ld);
    }
    pack_panel(rows, ld, l.Kw, panel);
  }
  float most = 0;
  for (int i = 0; i < LANES; i++) most = largest[i] > most || largest[i] != largest[i] ? largest[i] : most;
  ws[l.most + worker * 16] = most;
}

/* A tile's weight row as it takes part in products: for cosine logits divided by its norm. */
INLINE float load_item(const layer_t *o, const layout_t *l, int64_t item, float *row) {
  float inverse = 0;
  concatenate(o->source, o->sources, 1, item, row);
  if (o->temperature != 0) {
    double norm = sqrt(dot(row, row, l->K));
    inverse = norm > 0 ? (float)(1 / norm) : 0;
    for (int64_t k = 0; k < l->K; k++) row[k] *= inverse;
  }
  for (int64_t k = l->K; k < l->Kp; k++) row[k] = 0;
  return inverse;
}

/* Where a tile's logits are. */
INLINE float *logits_of(const layer_t *o, const layout_t *l, int64_t tile, float *mine) {
  return tile < l->reused_tiles ? o->workspace + l->reused + tile * l->tile * l->ldz : mine + l->z;
}

/* Packs the tile's weights. */
static void load_tile(const layer_t *o, const layout_t *l, int64_t first, int64_t n, float *mine) {
  float *w = mine + l->w, *inverse = mine + l->inverse;
  float *even = mine + l->dw, *odd = even + l->ldh; /* the strip of dW is not in use yet */
  const int64_t words = round_up(l->Kp / 2, PANEL);
  for (int64_t t = 0; t < n; t += 1 + l->pairs) {
    inverse[t] = load_item(o, l, first + t, even);
    if (!l->pairs) {
      row_to_panels(even, l->Kp, t, l->tile, w);
      continue;
    }
    if (t + 1 < n)
      inverse[t + 1] = load_item(o, l, first + t + 1, odd);
    else
      memset(odd, 0, l->Kp * 4);
    zip_to_panels(even, odd, l->Kp, t / 2, l->tile / 2, mine + l->v);
    narrow_row(even, l->Kp, even);
    narrow_row(odd, l->Kp, odd);
    row_to_panels(even, words, t, l->tile, w);
    if (t + 1 < n) row_to_panels(odd, words, t + 1, l->tile, w);
  }
}

/* First entry of a sorted list that is not below x; without branches, which could not be predicted. */
INLINE int64_t lower_bound(const int32_t *list, int64_t count, int64_t x) {
  int64_t low = 0;
  for (int64_t half; count > 1; count -= half) {
    half = count / 2;
    low += list[low + half - 1] < x ? half : 0;
  }
  return low + (count == 1 && list[low] < x);
}
