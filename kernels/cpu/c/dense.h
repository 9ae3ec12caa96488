/* dense.h: a dense layer forward. */

/* out[B, units] (+)= in W': the output layer's first product, stored back by rows, then the epilogue. */
static void dense_forward(layer_t *o, int32_t worker) {
  const layout_t l = layout(o);
  float *ws = o->workspace, *mine = ws + l.worker + worker * l.worker_size, *z = mine + l.z;
  for (int64_t tile; (tile = take(&o->next)) < l.tiles;) {
    int64_t first = tile * l.tile, n = smaller(l.tile, o->items - first);
    load_tile(o, &l, first, n, mine);
    product_panels(l.pairs, mine + l.w, l.tile * PANEL, ws + l.panels, l.Kw, z, l.ldz, n, l.Bp);
    for (int64_t u = 0; u < l.B; u++) {
      float *out = o->out + u * o->items + first;
      for (int64_t t = 0; t < n; t++) out[t] = o->accumulate ? out[t] + z[t * l.ldz + u] : z[t * l.ldz + u];
      if (o->has_epilogue) finish_row(&o->epilogue, u, first, n, out);
    }
  }
}
