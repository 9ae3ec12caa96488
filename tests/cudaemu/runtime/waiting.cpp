// Barriers of a block and of the grid, and calls that the lanes of a warp make together.
#include <cstdio>
#include <cstring>

#include "engine.h"

namespace emulator {

namespace {

std::string at(const Site &site) {
  const char *slash = std::strrchr(site.file, '/');
  return std::string(site.what) + " (" + (slash ? slash + 1 : site.file) + ":" + std::to_string(site.line) + ")";
}

bool same(const Site &a, const Site &b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

int outcome(const Block &block, Vote vote) {
  if (vote == Vote::all) return block.result == block.threads;
  if (vote == Vote::any) return block.result > 0;
  return block.result;
}

}  // namespace

int block_barrier(Site site, Vote vote, int predicate) {
  Engine &e = *engine;
  Fibre *const self = e.current;
  Block &block = *self->block;
  if (block.waiting == 0) {
    block.site = site;
    block.votes = 0;
  } else if (!same(site, block.site)) {
    e.fail(Failure::divergence,
           ("waits at " + at(site) + " while other threads of the block wait at " + at(block.site)).c_str());
  }
  block.votes += predicate != 0;
  if (++block.waiting < block.threads) {
    block.at_barrier.push_back(self);
    e.wait();
    return outcome(block, vote);
  }
  block.result = block.votes;
  block.waiting = 0;
  block.interval = e.next_interval++;
  for (Fibre *f : block.at_barrier) e.ready(f);
  block.at_barrier.clear();
  return outcome(block, vote);
}

void grid_barrier(unsigned *counter) {
  Engine &e = *engine;
  Fibre *const self = e.current;
  Block &block = *self->block;
  check_atomic(counter, sizeof *counter);
  if (int64_t(e.live_blocks()) > e.launch->resident_blocks)
    e.fail(Failure::resources, "waits for the whole grid, which has more blocks than fit on the device at once");
  if (++block.at_grid == block.threads) e.blocks_at_grid++;
  if (++e.at_grid < e.blocks_total * block.threads) {
    block.at_grid_barrier.push_back(self);
    e.wait();
    return;
  }
  *counter ^= 0x80000000u;
  e.at_grid = 0;
  e.blocks_at_grid = 0;
  e.release_grid();
}

void Engine::release_grid() {
  begin_interval();
  for (Block *b : live_) {
    for (Fibre *f : b->at_grid_barrier) ready(f);
    b->at_grid_barrier.clear();
    b->at_grid = 0;
    b->interval = next_interval++;
  }
}

void yield() { engine->pass(); }

void trap() { engine->fail(Failure::trap, "__trap"); }

int lane() { return engine->current->thread % 32; }

void collective(Collective all, uint32_t mask, void *operands, Site site) {
  Engine &e = *engine;
  Fibre *const self = e.current;
  Warp &warp = self->block->warps[self->thread / 32];
  const int lane = self->thread % 32;
  const int lanes = self->block->threads - self->thread / 32 * 32;
  if (!(mask >> lane & 1)) e.fail(Failure::divergence, ("calls " + at(site) + " for lanes without its own").c_str());
  if (lanes < 32 && mask >> lanes)
    e.fail(Failure::divergence, ("calls " + at(site) + " for lanes that its block lacks").c_str());
  warp.operands[lane] = operands;
  int g = 0;
  while (g < warp.groups && !(warp.group[g].mask == mask && warp.group[g].all == all)) g++;
  if (g == warp.groups) warp.group[warp.groups++] = {mask, 0, all, site};
  Group &group = warp.group[g];
  group.arrived |= 1u << lane;
  if (group.arrived != mask) {
    warp.waiting[lane] = self;
    e.wait();
    return;
  }
  group = warp.group[--warp.groups];
  all(warp.operands, mask);
  for (uint32_t others = mask & ~(1u << lane); others; others &= others - 1)
    e.ready(warp.waiting[__builtin_ctz(others)]);
}

void sync_warp(uint32_t mask, Site site) {
  collective(
      [](void *const *, uint32_t) {
        Fibre *f = engine->current;
        f->block->warps[f->thread / 32].interval++;
      },
      mask, nullptr, site);
}

uint32_t ballot(uint32_t mask, int predicate, Site site) {
  uint32_t value = predicate != 0;
  collective(
      [](void *const *lanes, uint32_t mask) {
        uint32_t votes = 0;
        for (uint32_t m = mask; m; m &= m - 1)
          votes |= *static_cast<uint32_t *>(lanes[__builtin_ctz(m)]) << __builtin_ctz(m);
        for (uint32_t m = mask; m; m &= m - 1) *static_cast<uint32_t *>(lanes[__builtin_ctz(m)]) = votes;
      },
      mask, &value, site);
  return value;
}

namespace {

struct Shuffled {
  Shuffle kind;
  uint64_t value, result;
  int parameter, width;
};

int source(const Shuffled &s, int lane) {
  const int first = lane & ~(s.width - 1), end = first + s.width;
  int from = lane;
  if (s.kind == Shuffle::from) from = first + (s.parameter & (s.width - 1));
  if (s.kind == Shuffle::up) from = lane - s.parameter;
  if (s.kind == Shuffle::down) from = lane + s.parameter;
  if (s.kind == Shuffle::across) from = lane ^ s.parameter;
  const bool outside = s.kind == Shuffle::up ? from < first : from >= end || from < 0;
  return outside ? lane : from;
}

void exchange(void *const *lanes, uint32_t mask) {
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    Shuffled &s = *static_cast<Shuffled *>(lanes[lane]);
    if (s.kind == Shuffle::match) {
      s.result = 0;
      for (uint32_t o = mask; o; o &= o - 1)
        if (static_cast<Shuffled *>(lanes[__builtin_ctz(o)])->value == s.value)
          s.result |= uint64_t(1) << __builtin_ctz(o);
      continue;
    }
    const int from = source(s, lane);
    if (!(mask >> from & 1)) {
      char text[120];
      std::snprintf(text, sizeof text, "lane %d shuffles from lane %d, which does not take part (mask %08x)", lane,
                    from, mask);
      engine->fail(Failure::divergence, text);
    }
    s.result = static_cast<Shuffled *>(lanes[from])->value;
  }
}

}  // namespace

uint64_t shuffle(Shuffle kind, uint32_t mask, uint64_t value, int parameter, int width, Site site) {
  if (width < 1 || width > 32 || (width & (width - 1)))
    engine->fail(Failure::divergence, "shuffles within a width that is no power of two");
  Shuffled s{kind, value, 0, parameter, width};
  collective(exchange, mask, &s, site);
  return s.result;
}

}  // namespace emulator
