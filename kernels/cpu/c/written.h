/* written.h: the update of a whole weight from a gradient that was written before. Bound by memory. */

/* Workers take blocks of rows. */
static void update_written(update_t *u, UNUSED int32_t worker) {
  const weights_t *w = &u->weight;
  const int64_t K = w->columns, size = update_block(w->rows);
  for (span_t rows = {0}; !failed(&u->failure) && next_block(&rows, &u->next, size, w->rows);) {
    for (int64_t row = rows.from; row < rows.end; row++) {
      if (any_not_finite(u->gradient + row * K, K)) {
        fail(&u->failure, FAIL_GRADIENT, w->id, row);
        return;
      }
      if (apply_gradient(w, &u->optimizer, row * K, u->gradient + row * K, K)) {
        fail(&u->failure, FAIL_WEIGHT, w->id, row);
        return;
      }
    }
  }
}
