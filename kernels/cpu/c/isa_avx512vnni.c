/* The kernels for AVX-512 with products of 8-bit integers. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")
#define LANES 16
#define TILE_ROWS 14
#define NAME "avx512vnni"
#define TABLE dsstne_kernels_avx512vnni
#include "table.h"
#endif
