// Missing waits between pieces of work, looked for when kOrder is among the checks: a kernel, copy, fill or call of a
// library touches a word of memory that an earlier piece of work has written, or writes one that it has read, and no
// stream, event, graph or waiting of the host puts the one before the other.
//
// Work is counted by tracks: each stream is one, and so is each branch of a graph. A clock holds, for every track, the
// last piece of work that is known to have ended. Each word of device memory remembers who wrote it last, and who has
// read it since. All of them must be in the clock of who touches the word next. The order in which the emulator happens
// to do the work says nothing.
//
// The host's accesses to pinned memory are not seen. Instead the memory of a copy must be the same when the host has
// waited for the copy as it was when the copy was done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory.h"

namespace emulator {

using Clock = std::vector<uint32_t>;  // by track
void join(Clock &to, const Clock &from);

const char *interned(const std::string &name);  // stays valid
int new_track(const std::string &name);  // "stream 2 of device 0"
void end_track(int track);

// Where the work of a stream, or of a branch of a graph, has come to.
struct Position {
  Clock clock;
  int track;
};

// A piece of work that the calling thread does while this lives. Its place in the track is added to the clock.
struct Task {
  Task(Position &at, const char *what);  // `what` stays valid
  ~Task();
  Task(const Task &) = delete;
  Task &operator=(const Task &) = delete;

  bool follows(uint32_t other) { return other == number || other == followed[other % 16] || look_up(other); }

  const uint32_t number;  // among all tasks
  const Clock &clock;
  // What was looked up last: tasks and a set of tasks that this one follows, and a set of readers without this one and
  // with it.
  uint32_t followed[16] = {}, followed_set = 0, without = 0, with = 0;

 private:
  bool look_up(uint32_t other);
  Task *const outer;
};
extern __thread Task *task __attribute__((tls_model("initial-exec")));  // that this thread does, or null

// Who touched 4 bytes. Numbers of tasks; a reader may also be a set of them. A task that reads what it has written
// itself is not noted as a reader.
struct Record {
  uint32_t writer, reader;
};
extern Record *records;  // of the words from arena_base on
inline Record *record_of(uintptr_t p) { return records + (p - arena_base) / 4; }

// Notes an access of the running task. Answers the task that it had to wait for, 0 if there is none.
uint32_t note_read(Record &record);
uint32_t note_write(Record &record);

// What was done without waiting for whom: "which kernel scale in stream 2 of device 0 reads, and nothing makes kernel
// ..."
std::string unordered(uint32_t other, bool other_writes);

// The same for a range of device or pinned memory. Answers what is wrong, in words, or nothing.
std::string note_range(uintptr_t p, size_t bytes, bool writes);

void forget_records(uintptr_t p, size_t bytes);  // memory is given back

// What the host knows to have ended. Waiting answers what is wrong with the memory of copies, in words, or nothing.
std::shared_ptr<const Clock> host_clock();
std::string host_waited(const Clock &clock);

// Rows of memory.
struct Rows {
  uintptr_t at;
  size_t width, height, pitch;
  size_t span() const { return height == 0 ? 0 : (height - 1) * pitch + width; }
};

// The pinned memory that the running task copies from or to: the host must leave it alone until it has waited. If the
// copy was submitted earlier, `expected` is the answer of expect_pinned; what is wrong is answered in words.
std::string watch_pinned(const Rows &rows, bool writes, uint64_t expected = 0);
uint64_t expect_pinned(const Rows &rows);
void unwatch_pinned(uintptr_t p, size_t bytes);  // a device writes there

}  // namespace emulator
