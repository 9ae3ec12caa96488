// A stand-in for libnccl.so.2: the collectives of the emulated devices of one process. Sums are float32 for bfloat16;
// their order is that of reduce.h.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../driver/meeting.h"
#include "../driver/types.h"
#include "reduce.h"

extern "C" {
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device);
CUresult cuPointerGetAttribute(void *out, int attribute, CUdeviceptr address);
}

namespace {

enum Result {
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress
};

constexpr size_t kOwnMemory = 1 << 20;  // of a communicator, on its device

// ncclConfig_t, as far as it is looked at.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct UniqueId {
  char bytes[128];
};

struct Communicator {
  std::string clique;
  int rank, ranks, device;
  bool blocking;
  uint64_t memory;
  bool aborted = false;
  int async_error = success;
  int unready = 0;  // so often it is asked for its state before a call that is in progress has ended

  // What a call answers whose work is done in the background.
  int begun() {
    if (blocking) return success;
    unready = 2;
    return in_progress;
  }
};

enum class Kind { all_reduce, reduce, all_gather, reduce_scatter, broadcast };

// What each rank brings to a collective.
struct Part {
  Kind kind;
  const void *from;
  void *to;
  size_t count;
  nccl::Type type;
  nccl::Operation operation;
  int root;
};

struct Call {
  Communicator *communicator;
  void *stream;
  Part part;
  int peer;  // of a send or receive, else -1
  bool send;
};

std::mutex lock;
std::set<Communicator *> live;
std::set<std::pair<std::string, int>> taken;  // ranks of cliques
uint64_t made = 0;
thread_local int depth = 0;
thread_local std::vector<Call> group;
thread_local int ending = success;  // what the group's end answers if nothing fails

// All ranks have come: from copies of what they brought, in the order of the ranks.
int together(const void *const *records, int ranks) {
  const Part &first = *static_cast<const Part *>(records[0]);
  const size_t size = nccl::size_of(first.type);
  std::vector<std::vector<char>> brought(ranks);
  for (int r = 0; r < ranks; r++) {
    const Part &p = *static_cast<const Part *>(records[r]);
    if (p.kind != first.kind || p.count != first.count || p.type != first.type || p.operation != first.operation ||
        p.root != first.root) {
      std::fprintf(stderr, "nccl: ranks 0 and %d do not agree in what they do together\n", r);
      return CUDA_ERROR_LAUNCH_FAILED;
    }
    const size_t bytes = p.count * size * (p.kind == Kind::reduce_scatter ? ranks : 1);
    const bool needed = p.kind != Kind::broadcast || r == p.root;
    if (!needed) continue;
    if (const int early = dsstne_cudaemu_reads(p.from, bytes)) return early;
    brought[r].assign(static_cast<const char *>(p.from), static_cast<const char *>(p.from) + bytes);
  }
  std::vector<char> sums;
  if (first.kind == Kind::all_reduce || first.kind == Kind::reduce || first.kind == Kind::reduce_scatter)
    sums = nccl::reduce(brought, first.type, first.operation);
  for (int r = 0; r < ranks; r++) {
    const Part &p = *static_cast<const Part *>(records[r]);
    char *const to = static_cast<char *>(p.to);
    const size_t bytes = p.count * size;
    if (p.kind == Kind::reduce && r != p.root) continue;
    if (const int early = dsstne_cudaemu_writes(to, bytes * (p.kind == Kind::all_gather ? ranks : 1))) return early;
    switch (p.kind) {
      case Kind::reduce:
      case Kind::all_reduce:
        std::memcpy(to, sums.data(), bytes);
        break;
      case Kind::reduce_scatter:
        std::memcpy(to, sums.data() + r * bytes, bytes);
        break;
      case Kind::broadcast:
        std::memcpy(to, brought[p.root].data(), bytes);
        break;
      case Kind::all_gather:
        for (int other = 0; other < ranks; other++) std::memcpy(to + other * bytes, brought[other].data(), bytes);
    }
  }
  return CUDA_SUCCESS;
}

bool on_device(const Communicator &c, const void *address, size_t bytes) {
  int device = -1;
  const CUdeviceptr p = reinterpret_cast<uintptr_t>(address);
  return bytes == 0 ||
         (dsstne_cudaemu_allocated(address, bytes) && cuPointerGetAttribute(&device, 9, p) == 0 && device == c.device);
}

int perform(const Call &call) {
  const Communicator &c = *call.communicator;
  if (call.peer >= 0) {
    const size_t bytes = call.part.count * nccl::size_of(call.part.type);
    const int from = call.send ? c.rank : call.peer, to = call.send ? call.peer : c.rank;
    const std::string clique = c.clique + " " + std::to_string(from) + ">" + std::to_string(to);
    const int bad = call.send ? dsstne_cudaemu_send(call.stream, clique.c_str(), call.part.from, bytes)
                              : dsstne_cudaemu_receive(call.stream, clique.c_str(), call.part.to, bytes);
    return bad ? unhandled_cuda_error : success;
  }
  const int bad =
      dsstne_cudaemu_meet(call.stream, c.clique.c_str(), c.rank, c.ranks, &call.part, sizeof call.part, together);
  return bad ? unhandled_cuda_error : success;
}

int submit(const char *name, Communicator *c, void *stream, Part part, int peer = -1, bool send = false) {
  if (const int fault = dsstne_cudaemu_enter(name)) return fault;
  {
    std::lock_guard hold(lock);
    if (!live.count(c) || c->aborted) return invalid_argument;
    if (c->unready) return invalid_usage;  // another call is in progress
  }
  if (int(part.type) < 0 || int(part.type) > 9 || nccl::size_of(part.type) == 0 || int(part.operation) > 4)
    return invalid_argument;
  if (part.root < 0 || part.root >= c->ranks || peer >= c->ranks) return invalid_argument;
  const size_t bytes = part.count * nccl::size_of(part.type);
  const bool reads = peer < 0 ? part.kind != Kind::broadcast || part.root == c->rank : send;
  const bool writes = peer < 0 ? part.kind != Kind::reduce || part.root == c->rank : !send;
  if (reads && !on_device(*c, part.from, bytes * (part.kind == Kind::reduce_scatter ? c->ranks : 1)))
    return invalid_argument;
  if (writes && !on_device(*c, part.to, bytes * (part.kind == Kind::all_gather ? c->ranks : 1)))
    return invalid_argument;
  group.push_back({c, stream, part, peer, send});
  if (depth > 0) {
    if (!c->blocking) ending = in_progress;
    return success;
  }
  const Call call = group.back();
  group.clear();
  const int bad = perform(call);
  return bad ? bad : c->begun();
}

int make(Communicator **out, int ranks, const std::string &clique, int rank, int device, bool blocking = true) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return invalid_argument;
  std::lock_guard hold(lock);
  if (!taken.insert({clique, rank}).second) return invalid_usage;
  const uint64_t memory = dsstne_cudaemu_take(device, kOwnMemory);
  if (!memory) return unhandled_cuda_error;
  *out = new Communicator{clique, rank, ranks, device, blocking, memory};
  live.insert(*out);
  const int answer = (*out)->begun();
  if (depth == 0) return answer;
  if (!blocking) ending = in_progress;
  return success;
}

}  // namespace

API int ncclGetVersion(int *version) { return *version = 22700, success; }

API int ncclGetUniqueId(UniqueId *id) {
  std::lock_guard hold(lock);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "clique %llu", (unsigned long long)++made);
  return success;
}

// In a group, all is done when each is called.
API int ncclCommInitRankConfig(Communicator **out, int ranks, UniqueId id, int rank, const Config *config) {
  if (const int fault = dsstne_cudaemu_enter("ncclCommInitRank")) return fault;
  CUdevice device;
  if (cuCtxGetDevice(&device)) return unhandled_cuda_error;
  return make(out, ranks, id.bytes, rank, device, !config || config->blocking);
}
API int ncclCommInitRank(Communicator **out, int ranks, UniqueId id, int rank) {
  return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

API int ncclCommInitAll(Communicator **out, int ranks, const int *list) {
  if (const int fault = dsstne_cudaemu_enter("ncclCommInitAll")) return fault;
  UniqueId id;
  ncclGetUniqueId(&id);
  for (int r = 0; r < ranks; r++)
    if (const int bad = make(&out[r], ranks, id.bytes, r, list ? list[r] : r)) return bad;
  return success;
}

API int ncclCommFinalize(Communicator *) { return success; }

// Like the library, waits for captured graphs: each collective in one holds a reference to its communicator.
API int ncclCommDestroy(Communicator *c) {
  {
    std::lock_guard hold(lock);
    if (!live.count(c)) return invalid_argument;
    c->aborted = true;  // nothing is submitted any more
  }
  const int bad = dsstne_cudaemu_released(c->clique.c_str(), c->rank, c->device) ? unhandled_cuda_error : success;
  std::lock_guard hold(lock);
  if (!live.erase(c)) return invalid_argument;
  dsstne_cudaemu_give(c->device, c->memory, kOwnMemory);
  delete c;
  return bad;
}

API int ncclCommAbort(Communicator *c) {
  bool blocking;
  {
    std::lock_guard hold(lock);
    if (!live.count(c)) return invalid_argument;
    blocking = c->blocking;
  }
  dsstne_cudaemu_abandon(c->clique.c_str());
  if (const char *text = std::getenv("DSSTNE_CUDAEMU_ABORT"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(text)));
  // Like the library, saves the current device and sets it again: without a context that is device 0, where one is
  // made.
  CUdevice current;
  void *context;
  if (cuCtxGetDevice(&current)) cuDevicePrimaryCtxRetain(&context, 0);
  const int bad = ncclCommDestroy(c);
  return bad || blocking ? bad : int(in_progress);
}

API int ncclCommCount(const Communicator *c, int *ranks) { return *ranks = c->ranks, success; }
API int ncclCommUserRank(const Communicator *c, int *rank) { return *rank = c->rank, success; }
API int ncclCommCuDevice(const Communicator *c, int *device) { return *device = c->device, success; }

// A fault injected for this function is an error that happened in the background.
API int ncclCommGetAsyncError(Communicator *c, int *error) {
  std::lock_guard hold(lock);
  if (!live.count(c)) return invalid_argument;
  if (const int fault = dsstne_cudaemu_enter("ncclCommGetAsyncError")) c->async_error = fault, c->unready = 0;
  *error = c->unready > 0 ? c->unready--, int(in_progress) : c->async_error;
  return success;
}

API const char *ncclGetErrorString(int result) {
  static const char *const words[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return result >= 0 && result < 8 ? words[result] : "unknown result code";
}
API const char *ncclGetLastError(const Communicator *) { return ""; }

API int ncclGroupStart() { return depth++, success; }

// Sends go first: what is received in the same group may depend on them.
API int ncclGroupEnd() {
  if (depth == 0) return invalid_usage;
  if (--depth > 0) return success;
  if (const int fault = dsstne_cudaemu_enter("ncclGroupEnd")) return group.clear(), fault;
  const std::vector<Call> calls = std::move(group);
  const int answer = std::exchange(ending, success);
  group.clear();
  for (const bool sends : {true, false})
    for (const Call &c : calls)
      if ((c.peer >= 0 && c.send) == sends)
        if (const int bad = perform(c)) return bad;
  for (const Call &c : calls) c.communicator->begun();
  return answer;
}

using nccl::Operation;
using nccl::Type;

API int ncclAllReduce(const void *from, void *to, size_t n, Type type, Operation op, Communicator *c, void *stream) {
  return submit("ncclAllReduce", c, stream, {Kind::all_reduce, from, to, n, type, op, 0});
}
API int ncclReduce(const void *from, void *to, size_t n, Type type, Operation op, int root, Communicator *c,
                   void *stream) {
  return submit("ncclReduce", c, stream, {Kind::reduce, from, to, n, type, op, root});
}
API int ncclReduceScatter(const void *from, void *to, size_t n, Type type, Operation op, Communicator *c,
                          void *stream) {
  return submit("ncclReduceScatter", c, stream, {Kind::reduce_scatter, from, to, n, type, op, 0});
}
API int ncclAllGather(const void *from, void *to, size_t n, Type type, Communicator *c, void *stream) {
  return submit("ncclAllGather", c, stream, {Kind::all_gather, from, to, n, type, Operation::sum, 0});
}
API int ncclBroadcast(const void *from, void *to, size_t n, Type type, int root, Communicator *c, void *stream) {
  return submit("ncclBroadcast", c, stream, {Kind::broadcast, from, to, n, type, Operation::sum, root});
}
API int ncclBcast(void *data, size_t n, Type type, int root, Communicator *c, void *stream) {
  return ncclBroadcast(data, data, n, type, root, c, stream);
}
API int ncclSend(const void *from, size_t n, Type type, int peer, Communicator *c, void *stream) {
  return peer < 0
             ? int(invalid_argument)
             : submit("ncclSend", c, stream, {Kind::broadcast, from, nullptr, n, type, Operation::sum, 0}, peer, true);
}
API int ncclRecv(void *to, size_t n, Type type, int peer, Communicator *c, void *stream) {
  return peer < 0
             ? int(invalid_argument)
             : submit("ncclRecv", c, stream, {Kind::broadcast, nullptr, to, n, type, Operation::sum, 0}, peer, false);
}
