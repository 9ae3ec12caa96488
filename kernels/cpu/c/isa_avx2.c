/* The kernels for AVX2 with FMA: 16 registers of 8 floats. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define LANES 8
#define TILE_ROWS 6
#define NAME "avx2"
#define TABLE dsstne_kernels_avx2
#include "table.h"
#endif
