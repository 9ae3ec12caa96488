// Memory of the emulated devices: one range of addresses, a part for each device, and what is known of every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace emulator {

// For every 8 bytes of device memory: how many of them belong to an allocation (always the first), and which were written.
struct Shadow {
  uint8_t *valid;
  uint8_t *written;
};

struct Allocation {
  uintptr_t address;
  size_t bytes;
  uint64_t number;  // the how-manieth of its device
};

class DeviceMemory {
 public:
  DeviceMemory(int device, uintptr_t base, size_t span, size_t capacity, Shadow shadow);

  uintptr_t allocate(size_t bytes);         // 0: does not fit
  bool release(uintptr_t address);          // false: no allocation begins there
  void release_all();
  const Allocation *find(uintptr_t address) const;  // the allocation that holds the address
  size_t live_bytes() const { return live_; }
  size_t allocations() const { return allocations_.size(); }
  size_t capacity() const { return capacity_; }
  std::string describe(uintptr_t address) const;  // "inside", "after" or "freed" in words

  const uintptr_t base;
  const size_t span;
  const Shadow shadow;  // of base

 private:
  static constexpr size_t kAlignment = 512, kGuard = 512;
  void forget(uintptr_t address, size_t bytes);

  const int device_;
  const size_t capacity_;
  size_t live_ = 0;
  uint64_t made_ = 0;
  // Allocations go round, so that what was freed lately is not used again soon. A lap is short, though: pages that were
  // touched stay, and to close and to open memory page by page takes the longer the more of them there are.
  uintptr_t cursor_;
  size_t since_lap_ = 0;
  static constexpr size_t kLap = size_t(16) << 20;
  mutable std::recursive_mutex lock_;  // a failing kernel asks while others allocate
  std::map<uintptr_t, Allocation> allocations_;
  std::vector<Allocation> freed_;
};

// The arena: made once, before the first use of a device.
void make_arena(int devices, size_t capacity);
DeviceMemory &device_memory(int device);
int device_of(uintptr_t address);  // -1: not device memory
extern uintptr_t arena_base;
extern size_t arena_bytes;

// What copies need of the shadow. `written_as` copies the knowledge of one range to another.
bool is_allocated(uintptr_t address, size_t bytes);
void mark_written(uintptr_t address, size_t bytes);
void copy_written(uintptr_t to, uintptr_t from, size_t bytes);

// Host memory that devices may read and write: pinned allocations.
void add_pinned(uintptr_t address, size_t bytes);
bool remove_pinned(uintptr_t address);
bool is_pinned(uintptr_t address, size_t bytes);
struct Record;
Record *pinned_records(uintptr_t address, size_t bytes);  // of order.h, from the address on; null: not pinned

// While one lives, this thread may touch device memory. With a protection key a touch is a fault as soon as the thread has
// none; by pages it is one for all threads from the next close_memory() on, when nobody is inside.
void close_memory();
class Access {
 public:
  Access();
  ~Access();
  Access(const Access &) = delete;
  Access &operator=(const Access &) = delete;
};

}  // namespace emulator
