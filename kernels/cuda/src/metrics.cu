// Ranking metrics of the recommendations of each row, and what is added up of them: kernels.RankingMetrics.
#include "step.cuh"

struct Metric {
  int64_t cut;   // the k of recall@k
  int64_t seen;  // of coverage: where its bits begin in totals
  int32_t kind;  // METRIC_<word>
  int32_t unused;
};

constexpr int kMostMetrics = 128, kMetricWarps = 8;
constexpr int64_t kNoValue = 0x7ff8000000000001;  // kernels.NoValue

struct MetricsArgs {
  const StepRecord *step;
  const int32_t *ids;       // [B, k]
  const double *discounts;  // [k], and the sums of the first 0 .. k
  double *values;           // [B, stride], null: not wanted
  unsigned long long *totals;  // a sum of 128 bits for each metric, low word first; bits of coverage
  unsigned long long *counted;  // rows with targets; null: others count them
  int64_t k, stride;
  int32_t metrics, target, launch, unused;
  Metric metric[kMostMetrics];
};

// What is counted of a row for one metric while its list is walked through.
struct Counted {
  int64_t hits, first;
  double gain, precisions;
};

// METRIC(word) { ... } is the metric of a row with targets, of which `reachable` fit in the list.
#define METRIC(word)                                                                                    \
  DEVICE double metric_##word(const MetricsArgs &a, const Metric &m, const Counted &c, int64_t targets, \
                              int64_t reachable)

METRIC(precision) { return double(c.hits) / double(m.cut); }
METRIC(recall) { return double(c.hits) / double(targets); }
METRIC(truncated_recall) { return double(c.hits) / double(reachable); }
METRIC(ndcg) { return c.gain / a.discounts[a.k + reachable]; }
METRIC(hit_rate) { return c.hits > 0 ? 1.0 : 0.0; }
METRIC(mrr) { return c.hits > 0 ? 1.0 / double(c.first) : 0.0; }
METRIC(map) { return c.precisions / double(reachable); }
METRIC(coverage) { return __longlong_as_double(kNoValue); }  // it has none of one row

DEVICE double value_of(const MetricsArgs &a, const Metric &m, const Counted &c, int64_t targets) {
  const int64_t reachable = m.cut < targets ? m.cut : targets;
  switch (m.kind) { METRICS(CASE_BY_WORD, METRIC, metric_, a, m, c, targets, reachable) }
  __builtin_unreachable();
}

// sum += value, in units of 2^-62: integers add up to the same in whatever order rows come.
DEVICE void add_fixed(unsigned long long *sum, double value) {
  const unsigned long long units = (unsigned long long)(value * 4611686018427387904.0);
  if (units == 0) return;
  const unsigned long long before = atomicAdd(&sum[0], units);
  if (before + units < before) atomicAdd(&sum[1], 1ull);
}

// For a hit at rank i: hits, gain += d_i, precisions += hits / i, in the order of the ranks; then the formulas of MetricKind.
//
// Mapping: a warp has a row, a lane a metric. 32 places of the list at a time, each lane looks its item up in the targets by
// bisection, and every lane goes through the hits.
// Bytes: reads 4 a place, of some targets for each, 8 a hit; adds 16 a row and metric to a word that all rows share, in the
// second-level cache. Few operations beside those of the ranking.
// Source: kernels/metrics.go, MetricKind and FixedPoint; scheme: own.
KERNEL_BOUNDS(ranking_metrics, MetricsArgs, 32 * kMetricWarps, 4) {
  const StepRecord *step = a.step;
  const int64_t u = int64_t(blockIdx.x) * kMetricWarps + warp_id();
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const SparseRecord &batch = step->slots[a.target];
  const int32_t *targets = batch.indices + batch.offsets[u];
  const int64_t count = batch.offsets[u + 1] - batch.offsets[u];
  const int lane = lane_id();
  if (a.counted && count > 0 && lane == 0) atomicAdd(a.counted, 1ull);
  for (int32_t first = 0; first < a.metrics; first += 32) {
    const bool mine = first + lane < a.metrics;
    const Metric m = a.metric[mine ? first + lane : 0];
    const int32_t end = first + 32 < a.metrics ? first + 32 : a.metrics;
    Counted c = {};
    bool more = count > 0;
    for (int64_t at = 0; more && at < a.k; at += 32) {
      const int32_t item = at + lane < a.k ? a.ids[u * a.k + at + lane] : -1;
      const unsigned missing = __ballot_sync(kAllLanes, item < 0);
      const unsigned listed = missing ? (1u << (__ffs(int(missing)) - 1)) - 1u : kAllLanes;
      const bool is_listed = (listed >> lane & 1u) != 0;
      unsigned hits = __ballot_sync(kAllLanes, is_listed && position(targets, count, item) >= 0);
      for (; hits; hits &= hits - 1) {
        const int64_t i = at + __ffs(int(hits)) - 1;
        if (i >= m.cut) break;
        if (++c.hits == 1) c.first = i + 1;
        c.gain += a.discounts[i];
        c.precisions += double(c.hits) / double(i + 1);
      }
      for (int32_t n = first; n < end; n++) {
        if (a.metric[n].kind != METRIC_coverage || !is_listed || at + lane >= a.metric[n].cut) continue;
        atomicOr(a.totals + a.metric[n].seen + item / 64, 1ull << (item % 64));
      }
      more = missing == 0;
    }
    if (!mine) continue;
    const bool has = count > 0 && m.kind != METRIC_coverage;
    const double value = has ? value_of(a, m, c, count) : __longlong_as_double(kNoValue);
    if (has) add_fixed(a.totals + 2 * (first + lane), value);
    if (a.values) a.values[u * a.stride + first + lane] = value;
  }
}
