/* The one place that asks what the CPU can do. */
#include "kernels.h"

#include <stddef.h>

extern kernels_t dsstne_kernels_portable, dsstne_kernels_avx2, dsstne_kernels_avx512, dsstne_kernels_avx512vnni,
    dsstne_kernels_avx512bf16;

#if defined(__x86_64__)
static void complete(kernels_t *of) {
#define PHASE(function, arguments, flush) \
  if (!of->function) of->function = of->base->function;
  PHASES(PHASE)
#undef PHASE
}

/* When the library is loaded, before another thread may ask. */
__attribute__((constructor)) static void complete_all(void) {
  complete(&dsstne_kernels_avx512vnni);
  complete(&dsstne_kernels_avx512bf16);
}
#endif

const kernels_t *dsstne_cpu_kernels(int32_t level) {
  switch (level) {
    case 0:
      return &dsstne_kernels_portable;
#if defined(__x86_64__)
    case 1:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &dsstne_kernels_avx2 : NULL;
    case 2:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
                 ? &dsstne_kernels_avx512
                 : NULL;
    case 3:
      return __builtin_cpu_supports("avx512vnni") && dsstne_cpu_kernels(2) ? &dsstne_kernels_avx512vnni : NULL;
    case 4:
      return __builtin_cpu_supports("avx512bf16") && dsstne_cpu_kernels(3) ? &dsstne_kernels_avx512bf16 : NULL;
#endif
    default:
      return NULL;
  }
}

/* AMD's Zen 4 multiplies twice as many numbers of bfloat16 as of float32 in a cycle. An Intel Xeon (family 6, model 167)
 * multiplies half as many (179 and 360 GFLOP/s on two cores), and a training step takes 1.5 times as long. */
int32_t dsstne_cpu_fast_bfloat16(void) {
#if defined(__x86_64__)
  return !!__builtin_cpu_is("amd");
#else
  return 0;
#endif
}
