// The update of a weight, or a part of it, from a gradient that was written before, and perhaps summed over devices.
#include "update.cuh"

struct UpdateWrittenArgs {
  const StepRecord *step;
  const float *gradient;  // [parts, pitch], of elements first .. first + count: the sum of the parts is the gradient
  Weights weight;
  int64_t first, count, parts, pitch;
  int32_t launch;
};

template <int n>
DEVICE void update_part(const UpdateWrittenArgs &a) {
  const StepRecord *step = a.step;
  const Rates rates = rates_of(step, step->number);
  const int64_t apart = int64_t(gridDim.x) * blockDim.x * n;
  for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * n; i < a.count; i += apart) {
    float g[n], part[n];
    read<n>(a.gradient + i, g);
    for (int64_t p = 1; p < a.parts; p++) {
      read<n>(a.gradient + p * a.pitch + i, part);
#pragma unroll
      for (int c = 0; c < n; c++) g[c] += part[c];
    }
    update_elements<n>(step, a.launch, a.weight, rates, (a.first + i) / a.weight.columns, a.first + i, g);
  }
}

// w, state = rule(w, state, gradient), for each of the elements.
//
// Mapping: a thread has four elements at a time, or one where they are not aligned for it.
// Bytes: reads 4 of each part of the gradient, reads and writes 4 (1 + states) of the weight an element: bound by that.
// Source: kernels/ops.go, Update and Output (its bias), and kernels/optimizer.go; scheme: a thread an
// element, as DSSTNE's updates of weights.
KERNEL_BOUNDS(update_written, UpdateWrittenArgs, 256, 4) {
  if (failed_before(a.step, a.launch)) return;
  if (updates_fours(a.weight) && by_fours(a.gradient, a.pitch) && a.count % 4 == 0 && a.first % 4 == 0)
    update_part<4>(a);
  else
    update_part<1>(a);
}

struct ClipArgs {
  const StepRecord *step;
  float *gradients;
  double *squares;  // [blocks]
  int64_t count;
  float limit;
  int32_t launch;
};

constexpr int kClipThreads = 256;

// squares[b] = the sum of the squares of a block's numbers.
//
// Mapping: a thread has each number that is as far from the last as there are threads.
// Bytes: reads 4 a number, which bound it.
// Source: kernels/clip.go; scheme: own.
KERNEL_BOUNDS(clip_sum, ClipArgs, kClipThreads, 4) {
  SHARED(double, sums, [kClipThreads / 32]);
  if (failed_before(a.step, a.launch)) return;
  double total = 0.0;
  for (int64_t i = int64_t(blockIdx.x) * kClipThreads + threadIdx.x; i < a.count;
       i += int64_t(gridDim.x) * kClipThreads)
    total += double(a.gradients[i]) * double(a.gradients[i]);
  total = warp_sum(total);
  if (lane_id() == 0) sums[warp_id()] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int n = 1; n < kClipThreads / 32; n++) total += sums[n];
  a.squares[blockIdx.x] = total;
}

// The numbers times limit over their norm, where that is above limit.
//
// Mapping: as clip_sum, with as many blocks; each adds up the squares of all.
// Bytes: reads 8 a block of clip_sum, and reads and writes 4 a number.
// Source: kernels/clip.go; scheme: own.
KERNEL_BOUNDS(clip_scale, ClipArgs, kClipThreads, 4) {
  if (failed_before(a.step, a.launch)) return;
  double total = 0.0;
  for (int64_t b = lane_id(); b < gridDim.x; b += 32) total += a.squares[b];
  const double norm = sqrt(warp_sum(total));
  if (!(norm > double(a.limit))) return;
  const float factor = float(double(a.limit) / norm);
  for (int64_t i = int64_t(blockIdx.x) * kClipThreads + threadIdx.x; i < a.count;
       i += int64_t(gridDim.x) * kClipThreads)
    a.gradients[i] *= factor;
}

// The columns of a block of ColumnNorms and CapWeight, and the rows that its threads have at a time.
constexpr int kCapColumns = 32, kCapRows = 8;

struct CapWeightArgs {
  const StepRecord *step;
  float *value;  // [rows, columns]
  float *norms;  // [ranks, columns]
  double *squares;  // of column_squares: [parts, columns]
  int64_t rows, columns, ranks, parts;
  float most;
  int32_t launch;
};

// The column of a thread, and the rows of its block; false: it has none.
DEVICE bool column_of_thread(const CapWeightArgs &a, int64_t &k, int64_t &first, int64_t &end) {
  const int64_t groups = (a.columns + kCapColumns - 1) / kCapColumns, part = int64_t(blockIdx.x) / groups;
  k = int64_t(blockIdx.x) % groups * kCapColumns + lane_id();
  const int64_t each = a.rows / a.parts, more = a.rows % a.parts;
  first = each * part + (part < more ? part : more);
  end = first + each + (part < more ? 1 : 0);
  return k < a.columns;
}

// squares[p, k] = the sum of the squares of a column in a part of the rows.
//
// Mapping: a block has 32 columns and a part of the rows, of which a warp has each eighth.
// Bytes: reads 4 a weight, which bound it.
// Source: kernels/clip.go, ColumnNorms; scheme: own.
KERNEL_BOUNDS(column_squares, CapWeightArgs, 32 * kCapRows, 4) {
  SHARED(double, sums, [kCapRows][kCapColumns]);
  if (failed_before(a.step, a.launch)) return;
  int64_t k, first, end;
  double total = 0.0;
  if (column_of_thread(a, k, first, end))
    for (int64_t row = first + warp_id(); row < end; row += kCapRows) {
      const double x = double(a.value[row * a.columns + k]);
      total += x * x;
    }
  sums[warp_id()][lane_id()] = total;
  __syncthreads();
  if (warp_id() != 0 || k >= a.columns) return;
  for (int n = 1; n < kCapRows; n++) total += sums[n][lane_id()];
  const int64_t groups = (a.columns + kCapColumns - 1) / kCapColumns;
  a.squares[int64_t(blockIdx.x) / groups * a.columns + k] = total;
}

// norms[k] = the root of the sum of squares[:, k].
//
// Mapping: a thread has a column.
// Bytes: reads 8 a part and column; bound by its launch.
// Source: kernels/clip.go, ColumnNorms; scheme: own.
KERNEL_BOUNDS(column_norms, CapWeightArgs, 256, 4) {
  if (failed_before(a.step, a.launch)) return;
  const int64_t k = int64_t(blockIdx.x) * 256 + threadIdx.x;
  if (k >= a.columns) return;
  double total = 0.0;
  for (int64_t part = 0; part < a.parts; part++) total += a.squares[part * a.columns + k];
  a.norms[k] = fminf(float(sqrt(total)), 3.40282347e38f);
}

// Rows whose norm is above most are scaled to it.
//
// Mapping: a warp has a row.
// Bytes: reads 4 a weight, and reads and writes the rows that are too long once more: bound by that.
// Source: kernels/clip.go, CapWeight; scheme: own, as cap_rows.
KERNEL_BOUNDS(cap_weight_rows, CapWeightArgs, 32 * kRowWarps, 4) {
  const int64_t row = int64_t(blockIdx.x) * kRowWarps + warp_id();
  if (row >= a.rows || failed_before(a.step, a.launch)) return;
  float *x = a.value + row * a.columns;
  double square = 0.0;
  for (int64_t k = lane_id(); k < a.columns; k += 32) square += double(x[k]) * double(x[k]);
  const double norm = sqrt(warp_sum(square)), most = double(a.most);
  if (!(norm > most)) return;
  const double scale = most / norm;  // may be below float32
  for (int64_t k = lane_id(); k < a.columns; k += 32) x[k] = float(double(x[k]) * scale);
}

// Columns whose norm is above most are scaled to it.
//
// Mapping: that of column_squares.
// Bytes: reads and writes 4 a weight of the columns that are too long, which bound it.
// Source: kernels/clip.go, CapWeight; scheme: own.
KERNEL_BOUNDS(cap_weight_columns, CapWeightArgs, 32 * kCapRows, 4) {
  if (failed_before(a.step, a.launch)) return;
  int64_t k, first, end;
  if (!column_of_thread(a, k, first, end)) return;
  double square = 0.0;
  for (int64_t rank = 0; rank < a.ranks; rank++) {
    const double part = double(a.norms[rank * a.columns + k]);
    square += part * part;
  }
  const double norm = sqrt(square), most = double(a.most);
  if (!(norm > most)) return;
  const double scale = most / norm;
  for (int64_t row = first + warp_id(); row < end; row += kCapRows) {
    float &x = a.value[row * a.columns + k];
    x = float(double(x) * scale);
  }
}
