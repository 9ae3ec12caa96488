#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "order.h"

namespace emulator {

uintptr_t arena_base;
size_t arena_bytes;

namespace {

std::vector<std::unique_ptr<DeviceMemory>> memories;
size_t span_of_device;
struct Pinned {
  size_t bytes;
  std::unique_ptr<Record[], void (*)(void *)> records{nullptr, std::free};  // made when first asked for
};
std::map<uintptr_t, Pinned> pinned;
std::mutex pinned_lock;

// Memory of the devices is closed to the host: by a protection key, which opens it for one thread in a few cycles, or,
// on processors without, by the protection of the pages, which is dear and therefore changed only where the host waits.
int key = -1;
bool by_pages = false, open_by_pages = false;
std::mutex access_lock;
int inside = 0;
thread_local int depth __attribute__((tls_model("initial-exec"))) = 0;

void *reserve(size_t bytes, int protection) {
  void *p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::fprintf(stderr, "cudaemu: cannot reserve %zu bytes of addresses\n", bytes);
    std::abort();
  }
  return p;
}

}  // namespace

void make_arena(int devices, size_t capacity) {
  capacity = (capacity + 4095) & ~size_t(4095);
  span_of_device = 2 * capacity + (size_t(64) << 20);  // room for guards and for what was freed lately
  arena_bytes = span_of_device * devices;
  arena_base = reinterpret_cast<uintptr_t>(reserve(arena_bytes, PROT_NONE));
  auto *valid = static_cast<uint8_t *>(reserve(arena_bytes / 8, PROT_READ | PROT_WRITE));
  auto *written = static_cast<uint8_t *>(reserve(arena_bytes / 8, PROT_READ | PROT_WRITE));
  records = static_cast<Record *>(reserve(arena_bytes / 4 * sizeof(Record), PROT_READ | PROT_WRITE));
  for (int i = 0; i < devices; i++)
    memories.push_back(
        std::make_unique<DeviceMemory>(i, arena_base + i * span_of_device, span_of_device, capacity,
                                       Shadow{valid + i * span_of_device / 8, written + i * span_of_device / 8}));
  // Large pages make the closing and opening of much memory cheap.
  madvise(reinterpret_cast<void *>(arena_base), arena_bytes, MADV_HUGEPAGE);
  madvise(reinterpret_cast<void *>(arena_base), arena_bytes, MADV_DONTFORK);
  const char *choice = std::getenv("DSSTNE_CUDAEMU_PROTECT");  // key, pages, none; default: the first that works
  const std::string protect = choice ? choice : "";
  void *const arena = reinterpret_cast<void *>(arena_base);
  if (protect.empty() || protect == "key") {
    key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key >= 0 && pkey_mprotect(arena, arena_bytes, PROT_READ | PROT_WRITE, key) != 0) key = -1;
  }
  if (key >= 0) return;
  by_pages = protect != "none";
  if (!by_pages) mprotect(arena, arena_bytes, PROT_READ | PROT_WRITE);
}

DeviceMemory &device_memory(int device) { return *memories[device]; }

int device_of(uintptr_t address) {
  return address - arena_base < arena_bytes ? int((address - arena_base) / span_of_device) : -1;
}

Access::Access() {
  if (depth++ > 0) return;
  if (key >= 0) {
    pkey_set(key, 0);
  } else if (by_pages) {
    std::lock_guard hold(access_lock);
    if (inside++ == 0 && !std::exchange(open_by_pages, true))
      mprotect(reinterpret_cast<void *>(arena_base), arena_bytes, PROT_READ | PROT_WRITE);
  }
}

Access::~Access() {
  if (--depth > 0) return;
  if (key >= 0) {
    pkey_set(key, PKEY_DISABLE_ACCESS);
  } else if (by_pages) {
    std::lock_guard hold(access_lock);
    --inside;
  }
}

void close_memory() {
  if (!by_pages) return;
  std::lock_guard hold(access_lock);
  if (inside == 0 && std::exchange(open_by_pages, false))
    mprotect(reinterpret_cast<void *>(arena_base), arena_bytes, PROT_NONE);
}

DeviceMemory::DeviceMemory(int device, uintptr_t base, size_t span, size_t capacity, Shadow shadow)
    : base(base), span(span), shadow(shadow), device_(device), capacity_(capacity), cursor_(base + kGuard) {}

uintptr_t DeviceMemory::allocate(size_t bytes) {
  std::lock_guard hold(lock_);
  const size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (taken > capacity_ || live_ > capacity_ - taken) return 0;
  const size_t needed = taken + kGuard;
  auto fits = [&](uintptr_t from) -> uintptr_t {
    // The first gap at or after `from`.
    auto next = allocations_.lower_bound(from);
    uintptr_t at = from;
    if (next != allocations_.begin()) {
      const Allocation &before = std::prev(next)->second;
      at = std::max(at, (before.address + before.bytes + kAlignment - 1) / kAlignment * kAlignment + kGuard);
    }
    for (; next != allocations_.end(); ++next) {
      if (next->first >= at + needed) return at;
      at =
          std::max(at, (next->second.address + next->second.bytes + kAlignment - 1) / kAlignment * kAlignment + kGuard);
    }
    return at + needed <= base + span ? at : 0;
  };
  if (since_lap_ > kLap) {
    cursor_ = base + kGuard;
    since_lap_ = 0;
  }
  uintptr_t at = fits(cursor_);
  if (at == 0) at = fits((base + kAlignment - 1) / kAlignment * kAlignment + kGuard);
  if (at == 0) return 0;
  cursor_ = at + needed;
  since_lap_ += needed;
  // What was freed here is no longer what lies around the new allocation.
  std::erase_if(freed_,
                [&](const Allocation &a) { return a.address < at + needed && at < a.address + a.bytes + kGuard; });
  allocations_[at] = {at, bytes, ++made_};
  live_ += taken;
  uint8_t *const valid = shadow.valid + (at - base) / 8;
  std::memset(valid, 8, bytes / 8);
  if (bytes % 8) valid[bytes / 8] = bytes % 8;
  return at;
}

void DeviceMemory::forget(uintptr_t address, size_t bytes) {
  // Memory goes back to the system where there is much of it; it is zero when next touched, and so is its shadow.
  auto clear = [](uint8_t *first, size_t count) {
    constexpr size_t kPage = 4096;
    const uintptr_t from = (reinterpret_cast<uintptr_t>(first) + kPage - 1) / kPage * kPage;
    const uintptr_t to = (reinterpret_cast<uintptr_t>(first) + count) / kPage * kPage;
    if (count < 16 * kPage) {
      std::memset(first, 0, count);
      return;
    }
    std::memset(first, 0, from - reinterpret_cast<uintptr_t>(first));
    madvise(reinterpret_cast<void *>(from), to - from, MADV_DONTNEED);
    std::memset(reinterpret_cast<void *>(to), 0, reinterpret_cast<uintptr_t>(first) + count - to);
  };
  clear(shadow.valid + (address - base) / 8, (bytes + 7) / 8);
  clear(shadow.written + (address - base) / 8, (bytes + 7) / 8);
  forget_records(address, bytes);
  const uintptr_t first = (address + 4095) / 4096 * 4096, end = (address + bytes) / 4096 * 4096;
  if (bytes >= 65536) madvise(reinterpret_cast<void *>(first), end - first, MADV_DONTNEED);
}

bool DeviceMemory::release(uintptr_t address) {
  std::lock_guard hold(lock_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  const Allocation gone = found->second;
  forget(gone.address, gone.bytes);
  live_ -= (gone.bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (freed_.size() >= 1024) freed_.erase(freed_.begin(), freed_.begin() + 512);
  freed_.push_back(gone);
  allocations_.erase(found);
  return true;
}

void DeviceMemory::release_all() {
  while (!allocations_.empty()) release(allocations_.begin()->first);
}

const Allocation *DeviceMemory::find(uintptr_t address) const {
  std::lock_guard hold(lock_);
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  const Allocation &a = std::prev(next)->second;
  return address < a.address + a.bytes ? &a : nullptr;
}

std::string DeviceMemory::describe(uintptr_t address) const {
  std::lock_guard hold(lock_);
  char text[256];
  auto say = [&](const char *where, size_t offset, const char *relation, const Allocation &a) {
    std::snprintf(text, sizeof text, "%zu bytes %s%s allocation %llu of device %d (%zu bytes at 0x%llx)", offset,
                  relation, where, (unsigned long long)a.number, device_, a.bytes, (unsigned long long)a.address);
    return std::string(text);
  };
  if (const Allocation *a = find(address)) return say("", address - a->address, "into", *a);
  for (auto a = freed_.rbegin(); a != freed_.rend(); ++a)
    if (address - a->address < a->bytes) return say(" freed", address - a->address, "into", *a);
  const auto next = allocations_.upper_bound(address);
  const Allocation *nearest = nullptr;
  if (next != allocations_.begin()) nearest = &std::prev(next)->second;
  if (next != allocations_.end() && (!nearest || next->first - address < address - (nearest->address + nearest->bytes)))
    return say("", next->first - address, "before", next->second);
  if (nearest) return say(" the end of", address - (nearest->address + nearest->bytes), "after", *nearest);
  std::snprintf(text, sizeof text, "in memory of device %d, which has no allocation", device_);
  return text;
}

bool is_allocated(uintptr_t address, size_t bytes) {
  const int device = device_of(address);
  if (device < 0) return false;
  const Allocation *a = device_memory(device).find(address);
  return a && bytes <= a->address + a->bytes - address;
}

void mark_written(uintptr_t address, size_t bytes) {
  const int device = device_of(address);
  if (device < 0 || bytes == 0) return;
  uint8_t *const written = device_memory(device).shadow.written;
  const uintptr_t first = address - device_memory(device).base, end = first + bytes;
  uintptr_t at = first;
  for (; at < end && at % 8; at++) __atomic_fetch_or(&written[at / 8], uint8_t(1u << at % 8), __ATOMIC_RELAXED);
  if (end - at >= 8) {
    std::memset(written + at / 8, 255, (end - at) / 8);
    at += (end - at) / 8 * 8;
  }
  for (; at < end; at++) __atomic_fetch_or(&written[at / 8], uint8_t(1u << at % 8), __ATOMIC_RELAXED);
}

void copy_written(uintptr_t to, uintptr_t from, size_t bytes) {
  const int target = device_of(to), source = device_of(from);
  if (target < 0) return;
  if (source < 0 || to % 8 != from % 8 || to % 8 || bytes % 8) return mark_written(to, bytes);
  std::memcpy(device_memory(target).shadow.written + (to - device_memory(target).base) / 8,
              device_memory(source).shadow.written + (from - device_memory(source).base) / 8, bytes / 8);
}

void add_pinned(uintptr_t address, size_t bytes) {
  std::lock_guard hold(pinned_lock);
  pinned[address].bytes = bytes;
}

bool remove_pinned(uintptr_t address) {
  std::lock_guard hold(pinned_lock);
  const auto found = pinned.find(address);
  if (found == pinned.end()) return false;
  unwatch_pinned(address, found->second.bytes);
  pinned.erase(found);
  return true;
}

namespace {

// The allocation that holds a range; the lock is held.
std::map<uintptr_t, Pinned>::iterator pinned_at(uintptr_t address, size_t bytes) {
  auto next = pinned.upper_bound(address);
  if (next == pinned.begin()) return pinned.end();
  --next;
  const size_t size = next->second.bytes;
  return address - next->first < size && bytes <= next->first + size - address ? next : pinned.end();
}

}  // namespace

bool is_pinned(uintptr_t address, size_t bytes) {
  std::lock_guard hold(pinned_lock);
  return pinned_at(address, bytes) != pinned.end();
}

Record *pinned_records(uintptr_t address, size_t bytes) {
  std::lock_guard hold(pinned_lock);
  const auto found = pinned_at(address, bytes);
  if (found == pinned.end()) return nullptr;
  Pinned &p = found->second;
  const uintptr_t first = found->first / 4;
  if (!p.records) p.records.reset(static_cast<Record *>(std::calloc(p.bytes / 4 + 2, sizeof(Record))));
  return p.records.get() + (address / 4 - first);
}

}  // namespace emulator
