// What varies from step to step and stands in device memory, so that a step is the same launches every time: the record that
// the host writes before a step, and the results that it reads after it. kernels/cuda/record.go lays them out the same.
#pragma once
#include "device.cuh"

struct Rates {
  float learning_rate, scale1, scale2;  // kernels.Rates
};

// A kernels.SparseBatch, whose entries stand there in both orders.
struct SparseRecord {
  const int32_t *offsets;  // [rows + 1]
  const int32_t *indices;
  const float *values;
  const float *row_sum;  // [rows]
  const int32_t *items;  // [item_count], ascending
  const int32_t *item_offsets;  // [item_count + 1]
  const int32_t *item_rows;
  const float *item_values;
  int64_t item_count;
};

struct StepResults {
  unsigned long long failure;  // 0, kOther, or what fail() makes of the first failure; stays until the host has seen it
  unsigned long long stopped;  // 1: that was in an earlier step
};

constexpr int kMostSources = 64;  // kernels.MaxSources

struct StepRecord {
  SparseRecord *slots;  // batches that the device makes write theirs
  Rates *rates;  // of the steps rates_from .. number; stays from step to step, and begin_step adds what a step brings
  StepResults *results;  // those of the step's early operations, until begin_step
  double *losses;  // [terms], behind the results
  const Rates *fresh_rates;  // [fresh_count], for rates[fresh_from] on
  const int64_t *order;  // [rows], the rows of the data that the batch is made of
  const float *term_factors;  // [terms] of the weights of the losses; null: 1
  const float *row_weights;  // [terms, rows] that multiply the losses of the rows; null: 1
  int64_t rates_from;
  int64_t fresh_from, fresh_count;
  int64_t number;
  int64_t rows;
  int64_t terms;
  int64_t first, whole;  // the batch begins at row `first` of one that has `whole` rows
  uint64_t seed;
  int32_t training;
};

DEVICE Rates rates_of(const StepRecord *step, int64_t number) { return step->rates[number - step->rates_from]; }

DEVICE bool finite(float x) { return fabsf(x) <= 3.402823466e38f; }

constexpr int64_t kNoRow = (int64_t(1) << 40) - 1;
constexpr unsigned long long kOther = 1;  // another device has failed; less than any failure of this one

// A launch has a number, in its lower bits, and behind them how many launches before it may still be under way. Which of these
// have failed it must not ask: the answer would depend on timing.
constexpr int kNumberBits = 20;
DEVICE int number_of_launch(int32_t launch) { return launch & ((1 << kNumberBits) - 1); }

// Notes that a number of a launch is not finite. Of all failures the one of the first launch wins, there that of the first
// kind, there that of the first row: an order that does not depend on timing. A bigger word is an earlier failure.
DEVICE void fail(const StepRecord *step, int32_t launch, int32_t kind, int64_t row = kNoRow) {
  const unsigned long long number = number_of_launch(launch);
  raise(&step->results->failure, ~(number << 42 | (unsigned long long)kind << 40 | (unsigned long long)row));
}

// Whether an earlier step, or an earlier launch of this one, has failed; then nothing is computed and no weight changes any
// more. Steps follow each other before the host sees how they went.
DEVICE bool failed_before(const StepRecord *step, int32_t launch) {
  const unsigned long long failure = old_or_new(&step->results->failure);
  if (failure == 0) return false;
  return step->results->stopped != 0 || int64_t(~failure >> 42) < number_of_launch(launch) - (launch >> kNumberBits);
}

// The warps of a block where each has a row; rowWarps of norm.go.
constexpr int kRowWarps = 8;

// How many rows of the step there are from row `first` on, of at most `most`.
DEVICE int64_t rows_from(const StepRecord *step, int64_t first, int64_t most) {
  const int64_t left = step->rows - first;
  return left < 0 ? 0 : left < most ? left : most;
}

// The place of a value in an ascending list, -1 if the value is not in it.
DEVICE int64_t position(const int32_t *list, int64_t count, int32_t value) {
  const int64_t at = first_where(0, count, [&](int64_t i) { return list[i] >= value; });
  return at < count && list[at] == value ? at : -1;
}
