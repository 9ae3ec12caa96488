// Streams and events. Work is kept in its stream's queue until somebody waits for it (lazy) or at once (otherwise).
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "state.h"

using namespace emulator;

namespace emulator {

std::chrono::seconds patience() {
  const char *text = std::getenv("DSSTNE_CUDAEMU_TIMEOUT");
  return std::chrono::seconds(text ? std::atol(text) : 10);
}

Stream::Stream(Context *context) : context(context) {
  static std::atomic<int> made;
  const std::string of = " of device " + std::to_string(context->device);
  track = new_track((context->legacy ? "stream " + std::to_string(++made) : "the null stream") + of);
}

Stream::~Stream() {
  end_track(track);
  for (const int branch : branches) end_track(branch);
}

const Clock &clock_of(const Point &p) { return p.event ? p.event->clock : p.stream->clock; }

CUresult host_waits(Context &context, const Clock &clock) {
  const std::string wrong = host_waited(clock);
  if (wrong.empty()) return CUDA_SUCCESS;
  tell(wrong);
  return context.error = context.error ? context.error : CUDA_ERROR_LAUNCH_FAILED;
}

namespace {

// Does the work of all who meet; the lock is let go meanwhile. Whoever comes second waits for the first.
CUresult meet(Meeting &meeting, Position &at, Hold &hold) {
  if (!std::exchange(meeting.begun, true)) {
    for (const Point &p : std::vector<Point>(meeting.before)) drain(*p.stream, p.number, hold);
    for (const Point &p : meeting.before) join(at.clock, clock_of(p));
    for (const auto &h : meeting.hosts) join(at.clock, *h);
    hold.unlock();
    CUresult result;
    {
      const Task part(at, "a collective");
      result = meeting.all();
    }
    hold.lock();
    meeting.result = result;
    meeting.clock = at.clock;
    meeting.done = true;
    changed.notify_all();
  }
  while (!meeting.done) changed.wait(hold);
  join(at.clock, meeting.clock);
  return meeting.result;
}

}  // namespace

bool drain(Stream &stream, uint64_t upto, Hold &hold, bool wait) {
  const std::shared_ptr<Stream> keep = stream.shared_from_this();
  while (stream.done < upto) {
    if (stream.running) {
      if (!wait) return false;
      changed.wait(hold);
      continue;
    }
    Context &context = *stream.context;
    const std::shared_ptr<Meeting> meeting = stream.waiting.front().meeting;
    if (meeting && meeting->joined < meeting->expected && !context.error) {
      if (!wait) return false;
      if (changed.wait_for(hold, patience()) == std::cv_status::timeout && meeting->joined < meeting->expected) {
        tell("a collective waits in vain: " + std::to_string(meeting->joined) + " of " +
             std::to_string(meeting->expected) + " have come");
        context.error = CUDA_ERROR_LAUNCH_TIMEOUT;
      }
      continue;
    }
    stream.running = true;
    bool ready = true;
    for (const Point &p : std::vector<Point>(stream.waiting.front().after))
      ready = drain(*p.stream, p.number, hold, wait) && ready;
    if (ready && !stream.waiting.empty()) {
      Queued entry = std::move(stream.waiting.front());
      stream.waiting.pop_front();
      CUresult bad = context.error ? context.error : devices[context.device]->lost;
      Position at = stream.position();
      join(at.clock, *entry.host);
      for (const Point &p : entry.after) join(at.clock, clock_of(p));
      if (!bad && meeting) {
        bad = meet(*meeting, at, hold);
      } else if (!bad) {
        hold.unlock();
        bad = perform(entry.work, context, at);
        hold.lock();
      }
      stream.clock = std::move(at.clock);
      if (entry.work.event) entry.work.event->clock = stream.clock;
      if (bad && !context.error) context.error = bad;
      stream.done++;
    }
    stream.running = false;
    changed.notify_all();
    if (!ready) return false;
  }
  return true;
}

void drain_context(Context &context, Hold &hold) {
  std::set<std::shared_ptr<Stream>> streams = context.streams;
  if (context.legacy) streams.insert(context.legacy);
  for (const auto &s : streams) drain(*s, s->submitted, hold);
  for (const auto &s : streams) host_waits(context, s->clock);
}

namespace {
thread_local int restraint = 0;  // as a capture's mode: by captures of all threads, by those of this one, by none
}

bool restrained() {
  const auto by = [](Capture &capture) {
    const bool own = capture.thread == std::this_thread::get_id();
    const bool forbids = restraint < 2 && (own ? capture.mode < 2 : capture.mode == 0 && restraint == 0);
    capture.invalid = capture.invalid || forbids;
    return forbids;
  };
  bool forbidden = false;
  const auto look = [&](const Context &context) {
    for (const auto &s : context.streams)
      if (s->capture) forbidden = by(*s->capture) || forbidden;
  };
  for (const auto &d : devices) look(d->primary);
  for (const auto &c : contexts.live) look(*c.second);
  return forbidden;
}

API int dsstne_cudaemu_capturing() {
  std::lock_guard hold(lock);
  const auto captures = [](const Context &context) {
    return std::any_of(context.streams.begin(), context.streams.end(), [](const auto &s) { return bool(s->capture); });
  };
  return std::any_of(devices.begin(), devices.end(), [&](const auto &d) { return captures(d->primary); }) ||
         std::any_of(contexts.live.begin(), contexts.live.end(), [&](const auto &c) { return captures(*c.second); });
}

API CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  ENTER(cuThreadExchangeStreamCaptureMode);
  if (*mode < 0 || *mode > 2) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, restraint);
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> stream_of(void *handle, CUresult &why) {
  Context *const context = current_context();
  why = CUDA_SUCCESS;
  if (reinterpret_cast<uintptr_t>(handle) <= 2) {  // null, legacy, per thread
    why = usable(context);
    return why ? nullptr : context->legacy;
  }
  auto find = [&](Context &c) -> std::shared_ptr<Stream> {
    for (const auto &s : c.streams)
      if (s.get() == handle) return s;
    return nullptr;
  };
  std::shared_ptr<Stream> found;
  if (context) found = find(*context);
  for (size_t i = 0; !found && i < devices.size(); i++) found = find(devices[i]->primary);
  for (auto it = contexts.live.begin(); !found && it != contexts.live.end(); ++it) found = find(*it->second);
  why = found ? usable(found->context) : CUDA_ERROR_INVALID_HANDLE;
  return why ? nullptr : found;
}

CUresult submit(const std::shared_ptr<Stream> &stream, Work work, Hold &hold) {
  if (stream->capture) {
    Capture &capture = *stream->capture;
    if (capture.invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture.graph->nodes.push_back({std::move(work), stream->frontier});
    stream->frontier = {int(capture.graph->nodes.size()) - 1};
    return CUDA_SUCCESS;
  }
  Context &context = *stream->context;
  Queued entry{std::move(work), std::move(stream->next_after), nullptr, host_clock()};
  stream->next_after.clear();
  // The null stream waits for all streams that did not opt out, and they for it.
  if (stream == context.legacy) {
    for (const auto &s : context.streams) {
      if (s->flags & CU_STREAM_NON_BLOCKING) continue;
      if (s->capture) {
        s->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
      entry.after.push_back({s, s->submitted});
    }
  } else if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
    entry.after.push_back({context.legacy, context.legacy->submitted});
  }
  if (entry.work.join) {
    entry.meeting = entry.work.join({stream, stream->submitted});
    entry.meeting->before.insert(entry.meeting->before.end(), entry.after.begin(), entry.after.end());
    entry.meeting->hosts.push_back(entry.host);
    changed.notify_all();
  }
  stream->waiting.push_back(std::move(entry));
  stream->submitted++;
  if (!settings.lazy) drain(*stream, stream->submitted, hold, false);
  return CUDA_SUCCESS;
}

}  // namespace emulator

API CUresult cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) {
  ENTER_CONTEXT(cuStreamCreate);
  if (flags & ~unsigned(CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>(context);
  stream->flags = flags;
  stream->priority = priority;
  context->streams.insert(stream);
  *out = stream.get();
  count("live_streams");
  return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(Stream **out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }

#define ENTER_STREAM(function)                                   \
  ENTER(function);                                               \
  CUresult why;                                                  \
  const std::shared_ptr<Stream> stream = stream_of(handle, why); \
  if (why) return why

API CUresult cuStreamDestroy_v2(void *handle) {
  ENTER_STREAM(cuStreamDestroy);
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return CUDA_ERROR_INVALID_HANDLE;
  drain(*stream, stream->submitted, hold);
  stream->context->streams.erase(stream);
  count("live_streams", -1);
  return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(void *handle) {
  ENTER_STREAM(cuStreamSynchronize);
  count("synchronisations");
  if (stream->capture) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream == stream->context->legacy)
    for (const auto &s : std::set<std::shared_ptr<Stream>>(stream->context->streams))
      if (!(s->flags & CU_STREAM_NON_BLOCKING)) {
        drain(*s, s->submitted, hold);
        host_waits(*s->context, s->clock);
      }
  drain(*stream, stream->submitted, hold);
  host_waits(*stream->context, stream->clock);
  close_memory();
  return usable(stream->context);
}

// Lazy: the first query after new work finds it unfinished, the next one finds it done.
API CUresult cuStreamQuery(void *handle) {
  ENTER_STREAM(cuStreamQuery);
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->done == stream->submitted) return host_waits(*stream->context, stream->clock);
  if (!std::exchange(stream->queried, true)) return CUDA_ERROR_NOT_READY;
  stream->queried = false;
  drain(*stream, stream->submitted, hold);
  host_waits(*stream->context, stream->clock);
  close_memory();
  return usable(stream->context);
}

API CUresult cuStreamGetFlags(void *handle, unsigned *flags) {
  ENTER_STREAM(cuStreamGetFlags);
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

API CUresult cuStreamGetPriority(void *handle, int *priority) {
  ENTER_STREAM(cuStreamGetPriority);
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

API CUresult cuStreamGetCtx(void *handle, Context **out) {
  ENTER_STREAM(cuStreamGetCtx);
  *out = stream->context;
  return CUDA_SUCCESS;
}

API CUresult cuLaunchHostFunc(void *handle, void (*function)(void *), void *user) {
  ENTER_STREAM(cuLaunchHostFunc);
  Work work;
  work.kind = Work::host;
  work.call = [=] { return function(user), CUDA_SUCCESS; };
  return submit(stream, std::move(work), hold);
}

// ---- events ----

API CUresult cuEventCreate(Event **out, unsigned flags) {
  ENTER_CONTEXT(cuEventCreate);
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = flags;
  *out = events.add(event);
  count("live_events");
  return CUDA_SUCCESS;
}

#define ENTER_EVENT(function)                                     \
  ENTER(function);                                                \
  const std::shared_ptr<Event> event = events.find(event_handle); \
  if (!event) return CUDA_ERROR_INVALID_HANDLE;                   \
  if (CUresult bad = usable(event->context)) return bad

API CUresult cuEventDestroy_v2(void *event_handle) {
  ENTER(cuEventDestroy);
  if (!events.remove(event_handle)) return CUDA_ERROR_INVALID_HANDLE;
  count("live_events", -1);
  return CUDA_SUCCESS;
}

API CUresult cuEventRecord(void *event_handle, void *handle) {
  ENTER_EVENT(cuEventRecord);
  CUresult why;
  const std::shared_ptr<Stream> stream = stream_of(handle, why);
  if (why) return why;
  if (stream->context != event->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    event->capture = stream->capture;
    event->frontier = stream->frontier;
    return CUDA_SUCCESS;
  }
  event->capture.reset();
  Work work;
  work.kind = Work::record;
  work.event = std::make_shared<Reached>();
  work.call = [reached = work.event] {
    reached->time = std::chrono::steady_clock::now().time_since_epoch().count();
    return CUDA_SUCCESS;
  };
  event->point = {stream, stream->submitted + 1, work.event};
  event->queried = false;
  return submit(stream, std::move(work), hold);
}
API CUresult cuEventRecordWithFlags(void *event_handle, void *handle, unsigned) {
  return cuEventRecord(event_handle, handle);
}

API CUresult cuEventQuery(void *event_handle) {
  ENTER_EVENT(cuEventQuery);
  if (restrained() || event->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const Point point = event->point;
  if (!point.stream) return CUDA_SUCCESS;
  if (point.stream->done < point.number) {
    if (!std::exchange(event->queried, true)) return CUDA_ERROR_NOT_READY;
    drain(*point.stream, point.number, hold);
  }
  host_waits(*event->context, clock_of(point));
  return usable(event->context);
}

API CUresult cuEventSynchronize(void *event_handle) {
  ENTER_EVENT(cuEventSynchronize);
  count("synchronisations");
  if (event->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const Point point = event->point;
  if (point.stream) {
    drain(*point.stream, point.number, hold);
    host_waits(*event->context, clock_of(point));
  }
  close_memory();
  return usable(event->context);
}

API CUresult cuEventElapsedTime(float *milliseconds, void *from, void *to) {
  ENTER(cuEventElapsedTime);
  const auto first = events.find(from), second = events.find(to);
  if (!first || !second || ((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_HANDLE;
  if (!first->point.stream || !second->point.stream) return CUDA_ERROR_INVALID_HANDLE;
  const int64_t begin = first->point.event->time, end = second->point.event->time;
  if (begin == 0 || end == 0) return CUDA_ERROR_NOT_READY;
  *milliseconds = float(double(end - begin) * 1e-6);
  return CUDA_SUCCESS;
}

API CUresult cuStreamWaitEvent(void *handle, void *event_handle, unsigned) {
  ENTER_STREAM(cuStreamWaitEvent);
  const std::shared_ptr<Event> event = events.find(event_handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    stream->capture = event->capture;
    stream->frontier.insert(stream->frontier.end(), event->frontier.begin(), event->frontier.end());
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->point.stream) stream->next_after.push_back(event->point);
  return CUDA_SUCCESS;
}
