// The arithmetic of the wrappers in device.cuh: conversions, and products of a warp. The sums of a product are float32,
// k in rising order; or they are cut off as in tensorcore.h.
#include <cstring>

#include "engine.h"
#include "tensorcore.h"

namespace emulator {

bool truncates = false;

uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint32_t to_tf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffffff;
  if ((bits & 0x7f800000) == 0x7f800000) return bits;
  return (bits + 0x1000) & ~0x1fffu;
}

namespace {

struct Product {
  float *d;
  const uint32_t *a, *b;
};

float number(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
float low(uint32_t pair) { return number(pair << 16); }
float high(uint32_t pair) { return number(pair & 0xffff0000u); }

// `Step` products are added at a time if sums are cut off.
template <int K, int Step>
void multiply(void *const *lanes, const float (&a)[16][K], const float (&b)[K][8]) {
  for (int row = 0; row < 16; row++) {
    float sums[8];
    for (int t = 0; t < 4; t++)
      for (int i = 0; i < 2; i++) sums[2 * t + i] = static_cast<Product *>(lanes[row % 8 * 4 + t])->d[row / 8 * 2 + i];
    __m256 all = _mm256_loadu_ps(sums);
    if (truncates)
      for (int k = 0; k < K; k += Step) all = tensor_step<Step>(a[row] + k, b[k], 8, all);
    else
      for (int k = 0; k < K; k++) all = _mm256_fmadd_ps(_mm256_set1_ps(a[row][k]), _mm256_loadu_ps(b[k]), all);
    _mm256_storeu_ps(sums, all);
    for (int t = 0; t < 4; t++)
      for (int i = 0; i < 2; i++) static_cast<Product *>(lanes[row % 8 * 4 + t])->d[row / 8 * 2 + i] = sums[2 * t + i];
  }
}

void product_bf16(void *const *lanes, uint32_t) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; lane++) {
    const Product &p = *static_cast<Product *>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
      a[g + i % 2 * 8][2 * t + i / 2 * 8] = low(p.a[i]);
      a[g + i % 2 * 8][2 * t + i / 2 * 8 + 1] = high(p.a[i]);
    }
    for (int i = 0; i < 2; i++) {
      b[2 * t + 8 * i][g] = low(p.b[i]);
      b[2 * t + 8 * i + 1][g] = high(p.b[i]);
    }
  }
  multiply<16, 8>(lanes, a, b);
}

void product_tf32(void *const *lanes, uint32_t) {
  float a[16][8], b[8][8];
  for (int lane = 0; lane < 32; lane++) {
    const Product &p = *static_cast<Product *>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) a[g + i % 2 * 8][t + i / 2 * 4] = truncated_tf32(number(p.a[i]));
    for (int i = 0; i < 2; i++) b[t + 4 * i][g] = truncated_tf32(number(p.b[i]));
  }
  multiply<8, 4>(lanes, a, b);
}

struct Rows {
  uint32_t *r;
  const char *row;
};

template <bool transposed>
void load_matrices(void *const *lanes, uint32_t) {
  for (int lane = 0; lane < 32; lane++) {
    uint32_t *const r = static_cast<Rows *>(lanes[lane])->r;
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
      uint16_t pair[2];
      for (int j = 0; j < 2; j++) {
        const int row = transposed ? 2 * t + j : g, column = transposed ? g : 2 * t + j;
        std::memcpy(&pair[j], static_cast<Rows *>(lanes[8 * i + row])->row + 2 * column, 2);
      }
      r[i] = uint32_t(pair[0]) | uint32_t(pair[1]) << 16;
    }
  }
}

}  // namespace

void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Product p{d, a, b};
  collective(product_bf16, 0xffffffffu, &p, {__FILE__, __LINE__, "mma_bf16_16x8x16"});
}

void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Product p{d, a, b};
  collective(product_tf32, 0xffffffffu, &p, {__FILE__, __LINE__, "mma_tf32_16x8x8"});
}

void ldmatrix_x4(uint32_t (&r)[4], const void *row, bool transposed) {
  check_read(row, 16);
  Rows rows{r, static_cast<const char *>(row)};
  collective(transposed ? load_matrices<true> : load_matrices<false>, 0xffffffffu, &rows,
             {__FILE__, __LINE__, "ldmatrix_x4"});
}

}  // namespace emulator
