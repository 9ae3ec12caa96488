/* restricted.h: rows of the inverse of a matrix that each item sees a part of, kernels.RestrictedInverse. A worker has an
 * item at a time: it collects the item's part of the matrix from the lists of the part's items, and solves it.
 *
 * Collecting takes a lookup for each of N^2 entries of lists, in an array with a place for every item; solving takes
 * N^3 / 6 multiply-adds. */

/* The part of the matrix for the items of a list, with what is beside the diagonal times shrunk. */
static void collect(const restricted_t *r, const int32_t *members, int64_t n, const int32_t *place, float shrunk,
                    float *a) {
  const int64_t stride = CHOLESKY_STRIDE(n);
  memset(a, 0, n * stride * sizeof *a);
  for (int64_t row = 0; row < n; row++) {
    const int32_t *ids = r->ids + members[row] * r->neighbors;
    const float *values = r->values + members[row] * r->neighbors;
    for (int64_t e = 0; e < r->neighbors && ids[e] >= 0; e++) {
      const int64_t column = place[ids[e]];
      if (column < 0 || column == row) continue;
      const float value = values[e] * shrunk;
      a[smaller(row, column) * stride + larger(row, column)] = value;
    }
    a[row * stride + row] = 1;
  }
}

static void restricted_inverse(restricted_t *r, int32_t worker) {
  const int64_t most = r->neighbors + 1, stride = CHOLESKY_STRIDE(most);
  float *a = r->workspace + worker * RESTRICTED_WORKSPACE(r->items, r->neighbors);
  float *x = a + most * stride + 16 * stride, *reciprocals = x + stride;
  int32_t *members = (int32_t *)(reciprocals + stride), *place = members + stride;
  memset(place, 0xff, r->items * sizeof *place);
  for (int64_t j; (j = r->first + take(&r->next)) < r->end;) {
    int64_t n = 0;
    for (const int32_t *ids = r->ids + j * r->neighbors; n < r->neighbors && ids[n] >= 0; n++) members[n] = ids[n];
    members[n++] = (int32_t)j;
    for (int64_t i = 0; i < n; i++) place[members[i]] = (int32_t)i;
    /* Entries that no list has may make the part indefinite; with the others halved often enough it is not. */
    float shrunk = 1;
    do {
      collect(r, members, n, place, shrunk, a);
      shrunk /= 2;
    } while (!cholesky(a, n, reciprocals) && shrunk > 0);
    memset(x, 0, stride * sizeof *x);
    x[n - 1] = 1;
    cholesky_solve(a, n, reciprocals, x);
    float *weights = r->weights + j * r->neighbors;
    for (int64_t i = 0; i < r->neighbors; i++) weights[i] = i < n - 1 ? -r->factors[members[i]] * x[i] / x[n - 1] : 0;
    for (int64_t i = 0; i < n; i++) place[members[i]] = -1;
  }
}
