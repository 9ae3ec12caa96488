/* What AVX-512 with products of bfloat16 has besides those of 8-bit integers. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx512vnni")
#define LANES 16
#define TILE_ROWS 14
#define NAME "avx512bf16"
#define TABLE dsstne_kernels_avx512bf16
#define BASE dsstne_kernels_avx512vnni
#define OWN_PHASES BFLOAT16_PHASES
#include "table.h"
#endif
