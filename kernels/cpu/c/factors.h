/* factors.h: models of factors by least squares, kernels.LeastSquares and kernels.PrincipalAxes. */

/* ---- rows of factors, kernels.LeastSquares ----
 *
 * Where F'F is diagonal, all but the n stored entries of a row weigh a diagonal matrix D, and w minimizes
 *
 *   sum over the stored j of c_j (f_j w - t_j)^2 + w' D w.
 *
 * With S = D^-1/2, the rows p_j = sqrt(c_j) S f_j of P, and q_j = sqrt(c_j) t_j, the solution is
 *
 *   w = S z   where   (I + P'P) z = P'q   or, which is the same,   z = P'y   where   (I + PP') y = q.
 *
 * A worker has a row at a time, and solves the smaller of the two systems: n^2 W / 2 + n^3 / 6 multiply-adds for rows with
 * fewer entries than there are unknowns, where the first takes n W^2 / 2 + W^3 / 6. Neither matrix has an eigenvalue below 1.
 *
 * Traffic: 4 W bytes for each entry, from random places. */

/* The lanes of four vectors added up. */
typedef float vf4 __attribute__((vector_size(16)));
typedef float vf4_any __attribute__((vector_size(16), aligned(4), may_alias));

INLINE vf4 add_quarters(vf x) {
#if LANES == 16
  vf8 y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
          __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(y, y, 0, 1, 2, 3) + __builtin_shufflevector(y, y, 4, 5, 6, 7);
#elif LANES == 8
  return __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
  return x;
#endif
}

INLINE vf4 add_lanes(vf w, vf x, vf y, vf z) {
  vf4 a = add_quarters(w), b = add_quarters(x), c = add_quarters(y), d = add_quarters(z);
  vf4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  vf4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

enum { DOT_ROWS = LANES == 16 ? 4 : 2 };

/* The upper triangle of PP' for n rows of P; what stands behind them, up to a multiple of four rows, may be anything. */
static void add_up_dots(const float *p, int64_t n, int64_t columns, float *out, int64_t stride) {
  for (int64_t i = 0; i < n; i += DOT_ROWS)
    for (int64_t j = i / 4 * 4; j < n; j += 4) {
      vf sum[DOT_ROWS][4];
#pragma GCC unroll 4
      for (int r = 0; r < DOT_ROWS; r++) sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = splat(0);
      for (int64_t k = 0; k < columns; k += LANES) {
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
          const vf b = load(p + (j + c) * columns + k);
#pragma GCC unroll 4
          for (int r = 0; r < DOT_ROWS; r++) sum[r][c] = fma_(load(p + (i + r) * columns + k), b, sum[r][c]);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < DOT_ROWS; r++)
        *(vf4_any *)(out + (i + r) * stride + j) = add_lanes(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    }
}

enum { ENTRIES_AHEAD = 32, TURNS = 4 /* rows that a worker takes at once */ };

/* Writes count rows of P and elements of q, for the entries from e on. */
INLINE void scaled_entries(const least_squares_t *l, int64_t e, int64_t count, const float *scale, int64_t stride,
                           float *p, float *q) {
  const int64_t width = l->width, whole = width / LANES * LANES, last = l->row_offsets[l->end];
  for (int64_t j = 0; j < count; j++, e++, p += stride) {
    const float *f = l->factors + l->indices[e] * width, x = l->values[e];
    if (e + ENTRIES_AHEAD < last) {
      const float *next = l->factors + l->indices[e + ENTRIES_AHEAD] * width;
      for (int64_t k = 0; k < width; k += LINE) __builtin_prefetch(next + k, 0, 2); /* to the second-level cache */
    }
    const float root = l->weight > 0 ? sqrtf(l->weight * x) : 1;
    q[j] = l->weight > 0 ? root : x - l->center - (l->offsets ? l->offsets[l->indices[e]] : 0);
    int64_t k = 0;
    for (; k < whole; k += LANES) store(p + k, root * load(f + k) * load(scale + k));
    if (k < width) store(p + k, root * load_some(f + k, width - k) * load(scale + k)), k += LANES;
    for (; k < stride; k += LANES) store(p + k, splat(0));
    if (l->offsets) p[width] = scale[width];
  }
}

/* z += P'y. */
INLINE void add_weighted(const float *p, const float *y, int64_t rows, int64_t stride, float *z) {
  enum { WIDE = 4 };
  int64_t k = 0;
  for (; k + WIDE * LANES <= stride; k += WIDE * LANES) {
    vf sum[WIDE];
    for (int v = 0; v < WIDE; v++) sum[v] = load(z + k + v * LANES);
    for (int64_t j = 0; j < rows; j++)
      for (int v = 0; v < WIDE; v++) sum[v] = fma_(splat(y[j]), load(p + j * stride + k + v * LANES), sum[v]);
    for (int v = 0; v < WIDE; v++) store(z + k + v * LANES, sum[v]);
  }
  for (; k < stride; k += LANES) {
    vf sum = load(z + k);
    for (int64_t j = 0; j < rows; j++) sum = fma_(splat(y[j]), load(p + j * stride + k), sum);
    store(z + k, sum);
  }
}

/* Finds z of a row with n entries from e on; 0 if that fails. */
static int solve_row(const least_squares_t *l, int64_t e, int64_t n, int64_t unknowns, const float *scale, float *z,
                     float *workspace) {
  const int64_t stride = CHOLESKY_STRIDE(unknowns), block = larger(stride, LEAST_SQUARES_BLOCK);
  float *a = workspace, *p = a + stride * stride, *q = p + block * stride, *reciprocals = q + block;
  memset(z, 0, stride * sizeof *z);
  if (n <= unknowns) {
    const int64_t square = CHOLESKY_STRIDE(n);
    scaled_entries(l, e, n, scale, stride, p, q);
    add_up_dots(p, n, stride, a, square);
    for (int64_t i = 0; i < n; i++) a[i * square + i] += 1;
    if (!cholesky(a, n, reciprocals)) return 0;
    cholesky_solve(a, n, reciprocals, q);
    add_weighted(p, q, n, stride, z);
    return 1;
  }
  memset(a, 0, stride * stride * sizeof *a);
  for (int64_t i = 0; i < unknowns; i++) a[i * stride + i] = 1;
  for (int64_t done = 0, count; done < n; done += count) {
    count = smaller(n - done, LEAST_SQUARES_BLOCK);
    scaled_entries(l, e + done, count, scale, stride, p, q);
    add_gram(a, p, stride, count);
    add_weighted(p, q, count, stride, z);
  }
  if (!cholesky(a, unknowns, reciprocals)) return 0;
  cholesky_solve(a, unknowns, reciprocals, z);
  return 1;
}

static void least_squares(least_squares_t *l, int32_t worker) {
  const int64_t width = l->width, unknowns = width + (l->offsets != NULL), stride = CHOLESKY_STRIDE(unknowns);
  float *scale = l->workspace + worker * LEAST_SQUARES_WORKSPACE(unknowns), *z = scale + stride;
  for (int64_t first; (first = l->first + TURNS * take(&l->next)) < l->end && !failed(&l->failure);)
    for (int64_t row = first; row < smaller(first + TURNS, l->end); row++) {
      const int64_t e = l->row_offsets[row], n = l->row_offsets[row + 1] - e;
      float *out = l->out + row * width;
      if (n == 0) {
        memset(out, 0, width * sizeof *out);
        if (l->bias) l->bias[row] = 0;
        continue;
      }
      const float ridge = l->ridge[row - l->first];
      for (int64_t k = 0; k < stride; k += LANES) {
        const vf d = l->squares && k < width ? l->unobserved * load_some(l->squares + k, width - k) : splat(0);
        store(scale + k, 1.0f / square_root(d + ridge));
      }
      const int solved = solve_row(l, e, n, unknowns, scale, z, z + stride);
      vi bad = {0};
      for (int64_t k = 0; k < stride; k += LANES) {
        const vf w = load(scale + k) * load(z + k);
        store(z + k, w);
        bad |= residue(w);
      }
      if (!solved || any(not_finite(bad))) fail(&l->failure, FAIL_SOLUTION, -1, row);
      memcpy(out, z, width * sizeof *out);
      if (l->bias) l->bias[row] = z[width];
    }
}

/* ---- F'F made diagonal, kernels.PrincipalAxes ----
 *
 * F'F is added up by groups of rows. Its eigenvectors are found in float64 by one worker, by Householder's reflections to a
 * tridiagonal matrix and QR steps with Wilkinson's shift (Golub and Van Loan, Matrix Computations, 8.3); then all workers
 * multiply rows of F by them. */

/* The workspace of PrincipalAxes, in parts: sums of the groups, then eigenvectors in panels; doubles; rows of workers. */
typedef struct {
  int64_t stride, groups;
  float *sums, *rows;
  double *matrix, *vectors, *diagonal, *beside, *sum;
} axes_parts_t;

INLINE axes_parts_t axes_parts(const axes_t *x) {
  const int64_t stride = AXES_STRIDE(x->width), square = stride * stride;
  axes_parts_t p = {.stride = stride, .groups = AXES_GROUPS(x->rows), .sums = x->workspace};
  p.matrix = (double *)(p.sums + p.groups * square), p.vectors = p.matrix + square;
  p.diagonal = p.vectors + square, p.beside = p.diagonal + stride, p.sum = p.beside + stride;
  p.rows = (float *)(p.sum + stride);
  return p;
}

static void axes_sum(axes_t *x, int32_t worker) {
  const axes_parts_t p = axes_parts(x);
  float *rows = p.rows + worker * 2 * AXES_ROWS * p.stride;
  for (int64_t g; (g = take(&x->next_group)) < p.groups;) {
    float *sum = p.sums + g * p.stride * p.stride;
    memset(sum, 0, p.stride * p.stride * sizeof *sum);
    const int64_t end = x->rows * (g + 1) / p.groups;
    for (int64_t row = x->rows * g / p.groups, count; row < end; row += count) {
      count = smaller(end - row, AXES_ROWS);
      for (int64_t r = 0; r < count; r++) {
        memcpy(rows + r * p.stride, x->factors + (row + r) * x->width, x->width * sizeof *rows);
        memset(rows + r * p.stride + x->width, 0, (p.stride - x->width) * sizeof *rows);
      }
      add_gram(sum, rows, p.stride, count);
    }
  }
}

/* y += a x. */
INLINE void add_multiple(double *restrict y, double a, const double *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* Reflects A to a tridiagonal matrix with that diagonal and what is beside it; the rows of V become its basis, V A V'. */
static void tridiagonal(double *a, double *v, int64_t n, int64_t stride, double *diagonal, double *beside,
                        double *sum) {
  for (int64_t k = 0; k < n; k++) {
    double *u = a + k * stride,
           square = 0; /* of u, which begins behind the diagonal and becomes the reflection's vector */
    diagonal[k] = u[k];
    for (int64_t i = k + 1; i < n; i++) square += u[i] * u[i];
    const double first = k + 1 < n ? u[k + 1] : 0, length = first > 0 ? -sqrt(square) : sqrt(square);
    const double half = square - length * first; /* |u|^2 / 2 */
    beside[k] = length, u[k] = half;
    if (!(half > 0)) continue;
    u[k + 1] = first - length;
    double along = 0;
    memset(sum + k + 1, 0, (n - k - 1) * sizeof *sum);
    for (int64_t i = k + 1; i < n; i++) add_multiple(sum + k + 1, u[i] / half, a + i * stride + k + 1, n - k - 1);
    for (int64_t i = k + 1; i < n; i++) along += sum[i] * u[i];
    add_multiple(sum + k + 1, -along / (2 * half), u + k + 1, n - k - 1);
    for (int64_t i = k + 1; i < n; i++) {
      add_multiple(a + i * stride + k + 1, -u[i], sum + k + 1, n - k - 1);
      add_multiple(a + i * stride + k + 1, -sum[i], u + k + 1, n - k - 1);
    }
  }
  for (int64_t i = 0; i < n; i++) {
    memset(v + i * stride, 0, n * sizeof *v);
    v[i * stride + i] = 1;
  }
  /* The product of the reflections, from the last to the first; its columns are the basis. */
  for (int64_t k = n - 1; k-- > 0;) {
    const double *u = a + k * stride, half = u[k];
    if (!(half > 0)) continue;
    memset(sum + k + 1, 0, (n - k - 1) * sizeof *sum);
    for (int64_t i = k + 1; i < n; i++) add_multiple(sum + k + 1, u[i] / half, v + i * stride + k + 1, n - k - 1);
    for (int64_t i = k + 1; i < n; i++) add_multiple(v + i * stride + k + 1, -u[i], sum + k + 1, n - k - 1);
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      const double x = v[i * stride + j];
      v[i * stride + j] = v[j * stride + i], v[j * stride + i] = x;
    }
}

/* A QR step on rows low .. high of a tridiagonal matrix, of which no element beside the diagonal is 0. */
static void qr_step(double *d, double *beside, double *v, int64_t n, int64_t stride, int64_t low, int64_t high) {
  const double e = beside[high - 1], half = (d[high - 1] - d[high]) / 2, root = sqrt(half * half + e * e);
  double x = d[low] - (d[high] - e * e / (half + (half < 0 ? -root : root))), z = beside[low];
  for (int64_t k = low; k < high; k++) {
    const double r = sqrt(x * x + z * z), c = r > 0 ? x / r : 1, s = r > 0 ? z / r : 0;
    const double above = d[k], below = d[k + 1], between = beside[k], twice = 2 * c * s * between;
    if (k > low) beside[k - 1] = r;
    d[k] = c * c * above + twice + s * s * below;
    d[k + 1] = s * s * above - twice + c * c * below;
    beside[k] = c * s * (below - above) + (c * c - s * s) * between;
    if (k + 1 < high) x = beside[k], z = s * beside[k + 1], beside[k + 1] *= c;
    double *restrict one = v + k * stride, *restrict other = one + stride;
    for (int64_t i = 0; i < n; i++) {
      const double y = one[i];
      one[i] = c * y + s * other[i], other[i] = c * other[i] - s * y;
    }
  }
}

/* The eigenvalues of a tridiagonal matrix on its diagonal, and its basis turned to the eigenvectors; 0 if the numbers are
 * not finite. */
static int eigenvectors(double *d, double *beside, double *v, int64_t n, int64_t stride) {
  int64_t steps = 0;
  for (int64_t high = n - 1; high > 0;) {
    int64_t low = high;
    for (; low > 0; low--)
      if (fabs(beside[low - 1]) <= 0x1p-52 * (fabs(d[low - 1]) + fabs(d[low]))) break;
    if (low == high) {
      high--;
    } else {
      if (++steps > 60 * n) return 0;
      qr_step(d, beside, v, n, stride, low, high);
    }
  }
  return 1;
}

static void axes_find(axes_t *x, int32_t worker) {
  (void)worker;
  if (take(&x->next_find)) return;
  const axes_parts_t p = axes_parts(x);
  const int64_t n = x->width;
  double bad = 0; /* or NaN */
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i; j < n; j++) {
      double sum = 0;
      for (int64_t g = 0; g < p.groups; g++) sum += (double)p.sums[(g * p.stride + i) * p.stride + j];
      p.matrix[i * p.stride + j] = p.matrix[j * p.stride + i] = sum;
      bad += 0 * sum;
    }
  if (bad == 0) tridiagonal(p.matrix, p.vectors, n, p.stride, p.diagonal, p.beside, p.sum);
  if (bad != 0 || !eigenvectors(p.diagonal, p.beside, p.vectors, n, p.stride)) {
    fail(&x->failure, FAIL_SOLUTION, -1, -1);
    return;
  }
  /* The largest first. */
  float *panels = p.sums;
  memset(panels, 0, p.stride * p.stride * sizeof *panels);
  for (int64_t to = 0; to < n; to++) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
      if (p.diagonal[i] > p.diagonal[best]) best = i;
    x->squares[to] = p.diagonal[best] > 0 ? (float)p.diagonal[best] : 0;
    p.diagonal[best] = -INFINITY;
    const double *from = p.vectors + best * p.stride;
    float *column = panels + to / PANEL * n * PANEL + to % PANEL;
    for (int64_t i = 0; i < n; i++) column[i * PANEL] = (float)from[i];
  }
}

static void axes_turn(axes_t *x, int32_t worker) {
  const axes_parts_t p = axes_parts(x);
  float *rows = p.rows + worker * 2 * AXES_ROWS * p.stride;
  if (failed(&x->failure)) return;
  for (int64_t row; (row = AXES_ROWS * take(&x->next_rows)) < x->rows;) {
    const int64_t count = smaller(x->rows - row, AXES_ROWS), width = x->width;
    float *f = x->factors + row * width;
    product_rows(0, f, width, p.sums, width, width, rows, p.stride, count, round_up(width, PANEL), NULL);
    for (int64_t r = 0; r < count; r++) memcpy(f + r * width, rows + r * p.stride, width * sizeof *f);
  }
}
