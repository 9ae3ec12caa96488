//go:build !nocuda && linux && amd64

#include "loader.h"

#include <dlfcn.h>
#include <stdio.h>

enum { FLOAT32 = 7, SUM = 0 }; /* ncclDataType_t, ncclRedOp_t */

/* ncclConfig_t as it was in the first version that had one, which says so; later versions take it. */
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

static struct {
  int (*get_version)(int *);
  int (*get_unique_id)(dsstne_nccl_id *);
  int (*group_start)(void);
  int (*group_end)(void);
  int (*init)(dsstne_nccl_comm *, int, dsstne_nccl_id, int, config *);
  int (*all_reduce)(const void *, void *, size_t, int, int, dsstne_nccl_comm, void *);
  int (*all_gather)(const void *, void *, size_t, int, dsstne_nccl_comm, void *);
  int (*broadcast)(const void *, void *, size_t, int, int, dsstne_nccl_comm, void *);
  int (*async_error)(dsstne_nccl_comm, int *);
  int (*abort)(dsstne_nccl_comm);
  const char *(*words)(int);
  const char *(*last)(dsstne_nccl_comm);
} nccl;

int dsstne_nccl_open(const char *path, char *text, size_t size) {
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
      {"ncclGetVersion", (void **)&nccl.get_version},        {"ncclGetUniqueId", (void **)&nccl.get_unique_id},
      {"ncclGroupStart", (void **)&nccl.group_start},        {"ncclGroupEnd", (void **)&nccl.group_end},
      {"ncclCommInitRankConfig", (void **)&nccl.init},       {"ncclAllReduce", (void **)&nccl.all_reduce},
      {"ncclAllGather", (void **)&nccl.all_gather},          {"ncclBroadcast", (void **)&nccl.broadcast},
      {"ncclCommGetAsyncError", (void **)&nccl.async_error}, {"ncclCommAbort", (void **)&nccl.abort},
      {"ncclGetErrorString", (void **)&nccl.words},          {"ncclGetLastError", (void **)&nccl.last},
  };
  for (size_t i = 0; i != sizeof functions / sizeof *functions; i++) {
    if ((*functions[i].to = dlsym(library, functions[i].name))) continue;
    snprintf(text, size, "it has no function %s; version 2.14 or newer is needed", functions[i].name);
    dlclose(library);
    return -1;
  }
  return 0;
}

int dsstne_nccl_version(int *version) { return nccl.get_version(version); }
int dsstne_nccl_id_new(dsstne_nccl_id *id) { return nccl.get_unique_id(id); }
int dsstne_nccl_group_start(void) { return nccl.group_start(); }
int dsstne_nccl_group_end(void) { return nccl.group_end(); }

int dsstne_nccl_init(dsstne_nccl_comm *comm, int ranks, const dsstne_nccl_id *id, int rank) {
  config c = {sizeof c, 0xcafebeef, 21400, 0};
  return nccl.init(comm, ranks, *id, rank, &c);
}

int dsstne_nccl_all_reduce(dsstne_nccl_comm comm, void *buffer, size_t n, void *stream) {
  return nccl.all_reduce(buffer, buffer, n, FLOAT32, SUM, comm, stream);
}

int dsstne_nccl_all_gather(dsstne_nccl_comm comm, const void *part, void *all, size_t n, void *stream) {
  return nccl.all_gather(part, all, n, FLOAT32, comm, stream);
}

int dsstne_nccl_broadcast(dsstne_nccl_comm comm, void *buffer, size_t n, int root, void *stream) {
  return nccl.broadcast(buffer, buffer, n, FLOAT32, root, comm, stream);
}

int dsstne_nccl_async_error(dsstne_nccl_comm comm, int *result) { return nccl.async_error(comm, result); }
int dsstne_nccl_abort(dsstne_nccl_comm comm) { return nccl.abort(comm); }
const char *dsstne_nccl_words(int result) { return nccl.words(result); }
const char *dsstne_nccl_last(dsstne_nccl_comm comm) { return nccl.last(comm); }
