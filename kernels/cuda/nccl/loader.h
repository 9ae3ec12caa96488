/* loader.h: finds libnccl.so.2 and calls it. Its types are written down from its documentation; no header of it is needed. */
#include <stddef.h>

typedef struct {
  char bytes[128];
} dsstne_nccl_id;

typedef void *dsstne_nccl_comm;

/* Opens the library at a path or, given a bare name, where the loader looks. Returns 0, or -1 with the reason in text. */
int dsstne_nccl_open(const char *path, char *text, size_t size);

/* The functions of the same names. Results are ncclResult_t; counts are of float32 numbers, which are added up. */
int dsstne_nccl_version(int *version);
int dsstne_nccl_id_new(dsstne_nccl_id *id);
int dsstne_nccl_group_start(void);
int dsstne_nccl_group_end(void);
int dsstne_nccl_init(dsstne_nccl_comm *comm, int ranks, const dsstne_nccl_id *id, int rank);
int dsstne_nccl_all_reduce(dsstne_nccl_comm comm, void *buffer, size_t n, void *stream);
int dsstne_nccl_all_gather(dsstne_nccl_comm comm, const void *part, void *all, size_t n, void *stream);
int dsstne_nccl_broadcast(dsstne_nccl_comm comm, void *buffer, size_t n, int root, void *stream);
int dsstne_nccl_async_error(dsstne_nccl_comm comm, int *result);
int dsstne_nccl_abort(dsstne_nccl_comm comm);
const char *dsstne_nccl_words(int result);
const char *dsstne_nccl_last(dsstne_nccl_comm comm); /* what the library says about its last failure */
