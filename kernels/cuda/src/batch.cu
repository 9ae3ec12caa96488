// Batches made on the device, out of datasets that it keeps: what csr.Reader makes on the host, with the same bits.
//
//   assemble_count -> assemble_fill        the rows, one behind the other
//   (sort_scan -> sort_place) a digit      a radix sort of the entries by item, lowest digit first
//   items_count -> items_write             the distinct items and their entries
//
// A launch of a graph costs as much as reading 10 MB, so a kernel does what it can for the next: what writes an entry to its place
// counts its next digit, by atomic additions of whole numbers, whose order changes nothing.
//
// All grids follow from capacities; how many entries there are stands in device memory. With n entries the rows cost a read
// of 8 n bytes (twice with scaling or denoising) and a write of 12 n, a digit 12 n read and 8 n written, the items 20 n and 8 n.
#include "philox.cuh"
#include "step.cuh"

// A dataset, or a shard of its columns, that the device keeps.
struct KeptRows {
  const int64_t *index;  // [rows], the stored row that each row is, of which there may be fewer or more; null: the same
  const int64_t *offsets;  // [rows + 1]
  const int32_t *indices;  // ascending in each row, counted from the shard's first column
  const float *values;  // null: all are 1
  const double *norms;  // [rows], 1 over the L2 norm of the whole row; null: not scaled
  const float *sums;  // [rows], of the whole row, scaled or not
  int64_t rows;
  int64_t first;  // the shard's first column
};

// Where a batch goes: the arrays of a SparseRecord.
struct AssembledBatch {
  int32_t *offsets, *indices;
  float *values, *row_sum;
  int32_t *items, *item_offsets, *item_rows;
  float *item_values;
};

// What all kernels of the op share.
constexpr int kMostSlots = 8;

struct AssembleArgs {
  const StepRecord *step;
  KeptRows data;
  AssembledBatch batch;
  int32_t *counts;  // [2], entries and items; -1 entries are more than there is room for
  int32_t *lengths;  // [rows]
  int32_t *entry_rows;  // [capacity], the row of each entry; null: the order by item is not wanted
  int32_t *tile_counts;  // [digits][tiles]: entries of a tile with a digit, for a pass of the sort; then [tiles]: items
  int32_t *next_counts;  // those of the next pass; null: there is none
  int32_t *digit_counts;  // [digits]
  int64_t zeros;  // counts of all passes, from tile_counts on
  const int32_t *items_from;  // the keys before a pass of the sort, and the places that belong to them
  const int32_t *places_from;
  int32_t *items_to;
  int32_t *places_to;
  int64_t capacity;  // entries that there is room for
  int64_t tiles;  // of so many entries
  int32_t slots[kMostSlots], slot_count;  // that receive the batch
  int32_t launch;
  int32_t shift, digits;  // of a pass: how far the digit is shifted, and how many values it has
  int32_t next_shift;
  uint32_t stream;
  float denoising;
  int32_t whole;  // the device has all columns
};

constexpr int kAssembleWarps = 8;
constexpr int kSortThreads = 256;
constexpr int kSortRounds = 8;
constexpr int kSortTile = kSortThreads * kSortRounds;
constexpr int kMostDigits = 256;

DEVICE bool denoises(const AssembleArgs &a) { return a.step->training && a.denoising > 0.0f; }

// The stored row of the dataset that row u of the batch is; -1, and a failure, if there is no such row.
DEVICE int64_t chosen_row(const AssembleArgs &a, int64_t u) {
  const int64_t row = a.step->order[u];
  if (row < 0 || row >= a.data.rows) return -1;
  return a.data.index ? a.data.index[row] : row;
}

// What each value of a row is multiplied by.
DEVICE double row_factor(const AssembleArgs &a, int64_t row) {
  double factor = a.data.norms ? a.data.norms[row] : 1.0;
  if (denoises(a)) factor /= 1.0 - double(a.denoising);
  return factor;
}

// An entry x of a column of row u of the batch, after scaling; whether it stays: one may be denoised, or underflow to zero.
DEVICE bool keeps(const AssembleArgs &a, int64_t u, float x, int32_t index, double factor, bool denoise, float *value) {
  *value = float(double(x) * factor);
  if (*value == 0.0f) return false;
  if (!denoise) return true;
  const uint32_t column = uint32_t(index + a.data.first);
  const uint32_t row = uint32_t(a.step->first + u);
  const PhiloxWords words = philox(a.step->seed, column >> 2, row, uint32_t(a.step->number), a.stream);
  uint32_t word = words.word[0];  // by comparison, so that the words stay in registers
  for (uint32_t i = 1; i < 4; i++) word = (column & 3) == i ? words.word[i] : word;
  return uniform(word) >= a.denoising;
}

// lengths[u] = how many entries of row u stay; and the counts of the sort are zero.
//
// Mapping: a warp has a row; lanes take 32 neighbouring entries and count by ballot. Where all stay, one lane subtracts offsets.
// Bytes: reads up to 32 a row and, with scaling or denoising, up to 8 an entry (its value, its column); writes 4 a row and a count.
// Source: kernels/data.go, Assemble; scheme: own.
KERNEL_BOUNDS(assemble_count, AssembleArgs, 32 * kAssembleWarps, 4) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  for (int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; n < a.zeros; n += int64_t(gridDim.x) * blockDim.x)
    a.tile_counts[n] = 0;
  const bool denoise = denoises(a), all = !denoise && !a.data.norms;
  const int lane = lane_id();
  for (int64_t u = int64_t(blockIdx.x) * kAssembleWarps + warp_id(); u < step->rows;
       u += int64_t(gridDim.x) * kAssembleWarps) {
    const int64_t row = chosen_row(a, u);
    int64_t length = 0;
    if (row < 0) {
      if (lane == 0) fail(step, a.launch, 0, u);
    } else if (all) {
      length = a.data.offsets[row + 1] - a.data.offsets[row];
    } else {
      const double factor = row_factor(a, row);
      const int64_t end = a.data.offsets[row + 1];
      for (int64_t first = a.data.offsets[row]; first < end; first += 32) {
        const int64_t e = first + lane;
        float value = e < end && a.data.values ? a.data.values[e] : 1.0f;
        const bool kept = e < end && keeps(a, u, value, denoise ? a.data.indices[e] : 0, factor, denoise, &value);
        length += __popc(__ballot_sync(kAllLanes, kept));
      }
    }
    if (lane == 0) a.lengths[u] = int32_t(length);
  }
}

// The sum of x over this thread and those before it in the block; *total over all of them. All threads call together.
DEVICE int64_t sum_up_to(int64_t x, int64_t *total) {
  SHARED(int64_t, of_warp, [32]);
  const int lane = lane_id(), warp = warp_id(), warps = int(blockDim.x) / 32;
  for (int i = 1; i < 32; i *= 2) {
    const int64_t before = __shfl_up_sync(kAllLanes, x, i);
    if (lane >= i) x += before;
  }
  if (lane == 31) of_warp[warp] = x;
  __syncthreads();
  int64_t before = 0, sum = 0;
  for (int w = 0; w < warps; w++) {
    if (w < warp) before += of_warp[w];
    sum += of_warp[w];
  }
  *total = sum;
  __syncthreads();
  return x + before;
}

// counts[i] <- counts[0] + ... + counts[i - 1]; the sum of all. All threads of the block call together.
DEVICE int64_t scan(int32_t *counts, int64_t n) {
  int64_t before = 0;
  for (int64_t first = 0; first < n; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const int32_t count = i < n ? counts[i] : 0;
    int64_t total;
    const int64_t sum = before + sum_up_to(count, &total);
    if (i < n) counts[i] = int32_t(sum - count);
    before += total;
  }
  return before;
}

// The sum of counts[0 .. n) and, in *before, that of those before a place. All threads of the block call together.
DEVICE int64_t sum_of(const int32_t *counts, int64_t n, int64_t place, int64_t *before) {
  int64_t first = 0, rest = 0, total;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) (i < place ? first : rest) += counts[i];
  sum_up_to(first, before);
  sum_up_to(rest, &total);
  return *before + total;
}

DEVICE int64_t tiles_of(int64_t entries) { return (entries + kSortTile - 1) / kSortTile; }

DEVICE int digit_of(const AssembleArgs &a, int32_t item, int shift) {
  return int(uint32_t(item) >> shift) & (a.digits - 1);
}

// Counts the next digit of the entry that now stands at a place.
DEVICE void count_digit(const AssembleArgs &a, int32_t item, int64_t place) {
  atomicAdd(&a.next_counts[digit_of(a, item, a.next_shift) * a.tiles + place / kSortTile], 1);
}

// The entries of row u that stay, one behind the other, x_uj times the row's factor, and their sum in float64 in that order. The
// record of the slots says where the batch lies. More entries than there is room for are a failure, and then the batch is empty.
//
// Mapping: a warp has a row, behind those before it, whose lengths each block adds; a lane's entry goes behind those of the lanes
// before it, counted by ballot. A warp reads 128 entries at once, since the longest row of a batch may have thousands. Which entries
// stay is found again, which costs less than to keep it.
// Bytes: reads up to 40 a row, 4 a row and block, and 8 an entry of the data (4 where all values are 1), writes 12 an entry that
// stays and 8 a row.
// Source: kernels/data.go, Assemble; scheme: own.
KERNEL_BOUNDS(assemble_fill, AssembleArgs, 32 * kAssembleWarps, 4) {
  const StepRecord *step = a.step;
  if (failed_before(step, a.launch)) return;
  const int64_t rows = step->rows, first_row = int64_t(blockIdx.x) * kAssembleWarps;
  if (blockIdx.x > 0 && first_row >= rows) return;
  int64_t before;
  const int64_t entries = sum_of(a.lengths, rows, min(first_row, rows), &before);
  const bool fits = entries <= a.capacity;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    if (!fits) fail(step, a.launch, 1);
    a.batch.offsets[rows] = fits ? int32_t(entries) : 0;
    a.counts[0] = fits ? int32_t(entries) : -1;
    a.counts[1] = 0;
    const AssembledBatch &b = a.batch;
    for (int n = 0; n < a.slot_count; n++)
      step->slots[a.slots[n]] = {b.offsets,      b.indices,   b.values,      b.row_sum, b.items,
                                 b.item_offsets, b.item_rows, b.item_values, 0};
  }
  int32_t *indices = a.batch.indices;
  float *values = a.batch.values, *sums = a.batch.row_sum;
  const bool denoise = denoises(a);
  const int lane = lane_id();
  // A block's further rows, if there are any, are so far behind that it adds the lengths between.
  for (int64_t block = first_row; block < rows; block += int64_t(gridDim.x) * kAssembleWarps) {
    if (block > first_row) sum_of(a.lengths, rows, block, &before);
    const int64_t u = block + warp_id();
    if (u >= rows) continue;
    int64_t to = before;
    for (int64_t i = block; i < u; i++) to += a.lengths[i];
    if (lane == 0) a.batch.offsets[u] = fits ? int32_t(to) : 0;
    const int64_t row = chosen_row(a, u);
    if (row < 0 || !fits) continue;
    const double factor = row_factor(a, row);
    const int64_t end = a.data.offsets[row + 1];
    double sum = 0.0;
    constexpr int kAtOnce = 4;
    for (int64_t first = a.data.offsets[row]; first < end; first += 32 * kAtOnce) {
      float x[kAtOnce];
      int32_t index[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; n++) {
        const int64_t e = first + 32 * n + lane;
        x[n] = e < end && a.data.values ? a.data.values[e] : 1.0f;
        index[n] = e < end ? a.data.indices[e] : 0;
      }
#pragma unroll
      for (int n = 0; n < kAtOnce; n++) {
        if (first + 32 * n >= end) break;
        float value = 0.0f;
        const bool kept = first + 32 * n + lane < end && keeps(a, u, x[n], index[n], factor, denoise, &value);
        const unsigned lanes = __ballot_sync(kAllLanes, kept);
        if (kept) {
          const int64_t at = to + __popc(lanes & ((1u << lane) - 1u));
          indices[at] = index[n];
          values[at] = value;
          if (a.entry_rows) a.entry_rows[at] = int32_t(u);
          if (a.next_counts) count_digit(a, index[n], at);
        }
        to += __popc(lanes);
        if (denoise && a.whole) {
          const float part = kept ? value : 0.0f;
          for (int i = 0; i < 32; i++) sum += double(__shfl_sync(kAllLanes, part, i));
        }
      }
    }
    if (lane == 0 && (!denoise || a.whole)) sums[u] = denoise ? float(sum) : a.data.sums[row];
  }
}

// tile_counts[d][t] <- tile_counts[d][0] + ... + tile_counts[d][t - 1]; digit_counts[d] = the sum over all tiles.
//
// Mapping: a block has a digit, 256 tiles at a time.
// Bytes: reads and writes 4 a digit and tile.
// Source: own; a radix sort from the lowest digit up.
KERNEL_BOUNDS(sort_scan, AssembleArgs, kSortThreads, 4) {
  if (failed_before(a.step, a.launch)) return;
  const int64_t tiles = tiles_of(a.counts[0]);
  const int64_t all = scan(a.tile_counts + blockIdx.x * a.tiles, tiles);
  if (threadIdx.x == 0) a.digit_counts[blockIdx.x] = int32_t(all);
}

// An entry with digit d goes behind all with smaller digits, those with d in earlier tiles, and those with d before it in its
// tile: the sort is stable. Its next digit is counted there.
//
// Mapping: a block has a tile, a warp 256 neighbouring entries of it, 32 at a time; lanes with the same digit find each other by
// match.
// Bytes: reads 8 an entry (4 in the first pass) and 8 a digit and tile, writes 8 an entry, to as many places as there are
// digits.
// Source: own, see sort_scan.
KERNEL_BOUNDS(sort_place, AssembleArgs, kSortThreads, 2) {
  if (failed_before(a.step, a.launch)) return;
  const int64_t entries = a.counts[0], tile = blockIdx.x, tiles = tiles_of(entries);
  if (tile >= tiles) return;
  constexpr int kWarps = kSortThreads / 32;
  SHARED(int, of_warp, [kWarps][kMostDigits]);  // entries with a digit in a warp, and then in the warps before
  SHARED(int, begin, [kMostDigits]);  // where the tile's first entry with a digit goes
  const int lane = lane_id(), warp = warp_id(), digit = int(threadIdx.x);
  int64_t total;
  const int count = digit < a.digits ? a.digit_counts[digit] : 0;
  const int64_t before = sum_up_to(count, &total) - count;
  begin[digit] = digit < a.digits ? int(before) + a.tile_counts[digit * a.tiles + tile] : 0;
  for (int w = 0; w < kWarps; w++) of_warp[w][digit] = 0;
  __syncthreads();
  int32_t item[kSortRounds];
  int rank[kSortRounds];
  const int64_t first = tile * kSortTile + warp * (kSortRounds * 32) + lane;
  for (int round = 0; round < kSortRounds; round++) {
    const int64_t i = first + round * 32;
    item[round] = i < entries ? a.items_from[i] : 0;
    const int mine = i < entries ? digit_of(a, item[round], a.shift) : kMostDigits;
    const unsigned same = __match_any_sync(kAllLanes, mine);
    rank[round] = 0;
    if (mine < kMostDigits) rank[round] = of_warp[warp][mine] + __popc(same & ((1u << lane) - 1u));
    __syncwarp(kAllLanes);
    if (mine < kMostDigits && __ffs(int(same)) - 1 == lane) of_warp[warp][mine] += __popc(same);
    __syncwarp(kAllLanes);
  }
  __syncthreads();
  int sum = 0;
  for (int w = 0; w < kWarps; w++) {
    const int of_this = of_warp[w][digit];
    of_warp[w][digit] = sum;
    sum += of_this;
  }
  __syncthreads();
  for (int round = 0; round < kSortRounds; round++) {
    const int64_t i = first + round * 32;
    if (i >= entries) break;
    const int mine = digit_of(a, item[round], a.shift);
    const int64_t to = begin[mine] + of_warp[warp][mine] + rank[round];
    a.items_to[to] = item[round];
    a.places_to[to] = a.places_from ? a.places_from[i] : int32_t(i);
    if (a.next_counts) count_digit(a, item[round], to);
  }
}

// Whether sorted entry i is the first of its item.
DEVICE bool begins_item(const AssembleArgs &a, int64_t i, int64_t entries) {
  return i < entries && (i == 0 || a.items_from[i] != a.items_from[i - 1]);
}

// tile_counts[t] = how many items begin in tile t of the sorted entries.
//
// Mapping: a block has a tile of 2,048 entries, a thread one of 256 at a time.
// Bytes: reads 4 an entry (and its neighbour's, from the cache), writes 4 a tile.
// Source: own; the counts of a compaction in two launches: count, write.
KERNEL_BOUNDS(items_count, AssembleArgs, kSortThreads, 4) {
  if (failed_before(a.step, a.launch)) return;
  const int64_t entries = a.counts[0], tile = blockIdx.x;
  if (tile >= tiles_of(entries)) return;
  int64_t count = 0, total;
  for (int round = 0; round < kSortRounds; round++)
    count += begins_item(a, tile * kSortTile + round * kSortThreads + threadIdx.x, entries);
  sum_up_to(count, &total);
  if (threadIdx.x == 0) a.tile_counts[tile] = int32_t(total);
}

// items[n] and item_offsets[n] of the n-th distinct item, row and value of each entry, in the order by item, and how many items the
// batch has.
//
// Mapping: a block has a tile; n is the number of beginnings in the tiles before, whose counts it adds, and, by a scan, in this one.
// Bytes: reads 16 an entry, of which 8 lie anywhere, and 4 a tile and block; writes 8 an entry and 8 an item.
// Source: kernels/ops.go, SparseBatch; scheme: own, see items_count.
KERNEL_BOUNDS(items_write, AssembleArgs, kSortThreads, 4) {
  if (failed_before(a.step, a.launch)) return;
  const int64_t entries = a.counts[0], tile = blockIdx.x, tiles = tiles_of(entries);
  if (tile >= max(int64_t(1), tiles)) return;
  int64_t before;
  const int64_t all = sum_of(a.tile_counts, tiles, tile, &before);
  if (tile == 0 && threadIdx.x == 0) {
    a.counts[1] = int32_t(all);
    a.batch.item_offsets[all] = int32_t(max(entries, int64_t(0)));
    for (int n = 0; n < a.slot_count; n++) a.step->slots[a.slots[n]].item_count = all;
  }
  int32_t *items = a.batch.items, *offsets = a.batch.item_offsets;
  int32_t *rows = a.batch.item_rows;
  float *values = a.batch.item_values;
  for (int round = 0; round < kSortRounds; round++) {
    const int64_t i = tile * kSortTile + round * kSortThreads + threadIdx.x;
    const bool begins = begins_item(a, i, entries);
    int64_t total;
    const int64_t n = before + sum_up_to(begins, &total) - 1;
    if (begins) items[n] = a.items_from[i], offsets[n] = int32_t(i);
    if (i < entries) {
      const int32_t place = a.places_from[i];
      rows[i] = a.entry_rows[place];
      values[i] = a.batch.values[place];
    }
    before += total;
  }
}
