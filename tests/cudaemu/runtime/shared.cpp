// Shared memory: where arrays lie in it, and copies that arrive later.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "engine.h"

namespace emulator {

namespace {

constexpr size_t kGuard = 16;  // between arrays

void set_valid(SharedMemory &shared, size_t offset, size_t bytes) {
  for (size_t i = offset; i < offset + bytes; i++) shared.words[i / 4].valid |= 1u << i % 4;
}

}  // namespace

void clear_shared(SharedMemory &shared, const Registration *kernel, size_t dynamic) {
  if (!shared.bytes) {
    const size_t bytes = 2 * kSharedBytes, words = bytes / 4 * sizeof(SharedWord);
    void *p = mmap(nullptr, bytes + words, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    shared.bytes = static_cast<char *>(p);
    shared.words = reinterpret_cast<SharedWord *>(shared.bytes + bytes);
  }
  if (shared.kernel == kernel && shared.dynamic == dynamic) {
    for (size_t i = 0; i < shared.used / 4; i++) shared.words[i].written = 0;
    return;
  }
  std::memset(shared.words, 0, (shared.used + 3) / 4 * sizeof(SharedWord));
  shared.kernel = kernel;
  shared.dynamic = dynamic;
  shared.arrays.clear();
  shared.arrays_bytes = 0;
  shared.used = (dynamic + 15) / 16 * 16 + (dynamic ? kGuard : 0);
  set_valid(shared, 0, dynamic);
}

void *shared(const void *key, size_t bytes, size_t alignment) {
  Engine &e = *engine;
  SharedMemory &shared = e.current->block->shared;
  for (const SharedMemory::Array &a : shared.arrays)
    if (a.key == key) return shared.bytes + a.offset;
  const size_t step = alignment > 16 ? alignment : 16;
  const size_t offset = (shared.used + step - 1) / step * step;
  shared.arrays_bytes += bytes;
  if (shared.arrays_bytes > kStaticSharedBytes)
    e.fail(Failure::resources, "declares more than 48 KiB of shared arrays");
  if (shared.arrays_bytes + shared.dynamic > kSharedBytes)
    e.fail(Failure::resources, "uses more than 227 KiB of shared memory with its dynamic part");
  shared.arrays.push_back({key, offset, bytes});
  set_valid(shared, offset, bytes);
  shared.used = (offset + bytes + 15) / 16 * 16 + kGuard;
  e.shared_bytes = shared.used;
  return shared.bytes + offset;
}

void *dynamic_shared() { return engine->current->block->shared.bytes; }

void async_copy(void *to, const void *from, int size, int bytes) {
  Engine &e = *engine;
  Fibre &self = *e.current;
  SharedMemory &shared = self.block->shared;
  const size_t offset = static_cast<char *>(to) - shared.bytes;
  if (offset >= shared.used) e.fail(Failure::illegal_address, "copies asynchronously to what is not shared memory");
  if (offset % size || reinterpret_cast<uintptr_t>(from) % size)
    e.fail(Failure::misaligned, "copies asynchronously between addresses that are not aligned to the size of the copy");
  if (bytes < 0 || bytes > size) e.fail(Failure::illegal_address, "copies asynchronously more bytes than the copy has");
  if (bytes > 0) check_read(from, bytes);
  check_write(to, size);
  // Until it arrives, the target holds nothing that may be read.
  for (int i = 0; i < size; i += 4) shared.words[(offset + i) / 4].written = 0;
  self.copies.push_back({to, from, size, bytes, self.copies_group});
}

void async_commit() { engine->current->copies_group++; }

void async_wait(int pending) {
  Fibre &self = *engine->current;
  size_t kept = 0;
  for (const AsyncCopy &c : self.copies) {
    if (c.group >= self.copies_group - pending) {
      self.copies[kept++] = c;
      continue;
    }
    std::memcpy(c.to, c.from, c.bytes);
    std::memset(static_cast<char *>(c.to) + c.bytes, 0, c.size - c.bytes);
    check_write(c.to, c.size);
  }
  self.copies.resize(kept);
}

}  // namespace emulator
