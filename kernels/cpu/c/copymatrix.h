/* copymatrix.h: a copy of a matrix, or a sum of two. Formula: kernels/copymatrix.go. Bound by the memory. Workers take
 * blocks of rows; where the matrix is transposed, a row of the input has the numbers of a block side by side. */

enum { COPY_ROWS = 16 };

static void copy_matrix(copy_matrix_t *o, UNUSED int32_t worker) {
  const int64_t columns = o->columns;
  for (int64_t block; (block = take(&o->next)) * COPY_ROWS < o->rows;) {
    const int64_t from = block * COPY_ROWS, rows = smaller(COPY_ROWS, o->rows - from);
    float *out = o->out + from * columns;
    if (o->transposed) {
      for (int64_t j = 0; j < columns; j++) {
        const float *in = o->in + j * o->rows + from;
        for (int64_t i = 0; i < rows; i++) out[i * columns + j] = o->accumulate ? out[i * columns + j] + in[i] : in[i];
      }
      continue;
    }
    const float *in = o->in + from * columns;
    if (!o->accumulate)
      memcpy(out, in, rows * columns * 4);
    else
      for (int64_t k = 0; k < rows * columns; k++) out[k] += in[k];
  }
}
