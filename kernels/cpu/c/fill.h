/* fill.h: initial weights, the same bits as internal/random's. Uniform numbers are bound by memory, whose pages are taken
 * here for the first time; normal ones by the arithmetic of the transform. */

typedef int64_t vl8 __attribute__((vector_size(64)));
typedef uint32_t vu8 __attribute__((vector_size(32)));
typedef uint32_t vu8_any __attribute__((vector_size(32), aligned(4), may_alias));

/* ln x of positive normal numbers; internal/random's logarithm, operation by operation. */
INLINE vd8 logarithm8(vd8 x) {
  vl8 bits = (vl8)x;
  vd8 fraction = (vd8)((bits & 0xfffffffffffff) | (vl8)(0.5 - (vd8){0}));
  vl8 low_half = fraction < 0.70710678118654752440;
  vd8 k = __builtin_convertvector((bits >> 52) - 1022 + low_half, vd8);
  fraction += (vd8)((vl8)fraction & low_half);
  vd8 f = fraction - 1.0, s = f / (2.0 + f), s2 = s * s, s4 = s2 * s2;
  vd8 odd = 1.479819860510858591e-01 * s4 + 1.818357216161805012e-01;
  odd = odd * s4 + 2.857142874366239149e-01;
  odd = s2 * (odd * s4 + 6.666666666666735130e-01);
  vd8 even = 1.531383769920937332e-01 * s4 + 2.222219843214978396e-01;
  even = s4 * (even * s4 + 3.999999999940941908e-01);
  vd8 half = 0.5 * f * f, small = s * (half + (odd + even)) + k * 1.90821492927058770002e-10;
  return k * 6.93147180369123816490e-01 - ((half - small) - f);
}

/* Sine and cosine of x from 0 to 2 pi; internal/random's sineAndCosine, operation by operation. */
INLINE void sine_cosine8(vd8 x, vd8 *sine, vd8 *cosine) {
  vl8 octant = __builtin_convertvector(x * 1.2732395447351628, vl8);
  octant += octant & 1;
  vd8 y = __builtin_convertvector(octant, vd8);
  vd8 z = ((x - y * 7.85398125648498535156e-1) - y * 3.77489470793079817668e-8) - y * 2.69515142907905952645e-15;
  vd8 q = z * z;
  vd8 c = -1.13585365213876817300e-11 * q + 2.08757008419747316778e-9;
  c = c * q + -2.75573141792967388112e-7;
  c = c * q + 2.48015872888517045348e-5;
  c = c * q + -1.38888888888730564116e-3;
  c = (1.0 - 0.5 * q) + (q * q) * (c * q + 4.16666666666665929218e-2);
  vd8 s = 1.58962301576546568060e-10 * q + -2.50507477628578072866e-8;
  s = s * q + 2.75573136213857245213e-6;
  s = s * q + -1.98412698295895385996e-4;
  s = s * q + 8.33333333332211858878e-3;
  s = z + (z * q) * (s * q + -1.66666666666666307295e-1);
  /* the octant is even: 2 and 6 swap the two; 4 and 6 negate the sine, 2 and 4 the cosine */
  vl8 swap = (octant & 2) != 0, sign = (vl8)(-0.0 - (vd8){0});
  *sine = (vd8)((((vl8)c & swap) | ((vl8)s & ~swap)) ^ (sign & ((octant & 4) != 0)));
  *cosine = (vd8)((((vl8)s & swap) | ((vl8)c & ~swap)) ^ (sign & (((octant + 2) & 4) != 0)));
}

/* Words to normal numbers, in place: x[0] and x[1] make pairs by Box and Muller's transform, x[2] and x[3] likewise. */
INLINE void normal_numbers(vu x[4], float deviation) {
  uint32_t first[2 * LANES], second[2 * LANES];
  float out[2][2 * LANES];
  store((float *)first, (vf)x[0]), store((float *)(first + LANES), (vf)x[2]);
  store((float *)second, (vf)x[1]), store((float *)(second + LANES), (vf)x[3]);
  for (int i = 0; i < 2 * LANES; i += 8) {
    vd8 a = __builtin_convertvector(*(vu8_any *)(first + i), vd8), sine, cosine;
    vd8 b = __builtin_convertvector(*(vu8_any *)(second + i), vd8);
    vd8 radius = -2.0 * logarithm8((a + 1.0) * 0x1p-32);
    for (int j = 0; j < 8; j++) radius[j] = sqrt(radius[j]);
    sine_cosine8(6.283185307179586 * b * 0x1p-32, &sine, &cosine);
    *(vf8_any *)(out[0] + i) = __builtin_convertvector(0.0 + (double)deviation * (radius * cosine), vf8);
    *(vf8_any *)(out[1] + i) = __builtin_convertvector(0.0 + (double)deviation * (radius * sine), vf8);
  }
  x[0] = (vu)load(out[0]), x[1] = (vu)load(out[1]);
  x[2] = (vu)load(out[0] + LANES), x[3] = (vu)load(out[1] + LANES);
}

/* FILL(word) { ... } makes the numbers x of a row from a column on. */
#define FILL(word) INLINE void fill_##word(const fill_t *f, UNUSED int64_t row, UNUSED int64_t column, vf x[4])

FILL(constant) {
  for (int v = 0; v < 4; v++) x[v] = splat(f->scale);
}

FILL(uniform) {
  const vf low = splat(-f->scale), span = splat(f->scale - -f->scale);
  vu words[4];
  philox(f->seed, column, row, 0, f->stream, words);
  transpose_fours(words);
  for (int v = 0; v < 4; v++) x[v] = low + span * (uniform_24(words[v]) * 0x1p-24f);
}

FILL(normal) {
  vu words[4];
  philox(f->seed, column, row, 0, f->stream, words);
  normal_numbers(words, f->scale);
  transpose_fours(words);
  for (int v = 0; v < 4; v++) x[v] = (vf)words[v];
}

INLINE void fill_numbers(const fill_t *f, int64_t row, int64_t column, vf x[4]) {
  switch (f->kind) { FILLS(CASE_BY_WORD, FILL, fill_, f, row, column, x) }
  __builtin_unreachable();
}

static void fill_row(const fill_t *f, int64_t row) {
  float *out = f->out + row * f->columns;
  for (int64_t column = 0; column < f->columns; column += PHILOX_COLUMNS) {
    vf x[4];
    fill_numbers(f, row, column, x);
    for (int64_t v = 0; v < 4 && column + v * LANES < f->columns; v++)
      store_some(out + column + v * LANES, x[v], f->columns - column - v * LANES);
  }
}

enum { FILL_BYTES = 2 << 20 /* a block; a huge page is then taken by one worker */ };

static void fill(fill_t *f, UNUSED int32_t worker) {
  const int64_t size = larger(1, FILL_BYTES / (4 * larger(f->columns, 1)));
  for (int64_t block; (block = take(&f->next)) * size < f->rows;)
    for (int64_t row = block * size; row < smaller(f->rows, (block + 1) * size); row++) fill_row(f, row);
}
