/* written.h: the update of a whole weight from a gradient that was written before. Bound by memory. */

/* Workers take blocks of rows. */
static void update_written(update_t *u, UNUSED int32_t worker) {
  const weights_t *w = &u->weight;
  const int64_t K = w->columns, size = update_block(w->rows);
  const float decay = decay_of(w, &u->optimizer);
  for (span_t rows = {0}; !failed(&u->failure) && next_block(&rows, &u->next, size, w->rows);) {
    for (int64_t row = rows.from; row < rows.end; row++) {
      const int64_t at = row * K;
      const float *g = u->gradient + at;
      if (any_not_finite(g, K)) {
        fail(&u->failure, FAIL_GRADIENT, w->id, row);
        return;
      }
      if (update_any(&u->optimizer, decay, 0, 0, g, w->value + at, w->state0 ? w->state0 + at : 0,
                     w->state1 ? w->state1 + at : 0, K, 0)) {
        fail(&u->failure, FAIL_WEIGHT, w->id, row);
        return;
      }
    }
  }
}
