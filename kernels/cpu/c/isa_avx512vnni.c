/* What AVX-512 with products of 8-bit integers has of its own. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")
#define LANES 16
#define TILE_ROWS 14
#define NAME "avx512vnni"
#define TABLE dsstne_kernels_avx512vnni
#define BASE dsstne_kernels_avx512
#define OWN_PHASES INT8_PHASES
#include "table.h"
#endif
