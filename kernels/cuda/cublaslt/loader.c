//go:build !nocuda && linux && amd64

#include "loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT32 = 0 };                                                        /* cudaDataType */
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4 };                                   /* cublasLtMatmulDescAttributes_t */
enum {
  MOST_WORKSPACE = 1,
  REDUCTIONS = 3,
  ALIGNMENT_A = 5,
  ALIGNMENT_D = 8
}; /* cublasLtMatmulPreferenceAttributes_t */
enum { REDUCE_IN_WORKSPACE = 2 };                                            /* cublasLtReductionScheme_t */
enum { NOT_SUPPORTED = 15 };                                                 /* cublasStatus_t */

/* cublasLtMatmulHeuristicResult_t */
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} proposal;

static struct {
  size_t (*version)(void);
  const char *(*words)(int);
  int (*create)(dsstne_lt_handle *);
  int (*destroy)(dsstne_lt_handle);
  int (*layout_create)(void **, int, uint64_t, uint64_t, int64_t);
  int (*layout_destroy)(void *);
  int (*description_create)(void **, int, int);
  int (*description_destroy)(void *);
  int (*description_set)(void *, int, const void *, size_t);
  int (*preference_create)(void **);
  int (*preference_destroy)(void *);
  int (*preference_set)(void *, int, const void *, size_t);
  int (*propose)(dsstne_lt_handle, void *, void *, void *, void *, void *, void *, int, proposal *, int *);
  int (*multiply)(dsstne_lt_handle, void *, const void *, const void *, void *, const void *, void *, const void *,
                  const void *, void *, void *, void *, const void *, void *, size_t, void *);
} lt;

int dsstne_lt_open(const char *path, char *text, size_t size) {
  dlerror();
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *words = dlerror();
    snprintf(text, size, "%s", words ? words : "it cannot be opened");
    return -1;
  }
  const struct {
    const char *name;
    void **to;
  } functions[] = {
      {"cublasLtGetVersion", (void **)&lt.version},
      {"cublasLtGetStatusString", (void **)&lt.words},
      {"cublasLtCreate", (void **)&lt.create},
      {"cublasLtDestroy", (void **)&lt.destroy},
      {"cublasLtMatrixLayoutCreate", (void **)&lt.layout_create},
      {"cublasLtMatrixLayoutDestroy", (void **)&lt.layout_destroy},
      {"cublasLtMatmulDescCreate", (void **)&lt.description_create},
      {"cublasLtMatmulDescDestroy", (void **)&lt.description_destroy},
      {"cublasLtMatmulDescSetAttribute", (void **)&lt.description_set},
      {"cublasLtMatmulPreferenceCreate", (void **)&lt.preference_create},
      {"cublasLtMatmulPreferenceDestroy", (void **)&lt.preference_destroy},
      {"cublasLtMatmulPreferenceSetAttribute", (void **)&lt.preference_set},
      {"cublasLtMatmulAlgoGetHeuristic", (void **)&lt.propose},
      {"cublasLtMatmul", (void **)&lt.multiply},
  };
  for (size_t i = 0; i != sizeof functions / sizeof *functions; i++) {
    if ((*functions[i].to = dlsym(library, functions[i].name))) continue;
    snprintf(text, size, "it has no function %s", functions[i].name);
    dlclose(library);
    return -1;
  }
  return 0;
}

size_t dsstne_lt_version(void) { return lt.version(); }
const char *dsstne_lt_words(int status) { return lt.words(status); }
int dsstne_lt_destroy(dsstne_lt_handle handle) { return lt.destroy(handle); }

int dsstne_lt_create(dsstne_lt_handle *handle, const char **what) {
  *what = "cublasLtCreate";
  return lt.create(handle);
}

/* Names the function, calls it, and leaves with its status if it fails. */
#define TRY(name, call)   \
  do {                    \
    *what = name;         \
    status = call;        \
    if (status) goto out; \
  } while (0)

int dsstne_lt_plan(dsstne_lt_handle handle, const dsstne_lt_shape *s, uint64_t workspace, dsstne_lt_product *p,
                   const char **what) {
  int status, found = 0;
  void *preference = NULL;
  proposal first;
  const uint32_t reductions = REDUCE_IN_WORKSPACE;
  memset(p, 0, sizeof *p);
  TRY("cublasLtMatmulDescCreate", lt.description_create(&p->description, s->compute, FLOAT32));
  TRY("cublasLtMatmulDescSetAttribute", lt.description_set(p->description, TRANSPOSE_A, &s->transpose_a, sizeof(int)));
  TRY("cublasLtMatmulDescSetAttribute", lt.description_set(p->description, TRANSPOSE_B, &s->transpose_b, sizeof(int)));
  TRY("cublasLtMatrixLayoutCreate",
      lt.layout_create(&p->a, s->input, s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k, s->stride_a));
  TRY("cublasLtMatrixLayoutCreate",
      lt.layout_create(&p->b, s->input, s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n, s->stride_b));
  TRY("cublasLtMatrixLayoutCreate", lt.layout_create(&p->d, FLOAT32, s->m, s->n, s->stride_d));
  TRY("cublasLtMatmulPreferenceCreate", lt.preference_create(&preference));
  TRY("cublasLtMatmulPreferenceSetAttribute",
      lt.preference_set(preference, MOST_WORKSPACE, &workspace, sizeof workspace));
  /* Parts of a sum, if it is cut, are added in float32 and in a fixed order. */
  TRY("cublasLtMatmulPreferenceSetAttribute",
      lt.preference_set(preference, REDUCTIONS, &reductions, sizeof reductions));
  for (int of = ALIGNMENT_A; of <= ALIGNMENT_D; of++)
    TRY("cublasLtMatmulPreferenceSetAttribute", lt.preference_set(preference, of, &s->alignment, sizeof s->alignment));
  TRY("cublasLtMatmulAlgoGetHeuristic",
      lt.propose(handle, p->description, p->a, p->b, p->d, p->d, preference, 1, &first, &found));
  if (found < 1 || first.state != 0 || first.workspace > workspace) {
    status = NOT_SUPPORTED;
    goto out;
  }
  memcpy(p->algorithm, first.algorithm, sizeof p->algorithm);
out:
  if (preference) lt.preference_destroy(preference);
  if (status) dsstne_lt_forget(p);
  return status;
}

void dsstne_lt_forget(const dsstne_lt_product *p) {
  if (p->description) lt.description_destroy(p->description);
  if (p->a) lt.layout_destroy(p->a);
  if (p->b) lt.layout_destroy(p->b);
  if (p->d) lt.layout_destroy(p->d);
}

int dsstne_lt_run(dsstne_lt_handle handle, const dsstne_lt_product *p, uint64_t a, uint64_t b, float beta, uint64_t d,
                  uint64_t workspace, size_t bytes, void *stream) {
  const float one = 1.0f;
  return lt.multiply(handle, p->description, &one, (void *)a, p->a, (void *)b, p->b, &beta, (void *)d, p->d, (void *)d,
                     p->d, p->algorithm, (void *)workspace, bytes, stream);
}
