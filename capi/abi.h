/* What the exports include: the public header, and names for its const types.
 *
 * cgo repeats every export as a C prototype built from the Go types, and has no way to say const. These names carry the
 * const through, so that the prototypes agree with dsstne.h and the compiler refuses any export that drifts from it.
 */
#ifndef DSSTNE_CAPI_ABI_H
#define DSSTNE_CAPI_ABI_H

#include "dsstne.h"

typedef const char const_char;
typedef const void const_void;
typedef const int32_t const_int32;
typedef const float const_float;
typedef const float const_float;
typedef const int64_t const_int64;
typedef const dsstne_dataset_info const_dataset_info;

#if defined(__clang__)
#define DSSTNE_COMPILER __VERSION__
#else
#define DSSTNE_COMPILER "GCC " __VERSION__
#endif

#endif /* DSSTNE_CAPI_ABI_H */
