/* nccl.h: calls libnccl.so.2. Its types are written down from its documentation; no header of it is needed. */
#include <stddef.h>
#include <stdlib.h>

enum { FLOAT32 = 7, SUM = 0 }; /* ncclDataType_t, ncclRedOp_t */

typedef void *nccl_comm;

typedef struct {
  char bytes[128];
} nccl_id;

/* ncclConfig_t as it was in the first version that had one, which says so; later versions take it. */
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

/* Result, name and arguments of each function; most results are ncclResult_t. */
/* clang-format off */
#define FUNCTIONS(F)                                                               \
  F(int, ncclGetVersion, int *)                                                    \
  F(int, ncclGetUniqueId, nccl_id *)                                               \
  F(int, ncclGroupStart, void)                                                     \
  F(int, ncclGroupEnd, void)                                                       \
  F(int, ncclCommInitRankConfig, nccl_comm *, int, nccl_id, int, config *)         \
  F(int, ncclAllReduce, const void *, void *, size_t, int, int, nccl_comm, void *) \
  F(int, ncclAllGather, const void *, void *, size_t, int, nccl_comm, void *)      \
  F(int, ncclBroadcast, const void *, void *, size_t, int, int, nccl_comm, void *) \
  F(int, ncclCommGetAsyncError, nccl_comm, int *)                                  \
  F(int, ncclCommAbort, nccl_comm)                                                 \
  F(const char *, ncclGetErrorString, int)                                         \
  F(const char *, ncclGetLastError, nccl_comm)
/* clang-format on */

#define POINTER(result, name, ...) result (*name)(__VA_ARGS__);
#define NAME(result, name, ...) #name,
static struct {
  FUNCTIONS(POINTER)
} nccl;
static const char *const names[] = {FUNCTIONS(NAME)};
enum { COUNT = sizeof names / sizeof *names };

static inline const char *const *function_names(void) { return names; }
static inline void *function_slots(void) { return &nccl; }

static inline int nccl_version(int *version) { return nccl.ncclGetVersion(version); }
static inline int nccl_unique_id(nccl_id *id) { return nccl.ncclGetUniqueId(id); }
static inline int nccl_group_start(void) { return nccl.ncclGroupStart(); }
static inline int nccl_group_end(void) { return nccl.ncclGroupEnd(); }

static inline int nccl_init(nccl_comm *comm, int ranks, const nccl_id *id, int rank) {
  config c = {sizeof c, 0xcafebeef, 21400, 0};
  return nccl.ncclCommInitRankConfig(comm, ranks, *id, rank, &c);
}

static inline int nccl_all_reduce(nccl_comm comm, const void *from, void *to, size_t n, void *stream) {
  return nccl.ncclAllReduce(from, to, n, FLOAT32, SUM, comm, stream);
}

static inline int nccl_all_gather(nccl_comm comm, const void *from, void *to, size_t n, void *stream) {
  return nccl.ncclAllGather(from, to, n, FLOAT32, comm, stream);
}

static inline int nccl_broadcast(nccl_comm comm, const void *from, void *to, size_t n, int root, void *stream) {
  return nccl.ncclBroadcast(from, to, n, FLOAT32, root, comm, stream);
}

static inline int nccl_async_error(nccl_comm comm, int *result) { return nccl.ncclCommGetAsyncError(comm, result); }
static inline int nccl_abort(nccl_comm comm) { return nccl.ncclCommAbort(comm); }
static inline const char *nccl_words(int result) { return nccl.ncclGetErrorString(result); }
static inline const char *nccl_last_words(nccl_comm comm) { return nccl.ncclGetLastError(comm); }
