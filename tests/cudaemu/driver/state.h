// What the driver holds: devices, contexts, streams, and the work that waits in them. One lock over all; it is let go while
// work is done.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../runtime/memory.h"
#include "../runtime/order.h"
#include "../runtime/thread.h"
#include "types.h"

namespace emulator {

struct Stream;
struct Module;
struct Capture;

struct Context {
  int device = 0;
  int references = 0;
  bool primary = false;
  unsigned flags = 0;
  uint32_t peers = 0;  // devices whose memory its kernels may touch
  CUresult error = 0;  // once set, every call answers it
  std::shared_ptr<Stream> legacy;  // the null stream
  std::set<std::shared_ptr<Stream>> streams;
  std::set<uintptr_t> allocations;
  std::set<Module *> modules;
};

struct Function {
  const Registration *kernel;
  Module *module;
  size_t dynamic_limit = 49152;
};

struct Module {
  Context *context;
  std::string image;
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};

// What an event that was recorded knows once its stream has come to it.
struct Reached {
  std::atomic<int64_t> time = 0;  // nanoseconds
  Clock clock;
};

// All work of a stream up to a number; of an event.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;
  std::shared_ptr<Reached> event = nullptr;
};
const Clock &clock_of(const Point &p);  // which was reached

// Work that several streams do together, once all of them have submitted their part: a collective, or a receive, which
// waits for its send.
struct Meeting {
  int expected = 1, joined = 0;
  bool begun = false, done = false;
  std::vector<Point> before;  // what the parts' streams have to do first
  std::vector<std::shared_ptr<const Clock>> hosts;  // what the host knew as it submitted the parts
  Clock clock;  // when it is done
  std::function<CUresult()> all;
  std::shared_ptr<std::vector<char>> payload;  // of a send
  CUresult result = 0;
};

struct Node;

// A piece of work, in a stream or a graph.
struct Work {
  enum Kind { kernel, copy, fill, host, record, meeting, nodes, empty } kind = empty;
  const char *name = nullptr;  // of one that touches memory by `call`
  Function *function = nullptr;
  dim3 grid, block;
  size_t shared = 0;
  std::vector<char> bytes;  // a kernel's arguments; a copy's source, where it had to be taken at once
  uintptr_t to = 0, from = 0;
  size_t width = 0, height = 1, to_pitch = 0, from_pitch = 0;
  uint64_t expected = 0;  // of a copy from pinned memory: what the host left there, see expect_pinned
  uint32_t value = 0;  // of a fill
  int element = 1;  // its bytes
  std::function<CUresult()> call;
  std::shared_ptr<Reached> event;  // that is recorded
  std::shared_ptr<const std::vector<Node>> graph;  // the nodes from `first` to `end` are this work
  size_t first = 0, end = 0;
  std::vector<int> branches;  // tracks
  std::function<std::shared_ptr<Meeting>(const Point &before)> join;  // of a meeting, called when submitted
  std::shared_ptr<void> holds;  // what a captured meeting refers to, for as long as a graph has it or it is under way
};

// Does a piece of work that has come to `at`, and takes that further.
CUresult perform(const Work &work, Context &context, Position &at);
CUresult perform_nodes(const Work &work, Context &context, Position &at);
// An error, and a message, if a range is touched too early; what was written is known.
CUresult touch(uintptr_t address, size_t bytes, bool writes);
// The host has waited for work. An error, and a message, if it changed memory of copies before it did.
CUresult host_waits(Context &context, const Clock &clock);

struct Queued {
  Work work;
  std::vector<Point> after;
  std::shared_ptr<Meeting> meeting;
  std::shared_ptr<const Clock> host;  // what the host knew then
};

struct Stream : std::enable_shared_from_this<Stream> {
  Context *context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::deque<Queued> waiting;
  uint64_t submitted = 0, done = 0;
  bool running = false;
  bool queried = false;
  bool computes = false;  // kernels were put into it
  std::vector<Point> next_after;  // events that the next work waits for
  std::shared_ptr<Capture> capture;
  std::vector<int> frontier;  // of the captured graph
  Clock clock;  // of the work that is done
  int track;
  std::vector<int> branches;  // tracks of the branches of its graphs

  explicit Stream(Context *context);
  ~Stream();
  Position position() const { return {clock, track}; }
};

struct Node {
  Work work;
  std::vector<int> after;
};
struct Graph {
  std::deque<Node> nodes;
};
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Stream *origin = nullptr;
  int mode = 0;  // 0: calls that could wait are refused in all threads, 1: in the thread that captures, 2: in none
  std::thread::id thread;
  bool invalid = false;
};
struct Exec {
  std::shared_ptr<const std::vector<Node>> nodes;  // replaced by an update; what was launched before keeps its own
};

struct Event {
  Context *context = nullptr;
  unsigned flags = 0;
  Point point;  // what was recorded
  bool queried = false;
  std::shared_ptr<Capture> capture;
  std::vector<int> frontier;
};

struct Device {
  std::string name;
  std::unordered_map<int, int> attributes;
  Context primary;
  CUresult lost = 0;
};

struct Settings {
  bool lazy = false;  // work is done when somebody waits for it, not when it is submitted
  int driver_version = 12090;
  bool initialised = false;
};

extern std::mutex lock;
extern std::condition_variable changed;
extern std::vector<std::unique_ptr<Device>> devices;
extern Settings settings;
using Hold = std::unique_lock<std::mutex>;

// Objects behind handles, to tell live ones from others.
template <class T>
struct Table {
  std::unordered_map<void *, std::shared_ptr<T>> live;
  T *add(std::shared_ptr<T> object) { return (live[object.get()] = object).get(); }
  std::shared_ptr<T> find(void *handle) const {
    auto found = live.find(handle);
    return found == live.end() ? nullptr : found->second;
  }
  bool remove(void *handle) { return live.erase(handle) == 1; }
};
extern Table<Event> events;
extern Table<Graph> graphs;
extern Table<Exec> execs;
extern Table<Module> modules;
extern Table<Context> contexts;  // made by cuCtxCreate; primary ones are the devices'

// Called first in every function of the interface: counts, and answers injected faults.
CUresult enter(const char *function);
CUresult fault_of_kernel(const char *kernel);
void count(const std::string &what, int64_t by = 1);
void tell(const std::string &message);

Context *current_context();
bool is_context(const void *handle);
CUresult usable(Context *context);  // no context, lost device, or an error that stays
void make_ready(Context &context);  // its null stream
CUresult destroy_contents(Context &context, Hold &hold);
void unpin_all(Context &owner);  // gives back the pinned host memory of a context that goes

std::shared_ptr<Stream> stream_of(void *handle, CUresult &why);
CUresult submit(const std::shared_ptr<Stream> &stream, Work work, Hold &hold);
// Does a stream's work up to a number; false if that has to wait for others and `wait` is not set.
bool drain(Stream &stream, uint64_t upto, Hold &hold, bool wait = true);
void drain_context(Context &context, Hold &hold);
std::chrono::seconds patience();  // how long others may be waited for that never come
// Whether a capture forbids the calling thread to make calls that could wait, or allocate; it is broken by the attempt.
bool restrained();

}  // namespace emulator

// The beginning of a function: counted, the driver initialised, the lock held.
#define ENTER(function)                                                 \
  if (CUresult fault = emulator::enter(#function); fault) return fault; \
  emulator::Hold hold(emulator::lock)
// The same for what needs a usable current context.
#define ENTER_CONTEXT(function)                                   \
  ENTER(function);                                                \
  emulator::Context *const context = emulator::current_context(); \
  if (CUresult bad = emulator::usable(context); bad) return bad
