/* merge.h: layers that compute with the values of other layers without weights, and the way back. Formulas:
 * kernels/merge.go. Bound by the caches, where the values and their gradients are. Workers take blocks of rows. */

/* A lane's larger number; the first if they are equal or one is none, as in the way back. */
INLINE vf larger_of(vf a, vf b) { return select_(b > a, b, a); }

static void merge_maximum(const merge_t *m, int64_t u) {
  for (int64_t k = 0; k < m->units; k += LANES) {
    const int64_t here = smaller(LANES, m->units - k);
    vf most = load_some(m->source[0].h + u * m->units + k, here);
    for (int32_t s = 1; s < m->sources; s++) most = larger_of(most, load_some(m->source[s].h + u * m->units + k, here));
    store_some(m->out + u * m->units + k, most, here);
  }
}

/* The product of the first source's row and another one's; lengths: the inverse of theirs, or 1 for a plain product. */
static double merge_pair(const merge_t *m, int32_t s, int64_t u, double lengths[2]) {
  const float *a = m->source[0].h + u * m->units, *b = m->source[s].h + u * m->units;
  lengths[0] = lengths[1] = 1;
  if (m->kind == MERGE_cosine) {
    const double aa = dot(a, a, m->units), bb = dot(b, b, m->units);
    if (aa == 0 || bb == 0) return lengths[0] = lengths[1] = 0;
    lengths[0] = 1 / sqrt(aa), lengths[1] = 1 / sqrt(bb);
  }
  return dot(a, b, m->units) * lengths[0] * lengths[1];
}

static void merge(merge_t *m, UNUSED int32_t worker) {
  double lengths[2];
  for (int64_t block; (block = take(&m->next)) * ACTIVATE_ROWS < m->rows;)
    for (int64_t u = block * ACTIVATE_ROWS; u < smaller((block + 1) * ACTIVATE_ROWS, m->rows); u++) {
      if (m->kind == MERGE_maximum)
        merge_maximum(m, u);
      else
        for (int32_t s = 1; s < m->sources; s++)
          m->out[u * (m->sources - 1) + s - 1] = (float)merge_pair(m, s, u, lengths);
    }
}

INLINE void merge_give(const merge_source_t *source, int64_t at, vf g, int add, int64_t here) {
  if (!source->dh) return;
  if (add) g = g + load_some(source->dh + at, here);
  store_some(source->dh + at, g, here);
}

static void merge_maximum_back(const merge_t *m, int64_t u) {
  for (int64_t k = 0; k < m->units; k += LANES) {
    const int64_t here = smaller(LANES, m->units - k), at = u * m->units + k;
    vf most = load_some(m->source[0].h + at, here), first = {0}, number = {0};
    for (int32_t s = 1; s < m->sources; s++) {
      const vf x = load_some(m->source[s].h + at, here);
      number = number + 1.0f;
      first = select_(x > most, number, first);
      most = larger_of(most, x);
    }
    const vf g = load_some(m->dout + at, here), none = {0};
    number = none;
    for (int32_t s = 0; s < m->sources; s++, number = number + 1.0f)
      merge_give(m->source + s, at, select_(first == number, g, none), m->source[s].accumulate, here);
  }
}

static void merge_pair_back(const merge_t *m, int32_t s, int64_t u) {
  double lengths[2];
  const double value = merge_pair(m, s, u, lengths), g = (double)m->dout[u * (m->sources - 1) + s - 1];
  const float *a = m->source[0].h + u * m->units, *b = m->source[s].h + u * m->units;
  const int cosine = m->kind == MERGE_cosine;
  /* da = across b - along[0] a, db = across a - along[1] b */
  const double across = g * lengths[0] * lengths[1];
  const double along[2] = {cosine ? g * value * lengths[0] * lengths[0] : 0,
                           cosine ? g * value * lengths[1] * lengths[1] : 0};
  float *da = m->source[0].dh, *db = m->source[s].dh;
  const int add_a = m->source[0].accumulate || s > 1, add_b = m->source[s].accumulate;
  for (int64_t k = 0; k < m->units; k++) {
    const int64_t at = u * m->units + k;
    const double x = (double)a[k], y = (double)b[k];
    if (da) da[at] = (float)(across * y - along[0] * x) + (add_a ? da[at] : 0);
    if (db) db[at] = (float)(across * x - along[1] * y) + (add_b ? db[at] : 0);
  }
}

static void merge_backward(merge_t *m, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&m->next)) * ACTIVATE_ROWS < m->rows;)
    for (int64_t u = block * ACTIVATE_ROWS; u < smaller((block + 1) * ACTIVATE_ROWS, m->rows); u++) {
      if (m->kind == MERGE_maximum)
        merge_maximum_back(m, u);
      else
        for (int32_t s = 1; s < m->sources; s++) merge_pair_back(m, s, u);
    }
}

static void skip(skip_t *o, UNUSED int32_t worker) {
  for (int64_t block; (block = take(&o->next)) * ACTIVATE_ROWS < o->rows;)
    for (int64_t u = block * ACTIVATE_ROWS; u < smaller((block + 1) * ACTIVATE_ROWS, o->rows); u++) {
      const float *in = o->in + u * o->stride + o->first;
      float *out = o->out + u * o->units;
      if (!o->accumulate)
        memcpy(out, in, o->units * 4);
      else
        for (int64_t k = 0; k < o->units; k++) out[k] += in[k];
    }
}
