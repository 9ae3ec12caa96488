// Runs the threads of a grid as fibres on one host thread.
//
// A fibre is taken when a thread has to begin and none is free; a thread that ends without having waited leaves its fibre to
// the next one, so a kernel without barriers is a plain loop over its threads. Threads of a block begin in order; blocks
// begin when the one before has ended, or when all that have begun wait for the whole grid.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thread.h"

namespace emulator {

struct Block;
struct Record;
struct Touch;

struct AsyncCopy {
  void *to;
  const void *from;
  int size, bytes, group;
};

struct Fibre {
  void *top = nullptr;  // where its stack was left
  char *stack = nullptr;
  Block *block = nullptr;
  int thread = 0;  // of the block
  uint3 index{};
  Site waits{};  // while it waits
  int copies_group = 0;
  std::vector<AsyncCopy> copies;
};

// Lanes that have come to a call which all lanes of `mask` make together.
struct Group {
  uint32_t mask, arrived;
  Collective all;
  Site site;
};

struct Warp {
  uint32_t exited = 0;
  uint32_t interval = 0;  // counts __syncwarp
  int groups = 0;
  Group group[32];
  void *operands[32];
  Fibre *waiting[32];
};

// What is known of each 4 bytes of shared memory: which belong to an array, which were written, and, to find races, who
// wrote and read last between which barriers. Bytes are bits of a mask.
struct SharedWord {
  uint32_t write_interval, read_interval;
  uint16_t writer, reader;  // thread + 1; of readers also kManyInWarp + warp, kMany
  uint16_t writer_interval, reader_interval;  // of their warps
  uint8_t write_bytes, read_bytes, valid, written;
};
constexpr uint16_t kManyInWarp = 0x8000, kMany = 0xffff;
constexpr size_t kSharedBytes = 232448;  // of a block: 227 KiB
constexpr size_t kStaticSharedBytes = 49152;

// Shared memory of a block: the dynamic part first, then each static array when first asked for.
struct SharedMemory {
  char *bytes = nullptr;
  SharedWord *words = nullptr;
  const Registration *kernel = nullptr;  // whose arrays these are
  size_t dynamic = 0, arrays_bytes = 0;
  size_t used = 0;  // with the guards between arrays
  struct Array {
    const void *key;
    size_t offset, bytes;
  };
  std::vector<Array> arrays;
};

struct Block {
  uint3 index{};
  uint3 next{};  // the thread that begins next
  int threads = 0, begun = 0, ended = 0;
  int waiting = 0;  // at the barrier
  int at_grid = 0;
  int votes = 0, result = 0;
  Site site{};
  uint32_t interval = 0;  // from barrier to barrier, unique in the engine
  std::vector<Fibre *> at_barrier;
  std::vector<Fibre *> at_grid_barrier;
  std::vector<Warp> warps;
  SharedMemory shared;
};

struct Launch {
  const Registration *kernel;
  const void *args;
  dim3 grid, block;
  size_t dynamic_shared;
  int device;
  int resident_blocks;  // how many fit on the device at once: the limit for grid barriers
  uint32_t peers;  // devices whose memory may be touched, a bit each
};

enum class Failure { none, illegal_address, misaligned, divergence, race, uninitialised, trap, resources };

struct Outcome {
  Failure failure = Failure::none;
  std::string message;
};

class Engine {
 public:
  static Outcome run(const Launch &launch);

  // For the running fibre.
  void wait();  // until someone calls ready()
  void ready(Fibre *fibre) { queue_.push_back(fibre); }
  void release_grid();
  void pass();  // lets the others run first
  [[noreturn]] void fail(Failure failure, const char *what);

  Fibre *current = nullptr;
  const Launch *launch = nullptr;
  int64_t blocks_total = 0, at_grid = 0;
  size_t blocks_at_grid = 0;  // of which all threads wait for the grid
  uint64_t switches = 0;
  uint32_t next_interval = 1;

  // For races between blocks, if they are looked for; a launch and each barrier of the grid begin an interval.
  Touch *touches = nullptr;
  uint32_t touch_interval = 0;
  void begin_interval();

  // For missing waits between launches, if they are looked for: of the device's words, and the number of the launch.
  Record *records = nullptr;
  uint32_t me = 0;

  bool watched = false;  // one of these two is looked for

  // Windows that the access checks look at first.
  uintptr_t memory_base = 0;
  size_t memory_bytes = 0;
  const uint8_t *valid = nullptr;
  uint8_t *written = nullptr;
  uintptr_t shared_base = 0;
  size_t shared_bytes = 0;

  static constexpr size_t kStack = 64 << 10;
  size_t live_blocks() const { return live_.size(); }

  static void fibre_main();

 private:
  void main_loop();
  [[noreturn]] void run_threads();
  void begin_block(Block *block, int64_t number);
  void begin_thread(Fibre *fibre, Block *block);
  void end_thread();
  bool next_thread();
  Fibre *next();
  Fibre *new_fibre();
  Block *new_block();
  void switch_to(Fibre *fibre);
  void place_current();
  std::string stuck();

  void *main_top_ = nullptr;
  Block *placed_ = nullptr;  // whose index and shared memory are in place
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Fibre *> free_fibres_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block *> free_blocks_, live_;
  std::vector<char *> stacks_;
  int64_t begun_blocks_ = 0, ended_blocks_ = 0;
  uint64_t idle_passes_ = 0;
  Outcome outcome_;

  // First in, first out.
  struct Queue {
    std::vector<Fibre *> items;
    size_t head = 0;
    bool empty() const { return head == items.size(); }
    void push_back(Fibre *f) { items.push_back(f); }
    Fibre *pop() {
      Fibre *f = items[head++];
      if (head == items.size()) {
        items.clear();
        head = 0;
      } else if (head >= 4096 && head * 2 > items.size()) {
        items.erase(items.begin(), items.begin() + head);
        head = 0;
      }
      return f;
    }
    void clear() { items.clear(), head = 0; }
  } queue_;
};

extern __thread Engine *engine __attribute__((tls_model("initial-exec")));

// Fibre switches since the library was loaded, for measurements.
uint64_t total_switches();

// Makes a block's shared memory empty, for a kernel with the given bytes of dynamic shared memory.
void clear_shared(SharedMemory &shared, const Registration *kernel, size_t dynamic);

// What the checks look for; the first two by default.
enum Check : unsigned { kUninitialised = 1, kRaces = 2, kBlockRaces = 4, kOrder = 8 };
extern unsigned checks;

enum class Kind { read, write, atomic };
void check_blocks(uintptr_t p, size_t n, Kind kind);  // of device memory; only if touches is set

}  // namespace emulator
