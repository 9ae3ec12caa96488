// The units of a variational layer, drawn from normal distributions, and the way back.
#include "normal.cuh"
#include "output.cuh"

struct SampleArgs {
  const StepRecord *step;
  float *heads;  // [B, 2 units]: means, log-variances; of sample_backward also out: their gradients
  float *units_of;  // [B, units]: of sample out; of sample_backward dL/dh
  double *loss;  // [B]
  int64_t units;
  uint32_t stream;
  float weight, most;
  int32_t term, launch;
};

// Standard normal numbers of the units 4 four .. 4 four + 3 of row u.
DEVICE void noise(const SampleArgs &a, int64_t u, int64_t four, float (&e)[4]) {
  const StepRecord *step = a.step;
  const PhiloxWords x = philox(step->seed, uint32_t(four), uint32_t(step->first + u), uint32_t(step->number), a.stream);
  normal_pair(x.word[0], x.word[1], 1.0f, &e[0], &e[1]);
  normal_pair(x.word[2], x.word[3], 1.0f, &e[2], &e[3]);
}

// h = m + exp(v / 2) e in training, else m.
//
// Mapping: a thread has four neighbouring units of a row, which share one run of Philox.
// Bytes: reads 8 and writes 4 a unit; bound by float64 arithmetic, for the noise.
// Source: kernels/variational.go, Sample; scheme: own.
KERNEL_BOUNDS(sample, SampleArgs, 128, 4) {
  const StepRecord *step = a.step;
  const int64_t four = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, u = blockIdx.y + int64_t(gridDim.y) * blockIdx.z;
  if (4 * four >= a.units || u >= step->rows || failed_before(step, a.launch)) return;
  const float *mean = a.heads + 2 * u * a.units, *log_variance = mean + a.units;
  float *out = a.units_of + u * a.units;
  float e[4] = {};
  if (step->training) noise(a, u, four, e);
  for (int i = 0; i < 4 && 4 * four + i < a.units; i++) {
    const int64_t k = 4 * four + i;
    out[k] = step->training ? mean[k] + expf(0.5f * log_variance[k]) * e[i] : mean[k];
  }
}

// The gradients of means and log-variances, in their place, and the divergence of a row.
//
// Mapping: a block has a row, a thread each 128th four neighbouring units.
// Bytes: reads 12 and writes 8 a unit; bound by float64 arithmetic, for the noise.
// Source: kernels/variational.go, SampleBackward; scheme: own.
KERNEL_BOUNDS(sample_backward, SampleArgs, 128, 4) {
  SHARED(double, losses, [4]);
  const StepRecord *step = a.step;
  const int64_t u = blockIdx.x;
  if (u >= step->rows || failed_before(step, a.launch)) return;
  const float factor = step->term_factors ? step->term_factors[a.term] : 1.0f;
  const float weight = a.weight * factor / float(step->whole);
  float *mean = a.heads + 2 * u * a.units, *log_variance = mean + a.units;
  const float *dh = a.units_of + u * a.units;
  double total = 0.0;
  for (int64_t four = threadIdx.x; 4 * four < a.units; four += blockDim.x) {
    float e[4];
    noise(a, u, four, e);
    for (int i = 0; i < 4 && 4 * four + i < a.units; i++) {
      const int64_t k = 4 * four + i;
      const float m = mean[k], v = log_variance[k], g = dh[k], variance = v > a.most ? infinity() : expf(v);
      const float dm = g + weight * m, dv = 0.5f * (g * e[i] * expf(0.5f * v) + weight * (variance - 1.0f));
      if (!finite(dm) || !finite(dv)) fail(step, a.launch, kFailGradient);
      total += double(m) * double(m) + double(variance - 1.0f - v);
      mean[k] = dm;
      log_variance[k] = dv;
    }
  }
  total = warp_sum(total);
  if (lane_id() == 0) losses[warp_id()] = total;
  __syncthreads();
  if (threadIdx.x == 0) a.loss[u] = 0.5 * double(weight) * (losses[0] + losses[1] + losses[2] + losses[3]);
}
