// Counts what launches read and write, for the model of their time (scripts/gpu_model.py). Off unless the setting "counts" is 1.
#pragma once

#include <string>

#include "engine.h"

namespace emulator {

extern bool counting;

// While one lives, the accesses of this host thread's kernel are counted; at the end a line is added to the log.
class CountedLaunch {
 public:
  explicit CountedLaunch(const Launch &launch);
  ~CountedLaunch();
  CountedLaunch(const CountedLaunch &) = delete;
  CountedLaunch &operator=(const CountedLaunch &) = delete;

 private:
  const Launch &launch_;
  const bool on_;
};

void count_access(uintptr_t p, size_t n, Kind kind, const void *site);

// The log as lines of JSON, one a launch: kernel, grid, block, bytes, distinct bytes (read; read or written), and by place
// in the code how often it was passed. Places are offsets into this library.
std::string take_counts();

}  // namespace emulator
