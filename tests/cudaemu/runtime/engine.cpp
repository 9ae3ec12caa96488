#include "engine.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "memory.h"
#include "order.h"

extern "C" void emulator_switch(void **save, void *to);

namespace emulator {

__thread Place place __attribute__((tls_model("initial-exec")));
__thread Engine *engine __attribute__((tls_model("initial-exec")));

namespace {
std::mutex pool_lock;
std::vector<Engine *> pool;
std::atomic<uint64_t> switches_total;
constexpr uint64_t kCanary = 0x5ca1ab1e0ddba11ull;
constexpr size_t kSlab = 64;  // stacks reserved at once
}  // namespace

uint64_t total_switches() { return switches_total; }

Outcome Engine::run(const Launch &launch) {
  Engine *e = nullptr;
  {
    std::lock_guard hold(pool_lock);
    if (!pool.empty()) {
      e = pool.back();
      pool.pop_back();
    }
  }
  if (!e) e = new Engine;
  Engine *const outer = engine;
  engine = e;
  e->launch = &launch;
  e->outcome_ = {};
  DeviceMemory &memory = device_memory(launch.device);
  e->memory_base = memory.base;
  e->memory_bytes = memory.span;
  e->valid = memory.shadow.valid;
  e->written = memory.shadow.written;
  e->begin_interval();
  e->records = task && (checks & kOrder) ? record_of(memory.base) : nullptr;
  e->me = e->records ? task->number : 0;
  e->watched = e->records || e->touches;
  place.grid_size = {launch.grid.x, launch.grid.y, launch.grid.z};
  place.block_size = {launch.block.x, launch.block.y, launch.block.z};
  e->main_loop();
  switches_total += e->switches;
  e->switches = 0;
  engine = outer;
  Outcome outcome = std::move(e->outcome_);
  std::lock_guard hold(pool_lock);
  pool.push_back(e);
  return outcome;
}

void Engine::main_loop() {
  blocks_total = int64_t(launch->grid.x) * launch->grid.y * launch->grid.z;
  begun_blocks_ = ended_blocks_ = at_grid = 0;
  blocks_at_grid = 0;
  idle_passes_ = 0;
  Block *first = new_block();
  begin_block(first, begun_blocks_++);
  Fibre *fibre = new_fibre();
  begin_thread(fibre, first);
  {
    Access open;
    current = fibre;
    place_current();
    switches++;
    emulator_switch(&main_top_, fibre->top);
  }
  // Here when the last block has ended or something failed: whatever was left waiting is forgotten.
  for (auto &f : fibres_) {
    f->copies.clear();
    f->copies_group = 0;
  }
  queue_.clear();
  free_fibres_.clear();
  for (auto &f : fibres_) free_fibres_.push_back(f.get());
  std::reverse(free_fibres_.begin(), free_fibres_.end());
  live_.clear();
  free_blocks_.clear();
  for (auto &b : blocks_) free_blocks_.push_back(b.get());
}

// ---- fibres ----

void Engine::fibre_main() { engine->run_threads(); }

Fibre *Engine::new_fibre() {
  Fibre *fibre;
  if (!free_fibres_.empty()) {
    fibre = free_fibres_.back();
    free_fibres_.pop_back();
  } else {
    if (fibres_.size() == stacks_.size() * kSlab) {
      // Stacks are aligned to their size, so that an address in one shows where it begins.
      void *slab = mmap(nullptr, (kSlab + 1) * kStack, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (slab == MAP_FAILED) std::abort();
      stacks_.push_back(reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(slab) + kStack - 1) / kStack * kStack));
    }
    fibres_.push_back(std::make_unique<Fibre>());
    fibre = fibres_.back().get();
    fibre->stack = stacks_.back() + (fibres_.size() - 1) % kSlab * kStack;
    std::memcpy(fibre->stack, &kCanary, sizeof kCanary);
  }
  // Tops lie at different places of their pages, so that stacks do not push one another out of the cache.
  const size_t color = reinterpret_cast<uintptr_t>(fibre->stack) / kStack * 320 % 4096 / 64 * 64;
  void **top = reinterpret_cast<void **>(fibre->stack + kStack - 64 - color);
  *--top = nullptr;  // where fibre_main would return to
  *--top = reinterpret_cast<void *>(&Engine::fibre_main);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  fibre->top = top;
  return fibre;
}

inline void Engine::place_current() {
  place.thread = current->index;
  Block *const block = current->block;
  if (block == placed_) return;
  placed_ = block;
  place.block = block->index;
  shared_base = reinterpret_cast<uintptr_t>(block->shared.bytes);
  shared_bytes = block->shared.used;
}

void Engine::switch_to(Fibre *fibre) {
  Fibre *const from = current;
  if (fibre == from) return;
  current = fibre;
  place_current();
  switches++;
  emulator_switch(&from->top, fibre->top);
}

void Engine::run_threads() {
  for (;;) {
    launch->kernel->entry(launch->args);
    end_thread();
  }
}

void Engine::begin_thread(Fibre *fibre, Block *block) {
  fibre->block = block;
  fibre->thread = block->begun++;
  fibre->index = block->next;
  const dim3 size = launch->block;
  if (++block->next.x < size.x) return;
  block->next.x = 0;
  if (++block->next.y < size.y) return;
  block->next.y = 0;
  block->next.z++;
}

// The running thread has ended; its fibre goes on with the next thread that can begin, or makes room for one that waits.
void Engine::end_thread() {
  Fibre *const self = current;
  Block *block = self->block;
  uint64_t canary;
  std::memcpy(&canary, self->stack, sizeof canary);
  if (canary != kCanary)
    fail(Failure::resources, "overflows the emulator's stack of 64 KiB: its local arrays are too large");
  if (!self->copies.empty()) self->copies.clear();
  self->copies_group = 0;
  block->warps[self->thread / 32].exited |= 1u << self->thread % 32;
  idle_passes_ = 0;
  if (block->begun < block->threads) {
    block->ended++;
    begin_thread(self, block);
    place_current();
    return;
  }
  if (++block->ended == block->threads) {
    ended_blocks_++;
    if (begun_blocks_ < blocks_total && queue_.empty()) {
      begin_block(block, begun_blocks_++);
      begin_thread(self, block);
      place_current();
      return;
    }
    live_.erase(std::find(live_.begin(), live_.end(), block));
    free_blocks_.push_back(block);
    if (ended_blocks_ == blocks_total) {
      void *unused;
      emulator_switch(&unused, main_top_);
    }
  }
  // This fibre is free, but it still runs: it leaves for another, and begins anew when taken again.
  Fibre *to = next();
  if (to == self) {
    place_current();
    return;
  }
  void *left;
  current = to;
  free_fibres_.push_back(self);
  place_current();
  switches++;
  emulator_switch(&left, to->top);
  __builtin_unreachable();
}

// The fibre to run now that the current one cannot go on.
Fibre *Engine::next() {
  Block *block = current->block;
  if (block && block->begun < block->threads) {
    Fibre *fibre = new_fibre();
    begin_thread(fibre, block);
    return fibre;
  }
  if (!queue_.empty()) return queue_.pop();
  // All threads of the other live blocks have begun: a block's begin before anything else runs.
  if (begun_blocks_ < blocks_total && blocks_at_grid == live_.size()) {
    Block *b = new_block();
    begin_block(b, begun_blocks_++);
    Fibre *fibre = new_fibre();
    begin_thread(fibre, b);
    return fibre;
  }
  fail(Failure::divergence, stuck().c_str());
}

void Engine::wait() { switch_to(next()); }

void Engine::pass() {
  if (++idle_passes_ > 20000000) fail(Failure::divergence, "waits in a loop for something that nobody does");
  Fibre *const self = current;
  if (current->block->begun == current->block->threads && queue_.empty()) {
    // Alone: what it waits for may come from a block that has not begun.
    if (begun_blocks_ < blocks_total && int64_t(live_.size()) < launch->resident_blocks) {
      Block *b = new_block();
      begin_block(b, begun_blocks_++);
      queue_.push_back(self);
      Fibre *fibre = new_fibre();
      begin_thread(fibre, b);
      switch_to(fibre);
    }
    return;
  }
  queue_.push_back(self);
  wait();
}

// ---- blocks ----

Block *Engine::new_block() {
  Block *block;
  if (!free_blocks_.empty()) {
    block = free_blocks_.back();
    free_blocks_.pop_back();
  } else {
    blocks_.push_back(std::make_unique<Block>());
    block = blocks_.back().get();
  }
  live_.push_back(block);
  return block;
}

void Engine::begin_block(Block *block, int64_t number) {
  const dim3 grid = launch->grid;
  placed_ = nullptr;
  block->next = {0, 0, 0};
  block->index = {unsigned(number % grid.x), unsigned(number / grid.x % grid.y), unsigned(number / grid.x / grid.y)};
  block->threads = launch->block.x * launch->block.y * launch->block.z;
  block->begun = block->ended = block->waiting = block->at_grid = block->votes = 0;
  block->interval = next_interval++;
  block->at_barrier.clear();
  block->at_grid_barrier.clear();
  block->warps.resize((block->threads + 31) / 32);
  for (Warp &w : block->warps) {
    w.exited = 0;
    w.interval = 0;
    w.groups = 0;
  }
  clear_shared(block->shared, launch->kernel, launch->dynamic_shared);
}

void Engine::fail(Failure failure, const char *what) {
  char text[1200];
  const uint3 b = current->block->index, t = current->index;
  std::snprintf(text, sizeof text, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", launch->kernel->name, b.x,
                b.y, b.z, t.x, t.y, t.z, what);
  outcome_ = {failure, text};
  void *unused;
  emulator_switch(&unused, main_top_);
  __builtin_unreachable();
}

namespace {
void append_site(std::string &text, const Site &site, int count) {
  const char *slash = std::strrchr(site.file, '/');
  text += std::to_string(count) + " wait at " + site.what + " (" + (slash ? slash + 1 : site.file) + ":" +
          std::to_string(site.line) + "), ";
}
}  // namespace

// Nobody can go on: says who waits where.
std::string Engine::stuck() {
  std::string text = "threads do not meet: ";
  for (Block *b : live_) {
    if (b->at_grid == b->threads) continue;
    current->block = b;
    if (b->waiting > 0) {
      append_site(text, b->site, b->waiting);
      current->index = b->at_barrier.front()->index;
    }
    if (b->at_grid > 0) text += std::to_string(b->at_grid) + " wait at grid_barrier, ";
    for (Warp &w : b->warps)
      for (int g = 0; g < w.groups; g++) {
        append_site(text, w.group[g].site, __builtin_popcount(w.group[g].arrived));
        if (b->waiting == 0) current->index = w.waiting[__builtin_ctz(w.group[g].arrived)]->index;
        char mask[32];
        std::snprintf(mask, sizeof mask, "for lanes %08x, ", w.group[g].mask & ~w.group[g].arrived);
        text += mask;
      }
    return text + std::to_string(b->ended) + " of " + std::to_string(b->threads) + " have ended";
  }
  return text + "blocks that have ended are missing at a barrier of the grid";
}

}  // namespace emulator
