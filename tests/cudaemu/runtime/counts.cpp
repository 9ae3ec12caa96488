#include "counts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "memory.h"

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
}

namespace emulator {

bool counting = false;

namespace {

struct Page {
  std::array<uint64_t, 64> read{}, written{};  // a bit a byte
};
constexpr uintptr_t kPage = 4096;

// What is known of the launch that runs on this host thread.
struct Counted {
  uint64_t read = 0, written = 0, shared_read = 0, shared_written = 0;
  uintptr_t record = 0, record_end = 0;  // the steps' memory, which all kernels begin by looking at: not counted
  std::unordered_map<uintptr_t, Page> pages;
  uintptr_t last_number = 0;
  Page *last = nullptr;
  std::unordered_map<const void *, uint64_t> sites;
};

__thread Counted *counted;
std::mutex log_lock;
std::string log_text;

uint64_t bits(const std::array<uint64_t, 64> &page, const std::array<uint64_t, 64> &other = {}) {
  uint64_t sum = 0;
  for (size_t i = 0; i < page.size(); i++) sum += uint64_t(__builtin_popcountll(page[i] | other[i]));
  return sum;
}

std::string field(const char *name, uint64_t value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}

std::string three(const char *name, const dim3 &d) {
  return std::string(", \"") + name + "\": [" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " +
         std::to_string(d.z) + "]";
}

}  // namespace

CountedLaunch::CountedLaunch(const Launch &launch) : launch_(launch), on_(counting) {
  if (!on_) return;
  counted = new Counted;
  if (launch.kernel->args_bytes < sizeof(uintptr_t)) return;
  uintptr_t step;  // the first argument of nearly all kernels
  std::memcpy(&step, launch.args, sizeof step);
  if (device_of(step) != launch.device) return;
  if (const Allocation *a = device_memory(launch.device).find(step)) {
    counted->record = a->address;
    counted->record_end = a->address + a->bytes;
  }
}

CountedLaunch::~CountedLaunch() {
  if (!on_) return;
  const Counted &c = *counted;
  uint64_t read = 0, touched = 0;
  for (const auto &[number, page] : c.pages) read += bits(page.read), touched += bits(page.read, page.written);
  std::string text = std::string("{\"kernel\": \"") + launch_.kernel->name + "\"" + three("grid", launch_.grid) +
                     three("block", launch_.block) + field("dynamic_shared", launch_.dynamic_shared) +
                     field("read", c.read) + field("written", c.written) + field("distinct_read", read) +
                     field("touched", touched) + field("shared_read", c.shared_read) +
                     field("shared_written", c.shared_written) + ", \"sites\": {";
  const char *separator = "\"";
  for (const auto &[site, passed] : c.sites) {
    const auto offset = reinterpret_cast<uintptr_t>(site) - reinterpret_cast<uintptr_t>(__ehdr_start);
    text += separator + std::to_string(offset) + "\": " + std::to_string(passed);
    separator = ", \"";
  }
  delete counted;
  counted = nullptr;
  std::lock_guard hold(log_lock);
  log_text += text + "}}\n";
}

void count_access(uintptr_t p, size_t n, Kind kind, const void *site) {
  Counted *const c = counted;
  if (!c) return;
  const bool reads = kind == Kind::read;
  if (p - engine->shared_base < engine->shared_bytes) {
    (reads ? c->shared_read : c->shared_written) += n;
    c->sites[site]++;
    return;
  }
  if (p - arena_base >= arena_bytes || (p >= c->record && p < c->record_end)) return;
  c->sites[site]++;
  (reads ? c->read : c->written) += n;
  for (size_t i = 0; i < n;) {
    const uintptr_t number = (p + i) / kPage, offset = (p + i) % kPage;
    if (!c->last || number != c->last_number) c->last = &c->pages[number], c->last_number = number;
    const size_t here = std::min({n - i, size_t(kPage - offset), size_t(64 - offset % 64)});
    const uint64_t mask = (here == 64 ? ~uint64_t(0) : (uint64_t(1) << here) - 1) << offset % 64;
    (reads ? c->last->read : c->last->written)[offset / 64] |= mask;
    i += here;
  }
}

std::string take_counts() {
  std::lock_guard hold(log_lock);
  return std::move(log_text);
}

}  // namespace emulator
