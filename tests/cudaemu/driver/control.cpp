// What tests ask of the emulator itself: counters, faults, settings, messages. The functions named dsstne_cudaemu_*
// below.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "../runtime/counts.h"
#include "../runtime/engine.h"
#include "state.h"

namespace emulator {

std::mutex lock;
std::condition_variable changed;
std::vector<std::unique_ptr<Device>> devices;
Settings settings;
Table<Event> events;
Table<Graph> graphs;
Table<Exec> execs;
Table<Module> modules;
Table<Context> contexts;

namespace {

struct Fault {
  std::string function;
  uint64_t remaining;  // calls until it strikes
  CUresult code;
};

std::mutex books;  // counters, faults, messages
std::map<std::string, int64_t> counters;
std::vector<Fault> faults;
std::string messages;
bool quiet = std::getenv("DSSTNE_CUDAEMU_QUIET") != nullptr;

CUresult strike(const std::string &function) {
  for (size_t i = 0; i < faults.size(); i++) {
    if (faults[i].function != function || --faults[i].remaining > 0) continue;
    const CUresult code = faults[i].code;
    faults.erase(faults.begin() + i);
    return code;
  }
  return 0;
}

size_t copy_out(const std::string &text, char *buffer, size_t capacity) {
  if (capacity > 0) {
    const size_t n = text.size() < capacity - 1 ? text.size() : capacity - 1;
    std::memcpy(buffer, text.data(), n);
    buffer[n] = 0;
  }
  return text.size() + 1;
}

}  // namespace

CUresult enter(const char *function) {
  std::lock_guard hold(books);
  counters[std::string("calls.") + function]++;
  if (CUresult code = strike(function)) return code;
  if (settings.initialised || !std::strcmp(function, "cuInit") || !std::strcmp(function, "cuDriverGetVersion"))
    return 0;
  return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult fault_of_kernel(const char *kernel) {
  std::lock_guard hold(books);
  if (CUresult code = strike(std::string("kernel:") + kernel)) return code;
  return strike("kernel:*");
}

void count(const std::string &what, int64_t by) {
  std::lock_guard hold(books);
  counters[what] += by;
}

void tell(const std::string &message) {
  std::lock_guard hold(books);
  messages += message + "\n";
  if (!quiet) std::fprintf(stderr, "cudaemu: %s\n", message.c_str());
}

}  // namespace emulator

using namespace emulator;

// The n-th call of a function from now on (1: the next) answers `code` instead of doing anything. Names are without the
// version suffix: "cuMemAlloc". "kernel:NAME", "kernel:*": the n-th run of a kernel fails so, as its stream gets there.
API void dsstne_cudaemu_fail(const char *function, uint64_t n, int code) {
  std::lock_guard hold(books);
  faults.push_back({function, n, code});
}

API void dsstne_cudaemu_clear_faults() {
  std::lock_guard hold(books);
  faults.clear();
}

// From now on the device answers `code` to everything; 0 brings it back (contexts of before keep their error).
API void dsstne_cudaemu_lose(int device, int code) {
  std::lock_guard hold(lock);
  if (device < 0 || device >= int(devices.size())) return;
  devices[device]->lost = code;
  if (code) devices[device]->primary.error = code;
}

API int64_t dsstne_cudaemu_count(const char *counter) {
  std::lock_guard hold(books);
  if (!std::strcmp(counter, "switches")) return int64_t(total_switches());
  const auto found = counters.find(counter);
  return found == counters.end() ? 0 : found->second;
}

// Sets all counters to zero but those that begin with "live".
API void dsstne_cudaemu_reset_counts() {
  std::lock_guard hold(books);
  std::erase_if(counters, [](const auto &c) { return c.first.rfind("live", 0) != 0; });
}

// All counters as a JSON object. Answers the bytes needed, the closing zero included.
API size_t dsstne_cudaemu_counts(char *buffer, size_t capacity) {
  std::lock_guard hold(books);
  std::string text = "{";
  for (const auto &[name, value] : counters)
    text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + std::to_string(value);
  return copy_out(text + "}", buffer, capacity);
}

// What was found wrong since the last call, a line each.
API size_t dsstne_cudaemu_messages(char *buffer, size_t capacity) {
  std::lock_guard hold(books);
  const size_t needed = copy_out(messages, buffer, capacity);
  if (capacity >= needed) messages.clear();
  return needed;
}

API int dsstne_cudaemu_get(const char *what) {
  const std::string name = what;
  return name == "lazy"             ? settings.lazy
         : name == "checks"         ? int(checks)
         : name == "truncate"       ? truncates
         : name == "ulps"           ? ulps
         : name == "driver_version" ? settings.driver_version
         : name == "quiet"          ? quiet
         : name == "counts"         ? counting
                                    : -1;
}

// "counts" 0 or 1 (runtime/counts.h); "lazy" 0 or 1; "checks": bits of Check in runtime/engine.h; "truncate" 0 or 1; "ulps"; "driver_version" 12090;
// "quiet" 0 or 1. Answers the old value.
API int dsstne_cudaemu_set(const char *what, int value) {
  const int old = dsstne_cudaemu_get(what);
  std::lock_guard hold(lock);
  const std::string name = what;
  if (name == "lazy") settings.lazy = value != 0;
  if (name == "checks") checks = unsigned(value);
  if (name == "truncate") truncates = value != 0;
  if (name == "ulps") ulps = value;
  if (name == "driver_version") settings.driver_version = value;
  if (name == "quiet") quiet = value != 0;
  if (name == "counts") counting = value != 0;
  return old;
}

// What launches have read and written since the last call, if the setting "counts" is 1: runtime/counts.h.
API size_t dsstne_cudaemu_launches(char *buffer, size_t capacity) {
  static std::string text;
  std::lock_guard hold(books);
  text += take_counts();
  const size_t needed = copy_out(text, buffer, capacity);
  if (capacity >= needed) text.clear();
  return needed;
}

// An attribute of a device, by the driver's number for it; -1: of all devices.
API int dsstne_cudaemu_set_attribute(int device, int attribute, int value) {
  std::lock_guard hold(lock);
  for (int i = 0; i < int(devices.size()); i++)
    if (device == i || device == -1) devices[i]->attributes[attribute] = value;
  return device < int(devices.size()) ? 0 : 1;
}
