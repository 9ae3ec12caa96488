/* output.h: the output layer fused with its loss and update, and (with dz given) the backward step of a dense layer.
 *
 * A tile of T items goes through three products while it is in the second-level cache, B rows at a time in the registers:
 *     z'[T, B]  = W[T, K] h'[K, B]        logits, transposed: a vector runs over rows of the batch
 *     dh[B, K] += dz'[T, B]' W[T, K]      into the partial sum of the tile's group
 *     dW[T, K]  = dz'[T, B] h[B, K]       a strip of TILE_ROWS items at a time, updated at once
 * Several sources are one: their units stand side by side, K is the sum. The tile's rows are copied once (cosine: and
 * normalised) into panels (product.h), and both products with W read the copy.
 * Memory: h twice, dh, and for each worker a tile of W, of z and a partial dh. FLOPs: 6 B K I, soft-max 8 B K I, of which
 * those 2 B K I are spared whose logits the statistics leave behind (REUSED_BYTES). */

/* Waits until it is group's turn, so that what groups add up is added in their order. Groups are taken in order too, so
 * the ones before are at work or done. False when another worker has failed. */
INLINE int wait_turn(layer_t *o, int64_t group) {
  for (int spins = 0; __atomic_load_n(&o->turn, __ATOMIC_ACQUIRE) != group; spins++) {
    if (failed(&o->failure)) return 0;
    if (spins > 1024) sched_yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return 1;
}
INLINE void end_turn(layer_t *o, int64_t group) { __atomic_store_n(&o->turn, group + 1, __ATOMIC_RELEASE); }

/* Running maximum and sum of exponentials of each row over the tile's logits: a block of items raises the maximum first,
 * which becomes rare after a few, and then adds its exponentials. */
INLINE void block_stats(const layout_t *l, const float *z, const float *bias, const int n, float *top, float *part) {
  for (int64_t u = 0; u < l->Bp; u += LANES) {
    vf x[BLOCK_ITEMS], before = load(top + u), high = before, sum = load(part + u);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      x[i] = load(z + i * l->ldz + u) + bias[i];
      high = maximum(high, x[i]);
    }
    if (any(high > before)) {
      sum = sum * exponential(before - high); /* before is -inf at first: 0 */
      store(top + u, high);
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) sum = sum + exponential_of_negative(x[i] - high);
    store(part + u, sum);
  }
}

/* What a worker keeps of a group's rows: maximum, sum of exponentials relative to it; and of the present tile. */
typedef struct {
  float *top, *part, *before; /* [Bp] */
  double *sum; /* [Bp] */
} stats_scratch_t;

static stats_scratch_t stats_scratch(const layout_t *l, float *extra) {
  return (stats_scratch_t){extra, extra + l->Bp, extra + 2 * l->Bp, (double *)(extra + 3 * l->Bp)};
}

static void tile_stats(const layout_t *l, const float *z, const float *bias, int64_t n, const stats_scratch_t *s) {
  const float none[BLOCK_ITEMS] = {0};
  memcpy(s->before, s->top, l->Bp * 4);
  memset(s->part, 0, l->Bp * 4);
  int64_t t = 0;
  for (; t + BLOCK_ITEMS <= n; t += BLOCK_ITEMS)
    block_stats(l, z + t * l->ldz, bias ? bias + t : none, BLOCK_ITEMS, s->top, s->part);
  for (; t < n; t++) block_stats(l, z + t * l->ldz, bias ? bias + t : none, 1, s->top, s->part);
  for (int64_t u = 0; u < l->Bp; u += LANES) {
    vf shrink = exponential(load(s->before + u) - load(s->top + u));
    for (int i = 0; i < LANES; i++) s->sum[u + i] = s->sum[u + i] * (double)shrink[i] + (double)s->part[u + i];
  }
}

/* The logits of a tile but for the bias. The addend's rows are read LANES at a time: as many streams as the cache follows. */
static void tile_logits(const layer_t *o, const layout_t *l, int64_t first, int64_t n, float *mine, float *z) {
  product_panels(l->pairs, mine + l->w, l->tile * PANEL, o->workspace + l->panels, l->Kw, z, l->ldz, n, l->Bp);
  if (!o->addend || o->addend_empty) return;
  for (int64_t u = 0; u < l->B; u += LANES) {
    const float *row = o->addend + u * o->addend_stride + o->addend_first + first;
    const int64_t here = smaller(LANES, l->B - u);
    for (int64_t t = 0; t < n; t++)
      for (int64_t i = 0; i < here; i++) z[t * l->ldz + u + i] += row[i * o->addend_stride + t];
  }
}

/* Leaves the gradient with respect to a tile's logits in the addend's place. With `pairs`, two rows of it share a word. */
static void leave_delta(const layer_t *o, const layout_t *l, int64_t first, int64_t n, const float *z) {
  for (int64_t u = 0; u < l->B; u += LANES) {
    float *row = o->addend + u * o->addend_stride + o->addend_first + first;
    const int64_t here = smaller(LANES, l->B - u);
    for (int64_t t = 0; t < n; t++) {
      const float *dz = z + t * l->ldz;
      for (int64_t i = 0; i < here; i++)
        row[i * o->addend_stride + t] = l->pairs ? half_of(dz[(u + i) / 2], (u + i) % 2) : dz[u + i];
    }
  }
}

/* Second round for soft-max: stats[u] = maximum and log-sum-exp of row u's logits. */
static void output_stats(layer_t *o, int32_t worker) {
  const layout_t l = layout(o);
  float *ws = o->workspace, *mine = ws + l.worker + worker * l.worker_size;
  const stats_scratch_t scratch = stats_scratch(&l, mine + l.extra);
  const float *top = scratch.top;
  const double *sum = scratch.sum;
  /* the running totals live in dh's place, which is not in use yet */
  float *all_top = ws + l.dh;
  double *all_sum = (double *)(all_top + l.Bp);
  for (int64_t g; (g = take(&o->next)) < l.groups;) {
    for (int64_t u = 0; u < l.Bp; u++) scratch.top[u] = -INFINITY, scratch.sum[u] = 0;
    for (int64_t tile = group_start(&l, g); tile < group_start(&l, g + 1); tile++) {
      int64_t first = tile * l.tile, n = smaller(l.tile, o->items - first);
      load_tile(o, &l, first, n, mine);
      float *z = logits_of(o, &l, tile, mine);
      tile_logits(o, &l, first, n, mine, z);
      tile_stats(&l, z, o->bias.value ? o->bias.value + first : 0, n, &scratch);
    }
    if (!wait_turn(o, g)) return;
    for (int64_t u = 0; u < l.B; u++) {
      if (g == 0) {
        all_top[u] = top[u], all_sum[u] = sum[u];
      } else {
        float high = all_top[u] > top[u] ? all_top[u] : top[u];
        float pair[LANES] = {all_top[u] - high, top[u] - high};
        vf e = exponential(load(pair));
        all_sum[u] = all_sum[u] * (double)e[0] + sum[u] * (double)e[1];
        all_top[u] = high;
      }
      if (g == l.groups - 1) {
        o->stats[2 * u] = all_top[u];
        o->stats[2 * u + 1] = (float)((double)all_top[u] + natural_log(all_sum[u]));
        if (!(o->stats[2 * u + 1] - o->stats[2 * u + 1] == 0)) fail(&o->failure, FAIL_LOGITS, -1, u);
      }
    }
    end_turn(o, g);
  }
}

/* Gradient of n units from the layer above, transposed into the tile; size[t] is the sum of unit t's magnitudes. */
static void load_delta(const layer_t *o, const layout_t *l, int64_t first, int64_t n, float *z, double *size) {
  for (int64_t u = 0; u < l->Bp; u += LANES) { /* a few rows at a time: as many streams as the cache follows */
    int64_t here = smaller(LANES, larger(l->B - u, 0));
    const float *dz = o->dz + u * o->items + first;
    for (int64_t t = 0; t < n; t++) {
      for (int64_t i = 0; i < here; i++) z[t * l->ldz + u + i] = dz[i * o->items + t];
      for (int64_t i = here; i < LANES; i++) z[t * l->ldz + u + i] = 0;
    }
  }
  for (int64_t t = 0; t < n; t++) {
    vf sum = {0};
    for (int64_t u = 0; u < l->Bp; u += LANES) sum = sum + absolute(load(z + t * l->ldz + u));
    size[t] = sum_lanes(sum);
  }
}

/* Makes the gradient with respect to the logits of a tile; false if it or the loss is not finite. The bound keeps every gradient of a
 * weight finite: |dW| <= sum of |dz| times the largest |h| (for cosine logits times 1 / |w|). */
static int tile_delta(layer_t *o, const layout_t *l, int64_t first, int64_t n, float *mine, float *z, double most,
                      double *loss) {
  double total = 0, size[MAX_TILE];
  if (o->dz) {
    load_delta(o, l, first, n, z, size);
    if (l->pairs) narrow_delta(l, 0, n, z, mine + l->y);
  } else {
    const loss_scratch_t scratch = loss_scratch(l, mine + l->extra);
    total = any_tile_loss(o, l, first, n, z, l->pairs ? mine + l->y : 0, &scratch, mine + l->db, size);
  }
  for (int64_t t = 0; t < n; t++) {
    double bound = size[t] * most;
    if (o->temperature != 0 && mine[l->inverse + t] > 1) bound *= (double)mine[l->inverse + t];
    if (!(bound < 3e38)) {
      fail(&o->failure, FAIL_GRADIENT, o->sources ? o->source[0].weight.id : -1, first + t);
      return 0;
    }
  }
  if (!(total - total == 0)) {
    fail(&o->failure, FAIL_LOSS, -1, -1);
    return 0;
  }
  *loss += total;
  return 1;
}

/* The gradient of one item's weights, as a row over all sources: update, write out, or leave to scatter. */
static int item_update(layer_t *o, const layout_t *l, int64_t item, float inverse, float *dw, int64_t tied) {
  if (o->temperature != 0) { /* through the normalisation: (dw - w (w . dw)) / |w|, w normalised */
    const float *w = o->source[0].weight.value + item * l->K;
    float along = (float)dot(w, dw, l->K) * inverse;
    for (int64_t k = 0; k < l->K; k++) dw[k] = (dw[k] - along * (w[k] * inverse)) * inverse;
  }
  for (int32_t s = 0; s < o->sources; s++) {
    const weights_t *weight = &o->source[s].weight;
    if (tied >= 0) {
      memcpy(o->tied_gradient + tied * weight->columns, dw, weight->columns * 4);
    } else if (apply_gradient(weight, &o->optimizer, item * weight->columns, dw, weight->columns)) {
      fail(&o->failure, FAIL_WEIGHT, weight->id, item);
      return 0;
    }
    dw += weight->columns;
  }
  return 1;
}

/* What the update of the items from this one on will read. */
static fetch_t update_reads(const layer_t *o, const layout_t *l, int64_t item) {
  const weights_t *w = &o->source[0].weight;
  fetch_t reads = {{w->value + item * l->K}, l->K};
  if (w->state0) reads.first[1] = w->state0 + item * l->K;
  if (w->state1) reads.first[2] = w->state1 + item * l->K;
  return reads;
}

static int tile_update(layer_t *o, const layout_t *l, int64_t first, int64_t n, float *mine, const float *z) {
  const float *rows = o->workspace + l->rows;
  float *dw = mine + l->dw;
  int64_t at = o->tied_count > 0 ? lower_bound(o->tied_items, o->tied_count, first) : 0;
  int wanted = 0;
  for (int32_t s = 0; s < o->sources; s++) wanted |= !o->source[s].weight.locked;
  for (int64_t t = 0; t < n && wanted; t += TILE_ROWS) {
    int64_t strip = smaller(TILE_ROWS, n - t);
    const fetch_t reads = update_reads(o, l, first + t);
    product_rows(l->pairs, z + t * l->ldz, l->ldz, rows, l->pairs ? l->Bp / 2 : l->Bp, l->Bw, dw, l->ldh, strip, l->Kp,
                 o->sources == 1 ? &reads : 0);
    for (int64_t i = 0; i < strip; i++) {
      int64_t item = first + t + i, tied = -1;
      if (at < o->tied_count && o->tied_items[at] == item) tied = at++;
      if (!item_update(o, l, item, mine[l->inverse + t + i], dw + i * l->ldh, tied)) return 0;
    }
  }
  if (o->bias.value && !o->dz && apply_gradient(&o->bias, &o->optimizer, first, mine + l->db, n)) {
    fail(&o->failure, FAIL_WEIGHT, o->bias.id, -1);
    return 0;
  }
  return 1;
}

/* Third round (second without statistics): loss, gradients, update, tile by tile. */
static void output_step(layer_t *o, int32_t worker) {
  const layout_t l = layout(o);
  float *ws = o->workspace, *mine = ws + l.worker + worker * l.worker_size, *partial = mine + l.partial;
  double most = 0;
  int wanted = 0;
  for (int32_t i = 0; i < o->workers; i++) {
    float m = ws[l.most + i * 16];
    most = m > most || m != m ? m : most;
  }
  for (int32_t s = 0; s < o->sources; s++) wanted |= o->source[s].dh != 0;
  take_stats(o, &l, loss_scratch(&l, mine + l.extra).lse);
  for (int64_t g; (g = take(&o->next)) < l.groups;) {
    double loss = 0;
    if (wanted) memset(partial, 0, l.Bp * l.Kp * 4);
    for (int64_t tile = group_start(&l, g); tile < group_start(&l, g + 1); tile++) {
      int64_t first = tile * l.tile, n = smaller(l.tile, o->items - first);
      if (failed(&o->failure)) return;
      load_tile(o, &l, first, n, mine);
      float *z = logits_of(o, &l, tile, mine);
      if (!o->dz && tile >= l.reused_tiles) tile_logits(o, &l, first, n, mine, z);
      if (!tile_delta(o, &l, first, n, mine, z, most, &loss)) return;
      if (o->addend) leave_delta(o, &l, first, n, z);
      if (wanted)
        product_transposed(l.pairs, l.pairs ? mine + l.y : z, l.ldz, mine + l.v, l.pairs ? l.tile / 2 : l.tile,
                           l.pairs ? (n + 1) / 2 : n, partial, l.Bp, l.B, l.Kp);
      if (!tile_update(o, &l, first, n, mine, z)) return;
    }
    if (!wait_turn(o, g)) return;
    o->loss_sum += loss;
    if (wanted) {
      float *dh = ws + l.dh;
      if (g == 0)
        memcpy(dh, partial, l.Bp * l.Kp * 4);
      else
        for (int64_t i = 0; i < l.Bp * l.Kp; i += LANES) store(dh + i, load(dh + i) + load(partial + i));
    }
    end_turn(o, g);
  }
}

/* Last round: hands dh to the sources; through the normalisation for cosine logits, where rows hold q = h / (|h| T):
 * dh = (dq / T - T q (q . dq)) / |h|. */
static void output_finish(layer_t *o, int32_t worker) {
  const layout_t l = layout(o);
  float *ws = o->workspace, *row = ws + l.worker + worker * l.worker_size + l.dw;
  for (int64_t u = l.B * worker / o->workers; u < l.B * (worker + 1) / o->workers; u++) {
    float *d = row;
    row_of_panels(ws + l.dh, l.Kp, u, l.Bp, d);
    if (o->temperature != 0) {
      const float *h = o->source[0].h + u * l.K;
      float inverse = ws[l.norm + u], scale = ws[l.scale + u], sharp = 1 / o->temperature;
      float back = (float)dot(h, d, l.K) * scale * o->temperature;
      for (int64_t k = 0; k < l.K; k++) d[k] = (d[k] * sharp - back * (h[k] * scale)) * inverse;
    }
    for (int32_t s = 0; s < o->sources; s++) {
      int64_t n = o->source[s].weight.columns;
      float *out = o->source[s].dh;
      if (out) {
        out += u * n;
        for (int64_t k = 0; k < n; k++) out[k] = o->source[s].accumulate ? out[k] + d[k] : d[k];
      }
      d += n;
    }
  }
}
