// Races between blocks, looked for when kBlockRaces is among the checks: a block touches a word of device memory that another
// block of the same launch has written, or writes one that another has read, with no barrier of the grid between. Atomic
// changes race with nothing. What blocks agree about by flags and fences alone would be reported, too.
//
// Blocks run one after the other here, so that the order in which they come to a word says nothing: both orders are found.

#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "engine.h"
#include "memory.h"

namespace emulator {

// Who touched 4 bytes last in which interval. Bytes are bits of a mask; blocks are counted from 1.
struct Touch {
  uint32_t interval;  // from launch or grid barrier to the next
  uint32_t writer, reader;  // kSeveral: more than one block has read
  uint8_t write_bytes, read_bytes;
};

namespace {

constexpr uint32_t kSeveral = ~0u;
std::atomic<uint32_t> intervals;
std::mutex making;
std::vector<Touch *> shadows;

// Reserved as a whole, and taken from the system only where kernels touch it.
Touch *shadow_of(int device) {
  std::lock_guard hold(making);
  if (shadows.size() <= size_t(device)) shadows.resize(device + 1);
  if (!shadows[device]) {
    const size_t bytes = device_memory(device).span / 4 * sizeof(Touch);
    void *made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) std::abort();
    shadows[device] = static_cast<Touch *>(made);
  }
  return shadows[device];
}

[[noreturn]] __attribute__((noinline, cold)) void report(uintptr_t p, size_t n, Kind kind, const char *did,
                                                         uint32_t block) {
  Engine &e = *engine;
  const dim3 grid = e.launch->grid;
  const uint32_t b = block - 1;
  char text[400], other[80] = "several blocks have";
  if (block != kSeveral)
    std::snprintf(other, sizeof other, "block (%u, %u, %u) has", b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y);
  std::snprintf(text, sizeof text, "%s %zu bytes at 0x%llx, which %s %s with no barrier of the grid between: %s",
                kind == Kind::read ? "reads" : "writes", n, (unsigned long long)p, other, did,
                device_memory(e.launch->device).describe(p).c_str());
  e.fail(Failure::race, text);
}

}  // namespace

void Engine::begin_interval() {
  touches = checks & kBlockRaces ? shadow_of(launch->device) : nullptr;
  touch_interval = ++intervals;
}

void check_blocks(uintptr_t p, size_t n, Kind kind) {
  Engine &e = *engine;
  const size_t offset = p - e.memory_base;
  if (kind == Kind::atomic || offset >= e.memory_bytes) return;
  const uint3 at = e.current->block->index;
  const uint32_t me = 1 + at.x + e.launch->grid.x * (at.y + e.launch->grid.y * at.z);
  for (size_t o = offset; o < offset + n; o = (o / 4 + 1) * 4) {
    Touch &t = e.touches[o / 4];
    const size_t end = offset + n < (o / 4 + 1) * 4 ? offset + n : (o / 4 + 1) * 4;
    const uint8_t bytes = uint8_t(((1u << (end - o)) - 1) << o % 4);
    if (t.interval != e.touch_interval) t = {e.touch_interval, 0, 0, 0, 0};
    if (t.writer && t.writer != me && (t.write_bytes & bytes)) report(p, n, kind, "written", t.writer);
    if (kind == Kind::read) {
      t.reader = t.reader == 0 || t.reader == me ? me : kSeveral;
      t.read_bytes |= bytes;
      continue;
    }
    if (t.reader && t.reader != me && (t.read_bytes & bytes)) report(p, n, kind, "read", t.reader);
    t.write_bytes = t.writer == me ? uint8_t(t.write_bytes | bytes) : bytes;
    t.writer = me;
  }
}

}  // namespace emulator
