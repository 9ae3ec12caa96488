/* panelblocks.h: products of panels of 64 columns with each other and with small matrices in blocks of 64 x 64.
 *
 * Both are made of tiles of BLOCK_STRIP x 2 vectors in registers: BLOCK_STRIP broadcasts and two loads feed twice as many
 * fused multiply-adds. A tile's operands, 16 KB each, are in the second-level cache. */

enum {
  BLOCK = BLOCK_WIDTH,
  BLOCK_AREA = BLOCK * BLOCK,
  BLOCK_STRIP = LANES == 16 ? 8 : 4,
  GRAM_ROWS = 512, /* that are summed in float32 */
  GRAM_CHUNK = 64  /* rows of both panels that pass the tiles at once */
};

/* c (+)= a b, where element (m, p) of a is a[m row + p step], and rows of b and c are BLOCK apart. */
INLINE void block_tile(const int rows, const int accumulate, const float *a, const int64_t row, const int64_t step,
                       const float *b, int64_t P, float *c) {
  vf sum[BLOCK_STRIP][2];
#pragma GCC unroll 16
  for (int m = 0; m < rows; m++) {
    sum[m][0] = accumulate ? load(c + m * BLOCK) : splat(0);
    sum[m][1] = accumulate ? load(c + m * BLOCK + LANES) : splat(0);
  }
  for (int64_t p = 0; p < P; p++) {
    const vf b0 = load(b + p * BLOCK), b1 = load(b + p * BLOCK + LANES);
#pragma GCC unroll 16
    for (int m = 0; m < rows; m++) {
      const vf x = splat(a[m * row + p * step]);
      sum[m][0] = fma_(x, b0, sum[m][0]);
      sum[m][1] = fma_(x, b1, sum[m][1]);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < rows; m++) {
    store(c + m * BLOCK, sum[m][0]);
    store(c + m * BLOCK + LANES, sum[m][1]);
  }
}

/* A task is a group of rows of a pair of panels. The first group writes to out, the others to the workspace. */
static void panel_gram(panel_gram_t *g, UNUSED int32_t worker) {
  const int64_t pairs = g->as * g->bs, per = round_up((g->rows + g->groups - 1) / g->groups, GRAM_ROWS);
  float part[BLOCK_AREA] __attribute__((aligned(64)));
  for (int64_t task; (task = take(&g->next)) < pairs * g->groups;) {
    const int64_t group = task / pairs, pair = task % pairs, end = smaller((group + 1) * per, g->rows);
    const float *a = g->a + pair / g->bs * g->rows * BLOCK, *b = g->b + pair % g->bs * g->rows * BLOCK;
    double *out = (group ? g->parts + (group - 1) * pairs * BLOCK_AREA : g->out) + pair * BLOCK_AREA;
    for (int64_t at = 0; at < BLOCK_AREA; at++) out[at] = 0;
    for (int64_t first = group * per; first < end; first += GRAM_ROWS) {
      const int64_t last = smaller(first + GRAM_ROWS, end);
      memset(part, 0, sizeof part);
      for (int64_t row = first; row < last; row += GRAM_CHUNK)
        for (int64_t n = 0; n < BLOCK; n += 2 * LANES)
          for (int64_t m = 0; m < BLOCK; m += BLOCK_STRIP)
            block_tile(BLOCK_STRIP, 1, a + row * BLOCK + m, 1, BLOCK, b + row * BLOCK + n,
                       smaller(GRAM_CHUNK, last - row), part + m * BLOCK + n);
      for (int64_t at = 0; at < BLOCK_AREA; at++) out[at] += part[at];
    }
  }
}

static void panel_gram_add(panel_gram_t *g, UNUSED int32_t worker) {
  const int64_t pairs = g->as * g->bs;
  for (int64_t pair; g->groups > 1 && (pair = take(&g->next_sum)) < pairs;)
    for (int64_t group = 1; group < g->groups; group++)
      for (int64_t at = pair * BLOCK_AREA; at < (pair + 1) * BLOCK_AREA; at++)
        g->out[at] += g->parts[(group - 1) * pairs * BLOCK_AREA + at];
}

/* A task is BLOCK rows, of which there is a copy if they are overwritten. */
static void panel_product_blocks(panel_blocks_t *o, int32_t worker) {
  float *copy = o->in_place ? o->workspace + worker * o->ins * BLOCK_AREA : 0;
  for (int64_t task; (task = take(&o->next)) * BLOCK < o->rows;) {
    const int64_t first = task * BLOCK, rows = smaller(BLOCK, o->rows - first);
    for (int64_t i = 0; copy && i < o->ins; i++)
      memcpy(copy + i * BLOCK_AREA, o->in + (i * o->rows + first) * BLOCK, rows * BLOCK * sizeof *copy);
    for (int64_t j = 0; j < o->outs; j++) {
      float *out = o->out + (j * o->rows + first) * BLOCK;
      for (int64_t i = 0; i < o->ins; i++) {
        const float *in = copy ? copy + i * BLOCK_AREA : o->in + (i * o->rows + first) * BLOCK;
        const float *matrix = o->matrix + (i * o->outs + j) * BLOCK_AREA;
        for (int64_t n = 0; n < BLOCK; n += 2 * LANES) {
          int64_t m = 0;
#define TILE(rows)                                                                         \
  if (i || o->add)                                                                         \
    block_tile(rows, 1, in + m * BLOCK, BLOCK, 1, matrix + n, BLOCK, out + m * BLOCK + n); \
  else                                                                                     \
    block_tile(rows, 0, in + m * BLOCK, BLOCK, 1, matrix + n, BLOCK, out + m * BLOCK + n)
          for (; m + BLOCK_STRIP <= rows; m += BLOCK_STRIP) TILE(BLOCK_STRIP);
          for (; m < rows; m++) TILE(1);
#undef TILE
        }
      }
    }
  }
}

/* A task is a row of the batch, or a column without one. */
static void rows_to_blocks(rows_to_blocks_t *o, UNUSED int32_t worker) {
  for (int64_t c; (c = take(&o->next)) < BLOCK;)
    for (int64_t i = 0; i < o->ins; i++) {
      const float *in = o->in + i * o->items * BLOCK;
      float sums[BLOCK];
      vf sum[BLOCK / LANES];
      for (int v = 0; v < BLOCK / LANES; v++) sum[v] = splat(0);
      for (int64_t e = c < o->rows ? o->offsets[c] : 0; c < o->rows && e < o->offsets[c + 1]; e++) {
        const vf x = splat(o->factors[o->indices[e]] * o->values[e]);
        for (int v = 0; v < BLOCK / LANES; v++)
          sum[v] = fma_(x, load(in + o->indices[e] * (int64_t)BLOCK + v * LANES), sum[v]);
      }
      for (int v = 0; v < BLOCK / LANES; v++) store(sums + v * LANES, sum[v]);
      for (int64_t k = 0; k < BLOCK; k++) o->out[(i * BLOCK + k) * BLOCK + c] = sums[k];
    }
}

/* A task is some rows. */
static void panel_scale(panel_scale_t *o, UNUSED int32_t worker) {
  enum { ROWS = 256 };
  for (int64_t task; (task = take(&o->next)) * ROWS < o->rows;)
    for (int64_t r = task * ROWS; r < smaller((task + 1) * ROWS, o->rows); r++) {
      const vf x = splat(o->factors ? o->factor * o->factors[r] : o->factor);
      const float *in = o->in + r * o->width;
      float *out = o->out + r * o->width;
      for (int64_t c = 0; c < o->width; c += LANES)
        store(out + c, o->add ? fma_(x, load(in + c), load(out + c)) : x * load(in + c));
    }
}
