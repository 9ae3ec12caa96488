// Kernels are compiled so that each load and store first calls a function named here. Device memory is looked up in its
// shadow, shared memory in its words; the fibre's stack, constants of this library, the arguments and pinned host memory
// may be touched freely; anything else a device could not reach.

#include <link.h>

#include <cstdio>
#include <cstring>

#include "counts.h"
#include "engine.h"
#include "memory.h"
#include "order.h"

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace emulator {

unsigned checks = kUninitialised | kRaces;

namespace {

const char *verb(Kind kind) { return kind == Kind::read ? "reads" : kind == Kind::write ? "writes" : "changes"; }

[[noreturn]] __attribute__((noinline, cold)) void report(Failure failure, uintptr_t p, size_t n, Kind kind,
                                                         const std::string &what) {
  char text[600];
  std::snprintf(text, sizeof text, "%s %zu bytes at 0x%llx: %s", verb(kind), n, (unsigned long long)p, what.c_str());
  engine->fail(failure, text);
}

// ---- waits between launches ----

__attribute__((noinline)) void check_order(uintptr_t p, size_t n, Kind kind) {
  const bool writes = kind != Kind::read;
  for (uintptr_t at = p / 4 * 4; at < p + n; at += 4) {
    Record &record = *record_of(at);
    const uint32_t writer = record.writer;
    if (const uint32_t other = writes ? note_write(record) : note_read(record))
      report(Failure::race, p, n, kind,
             unordered(other, other == writer) + ": " + device_memory(device_of(at)).describe(at));
  }
}

// Most accesses: to words that this launch has touched before.
template <size_t n>
inline void check_watched(uintptr_t p, size_t offset, Kind kind) {
  Engine &e = *engine;
  if (e.records) {
    const Record *const r = e.records + offset / 4;
    bool known = true;
    for (size_t i = 0; i < (n + 3) / 4; i++)
      known = known && (kind == Kind::read ? r[i].writer == e.me || r[i].reader == e.me
                                           : r[i].writer == e.me && r[i].reader == 0);
    if (__builtin_expect(!known, 0)) check_order(p, n, kind);
  }
  if (__builtin_expect(e.touches != nullptr, 0)) check_blocks(p, n, kind);
}

// ---- device memory ----

// Whatever the fast path did not like.
__attribute__((noinline)) void check_memory(uintptr_t p, size_t n, size_t alignment, Kind kind) {
  Engine &e = *engine;
  const int device = device_of(p);
  DeviceMemory &memory = device_memory(device);
  if (device != e.launch->device && !(e.launch->peers >> device & 1))
    report(Failure::illegal_address, p, n, kind,
           "memory of device " + std::to_string(device) + ", to which device " + std::to_string(e.launch->device) +
               " has no access; it lies " + memory.describe(p));
  if (p % alignment) report(Failure::misaligned, p, n, kind, "misaligned, " + memory.describe(p));
  for (size_t i = 0; i < n; i++) {
    const size_t o = p + i - memory.base;
    if (o % 8 >= memory.shadow.valid[o / 8])
      report(Failure::illegal_address, p, n, kind, "out of bounds, " + memory.describe(p + i));
  }
  for (size_t i = 0; i < n; i++) {
    const size_t o = p + i - memory.base;
    if (kind == Kind::write) {
      __atomic_fetch_or(&memory.shadow.written[o / 8], uint8_t(1u << o % 8), __ATOMIC_RELAXED);
    } else if (!(memory.shadow.written[o / 8] >> o % 8 & 1) && (checks & kUninitialised)) {
      report(Failure::uninitialised, p, n, kind, "never written, " + memory.describe(p + i));
    }
  }
}

// ---- shared memory ----

__attribute__((noinline, cold)) void report_race(uintptr_t p, size_t n, Kind kind, const char *did, int other) {
  char text[160];
  std::snprintf(text, sizeof text, "shared memory that thread %d of the block %s since the last barrier", other, did);
  report(Failure::race, p, n, kind, text);
}

void check_shared_slowly(uintptr_t p, size_t n, size_t alignment, Kind kind) {
  Engine &e = *engine;
  Fibre &self = *e.current;
  Block &block = *self.block;
  const size_t offset = p - e.shared_base;
  if (offset % alignment)
    report(Failure::misaligned, p, n, kind, "misaligned, offset " + std::to_string(offset) + " of shared memory");
  const uint16_t me = self.thread + 1, warp = self.thread / 32;
  const uint16_t interval = block.warps[warp].interval;
  const bool races = (checks & kRaces) && kind != Kind::atomic;
  for (size_t at = offset; at < offset + n; at = (at / 4 + 1) * 4) {
    SharedWord &w = block.shared.words[at / 4];
    const size_t end = offset + n < (at / 4 + 1) * 4 ? offset + n : (at / 4 + 1) * 4;
    const uint8_t bytes = uint8_t(((1u << (end - at)) - 1) << at % 4);
    if ((w.valid & bytes) != bytes)
      report(Failure::illegal_address, p, n, kind, "out of bounds of shared arrays, offset " + std::to_string(offset));
    if (kind != Kind::write && (w.written & bytes) != bytes && (checks & kUninitialised))
      report(Failure::uninitialised, p, n, kind,
             "shared memory that nobody has written, offset " + std::to_string(offset));
    if (races && w.write_interval == block.interval && w.writer != me && (w.write_bytes & bytes) &&
        !((w.writer - 1) / 32 == warp && w.writer_interval != interval))
      report_race(p, n, kind, "wrote", w.writer - 1);
    if (kind == Kind::read) {
      if (w.read_interval != block.interval || w.reader_interval != interval) {
        const bool fresh = w.read_interval != block.interval;
        // Readers of other warps stay on record; of this warp only those since its last __syncwarp matter.
        if (fresh || w.reader == me ||
            (w.reader < kManyInWarp ? (w.reader - 1) / 32 : w.reader - kManyInWarp) == warp) {
          w.reader = me;
          w.read_bytes = bytes;
        } else {
          w.reader = kMany;
          w.read_bytes |= bytes;
        }
        w.read_interval = block.interval;
        w.reader_interval = interval;
      } else if (w.reader != me) {
        const int reader_warp = w.reader == kMany        ? -1
                                : w.reader < kManyInWarp ? (w.reader - 1) / 32
                                                         : w.reader - kManyInWarp;
        w.reader = reader_warp == warp ? uint16_t(kManyInWarp + warp) : kMany;
        w.read_bytes |= bytes;
      } else {
        w.read_bytes |= bytes;
      }
      continue;
    }
    if (races && w.read_interval == block.interval && w.reader != me && (w.read_bytes & bytes)) {
      const int reader_warp = w.reader == kMany        ? -1
                              : w.reader < kManyInWarp ? (w.reader - 1) / 32
                                                       : w.reader - kManyInWarp;
      if (reader_warp != warp || w.reader_interval == interval)
        report_race(p, n, kind, "read",
                    w.reader < kManyInWarp ? w.reader - 1
                    : reader_warp >= 0     ? 32 * reader_warp
                                           : 0);
    }
    w.written |= bytes;
    if (kind == Kind::write) {
      w.write_interval = block.interval;
      w.writer = me;
      w.writer_interval = interval;
      w.write_bytes = bytes;
    }
  }
}

// Most accesses: aligned, to bytes that nobody else writes between two barriers, and of which the record of readers says
// all that it can. What is noted of words before one that is not like this is noted again in the same way.
template <size_t n>
inline void check_shared(uintptr_t p, Kind kind) {
  Engine &e = *engine;
  const size_t offset = p - e.shared_base;
  const Fibre &self = *e.current;
  const Block &block = *self.block;
  const uint32_t barriers = block.interval;
  const uint16_t me = self.thread + 1, warp = self.thread / 32, interval = block.warps[warp].interval;
  const uint8_t bytes = uint8_t(((1u << (n < 4 ? n : 4)) - 1) << offset % 4);
  bool usual = offset % n == 0;
  for (size_t i = 0; usual && i < (n + 3) / 4; i++) {
    SharedWord &w = block.shared.words[offset / 4 + i];
    usual = (w.valid & bytes) == bytes && (w.write_interval != barriers || w.writer == me);
    if (kind == Kind::write) {
      usual = usual && (w.read_interval != barriers || w.reader == me);
      if (!usual) break;
      w.written |= bytes;
      w.write_interval = barriers;
      w.writer = me;
      w.writer_interval = interval;
      w.write_bytes = bytes;
    } else if ((w.written & bytes) != bytes || !usual) {
      usual = false;
    } else if (w.read_interval != barriers) {
      w.read_interval = barriers;
      w.reader_interval = interval;
      w.reader = me;
      w.read_bytes = bytes;
    } else {
      usual = w.reader_interval == interval && (w.reader == me || w.reader == kMany || w.reader == kManyInWarp + warp);
      if (usual) w.read_bytes |= bytes;
    }
  }
  if (__builtin_expect(!usual, 0)) check_shared_slowly(p, n, n, kind);
}

// ---- the rest ----

__attribute__((noinline)) void check_other(uintptr_t p, size_t n, size_t alignment, Kind kind) {
  Engine &e = *engine;
  if (p - arena_base < arena_bytes) {
    check_memory(p, n, alignment, kind);
    if (e.records) check_order(p, n, kind);
    return;
  }
  const uintptr_t image = reinterpret_cast<uintptr_t>(__ehdr_start), end = reinterpret_cast<uintptr_t>(_end);
  if (p - image < end - image && kind == Kind::read) return;
  const uintptr_t args = reinterpret_cast<uintptr_t>(e.launch->args);
  if (p - args < e.launch->kernel->args_bytes && kind == Kind::read) return;
  const uintptr_t own = reinterpret_cast<uintptr_t>(&place);
  if (p - own < sizeof(Place) && kind == Kind::read) return;
  if (is_pinned(p, n)) {
    if (kind != Kind::read) unwatch_pinned(p, n);
    return;
  }
  report(Failure::illegal_address, p, n, kind, p < 65536 ? "a null pointer" : "no memory of a device");
}

// Stacks of fibres are aligned to their size.
inline bool on_stack(uintptr_t p) {
  return ((p ^ reinterpret_cast<uintptr_t>(__builtin_frame_address(0))) & ~(Engine::kStack - 1)) == 0;
}

template <size_t n>
inline void check(uintptr_t p, Kind kind) {
  Engine &e = *engine;
  const size_t o = p - e.memory_base;
  if (__builtin_expect(o < e.memory_bytes && p % n == 0, 1)) {
    bool good;
    if constexpr (n <= 8) {
      constexpr unsigned ones = (1u << n) - 1;
      const uint8_t bits = uint8_t(ones << (n < 8 ? o % 8 : 0));
      uint8_t &written = e.written[o / 8];
      good = o % 8 + n <= e.valid[o / 8];
      if (kind == Kind::write) {
        if (good && (written & bits) != bits) __atomic_fetch_or(&written, bits, __ATOMIC_RELAXED);
      } else {
        good = good && (written & bits) == bits;
      }
    } else {
      uint16_t valid, written;
      std::memcpy(&valid, e.valid + o / 8, 2);
      std::memcpy(&written, e.written + o / 8, 2);
      good = valid == 0x0808;
      if (kind == Kind::write) {
        if (good && written != 0xffff) std::memset(e.written + o / 8, 255, 2);
      } else {
        good = good && written == 0xffff;
      }
    }
    if (__builtin_expect(!good, 0)) check_memory(p, n, n, kind);
    if (e.watched) check_watched<n>(p, o, kind);
    return;
  }
  if (on_stack(p)) return;
  if (p - e.shared_base < e.shared_bytes) return check_shared<n>(p, kind);
  check_other(p, n, n, kind);
}

void check_any(uintptr_t p, size_t n, Kind kind, size_t alignment = 1) {
  Engine &e = *engine;
  if (on_stack(p)) return;
  if (p - e.shared_base < e.shared_bytes) return check_shared_slowly(p, n, alignment, kind);
  check_other(p, n, alignment, kind);
  if (e.touches) check_blocks(p, n, kind);
}

size_t natural(size_t n) { return n == 1 || n == 2 || n == 4 || n == 8 || n == 16 ? n : 1; }

}  // namespace

namespace {
void check_named(const void *p, size_t n, Kind kind, const void *site) {
  check_any(reinterpret_cast<uintptr_t>(p), n, kind, natural(n));
  if (counting) count_access(reinterpret_cast<uintptr_t>(p), n, kind, site);
}
}  // namespace

void check_read(const void *p, size_t n) { check_named(p, n, Kind::read, __builtin_return_address(0)); }
void check_write(void *p, size_t n) { check_named(p, n, Kind::write, __builtin_return_address(0)); }
void check_atomic(void *p, size_t n) { check_named(p, n, Kind::atomic, __builtin_return_address(0)); }

}  // namespace emulator

// The names that GCC gives these calls under -fsanitize=thread. (-fsanitize=kernel-address leaves out the store of x += 1,
// since the load was looked at.)
using emulator::check;
using emulator::check_any;
using emulator::Kind;
#define COUNT(p, n, kind) \
  if (__builtin_expect(emulator::counting, 0)) emulator::count_access(p, n, kind, __builtin_return_address(0))
#define CHECKS(n)                                \
  extern "C" void __tsan_read##n(uintptr_t p) {  \
    check<n>(p, Kind::read);                     \
    COUNT(p, n, Kind::read);                     \
  }                                              \
  extern "C" void __tsan_write##n(uintptr_t p) { \
    check<n>(p, Kind::write);                    \
    COUNT(p, n, Kind::write);                    \
  }
CHECKS(1)
CHECKS(2)
CHECKS(4)
CHECKS(8)
CHECKS(16)
#define UNALIGNED(n)                                       \
  extern "C" void __tsan_unaligned_read##n(uintptr_t p) {  \
    check_any(p, n, Kind::read);                           \
    COUNT(p, n, Kind::read);                               \
  }                                                        \
  extern "C" void __tsan_unaligned_write##n(uintptr_t p) { \
    check_any(p, n, Kind::write);                          \
    COUNT(p, n, Kind::write);                              \
  }
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)
extern "C" void __tsan_read_range(uintptr_t p, size_t n) {
  check_any(p, n, Kind::read);
  COUNT(p, n, Kind::read);
}
extern "C" void __tsan_write_range(uintptr_t p, size_t n) {
  check_any(p, n, Kind::write);
  COUNT(p, n, Kind::write);
}
extern "C" void __tsan_init() {}
