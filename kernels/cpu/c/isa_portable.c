/* The kernels in vectors of 4 floats, which every 64-bit CPU has (SSE2, NEON). */
#define LANES 4
#define TILE_ROWS 6
#define NAME "portable"
#define TABLE dsstne_kernels_portable
#include "table.h"
