/* The kernels for AVX-512: 32 registers of 16 floats. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")
#define LANES 16
#define TILE_ROWS 14
#define NAME "avx512"
#define TABLE dsstne_kernels_avx512
#include "table.h"
#endif
