// Initial weights: the same bits as internal/random's. Integer arithmetic, then float32 or float64 operations in the same order;
// nothing is fused, because the kernels are compiled without contraction.
#include "normal.cuh"

struct FillArgs {
  float *out;  // [rows, columns]
  int64_t rows;
  int64_t columns;
  uint64_t seed;
  uint32_t stream;
  int32_t kind;  // FILL_<word>
  float scale;
};

// FILL(word) { ... } makes the numbers of four neighbouring columns.
#define FILL(word) DEVICE void fill_##word(const FillArgs &a, int64_t row, int64_t four, float (&value)[4])

FILL(constant) {
  for (int i = 0; i < 4; i++) value[i] = a.scale;
}

FILL(uniform) {
  const PhiloxWords x = philox(a.seed, uint32_t(four), uint32_t(row), 0, a.stream);
  for (int i = 0; i < 4; i++) value[i] = -a.scale + (a.scale - -a.scale) * uniform(x.word[i]);
}

FILL(normal) {
  const PhiloxWords x = philox(a.seed, uint32_t(four), uint32_t(row), 0, a.stream);
  normal_pair(x.word[0], x.word[1], a.scale, &value[0], &value[1]);
  normal_pair(x.word[2], x.word[3], a.scale, &value[2], &value[3]);
}

DEVICE void fill_numbers(const FillArgs &a, int64_t row, int64_t four, float (&value)[4]) {
  switch (a.kind) { FILLS(CASE_BY_WORD, FILL, fill_, a, row, four, value) }
  __builtin_unreachable();
}

// out[r][c] = s, -s + 2 s U, or s N, where U and N are Philox's uniform and normal numbers at step 0, place (r, c).
//
// Mapping: a thread makes four neighbouring columns, which share one run of Philox. Blocks of 256 walk the fours of all rows.
// Bytes: writes 4 a number and reads nothing. Uniform numbers are bound by that, normal ones by float64 arithmetic; both are
// needed once in a training run.
// Source: kernels/ops.go, Fill; generator: philox.cuh; logarithm: fdlibm's; sine and cosine: Cephes'.
KERNEL_BOUNDS(fill, FillArgs, 256, 1) {
  const int64_t fours = (a.columns + 3) / 4, all = a.rows * fours;
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += int64_t(gridDim.x) * blockDim.x) {
    const int64_t row = at / fours, four = at % fours;
    float value[4];
    fill_numbers(a, row, four, value);
    float *out = a.out + row * a.columns + 4 * four;
    for (int i = 0; i < 4 && 4 * four + i < a.columns; i++) out[i] = value[i];
  }
}
