/* neighborhood.h: the items that occur most often beside an item, kernels.Neighborhood. A worker has an item at a time: it
 * adds up the rows that have the item, in an array with a place for every item, and notes which places are no longer 0.
 *
 * Traffic: 16 bytes for each pair of entries of a row, most of which hit the array in the second-level cache. */

INLINE double similarity(const neighborhood_t *n, int64_t i, int64_t j, double c) {
  const double under = n->product * n->norms[i] * n->norms[j] + n->sum * (n->norms[i] + n->norms[j]);
  return c * n->left[i] * n->right[j] / (under - n->shared * c + n->constant);
}

/* Adds c of an item to its place in the list of the nearest. */
INLINE void consider(const neighborhood_t *n, int64_t i, int32_t j, double c, float *list, int32_t *ids,
                     int32_t *count) {
  if (c == 0 || j == i) return;
  const float s = (float)similarity(n, i, j, c);
  if (s == s && s != 0) heap_add(list, ids, count, n->k, s, j);
}

/* A list by item: Shell's method, which takes about n^1.3 moves. */
static void sort_by_item(float *list, int32_t *ids, int64_t count) {
  for (int64_t gap = count / 2; gap > 0; gap = gap > 2 ? gap * 5 / 11 : gap / 2)
    for (int64_t at = gap; at < count; at++) {
      const float s = list[at];
      const int32_t id = ids[at];
      int64_t to = at;
      for (; to >= gap && ids[to - gap] > id; to -= gap) list[to] = list[to - gap], ids[to] = ids[to - gap];
      list[to] = s, ids[to] = id;
    }
}

static void neighborhood(neighborhood_t *n, int32_t worker) {
  const int64_t items = n->by_item.rows;
  double *sum = (double *)n->workspace + worker * NEIGHBORHOOD_WORKSPACE(items) / 2;
  int32_t *touched = (int32_t *)(sum + items);
  memset(sum, 0, items * sizeof *sum);
  for (int64_t i; (i = n->first + take(&n->next)) < n->end;) {
    /* A sum that returns to 0 is noted again when it leaves it, so there may be more notes than items. */
    int64_t notes = 0;
    for (int64_t e = n->by_item.offsets[i]; e < n->by_item.offsets[i + 1]; e++) {
      const int64_t u = n->by_item.indices[e];
      const double a = (double)n->by_item.values[e] * n->row_weights[u];
      for (int64_t f = n->by_row.offsets[u]; f < n->by_row.offsets[u + 1]; f++) {
        const int32_t j = n->by_row.indices[f];
        if (sum[j] == 0 && notes++ < items) touched[notes - 1] = j;
        sum[j] += a * (double)n->by_row.values[f];
      }
    }
    float *list = n->similarities + i * n->k;
    int32_t *ids = n->ids + i * n->k, count = 0;
    for (int64_t at = 0; at < smaller(notes, items); at++) {
      const int32_t j = notes <= items ? touched[at] : (int32_t)at;
      consider(n, i, j, sum[j], list, ids, &count);
      sum[j] = 0;
    }
    sort_by_item(list, ids, count);
    for (int64_t at = count; at < n->k; at++) list[at] = 0, ids[at] = -1;
  }
}
