// Products of a block of 256 threads over tiles in shared memory, with warp matrix instructions, for the fused output layer:
//   S = X Y^T over K, S and both tiles 64 rows, and sums += G Y over the 64 rows of Y, where G lies in S's place.
//
// X and Y hold factors that are rounded already. Their rows are K numbers and a few more, so that what eight rows are read
// from lies in different banks. Warps are 2 down and 4 across: of S a warp has 32 x 16, of the sums 32 x K / 4.
#pragma once
#include "product.cuh"

constexpr int kFusedTile = 64, kFusedThreads = 256;

struct InBFloat16 {
  using Element = uint16_t;
  static constexpr int kPad = 8;
  static constexpr int kScorePitch = 68;  // numbers of 4 bytes in a row of S; G is in the first half of it

  DEVICE void store_four(Element *to, const float (&x)[4]) {
    *reinterpret_cast<uint2 *>(to) =
        make_uint2(to_bf16x2(normal(x[0]), normal(x[1])), to_bf16x2(normal(x[2]), normal(x[3])));
  }

  // Columns 2 l and 2 l + 1 of a row of G. Before, all lanes have read their part of the row of S.
  DEVICE void store_gradients(float *row, int lane, float x, float y) {
    row[lane] = __uint_as_float(to_bf16x2(normal(x), normal(y)));
  }

  template <int K>
  DEVICE void scores(const Element *x, const Element *y, float (&sum)[2][2][4], int row, int column) {
    constexpr int kPitch = K + kPad;
    const int lane = lane_id();
    const Element *left = x + (row + lane % 16) * kPitch + lane / 16 * 8;
    const Element *right = y + (column + lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8;
#pragma unroll 2
    for (int k = 0; k < K; k += 16) {
      uint32_t b[4], a[4];
      ldmatrix_x4(b, right + k);
      const uint32_t near[2] = {b[0], b[1]}, far[2] = {b[2], b[3]};
#pragma unroll
      for (int m = 0; m < 2; m++) {
        ldmatrix_x4(a, left + m * 16 * kPitch + k);
        mma_bf16_16x8x16(sum[m][0], a, near);
        mma_bf16_16x8x16(sum[m][1], a, far);
      }
    }
  }

  template <int K>
  DEVICE void accumulate(const float *g, const Element *y, float (&sum)[2][K / 32][4], int row, int column) {
    constexpr int kPitch = K + kPad;
    const int lane = lane_id();
    const Element *left = reinterpret_cast<const Element *>(g + (row + lane % 16) * kScorePitch) + lane / 16 * 8;
    const Element *right = y + lane % 16 * kPitch + column + lane / 16 * 8;
#pragma unroll 1
    for (int k = 0; k < kFusedTile; k += 16) {
      uint32_t a[2][4], b[4];
#pragma unroll
      for (int m = 0; m < 2; m++) ldmatrix_x4(a[m], left + m * 16 * 2 * kScorePitch + k);
#pragma unroll
      for (int n = 0; n < K / 32; n += 2) {
        ldmatrix_x4_trans(b, right + k * kPitch + 8 * n);
        const uint32_t near[2] = {b[0], b[1]}, far[2] = {b[2], b[3]};
#pragma unroll
        for (int m = 0; m < 2; m++) {
          mma_bf16_16x8x16(sum[m][n], a[m], near);
          mma_bf16_16x8x16(sum[m][n + 1], a[m], far);
        }
      }
    }
  }
};

// TF32 has no instruction that reads a fragment, so lanes read their numbers one by one. In the second product columns 2 t and
// 2 t + 1 of G take the places of t and t + 4 along the sum, as do the rows of Y: then no two lanes meet in a bank.
struct InTensorFloat32 {
  using Element = uint32_t;
  static constexpr int kPad = 4;
  static constexpr int kScorePitch = 72;

  DEVICE void store_four(Element *to, const float (&x)[4]) {
    *reinterpret_cast<uint4 *>(to) = make_uint4(to_tf32(x[0]), to_tf32(x[1]), to_tf32(x[2]), to_tf32(x[3]));
  }

  DEVICE void store_gradients(float *row, int lane, float x, float y) {
    *reinterpret_cast<float2 *>(row + 2 * lane) = make_float2(__uint_as_float(to_tf32(x)), __uint_as_float(to_tf32(y)));
  }

  template <int K>
  DEVICE void scores(const Element *x, const Element *y, float (&sum)[2][2][4], int row, int column) {
    constexpr int kPitch = K + kPad;
    const int g = lane_id() / 4, t = lane_id() % 4;
    const Element *left = x + (row + g) * kPitch + t, *right = y + (column + g) * kPitch + t;
#pragma unroll 2
    for (int k = 0; k < K; k += 8) {
      const uint32_t near[2] = {right[k], right[k + 4]};
      const uint32_t far[2] = {right[8 * kPitch + k], right[8 * kPitch + k + 4]};
#pragma unroll
      for (int m = 0; m < 2; m++) {
        const Element *from = left + m * 16 * kPitch + k;
        const uint32_t a[4] = {from[0], from[8 * kPitch], from[4], from[8 * kPitch + 4]};
        mma_tf32_16x8x8(sum[m][0], a, near);
        mma_tf32_16x8x8(sum[m][1], a, far);
      }
    }
  }

  template <int K>
  DEVICE void accumulate(const float *s, const Element *y, float (&sum)[2][K / 32][4], int row, int column) {
    constexpr int kPitch = K + kPad;
    const int g = lane_id() / 4, t = lane_id() % 4;
    const float *left = s + (row + g) * kScorePitch + 2 * t;
    const Element *right = y + 2 * t * kPitch + column + g;
#pragma unroll 1
    for (int k = 0; k < kFusedTile; k += 8) {
      uint32_t a[2][4];
#pragma unroll
      for (int m = 0; m < 2; m++) {
        const float2 upper = *reinterpret_cast<const float2 *>(left + m * 16 * kScorePitch + k);
        const float2 lower = *reinterpret_cast<const float2 *>(left + (m * 16 + 8) * kScorePitch + k);
        a[m][0] = __float_as_uint(upper.x), a[m][1] = __float_as_uint(lower.x);
        a[m][2] = __float_as_uint(upper.y), a[m][3] = __float_as_uint(lower.y);
      }
#pragma unroll
      for (int n = 0; n < K / 32; n++) {
        const uint32_t b[2] = {right[k * kPitch + 8 * n], right[(k + 1) * kPitch + 8 * n]};
#pragma unroll
        for (int m = 0; m < 2; m++) mma_tf32_16x8x8(sum[m][n], a[m], b);
      }
    }
  }
};

// The dynamic shared memory of a block: the tile that stays, the tile that passes, and the products of their rows. The sums
// lie over all of it at the end. kernels/cuda/fused.go asks for as much.
template <class P, int K>
struct FusedTiles {
  using Element = typename P::Element;
  static constexpr int kPitch = K + P::kPad, kSumPitch = K + 4;

  DEVICE Element *stays() { return dynamic_shared<Element>(); }
  DEVICE Element *passes() { return stays() + kFusedTile * kPitch; }
  DEVICE float *scores() { return reinterpret_cast<float *>(passes() + kFusedTile * kPitch); }
  DEVICE float *sums() { return reinterpret_cast<float *>(stays()); }

  // Rows of a weight, rounded; zeros beyond its end.
  DEVICE void fetch_items(Element *to, const float *weight, int64_t columns, int64_t first, int64_t items, bool fours) {
    constexpr int kFours = K / 4;
    [[maybe_unused]] constexpr int kAtOnce = K > 128 ? 2 : 4;  // as many as there are registers for
#pragma unroll kAtOnce
    for (int n = threadIdx.x; n < kFusedTile * kFours; n += kFusedThreads) {
      const int i = n / kFours, k = n % kFours * 4;
      float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (first + i < items && k < columns) {
        const float *from = weight + (first + i) * columns + k;
        if (fours) {
          const float4 four = *reinterpret_cast<const float4 *>(from);
          x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
        } else {
#pragma unroll
          for (int j = 0; j < 4; j++)
            if (k + j < columns) x[j] = from[j];
        }
      }
      P::store_four(to + i * kPitch + k, x);
    }
  }

  // Rows of what pack_rows has made, on their way until cp_async_wait.
  DEVICE void fetch_rows(Element *to, const void *packed, int64_t first) {
    constexpr int kElements = 16 / sizeof(Element), kChunks = K / kElements;
    const Element *from = static_cast<const Element *>(packed) + first * K;
#pragma unroll 4
    for (int n = threadIdx.x; n < kFusedTile * kChunks; n += kFusedThreads)
      cp_async_16(to + n / kChunks * kPitch + n % kChunks * kElements, from + n * kElements);
    cp_async_commit();
  }

  // Stores a lane's results of products of 16 x 8, from the place of the first.
  template <int N>
  DEVICE void store_fragments(float *to, int pitch, const float (&sum)[2][N][4]) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
          *reinterpret_cast<float2 *>(to + (16 * m + 8 * half) * pitch + 8 * n) =
              make_float2(sum[m][n][2 * half], sum[m][n][2 * half + 1]);
  }

  // S = X Y^T. Between barriers.
  DEVICE void multiply() {
    const int row = warp_id() / 4 * 32, column = warp_id() % 4 * 16, g = lane_id() / 4, t = lane_id() % 4;
    float sum[2][2][4] = {};
    P::template scores<K>(stays(), passes(), sum, row, column);
    store_fragments(scores() + (row + g) * P::kScorePitch + column + 2 * t, P::kScorePitch, sum);
  }

  // sums += G Y. Between barriers.
  DEVICE void accumulate(float (&sum)[2][K / 32][4]) {
    P::template accumulate<K>(scores(), passes(), sum, warp_id() / 4 * 32, warp_id() % 4 * (K / 4));
  }

  // Stores the sums as rows of some pitch. The place is aligned to 8 bytes.
  DEVICE void store_sums(float *to, int pitch, const float (&sum)[2][K / 32][4]) {
    to += (warp_id() / 4 * 32 + lane_id() / 4) * pitch + warp_id() % 4 * (K / 4) + lane_id() % 4 * 2;
    store_fragments(to, pitch, sum);
  }
};
