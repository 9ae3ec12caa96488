#include "order.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "engine.h"

namespace emulator {

__thread Task *task __attribute__((tls_model("initial-exec")));
Record *records;

namespace {

struct Track {
  const char *name;
  uint32_t last = 0;
  bool taken = true;
};

// A task, as long as the process lives.
struct Deed {
  const char *what, *where;
  int track;
  uint32_t place;  // in the track
};

constexpr uint32_t kSet = 1u << 31;  // of Record::reader: the number of a set
constexpr size_t kChunk = 1 << 16;

std::mutex books;  // over all of these
// Streams that are left at the end of the process still use them, so they stay.
std::deque<Track> &tracks = *new std::deque<Track>;
std::set<std::string> &names = *new std::set<std::string>;
std::atomic<Deed *> chunks[1 << 15];  // of entries, by number; read without the lock
uint32_t entries;
std::vector<std::vector<uint32_t>> sets;
std::map<std::vector<uint32_t>, uint32_t> numbers_of_sets;
std::shared_ptr<const Clock> host = std::make_shared<Clock>();

struct Watch {
  Rows rows;
  bool written;  // by the copy, or read
  uint64_t sum;
  uint32_t by;  // 0: not done yet
  uint64_t number;
};
std::deque<Watch> watches;
uint64_t watches_made;
constexpr size_t kMostWatches = 4096;

const Deed &entry_of(uint32_t number) { return chunks[number / kChunk].load()[number % kChunk]; }

bool reached(const Clock &clock, const Deed &e) { return size_t(e.track) < clock.size() && clock[e.track] >= e.place; }

uint64_t sum_of(const Rows &w) {
  uint64_t sum = 0;
  for (size_t row = 0; row < w.height; row++) {
    const char *p = reinterpret_cast<const char *>(w.at + row * w.pitch);
    size_t i = 0;
    for (; i + 8 <= w.width; i += 8) {
      uint64_t x;
      std::memcpy(&x, p + i, 8);
      sum = (sum ^ x) * 0x9e3779b97f4a7c15ull;
      sum ^= sum >> 29;
    }
    for (; i < w.width; i++) sum = (sum ^ uint8_t(p[i])) * 0x9e3779b97f4a7c15ull;
  }
  return sum;
}

uint32_t new_entry(int track, const char *what) {
  std::lock_guard hold(books);
  const uint32_t number = ++entries;
  if (number == kSet) std::abort();
  std::atomic<Deed *> &chunk = chunks[number / kChunk];
  if (!chunk.load()) chunk = new Deed[kChunk];
  Track &t = tracks[track];
  chunk.load()[number % kChunk] = {what, t.name, track, ++t.last};
  return number;
}

}  // namespace

void join(Clock &to, const Clock &from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) to[i] = std::max(to[i], from[i]);
}

const char *interned(const std::string &name) {
  std::lock_guard hold(books);
  return names.insert(name).first->c_str();
}

// The track of a stream that is gone is another's if the host knows that its work has ended.
int new_track(const std::string &name) {
  std::lock_guard hold(books);
  const char *const kept = names.insert(name).first->c_str();
  for (size_t i = 0; i < tracks.size(); i++) {
    Track &t = tracks[i];
    if (t.taken || (t.last > 0 && (i >= host->size() || (*host)[i] < t.last))) continue;
    t.name = kept;
    t.taken = true;
    return int(i);
  }
  tracks.push_back({kept});
  return int(tracks.size()) - 1;
}

void end_track(int track) {
  std::lock_guard hold(books);
  tracks[track].taken = false;
}

Task::Task(Position &at, const char *what) : number(new_entry(at.track, what)), clock(at.clock), outer(task) {
  if (at.clock.size() <= size_t(at.track)) at.clock.resize(at.track + 1);
  at.clock[at.track] = entry_of(number).place;
  task = this;
}
Task::~Task() { task = outer; }

bool Task::look_up(uint32_t other) {
  if (!reached(clock, entry_of(other))) return false;
  followed[other % 16] = other;
  return true;
}

namespace {

// The first of a record's readers that the running task does not follow; 0: it follows all.
uint32_t unseen(uint32_t reader) {
  if (reader == 0) return 0;
  if (!(reader & kSet)) return task->follows(reader) ? 0 : reader;
  if (reader == task->followed_set) return 0;
  std::lock_guard hold(books);
  for (uint32_t r : sets[reader & ~kSet])
    if (!task->follows(r)) return r;
  task->followed_set = reader;
  return 0;
}

uint32_t add_reader(uint32_t reader) {
  if (reader == 0 || unseen(reader) == 0) return task->number;
  if (reader == task->with) return reader;
  if (reader == task->without) return task->with;
  std::lock_guard hold(books);
  std::vector<uint32_t> all;
  if (reader & kSet)
    all = sets[reader & ~kSet];
  else
    all = {reader};
  std::erase_if(all, [](uint32_t r) { return task->follows(r); });
  all.push_back(task->number);
  std::sort(all.begin(), all.end());
  const auto [found, fresh] = numbers_of_sets.try_emplace(all, uint32_t(sets.size()) | kSet);
  if (fresh) sets.push_back(all);
  task->without = reader;
  return task->with = found->second;
}

}  // namespace

uint32_t note_read(Record &record) {
  if (record.writer == task->number) return 0;
  if (record.writer && !task->follows(record.writer)) return record.writer;
  record.reader = add_reader(record.reader);
  return 0;
}

uint32_t note_write(Record &record) {
  if (record.writer && !task->follows(record.writer)) return record.writer;
  if (const uint32_t reader = unseen(record.reader)) return reader;
  record = {task->number, 0};
  return 0;
}

std::string unordered(uint32_t other, bool other_writes) {
  const Deed &was = entry_of(other), &is = entry_of(task->number);
  return std::string("which ") + was.what + " in " + was.where + (other_writes ? " writes" : " reads") +
         ", and nothing makes " + is.what + " in " + is.where + " wait for it";
}

std::string note_range(uintptr_t p, size_t bytes, bool writes) {
  if (!task || !(checks & kOrder) || bytes == 0) return "";
  Record *record;
  size_t count = (p + bytes + 3) / 4 - p / 4;
  const bool on_device = device_of(p) >= 0;
  if (on_device)
    record = record_of(p);
  else
    record = pinned_records(p, bytes);
  if (!record) return "";
  const uint32_t me = task->number;
  for (size_t i = 0; i < count; i++) {
    Record &r = record[i];
    const uint32_t writer = r.writer;
    if (writes) {
      if (writer == 0 && r.reader == 0) {
        r.writer = me;
        continue;
      }
    } else if (writer == me || r.reader == me) {
      continue;
    }
    const uint32_t other = writes ? note_write(r) : note_read(r);
    if (!other) continue;
    const uintptr_t at = p / 4 * 4 + 4 * i;
    char place[80];
    std::snprintf(place, sizeof place, "%s 4 bytes at 0x%llx, ", writes ? "writes" : "reads", (unsigned long long)at);
    return entry_of(me).what + std::string(": ") + place + unordered(other, other == writer) + ": " +
           (on_device ? device_memory(device_of(at)).describe(at) : "in pinned memory of the host");
  }
  return "";
}

void forget_records(uintptr_t p, size_t bytes) {
  if (!entries) return;
  Record *const first = record_of(p), *const end = record_of(p + bytes + 3);
  constexpr size_t kPage = 4096;
  const uintptr_t from = (reinterpret_cast<uintptr_t>(first) + kPage - 1) / kPage * kPage;
  const uintptr_t to = reinterpret_cast<uintptr_t>(end) / kPage * kPage;
  if (bytes < 65536) {
    std::memset(static_cast<void *>(first), 0, (end - first) * sizeof(Record));
    return;
  }
  std::memset(static_cast<void *>(first), 0, from - reinterpret_cast<uintptr_t>(first));
  madvise(reinterpret_cast<void *>(from), to - from, MADV_DONTNEED);
  std::memset(reinterpret_cast<void *>(to), 0, reinterpret_cast<uintptr_t>(end) - to);
}

// ---- the host ----

namespace {

std::string changed_by_host(const Rows &rows, uint32_t by, bool written) {
  const Deed &e = entry_of(by);
  char text[160];
  std::snprintf(text, sizeof text, "the host changes pinned memory, %zu bytes at 0x%llx, that ", rows.span(),
                (unsigned long long)rows.at);
  return text + std::string(e.what) + " in " + e.where + (written ? " writes" : " reads") +
         ", and does not wait for it before";
}

// The lock is held.
uint64_t add_watch(const Watch &w) {
  if (watches.size() == kMostWatches) watches.pop_front();
  watches.push_back(w);
  return watches.back().number = ++watches_made;
}

}  // namespace

std::shared_ptr<const Clock> host_clock() {
  std::lock_guard hold(books);
  return host;
}

std::string host_waited(const Clock &clock) {
  std::lock_guard hold(books);
  Clock all = *host;
  join(all, clock);
  if (all == *host) return "";
  host = std::make_shared<Clock>(std::move(all));
  std::string wrong;
  std::erase_if(watches, [&](const Watch &w) {
    if (w.by == 0 || !reached(*host, entry_of(w.by))) return false;
    if (wrong.empty() && sum_of(w.rows) != w.sum) wrong = changed_by_host(w.rows, w.by, w.written);
    return true;
  });
  return wrong;
}

uint64_t expect_pinned(const Rows &rows) {
  if (!(checks & kOrder) || rows.width == 0 || !is_pinned(rows.at, rows.span())) return 0;
  const uint64_t sum = sum_of(rows);
  std::lock_guard hold(books);
  return add_watch({rows, false, sum, 0, 0});
}

std::string watch_pinned(const Rows &rows, bool writes, uint64_t expected) {
  if (!task || !(checks & kOrder) || rows.width == 0 || !is_pinned(rows.at, rows.span())) return "";
  if (writes) unwatch_pinned(rows.at, rows.span());
  const uint64_t sum = sum_of(rows);
  std::lock_guard hold(books);
  for (const Watch &w : watches)
    if (expected && w.number == expected && w.sum != sum) return changed_by_host(rows, task->number, writes);
  if (expected) std::erase_if(watches, [&](const Watch &w) { return w.number == expected; });
  add_watch({rows, writes, sum, task->number, 0});
  return "";
}

void unwatch_pinned(uintptr_t p, size_t bytes) {
  std::lock_guard hold(books);
  std::erase_if(watches, [&](const Watch &w) { return w.rows.at < p + bytes && p < w.rows.at + w.rows.span(); });
}

}  // namespace emulator
