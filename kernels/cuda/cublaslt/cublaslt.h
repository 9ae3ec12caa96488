/* cublaslt.h: calls libcublasLt. Its types are written down from its documentation; no header of it is needed. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FLOAT32 = 0 }; /* cudaDataType */
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4 }; /* cublasLtMatmulDescAttributes_t */
enum { MOST_WORKSPACE = 1, REDUCTIONS = 3, ALIGNMENT_A = 5, ALIGNMENT_D = 8 }; /* ...MatmulPreferenceAttributes_t */
enum { REDUCE_IN_WORKSPACE = 2 }; /* cublasLtReductionScheme_t */
enum { NOT_SUPPORTED = 15 }; /* cublasStatus_t */

/* cublasLtMatmulHeuristicResult_t */
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} proposal;

/* Result, name and arguments of each function; most results are cublasStatus_t. */
/* clang-format off */
#define FUNCTIONS(F)                                                                                                     \
  F(size_t, cublasLtGetVersion, void)                                                                                    \
  F(const char *, cublasLtGetStatusString, int)                                                                          \
  F(int, cublasLtCreate, void **)                                                                                        \
  F(int, cublasLtDestroy, void *)                                                                                        \
  F(int, cublasLtMatrixLayoutCreate, void **, int, uint64_t, uint64_t, int64_t)                                          \
  F(int, cublasLtMatrixLayoutDestroy, void *)                                                                            \
  F(int, cublasLtMatmulDescCreate, void **, int, int)                                                                    \
  F(int, cublasLtMatmulDescDestroy, void *)                                                                              \
  F(int, cublasLtMatmulDescSetAttribute, void *, int, const void *, size_t)                                              \
  F(int, cublasLtMatmulPreferenceCreate, void **)                                                                        \
  F(int, cublasLtMatmulPreferenceDestroy, void *)                                                                        \
  F(int, cublasLtMatmulPreferenceSetAttribute, void *, int, const void *, size_t)                                        \
  F(int, cublasLtMatmulAlgoGetHeuristic, void *, void *, void *, void *, void *, void *, void *, int, proposal *, int *) \
  F(int, cublasLtMatmul, void *, void *, const void *, const void *, void *, const void *, void *, const void *,         \
    const void *, void *, void *, void *, const void *, void *, size_t, void *)
/* clang-format on */

#define POINTER(result, name, ...) result (*name)(__VA_ARGS__);
#define NAME(result, name, ...) #name,
static struct {
  FUNCTIONS(POINTER)
} lt;
static const char *const names[] = {FUNCTIONS(NAME)};
enum { COUNT = sizeof names / sizeof *names };

/* D = op(A) op(B) + beta D, all column by column; op(A) is m x k. */
typedef struct {
  int input, output, compute; /* cudaDataType of A and B, and of D; cublasComputeType_t */
  _Bool transpose_a, transpose_b;
  uint64_t m, n, k;
  int64_t stride_a, stride_b, stride_d;
  uint32_t alignment; /* of all addresses, in bytes */
} product_shape;

typedef struct {
  void *description, *a, *b, *d;
  uint64_t algorithm[8];
} product;

static inline const char *const *function_names(void) { return names; }
static inline void *function_slots(void) { return &lt; }

static inline size_t lt_version(void) { return lt.cublasLtGetVersion(); }
static inline const char *lt_words(int status) { return lt.cublasLtGetStatusString(status); }
static inline int lt_create(void **handle) { return lt.cublasLtCreate(handle); }
static inline int lt_destroy(void *handle) { return lt.cublasLtDestroy(handle); }

static inline void lt_forget(const product *p) {
  if (p->description) lt.cublasLtMatmulDescDestroy(p->description);
  if (p->a) lt.cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) lt.cublasLtMatrixLayoutDestroy(p->b);
  if (p->d) lt.cublasLtMatrixLayoutDestroy(p->d);
}

/* Calls a function of the library, and leaves with its name and status if it fails. */
#define TRY(name, ...)                     \
  do {                                     \
    if ((status = lt.name(__VA_ARGS__))) { \
      *what = #name;                       \
      goto out;                            \
    }                                      \
  } while (0)

static inline int lt_plan(void *handle, const product_shape *s, uint64_t workspace, product *p, const char **what) {
  int status, found = 0, transpose_a = s->transpose_a, transpose_b = s->transpose_b;
  void *preference = NULL;
  proposal first;
  const uint32_t reductions = REDUCE_IN_WORKSPACE;
  memset(p, 0, sizeof *p);
  TRY(cublasLtMatmulDescCreate, &p->description, s->compute, FLOAT32);
  TRY(cublasLtMatmulDescSetAttribute, p->description, TRANSPOSE_A, &transpose_a, sizeof transpose_a);
  TRY(cublasLtMatmulDescSetAttribute, p->description, TRANSPOSE_B, &transpose_b, sizeof transpose_b);
  TRY(cublasLtMatrixLayoutCreate, &p->a, s->input, transpose_a ? s->k : s->m, transpose_a ? s->m : s->k, s->stride_a);
  TRY(cublasLtMatrixLayoutCreate, &p->b, s->input, transpose_b ? s->n : s->k, transpose_b ? s->k : s->n, s->stride_b);
  TRY(cublasLtMatrixLayoutCreate, &p->d, s->output, s->m, s->n, s->stride_d);
  TRY(cublasLtMatmulPreferenceCreate, &preference);
  TRY(cublasLtMatmulPreferenceSetAttribute, preference, MOST_WORKSPACE, &workspace, sizeof workspace);
  /* Parts of a sum, if it is cut, are added in float32 and in a fixed order. */
  TRY(cublasLtMatmulPreferenceSetAttribute, preference, REDUCTIONS, &reductions, sizeof reductions);
  for (int of = ALIGNMENT_A; of <= ALIGNMENT_D; of++)
    TRY(cublasLtMatmulPreferenceSetAttribute, preference, of, &s->alignment, sizeof s->alignment);
  TRY(cublasLtMatmulAlgoGetHeuristic, handle, p->description, p->a, p->b, p->d, p->d, preference, 1, &first, &found);
  if (found < 1 || first.state != 0 || first.workspace > workspace) {
    *what = "cublasLtMatmulAlgoGetHeuristic";
    status = found > 0 && first.state ? first.state : NOT_SUPPORTED;
    goto out;
  }
  memcpy(p->algorithm, first.algorithm, sizeof p->algorithm);
out:
  if (preference) lt.cublasLtMatmulPreferenceDestroy(preference);
  if (status) lt_forget(p);
  return status;
}

static inline int lt_run(void *handle, const product *p, uint64_t a, uint64_t b, float beta, uint64_t d,
                         uint64_t workspace, size_t bytes, void *stream) {
  const float one = 1.0f;
  return lt.cublasLtMatmul(handle, p->description, &one, (void *)a, p->a, (void *)b, p->b, &beta, (void *)d, p->d,
                           (void *)d, p->d, p->algorithm, (void *)workspace, bytes, stream);
}
