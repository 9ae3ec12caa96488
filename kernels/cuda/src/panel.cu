// Panels, dense matrices of few columns: products with sparse matrices and small dense ones, systems of equations, and
// rows of a batch as panels (kernels/panel.go, kernels/panelblocks.go). A sum is in float32, in the order of the terms.
#include "step.cuh"

constexpr int kPanelThreads = 256, kBlockWidth = 64, kMostWidth = 64;

struct SparseMatrix {
  const int64_t *offsets;  // [rows + 1]
  const int32_t *indices;
  const float *values;
  int64_t rows, columns;
};

struct SparseProductArgs {
  SparseMatrix matrix;
  const float *in;  // [panels, columns, width]
  float *out;  // [panels, rows, width]
  const int32_t *done;  // null: 0; otherwise nothing is computed where it is not 0
  int64_t width;
};

// out[p] = matrix in[p].
//
// Mapping: a thread has a column of the panel, a block kPanelThreads / width rows of the matrix, block y the panel y.
// Bytes: reads 8 an entry, and 4 width of the panel for it, from the second-level cache where that holds it; this bounds it.
// Source: kernels/panel.go, SparseProduct; scheme: own.
KERNEL_BOUNDS(sparse_product, SparseProductArgs, kPanelThreads, 4) {
  if (a.done && *a.done) return;
  const int64_t width = a.width, row = (int64_t(blockIdx.x) * kPanelThreads + threadIdx.x) / width;
  const int64_t c = threadIdx.x % width;
  if (row >= a.matrix.rows) return;
  const float *in = a.in + int64_t(blockIdx.y) * a.matrix.columns * width + c;
  float sum = 0.0f;
  for (int64_t e = a.matrix.offsets[row]; e < a.matrix.offsets[row + 1]; e++)
    sum = fmaf(a.matrix.values[e], in[a.matrix.indices[e] * width], sum);
  a.out[(int64_t(blockIdx.y) * a.matrix.rows + row) * width + c] = sum;
}

enum SolvePhase { kSolveStart, kSolveProduct, kSolveStep, kSolveDirection };
constexpr int kSolveItems = 512;  // of a block of sums

// What the launches of a solution hand on; see solve_t of the CPU.
struct SolveState {
  double norm[kMostWidth], first[kMostWidth];  // residual^2 / diagonal: now, and after the first iteration
  float scale[kMostWidth];  // of the next phase
  int32_t moves[kMostWidth];
  int32_t iteration, done;
};

struct SolveArgs {
  const float *ridge, *diagonal;  // [items]
  float *residual, *solution, *direction, *product;  // [items, width]
  double *parts;  // [blocks, width]
  SolveState *state;
  int32_t *report;  // [2]
  double tolerance;
  int64_t items, width, iterations;
  int64_t phase;
};

// A phase of conjugate gradients that are preconditioned by the diagonal, for the items of a block; the first three leave
// the block's part of a sum over all items:
//   start:     x = 0, p = r / diagonal;              sum of r p
//   product:   z += ridge p;                         sum of p z
//   step:      x += scale p, r -= scale z;           sum of r^2 / diagonal
//   direction: p = r / diagonal + scale p
//
// Mapping: a block has 512 items, a thread a column of every (256 / width)th of them; their sums are added in order.
// Bytes: reads and writes up to 24 a number of the panel, which bounds it.
// Source: kernels/panel.go, Solve (Hestenes and Stiefel, 1952); scheme: own.
KERNEL_BOUNDS(solve_block, SolveArgs, kPanelThreads, 4) {
  SHARED(double, sums, [kPanelThreads]);
  if (a.phase != kSolveStart && a.state->done) return;
  const int64_t c = threadIdx.x % a.width, group = threadIdx.x / a.width, groups = kPanelThreads / a.width;
  const int64_t first = int64_t(blockIdx.x) * kSolveItems;
  const int64_t end = first + kSolveItems < a.items ? first + kSolveItems : a.items;
  const float scale = a.phase >= kSolveStep ? a.state->scale[c] : 0.0f;
  double total = 0.0;
  for (int64_t i = first + group; i < end; i += groups) {
    const int64_t at = i * a.width + c;
    const float inverse = 1.0f / a.diagonal[i];
    if (a.phase == kSolveStart) {
      a.solution[at] = 0.0f;
      a.direction[at] = a.residual[at] * inverse;
      total += double(a.residual[at]) * double(a.direction[at]);
    } else if (a.phase == kSolveProduct) {
      const float z = fmaf(a.ridge[i], a.direction[at], a.product[at]);
      a.product[at] = z;
      total += double(a.direction[at]) * double(z);
    } else if (a.phase == kSolveStep) {
      a.solution[at] = fmaf(scale, a.direction[at], a.solution[at]);
      const float rest = fmaf(-scale, a.product[at], a.residual[at]);
      a.residual[at] = rest;
      total += double(rest * inverse) * double(rest);
    } else {
      a.direction[at] = fmaf(scale, a.direction[at], a.residual[at] * inverse);
    }
  }
  if (a.phase == kSolveDirection) return;
  sums[threadIdx.x] = total;
  __syncthreads();
  if (group > 0) return;
  for (int64_t n = 1; n < groups; n++) total += sums[n * a.width + c];
  a.parts[int64_t(blockIdx.x) * a.width + c] = total;
}

// Adds the parts of a phase and finds the scale of the next one, and after a step the columns that go on.
//
// Mapping: one block, a thread for each column.
// Bytes: reads 8 a part; little beside the phase itself.
// Source: kernels/panel.go, Solve; scheme: own.
KERNEL_BOUNDS(solve_sums, SolveArgs, kMostWidth, 1) {
  SHARED(int32_t, moving, [1]);
  SolveState *s = a.state;
  if (a.phase != kSolveStart && s->done) return;
  const int64_t c = threadIdx.x;
  if (c == 0) moving[0] = 0;
  __syncthreads();
  if (c < a.width) {
    double sum = 0.0;
    for (int64_t block = 0; block * kSolveItems < a.items; block++) sum += a.parts[block * a.width + c];
    if (a.phase == kSolveStart) {
      s->norm[c] = sum;
      s->moves[c] = sum > 0.0;
    } else if (a.phase == kSolveProduct) {
      s->scale[c] = sum > 0.0 && s->moves[c] ? float(s->norm[c] / sum) : 0.0f;
    } else {
      if (s->iteration == 0) s->first[c] = sum;
      s->scale[c] = s->moves[c] ? float(sum / s->norm[c]) : 0.0f;
      s->norm[c] = sum;
      s->moves[c] = s->moves[c] && sum > 0.0 && sum > a.tolerance * a.tolerance * s->first[c];
    }
    if (s->moves[c]) atomicAdd(&moving[0], 1);
  }
  __syncthreads();
  if (c > 0 || a.phase == kSolveProduct) return;
  s->iteration = a.phase == kSolveStart ? 0 : s->iteration + 1;
  s->done = a.phase == kSolveStep && (moving[0] == 0 || s->iteration == a.iterations);
  if (!s->done) return;
  if (a.report[0] < s->iteration) a.report[0] = s->iteration;
  a.report[1] += moving[0];
}

struct PanelRowsArgs {
  const StepRecord *step;
  const float *factors, *own, *if_empty;  // [items]; own may be null
  float *panel;  // [items, width]
  float *out;  // [B, items]
  int64_t items, width, first;
  int64_t slot;
};

// panel[i, c] = factors[i] x_(first + c),i at the stored items; the panel is 0 before.
//
// Mapping: a block has a row of the batch.
// Bytes: reads 12 an entry and writes 4, each in a sector of its own.
// Source: kernels/panel.go, RowsToPanel; scheme: own.
KERNEL_BOUNDS(rows_to_panel, PanelRowsArgs, kPanelThreads, 4) {
  const int64_t c = blockIdx.x;
  if (c >= rows_from(a.step, a.first, a.width)) return;
  const SparseRecord &batch = a.step->slots[a.slot];
  for (int64_t e = batch.offsets[a.first + c] + threadIdx.x; e < batch.offsets[a.first + c + 1]; e += kPanelThreads) {
    const int64_t i = batch.indices[e];
    a.panel[i * a.width + c] = a.factors[i] * batch.values[e];
  }
}

// out[first + c, i] = factors[i] panel[i, c], or if_empty[i] for rows without stored items.
//
// Mapping: a block has 64 items and the whole width, which go through shared memory.
// Bytes: reads 4 a number of the panel and writes 4: bound by them.
// Source: kernels/panel.go, PanelToRows; scheme: own.
KERNEL_BOUNDS(panel_to_rows, PanelRowsArgs, kPanelThreads, 4) {
  SHARED(float, tile, [kMostWidth][kMostWidth + 1]);
  const int64_t item = int64_t(blockIdx.x) * kMostWidth, rows = rows_from(a.step, a.first, a.width);
  const SparseRecord &batch = a.step->slots[a.slot];
  for (int64_t n = threadIdx.x; n < kMostWidth * a.width; n += kPanelThreads) {
    const int64_t i = item + n / a.width;
    tile[n / a.width][n % a.width] = i < a.items ? a.factors[i] * a.panel[i * a.width + n % a.width] : 0.0f;
  }
  __syncthreads();
  for (int64_t n = threadIdx.x; n < kMostWidth * rows; n += kPanelThreads) {
    const int64_t i = item + n % kMostWidth, u = a.first + n / kMostWidth;
    if (i >= a.items) continue;
    const bool empty = batch.offsets[u] == batch.offsets[u + 1];
    a.out[u * a.items + i] = empty ? a.if_empty[i] : tile[n % kMostWidth][n / kMostWidth];
  }
}

// out[first + c, i] += own[i] x_(first + c),i at the stored items.
//
// Mapping: a block has a row of the batch.
// Bytes: reads 16 an entry and writes 4.
// Source: kernels/panel.go, PanelToRows; scheme: own.
KERNEL_BOUNDS(add_own, PanelRowsArgs, kPanelThreads, 4) {
  const int64_t u = a.first + blockIdx.x;
  if (int64_t(blockIdx.x) >= rows_from(a.step, a.first, a.width)) return;
  const SparseRecord &batch = a.step->slots[a.slot];
  for (int64_t e = batch.offsets[u] + threadIdx.x; e < batch.offsets[u + 1]; e += kPanelThreads) {
    const int64_t i = batch.indices[e];
    a.out[u * a.items + i] += a.own[i] * batch.values[e];
  }
}

struct RowsToBlocksArgs {
  const StepRecord *step;
  const float *factors;  // [items]
  const float *in;  // [ins, items, 64]
  float *out;  // [ins][64, 64]
  int64_t items, first, slot;
};

// out[i][k, c] = sum over the stored items j of row first + c of factors[j] x_j in[i][j, k].
//
// Mapping: block (c, i), a thread for each k.
// Bytes: reads 256 an entry and block, which bounds it.
// Source: kernels/panelblocks.go, RowsToBlocks; scheme: own.
KERNEL_BOUNDS(rows_to_blocks, RowsToBlocksArgs, kBlockWidth, 4) {
  const int64_t c = blockIdx.x, i = blockIdx.y, k = threadIdx.x;
  float sum = 0.0f;
  if (c < rows_from(a.step, a.first, kBlockWidth)) {
    const SparseRecord &batch = a.step->slots[a.slot];
    const float *in = a.in + i * a.items * kBlockWidth + k;
    for (int64_t e = batch.offsets[a.first + c]; e < batch.offsets[a.first + c + 1]; e++) {
      const int64_t j = batch.indices[e];
      sum = fmaf(a.factors[j] * batch.values[e], in[j * kBlockWidth], sum);
    }
  }
  a.out[(i * kBlockWidth + k) * kBlockWidth + c] = sum;
}

struct PanelProductArgs {
  const float *in;  // [ins, rows, 64]
  const float *matrix;  // [ins][outs][64, 64]
  float *out;  // [outs, rows, 64]
  int64_t rows, ins, outs;
  int64_t add;
};

// out[j] (+)= sum over i of in[i] matrix[i][j].
//
// Mapping: block (x, j) has 64 rows of panel j; a thread has 4 x 4 of its numbers. Slabs of 16 columns go through shared memory.
// Bytes: reads 256 a row and panel of `in` for each j; 128 FLOP for each 4 of them, which bound it.
// Source: kernels/panelblocks.go, PanelProduct; scheme: own.
KERNEL_BOUNDS(panel_product, PanelProductArgs, kPanelThreads, 4) {
  constexpr int kSlab = 16;
  SHARED(float, left, [kSlab][kBlockWidth + 1]);
  SHARED(float, right, [kSlab][kBlockWidth]);
  const int64_t first = int64_t(blockIdx.x) * kBlockWidth, j = blockIdx.y;
  const int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
  float *out = a.out + j * a.rows * kBlockWidth;
  float sum[4][4];
  for (int m = 0; m < 4; m++)
    for (int n = 0; n < 4; n++)
      sum[m][n] = a.add && first + y + m < a.rows ? out[(first + y + m) * kBlockWidth + x + n] : 0.0f;
  for (int64_t p = 0; p < a.ins * kBlockWidth; p += kSlab) {
    const float *in = a.in + p / kBlockWidth * a.rows * kBlockWidth + p % kBlockWidth;
    const float *matrix = a.matrix + ((p / kBlockWidth * a.outs + j) * kBlockWidth + p % kBlockWidth) * kBlockWidth;
    __syncthreads();
    for (int n = threadIdx.x; n < kSlab * kBlockWidth; n += kPanelThreads) {
      const int64_t row = first + n / kSlab;
      left[n % kSlab][n / kSlab] = row < a.rows ? in[row * kBlockWidth + n % kSlab] : 0.0f;
      right[n / kBlockWidth][n % kBlockWidth] = matrix[n];
    }
    __syncthreads();
    for (int q = 0; q < kSlab; q++)
      for (int m = 0; m < 4; m++)
        for (int n = 0; n < 4; n++) sum[m][n] = fmaf(left[q][y + m], right[q][x + n], sum[m][n]);
  }
  for (int m = 0; m < 4 && first + y + m < a.rows; m++)
    for (int n = 0; n < 4; n++) out[(first + y + m) * kBlockWidth + x + n] = sum[m][n];
}

struct PanelScaleArgs {
  const float *factors;  // [rows]; null: 1
  const float *in;  // [rows, width]
  float *out;
  int64_t count, width;
  float factor;
  int32_t add;
};

// out[r] (+)= factor factors[r] in[r].
//
// Mapping: a thread has a number.
// Bytes: reads 4 or 8 a number and writes 4: bound by them.
// Source: kernels/panelblocks.go, PanelScale; scheme: own.
KERNEL_BOUNDS(panel_scale, PanelScaleArgs, kPanelThreads, 4) {
  const int64_t at = int64_t(blockIdx.x) * kPanelThreads + threadIdx.x;
  if (at >= a.count) return;
  const float factor = a.factors ? a.factor * a.factors[at / a.width] : a.factor;
  a.out[at] = a.add ? fmaf(factor, a.in[at], a.out[at]) : factor * a.in[at];
}
