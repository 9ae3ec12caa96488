#include "meeting.h"

#include <cstring>
#include <map>

#include "../runtime/memory.h"
#include "state.h"

using namespace emulator;

namespace {

using Bytes = std::vector<char>;

// The meetings of a clique that have not ended, by their number, how many each rank has joined, and what captured ones hold.
struct Clique {
  std::map<uint64_t, std::shared_ptr<Meeting>> open;
  std::map<int, uint64_t> joined;
  std::map<int, std::shared_ptr<void>> captured;  // by rank
  bool abandoned = false;
};
std::map<std::string, Clique> cliques;  // under the driver's lock

std::shared_ptr<Meeting> attend(const std::string &name, int rank, int ranks) {
  Clique &clique = cliques[name];
  if (clique.abandoned) {
    auto alone = std::make_shared<Meeting>();
    alone->joined = alone->expected;
    alone->all = [] { return CUresult(CUDA_SUCCESS); };
    return alone;
  }
  const uint64_t number = clique.joined[rank]++;
  auto &meeting = clique.open[number];
  if (!meeting) {
    meeting = std::make_shared<Meeting>();
    meeting->expected = ranks;
  }
  const std::shared_ptr<Meeting> kept = meeting;
  if (++kept->joined == ranks) clique.open.erase(number);
  return kept;
}

Bytes copy_of(const void *p, size_t n) { return Bytes(static_cast<const char *>(p), static_cast<const char *>(p) + n); }

int submit_to(void *handle, Work work) {
  Hold hold(lock);
  CUresult why;
  const std::shared_ptr<Stream> stream = stream_of(handle, why);
  return why ? why : submit(stream, std::move(work), hold);
}

}  // namespace

API int dsstne_cudaemu_meet(void *stream, const char *clique, int rank, int ranks, const void *record,
                            size_t record_bytes, int (*all)(const void *const *records, int ranks)) {
  Work work;
  work.kind = Work::meeting;
  work.join = [name = std::string(clique), rank, ranks, record = copy_of(record, record_bytes),
               all](const Point &before) {
    static std::map<Meeting *, std::shared_ptr<std::vector<Bytes>>> records;  // until the last has come
    const std::shared_ptr<Meeting> meeting = attend(name, rank, ranks);
    if (meeting->joined == meeting->expected && meeting->all) return meeting;  // the clique was abandoned
    auto &kept = records[meeting.get()];
    if (!kept || int(kept->size()) != ranks)
      kept = std::make_shared<std::vector<Bytes>>(ranks);  // or of one that was abandoned
    (*kept)[rank] = record;
    meeting->before.push_back(before);
    if (meeting->joined == ranks) {
      meeting->all = [kept = kept, all] {
        Access open;
        std::vector<const void *> pointers;
        for (const Bytes &r : *kept) pointers.push_back(r.data());
        return CUresult(all(pointers.data(), int(pointers.size())));
      };
      records.erase(meeting.get());
    }
    return meeting;
  };
  Hold hold(lock);
  CUresult why;
  const std::shared_ptr<Stream> to = stream_of(stream, why);
  if (why) return why;
  if (to->capture) {
    auto &held = cliques[clique].captured[rank];
    if (!held) held = std::make_shared<int>();
    work.holds = held;
  }
  return submit(to, std::move(work), hold);
}

API int dsstne_cudaemu_released(const char *clique, int rank, int device) {
  const auto end = std::chrono::steady_clock::now() + patience();
  Hold hold(lock);
  for (;;) {
    const auto found = cliques.find(clique);
    const long graphs = found == cliques.end() ? 0 : found->second.captured[rank].use_count() - 1;
    CUresult &error = devices[device]->primary.error;
    if (graphs <= 0 || error) return CUDA_SUCCESS;
    if (std::chrono::steady_clock::now() >= end) {
      tell("a communicator cannot end: " + std::to_string(graphs) + " captured collectives refer to it");
      return error = CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    changed.wait_for(hold, std::chrono::milliseconds(5));  // nothing reports graphs that go
  }
}

API int dsstne_cudaemu_send(void *stream, const char *clique, const void *from, size_t bytes) {
  Work work;
  work.kind = Work::meeting;
  work.join = [name = std::string(clique), from, bytes](const Point &before) {
    Clique &c = cliques[name];
    const uint64_t number = c.joined[0]++;
    auto &open = c.open[number];
    if (!open) open = std::make_shared<Meeting>();
    const std::shared_ptr<Meeting> received = open;
    if (c.joined[1] > number) c.open.erase(number);
    // The sender goes on by itself; the receiver needs what the sender's stream does up to here.
    received->joined = 1;
    received->before.push_back({before.stream, before.number + 1});
    auto sent = std::make_shared<Meeting>();
    sent->joined = 1;
    sent->all = [received, from, bytes] {
      Access open;
      if (CUresult early = touch(reinterpret_cast<uintptr_t>(from), bytes, false)) return early;
      received->payload = std::make_shared<Bytes>(copy_of(from, bytes));
      return CUresult(CUDA_SUCCESS);
    };
    return sent;
  };
  return submit_to(stream, std::move(work));
}

API int dsstne_cudaemu_receive(void *stream, const char *clique, void *to, size_t bytes) {
  Work work;
  work.kind = Work::meeting;
  work.join = [name = std::string(clique), to, bytes](const Point &) {
    Clique &c = cliques[name];
    const uint64_t number = c.joined[1]++;
    auto &meeting = c.open[number];
    if (!meeting) meeting = std::make_shared<Meeting>();
    const std::shared_ptr<Meeting> kept = meeting;
    kept->all = [to, bytes, meeting = std::weak_ptr<Meeting>(kept)]() -> CUresult {
      const std::shared_ptr<Bytes> payload = meeting.lock()->payload;
      if (!payload) return CUDA_ERROR_LAUNCH_FAILED;  // the sender failed
      const Bytes &data = *payload;
      if (data.size() != bytes) return CUDA_ERROR_INVALID_VALUE;
      Access open;
      std::memcpy(to, data.data(), bytes);
      return touch(reinterpret_cast<uintptr_t>(to), bytes, true);
    };
    if (kept->joined) c.open.erase(number);
    return kept;
  };
  return submit_to(stream, std::move(work));
}

API void dsstne_cudaemu_abandon(const char *clique) {
  Hold hold(lock);
  const auto found = cliques.try_emplace(clique).first;
  for (auto &[number, meeting] : found->second.open) {
    meeting->all = [] { return CUresult(CUDA_SUCCESS); };
    meeting->joined = meeting->expected;
  }
  found->second.open.clear();
  found->second.abandoned = true;
  changed.notify_all();
}

API int dsstne_cudaemu_work(void *stream, const char *name, const void *record, size_t record_bytes,
                            int (*call)(const void *)) {
  Work work;
  work.kind = Work::host;
  work.name = interned(name);
  work.call = [name = std::string(name), record = copy_of(record, record_bytes), call] {
    count("works." + name);
    if (CUresult fault = fault_of_kernel(name.c_str())) return fault;
    Access open;
    return CUresult(call(record.data()));
  };
  return submit_to(stream, std::move(work));
}

API uint64_t dsstne_cudaemu_take(int device, size_t bytes) {
  Hold hold(lock);
  const uintptr_t address = device_memory(device).allocate(bytes);
  if (address) count("live_bytes", int64_t(bytes));
  return address;
}
API void dsstne_cudaemu_give(int device, uint64_t address, size_t bytes) {
  Hold hold(lock);
  if (device_memory(device).release(address)) count("live_bytes", -int64_t(bytes));
}

API int dsstne_cudaemu_allocated(const void *address, size_t bytes) {
  Hold hold(lock);
  return is_allocated(reinterpret_cast<uintptr_t>(address), bytes);
}
API int dsstne_cudaemu_reads(const void *address, size_t bytes) {
  return touch(reinterpret_cast<uintptr_t>(address), bytes, false);
}
API int dsstne_cudaemu_writes(const void *address, size_t bytes) {
  return touch(reinterpret_cast<uintptr_t>(address), bytes, true);
}
API int dsstne_cudaemu_enter(const char *function) { return enter(function); }
