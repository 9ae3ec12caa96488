// Graphs: captured from streams, made executable, launched as one piece of work.
#include <algorithm>

#include "state.h"

using namespace emulator;

#define ENTER_STREAM(function)                                   \
  ENTER(function);                                               \
  CUresult why;                                                  \
  const std::shared_ptr<Stream> stream = stream_of(handle, why); \
  if (why) return why

API CUresult cuStreamBeginCapture_v2(void *handle, int mode) {
  ENTER_STREAM(cuStreamBeginCapture);
  if (mode < 0 || mode > 2) return CUDA_ERROR_INVALID_VALUE;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream.get();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->frontier.clear();
  return CUDA_SUCCESS;
}

API CUresult cuStreamEndCapture(void *handle, Graph **out) {
  ENTER_STREAM(cuStreamEndCapture);
  *out = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture || capture->origin != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  // All that was captured must lead to the end of the stream that began.
  std::vector<bool> reached(capture->graph->nodes.size());
  for (int i : stream->frontier) reached[i] = true;
  for (int i = int(reached.size()) - 1; i >= 0; i--)
    if (reached[i])
      for (int before : capture->graph->nodes[i].after) reached[before] = true;
  bool joined = true;
  for (const bool r : reached) joined = joined && r;
  for (const auto &d : devices)
    for (const auto &s : d->primary.streams)
      if (s->capture == capture) s->capture.reset(), s->frontier.clear();
  for (const auto &c : contexts.live)
    for (const auto &s : c.second->streams)
      if (s->capture == capture) s->capture.reset(), s->frontier.clear();
  for (const auto &e : events.live)
    if (e.second->capture == capture) e.second->capture.reset();
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *out = graphs.add(std::shared_ptr<Graph>(std::move(capture->graph)));
  return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(void *handle, int *status) {
  ENTER_STREAM(cuStreamIsCapturing);
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  return CUDA_SUCCESS;
}

API CUresult cuGraphCreate(Graph **out, unsigned) {
  ENTER(cuGraphCreate);
  *out = graphs.add(std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

API CUresult cuGraphDestroy(void *graph) {
  ENTER(cuGraphDestroy);
  return graphs.remove(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGraphGetNodes(void *handle, void **nodes, size_t *n) {
  ENTER(cuGraphGetNodes);
  const auto graph = graphs.find(handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (nodes)
    for (size_t i = 0; i < *n; i++) nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
  if (!nodes || *n > graph->nodes.size()) *n = graph->nodes.size();
  return CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetType(Node *node, int *type) {
  ENTER(cuGraphNodeGetType);
  const Work::Kind kind = node->work.kind;
  *type = kind == Work::kernel ? 0 : kind == Work::copy ? 1 : kind == Work::fill ? 2 : kind == Work::host ? 3 : 5;
  return CUDA_SUCCESS;
}

namespace {

// Which node goes on where another ended, and which begins a branch: the first that comes after a node goes on.
std::vector<bool> begins_branch(const std::vector<Node> &nodes, size_t first, size_t end) {
  std::vector<bool> begins(end - first, true), taken(end - first);
  for (size_t n = first; n < end; n++)
    for (const int before : nodes[n].after)
      if (begins[n - first] && size_t(before) >= first && !taken[before - first]) {
        taken[before - first] = true;
        begins[n - first] = false;
      }
  return begins;
}

}  // namespace

// Each node follows those that it comes after, and what the stream has done before; the stream goes on when all are done.
CUresult emulator::perform_nodes(const Work &work, Context &context, Position &at) {
  const std::vector<Node> &nodes = *work.graph;
  const size_t count = work.end - work.first;
  const std::vector<bool> begins = begins_branch(nodes, work.first, work.end);
  std::vector<Position> done(count);
  std::vector<bool> taken(count);
  size_t branches = 0;
  Access open;
  for (size_t n = 0; n < count; n++) {
    Position here{at.clock, at.track};
    if (begins[n] && branches++ > 0) here.track = work.branches[branches - 2];
    bool goes_on = begins[n];
    for (const int node : nodes[work.first + n].after) {
      const size_t before = size_t(node) - work.first;
      if (size_t(node) < work.first) continue;
      join(here.clock, done[before].clock);
      if (goes_on || taken[before]) continue;
      here.track = done[before].track;
      goes_on = taken[before] = true;
    }
    if (CUresult bad = perform(nodes[work.first + n].work, context, here)) return bad;
    done[n] = std::move(here);
  }
  for (const Position &p : done) join(at.clock, p.clock);
  return CUDA_SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(Exec **out, void *handle, unsigned long long) {
  ENTER_CONTEXT(cuGraphInstantiate);
  const auto graph = graphs.find(handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<Exec>();
  exec->nodes = std::make_shared<std::vector<Node>>(graph->nodes.begin(), graph->nodes.end());
  *out = execs.add(exec);
  count("live_graphs");
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecDestroy(void *exec) {
  ENTER(cuGraphExecDestroy);
  if (!execs.remove(exec)) return CUDA_ERROR_INVALID_VALUE;
  count("live_graphs", -1);
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecUpdate_v2(void *handle, void *graph_handle, CUgraphExecUpdateResultInfo *info) {
  ENTER_CONTEXT(cuGraphExecUpdate);
  const auto exec = execs.find(handle);
  const auto graph = graphs.find(graph_handle);
  if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
  const auto &old = *exec->nodes;
  int result = old.size() == graph->nodes.size() ? 0 : 2;
  for (size_t i = 0; result == 0 && i < old.size(); i++) {
    const Node &now = graph->nodes[i];
    if (old[i].after != now.after) {
      result = 2;
    } else if (old[i].work.kind != now.work.kind) {
      result = 3;
    } else if (old[i].work.function != now.work.function) {
      result = 4;
    }
  }
  if (info) *info = {result, nullptr, nullptr};
  if (result) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  exec->nodes = std::make_shared<std::vector<Node>>(graph->nodes.begin(), graph->nodes.end());
  return CUDA_SUCCESS;
}

API CUresult cuGraphUpload(void *handle, void *) {
  ENTER_CONTEXT(cuGraphUpload);
  return execs.find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGraphLaunch(void *exec_handle, void *handle) {
  ENTER_STREAM(cuGraphLaunch);
  const auto exec = execs.find(exec_handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  count("graph_launches");
  stream->computes = true;
  // One piece of work, but that meetings with other streams stand by themselves.
  const std::shared_ptr<const std::vector<Node>> nodes = exec->nodes;
  for (size_t i = 0; i < nodes->size();) {
    size_t end = i;
    while (end < nodes->size() && !(*nodes)[end].work.join) end++;
    if (end == i) {
      if (CUresult bad = submit(stream, (*nodes)[i++].work, hold)) return bad;
      continue;
    }
    Work work;
    work.kind = Work::nodes;
    work.graph = nodes;
    work.first = i;
    work.end = end;
    const std::vector<bool> begins = begins_branch(*nodes, i, end);
    while (stream->branches.size() + 1 < size_t(std::count(begins.begin(), begins.end(), true)))
      stream->branches.push_back(new_track("a branch of a graph of device " + std::to_string(stream->context->device)));
    work.branches = stream->branches;
    if (CUresult bad = submit(stream, std::move(work), hold)) return bad;
    i = end;
  }
  return CUDA_SUCCESS;
}
