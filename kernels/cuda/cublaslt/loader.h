/* loader.h: finds libcublasLt and calls it. Its types are written down from its documentation; no header of it is needed. */
#include <stddef.h>
#include <stdint.h>

typedef void *dsstne_lt_handle;

/* D = op(A) op(B) + beta D, all column by column; op(A) is m x k. */
typedef struct {
  int input, compute; /* cudaDataType of A and B, cublasComputeType_t */
  int transpose_a, transpose_b;
  uint64_t m, n, k;
  int64_t stride_a, stride_b, stride_d;
  uint32_t alignment; /* of all addresses, in bytes */
} dsstne_lt_shape;

typedef struct {
  void *description, *a, *b, *d;
  uint64_t algorithm[8];
} dsstne_lt_product;

/* Opens the library at a path or, given a bare name, where the loader looks. Returns 0, or -1 with the reason in text. */
int dsstne_lt_open(const char *path, char *text, size_t size);
size_t dsstne_lt_version(void);
const char *dsstne_lt_words(int status);

/* Results are cublasStatus_t; *what names the function that failed. */
int dsstne_lt_create(dsstne_lt_handle *handle, const char **what);
int dsstne_lt_destroy(dsstne_lt_handle handle);
int dsstne_lt_plan(dsstne_lt_handle handle, const dsstne_lt_shape *shape, uint64_t workspace,
                   dsstne_lt_product *product, const char **what);
void dsstne_lt_forget(const dsstne_lt_product *product);
int dsstne_lt_run(dsstne_lt_handle handle, const dsstne_lt_product *product, uint64_t a, uint64_t b, float beta,
                  uint64_t d, uint64_t workspace, size_t bytes, void *stream);
