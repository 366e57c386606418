// SPDX-License-Identifier: Apache-2.0
//
// FAKE_CUDA_OLD leaves out functions from CUDA 12 on and optional ones, FAKE_CUDA_BROKEN a function every driver has.
#include "collect/cuda_events/fake_cuda.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "collect/cuda_events/driver.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace fakes {
namespace {

namespace events = pitot::cuda_events;
using Lock = std::unique_lock<std::mutex>;

constexpr int kInvalidValue = 1, kInvalidHandle = events::kInvalidHandle;

thread_local std::vector<void*> t_current;
thread_local int t_capture_mode = 0;

int64_t Now() { return pitot::base::ClockNs(CLOCK_MONOTONIC); }
// The GPU's own clock: another beginning, 30 ppm too fast, 32 ns a tick.
double GpuNs(int64_t ns) { return std::floor((static_cast<double>(ns) * 1.00003 + 7e9) / 32) * 32; }

bool IsPitots() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return std::strcmp(name, "pitot-events") == 0;
}
void* Current() { return t_current.empty() ? nullptr : t_current.back(); }

struct Cuda final : FakeCuda {
  struct Context {
    bool is_there = true;
    uint64_t id = 0;
  };
  struct Stream {
    uint64_t id = 0;
    int64_t busy_until_ns = 0;
    bool is_capturing = false;
    void* graph = nullptr;  // under capture
    std::vector<int64_t> stamps;
  };
  struct Node {
    void* event = nullptr;  // null: work
    int64_t duration_ns = 0;
  };
  struct Graph {
    std::vector<Node> nodes;
    std::vector<void*> objects;
  };
  struct Object {
    void (*destroy)(void*) = nullptr;
    void* value = nullptr;
  };
  struct Event {
    void* context = nullptr;
    void* stream = nullptr;
    int64_t at_ns = -1;  // -1: never recorded
    bool is_held = false;
    size_t stamp = SIZE_MAX;
  };

  void Reset() override;
  void* MakeContext() override;
  void DestroyContext(void* context) override;
  void MakeCurrent(void* context) override;
  void* MakeStream() override;
  void Enqueue(void* stream, int64_t duration_ns) override;
  void SetCapturing(void* stream, bool is_capturing) override;
  void BeginCapture(void* stream) override;
  void* EndCapture(void* stream) override;
  void Replay(void* graph, void* stream) override;
  void DestroyGraph(void* graph) override;
  bool IsIdle(void* stream) override;
  void Hold() override;
  void Release() override;
  void FailAt(uint64_t call, int result) override;
  void FailIn(const std::string& function, int result, uint64_t but) override;
  void HangIn(const std::string& function) override;
  void SayElapsed(float ms) override;
  uint64_t calls() override;
  uint64_t CallsOf(const std::string& function) override;
  std::vector<int64_t> StampsOn(void* stream) override;
  size_t events() override;
  size_t streams() override;
  size_t allocations() override;
  std::string broken_rules() override;

  // Begins a call: counts it, and may let it fail or hang.
  int Enter(Lock* lock, const char* function);
  bool IsThere(void* context);
  Stream* Find(void* stream);  // null: there is none
  void Break(const std::string& rule) { rules += rule + "; "; }
  // The answer for a handle that is not an event. Nobody can know that an event has just gone with its context.
  int NoEvent(void* event, const char* rule) {
    if (events_gone.count(event) == 0) Break(rule);
    return kInvalidHandle;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<void*, Context> contexts;
  std::map<std::pair<void*, void*>, Stream> streams_of;  // by context and handle
  std::map<void*, Event> events_made;
  std::set<void*> events_gone;  // with their contexts
  std::map<void*, Graph> graphs;
  std::map<void*, Object> objects;
  std::map<uint64_t, std::pair<void*, uint64_t>> memory;  // by address: context and number
  std::vector<void*> held;                                // events, in order
  bool is_held = false;
  uint64_t next_id = 1;
  std::atomic<uint64_t> calls_made{0};  // without the lock: a child of a fork may find it held
  uint64_t fail_at = 0;
  int fail_with = 0;
  int fail_in_with = 0;
  uint64_t fail_in_from = 0;  // of calls_of
  std::string fail_in, hang_in, rules;
  std::optional<float> elapsed_ms;  // the next answer, whatever it is
  std::map<std::string, uint64_t> calls_of;
};

Cuda g_cuda;

int Cuda::Enter(Lock* lock, const char* function) {
  *lock = Lock(mutex);
  changed.notify_all();
  ++calls_of[function];
  changed.wait(*lock, [&] { return hang_in != function; });
  if (++calls_made == fail_at) return fail_with;
  return fail_in == function && calls_of[function] > fail_in_from ? fail_in_with : 0;
}

bool Cuda::IsThere(void* context) {
  const auto found = contexts.find(context);
  return found != contexts.end() && found->second.is_there;
}

Cuda::Stream* Cuda::Find(void* stream) {
  const auto found = streams_of.find({Current(), stream});
  return found != streams_of.end() ? &found->second : nullptr;
}

void Cuda::Reset() {
  while (!graphs.empty()) DestroyGraph(graphs.begin()->first);
  const std::lock_guard lock(mutex);
  for (auto& [context, state] : contexts) state.is_there = false;
  streams_of.clear();
  for (const auto& [event, made] : events_made) events_gone.insert(event);
  events_made.clear();
  memory.clear();
  held.clear();
  is_held = false;
  calls_made = 0, fail_at = 0;
  fail_in.clear();
  hang_in.clear();
  elapsed_ms.reset();
  calls_of.clear();
  rules.clear();
  t_current.clear();
  changed.notify_all();
}

void* Cuda::MakeContext() {
  const std::lock_guard lock(mutex);
  const uint64_t id = next_id++;
  void* context = nullptr;
  for (auto& [known, state] : contexts) {
    if (!state.is_there) context = known;
  }
  if (context == nullptr) context = reinterpret_cast<void*>(0x10000 + 64 * id);
  contexts[context] = {true, id};
  streams_of[{context, nullptr}].id = next_id++;
  t_current = {context};
  return context;
}

void Cuda::DestroyContext(void* context) {
  const std::lock_guard lock(mutex);
  contexts[context].is_there = false;
  std::erase_if(streams_of, [&](const auto& stream) { return stream.first.first == context; });
  for (const auto& [event, made] : events_made) {
    if (made.context == context) events_gone.insert(event);
  }
  std::erase_if(events_made, [&](const auto& event) { return event.second.context == context; });
  std::erase_if(memory, [&](const auto& of) { return of.second.first == context; });
  std::erase_if(held, [&](void* event) { return events_made.count(event) == 0; });
}

void Cuda::MakeCurrent(void* context) {
  t_current.clear();
  if (context != nullptr) t_current.push_back(context);
}

void* Cuda::MakeStream() {
  const std::lock_guard lock(mutex);
  const uint64_t id = next_id++;
  void* const stream = reinterpret_cast<void*>(0x20000000 + 64 * id);
  streams_of[{Current(), stream}].id = id;
  return stream;
}

void Cuda::Enqueue(void* stream, int64_t duration_ns) {
  const std::lock_guard lock(mutex);
  Stream& of = *Find(stream);
  if (of.graph != nullptr) {
    graphs[of.graph].nodes.push_back({nullptr, duration_ns});
    return;
  }
  of.busy_until_ns = std::max(of.busy_until_ns, Now()) + duration_ns;
}

void Cuda::BeginCapture(void* stream) {
  const std::lock_guard lock(mutex);
  void* const graph = reinterpret_cast<void*>(0x70000000 + 64 * next_id++);
  graphs[graph] = {};
  Find(stream)->graph = graph;
  Find(stream)->is_capturing = true;
}

void* Cuda::EndCapture(void* stream) {
  const std::lock_guard lock(mutex);
  Find(stream)->is_capturing = false;
  return std::exchange(Find(stream)->graph, nullptr);
}

void Cuda::Replay(void* graph, void* stream) {
  const std::lock_guard lock(mutex);
  Stream& of = *Find(stream);
  of.busy_until_ns = std::max(of.busy_until_ns, Now());
  for (const Node& node : graphs[graph].nodes) {
    of.busy_until_ns += node.duration_ns;
    if (node.event == nullptr) continue;
    const auto found = events_made.find(node.event);
    if (found == events_made.end()) {
      Break("a graph records what is no event");
    } else {
      found->second.at_ns = of.busy_until_ns;
    }
  }
}

void Cuda::DestroyGraph(void* graph) {
  std::vector<Object> let_go;
  {
    const std::lock_guard lock(mutex);
    for (void* object : graphs[graph].objects) {
      let_go.push_back(objects[object]);
      objects.erase(object);
    }
    graphs.erase(graph);
  }
  for (const Object& object : let_go) object.destroy(object.value);
}

void Cuda::SetCapturing(void* stream, bool is_capturing) {
  const std::lock_guard lock(mutex);
  Find(stream)->is_capturing = is_capturing;
}

bool Cuda::IsIdle(void* stream) {
  const std::lock_guard lock(mutex);
  return Find(stream)->busy_until_ns <= Now();
}

void Cuda::Hold() {
  const std::lock_guard lock(mutex);
  is_held = true;
}

void Cuda::Release() {
  const std::lock_guard lock(mutex);
  is_held = false;
  for (void* made : held) {
    Event& event = events_made[made];
    event.is_held = false;
    event.at_ns = Now();
    Stream& stream = streams_of[{event.context, event.stream}];
    if (event.stamp < stream.stamps.size()) stream.stamps[event.stamp] = event.at_ns;
  }
  held.clear();
}

void Cuda::FailAt(uint64_t call, int result) {
  const std::lock_guard lock(mutex);
  fail_at = call != 0 ? calls_made + call : 0;
  fail_with = result;
}

void Cuda::FailIn(const std::string& function, int result, uint64_t but) {
  const std::lock_guard lock(mutex);
  fail_in = function;
  fail_in_with = result;
  fail_in_from = calls_of[function] + but;
}

void Cuda::SayElapsed(float ms) {
  const std::lock_guard lock(mutex);
  elapsed_ms = ms;
}

void Cuda::HangIn(const std::string& function) {
  const std::lock_guard lock(mutex);
  hang_in = function;
  changed.notify_all();
}

uint64_t Cuda::calls() { return calls_made; }
uint64_t Cuda::CallsOf(const std::string& function) {
  const std::lock_guard lock(mutex);
  return calls_of[function];
}
std::vector<int64_t> Cuda::StampsOn(void* stream) {
  const std::lock_guard lock(mutex);
  const Stream* const of = Find(stream);
  return of != nullptr ? of->stamps : std::vector<int64_t>();
}
size_t Cuda::events() {
  const std::lock_guard lock(mutex);
  return events_made.size();
}
size_t Cuda::streams() {
  const std::lock_guard lock(mutex);
  size_t count = 0;
  for (const auto& [key, stream] : streams_of) count += key.second != nullptr;
  return count;
}
size_t Cuda::allocations() {
  const std::lock_guard lock(mutex);
  return memory.size();
}
std::string Cuda::broken_rules() {
  const std::lock_guard lock(mutex);
  return rules;
}

// Checks, like the real calls, that no thread captures: they are not safe then.
int CheckCapture() {
  if (t_capture_mode == events::kRelaxedCapture) return 0;
  for (auto& [key, stream] : g_cuda.streams_of) {
    if (!stream.is_capturing) continue;
    g_cuda.Break("a call spoilt a capture");
    return 900;
  }
  return 0;
}

}  // namespace
}  // namespace fakes

using fakes::g_cuda;
using fakes::Lock;

#define ENTER(function) \
  Lock lock;            \
  if (const int error = g_cuda.Enter(&lock, #function); error != 0) return error

FAKE_EXPORT fakes::FakeCuda* fake_cuda() { return &g_cuda; }

FAKE_EXPORT int cuCtxGetCurrent(void** context) {
  ENTER(cuCtxGetCurrent);
  *context = fakes::Current();
  return 0;
}
FAKE_EXPORT int cuCtxPushCurrent_v2(void* context) {
  ENTER(cuCtxPushCurrent);
  if (!g_cuda.IsThere(context)) return fakes::events::kContextIsDestroyed;
  fakes::t_current.push_back(context);
  return 0;
}
FAKE_EXPORT int cuCtxPopCurrent_v2(void** context) {
  // The stack is right afterwards, whatever this returns.
  Lock lock;
  const int error = g_cuda.Enter(&lock, "cuCtxPopCurrent");
  if (fakes::t_current.empty()) return fakes::events::kInvalidContext;
  *context = fakes::Current();
  fakes::t_current.pop_back();
  return error;
}
FAKE_EXPORT int cuCtxGetDevice(int* device) {
  ENTER(cuCtxGetDevice);
  *device = 1;
  return 0;
}
FAKE_EXPORT int cuEventCreate(void** event, unsigned int flags) {
  ENTER(cuEventCreate);
  if (flags != 0) g_cuda.Break("an event without a time");
  if (!fakes::IsPitots()) g_cuda.Break("a host's thread makes events");
  if (const int error = fakes::CheckCapture(); error != 0) return error;
  *event = reinterpret_cast<void*>(0x40000000 + 64 * g_cuda.next_id++);
  g_cuda.events_made[*event].context = fakes::Current();
  return 0;
}
FAKE_EXPORT int cuEventDestroy_v2(void* event) {
  ENTER(cuEventDestroy);
  const auto found = g_cuda.events_made.find(event);
  if (found == g_cuda.events_made.end()) return g_cuda.NoEvent(event, "destroys what is no event");
  if (found->second.is_held || found->second.at_ns > fakes::Now()) g_cuda.Break("destroys an event in use");
  for (const auto& [graph, state] : g_cuda.graphs) {
    for (const auto& node : state.nodes) {
      if (node.event == event) g_cuda.Break("destroys an event of a graph");
    }
  }
  g_cuda.events_made.erase(found);
  return 0;
}
#ifndef FAKE_CUDA_BROKEN
FAKE_EXPORT int cuEventRecord(void* event, void* stream) {
  ENTER(cuEventRecord);
  if (!g_cuda.IsThere(fakes::Current())) return fakes::events::kContextIsDestroyed;
  const auto found = g_cuda.events_made.find(event);
  fakes::Cuda::Stream* const on = g_cuda.Find(stream);
  if (found == g_cuda.events_made.end() || on == nullptr || found->second.context != fakes::Current()) {
    g_cuda.Break("records what is no event, or on no stream");
    return fakes::kInvalidHandle;
  }
  if (on->is_capturing) g_cuda.Break("records into a graph");
  fakes::Cuda::Event& made = found->second;
  made.is_held = g_cuda.is_held;
  made.stream = stream;
  made.at_ns = std::max(fakes::Now(), on->busy_until_ns);
  if (made.is_held) g_cuda.held.push_back(event);
  if (!fakes::IsPitots()) {
    made.stamp = on->stamps.size();
    on->stamps.push_back(made.at_ns);
  }
  return 0;
}
#endif
FAKE_EXPORT int cuEventQuery(void* event) {
  ENTER(cuEventQuery);
  // The host's threads may capture: they ask in a mode that allows it.
  const bool is_relaxed = fakes::t_capture_mode == fakes::events::kRelaxedCapture;
  if (!fakes::IsPitots() && !is_relaxed) g_cuda.Break("a host's thread asks for events");
  if (const int error = fakes::CheckCapture(); error != 0) return error;
  const auto found = g_cuda.events_made.find(event);
  if (found == g_cuda.events_made.end()) return g_cuda.NoEvent(event, "asks for what is no event");
  return found->second.is_held || found->second.at_ns > fakes::Now() ? fakes::events::kNotReady : 0;
}
FAKE_EXPORT int cuEventElapsedTime(float* ms, void* from, void* to) {
  ENTER(cuEventElapsedTime);
  const auto first = g_cuda.events_made.find(from), second = g_cuda.events_made.find(to);
  if (first == g_cuda.events_made.end()) return g_cuda.NoEvent(from, "measures from what is no event");
  if (second == g_cuda.events_made.end()) return g_cuda.NoEvent(to, "measures to what is no event");
  for (const auto& [handle, event] : {*first, *second}) {
    if (event.at_ns < 0) return fakes::kInvalidHandle;
    if (event.is_held || event.at_ns > fakes::Now()) return fakes::events::kNotReady;
  }
  if (g_cuda.elapsed_ms) return *ms = *std::exchange(g_cuda.elapsed_ms, std::nullopt), 0;
  *ms = static_cast<float>((fakes::GpuNs(second->second.at_ns) - fakes::GpuNs(first->second.at_ns)) / 1e6);
  return 0;
}
FAKE_EXPORT int cuStreamCreate(void** stream, unsigned int flags) {
  if (flags != 1) g_cuda.Break("a stream that blocks");
  ENTER(cuStreamCreate);
  const uint64_t id = g_cuda.next_id++;
  *stream = reinterpret_cast<void*>(0x20000000 + 64 * id);
  g_cuda.streams_of[{fakes::Current(), *stream}].id = id;
  return 0;
}
FAKE_EXPORT int cuStreamDestroy_v2(void* stream) {
  ENTER(cuStreamDestroy);
  if (g_cuda.streams_of.erase({fakes::Current(), stream}) == 0) g_cuda.Break("destroys what is no stream");
  return 0;
}
FAKE_EXPORT int cuMemAlloc_v2(unsigned long long* memory, size_t) {
  ENTER(cuMemAlloc);
  if (const int error = fakes::CheckCapture(); error != 0) return error;
  // A freed address comes again, a number never.
  *memory = 0x60000000;
  while (g_cuda.memory.count(*memory) != 0) *memory += 512;
  g_cuda.memory[*memory] = {fakes::Current(), g_cuda.next_id++};
  return 0;
}
FAKE_EXPORT int cuMemFree_v2(unsigned long long memory) {
  ENTER(cuMemFree);
  if (g_cuda.memory.erase(memory) == 0) g_cuda.Break("frees what is no memory");
  return 0;
}
FAKE_EXPORT int cuPointerGetAttribute(void* value, int attribute, unsigned long long memory) {
  ENTER(cuPointerGetAttribute);
  const auto found = g_cuda.memory.find(memory);
  if (attribute != 7 || found == g_cuda.memory.end()) return fakes::kInvalidValue;
  *static_cast<unsigned long long*>(value) = found->second.second;
  return 0;
}
FAKE_EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER(cuThreadExchangeStreamCaptureMode);
  std::swap(*mode, fakes::t_capture_mode);
  return 0;
}
#ifndef FAKE_CUDA_OLD
FAKE_EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  ENTER(cuStreamIsCapturing);
  const fakes::Cuda::Stream* const of = g_cuda.Find(stream);
  if (of == nullptr) return fakes::kInvalidValue;
  *status = of->is_capturing ? 1 : 0;
  return 0;
}
FAKE_EXPORT int cuCtxGetId(void* context, unsigned long long* id) {
  ENTER(cuCtxGetId);
  if (context == nullptr) context = fakes::Current();
  if (!g_cuda.IsThere(context)) return fakes::events::kContextIsDestroyed;
  *id = g_cuda.contexts[context].id;
  return 0;
}
FAKE_EXPORT int cuStreamGetId(void* stream, unsigned long long* id) {
  ENTER(cuStreamGetId);
  const fakes::Cuda::Stream* const of = g_cuda.Find(stream);
  if (of == nullptr) return fakes::kInvalidValue;
  if (of->is_capturing) g_cuda.Break("ends a capture by asking for its stream's number");
  *id = of->id;
  return 0;
}
FAKE_EXPORT int cuEventRecordWithFlags(void* event, void* stream, unsigned int flags) {
  ENTER(cuEventRecordWithFlags);
  fakes::Cuda::Stream* const on = g_cuda.Find(stream);
  const bool is_right = flags == 1 && on != nullptr && on->graph != nullptr && g_cuda.events_made.count(event) != 0;
  if (!is_right) {
    g_cuda.Break("captures what is no event, or on no captured stream");
    return fakes::kInvalidValue;
  }
  g_cuda.graphs[on->graph].nodes.push_back({event, 0});
  return 0;
}
FAKE_EXPORT int cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void** graph,
                                          void* const** nodes, size_t* node_count) {
  ENTER(cuStreamGetCaptureInfo);
  const fakes::Cuda::Stream* const of = g_cuda.Find(stream);
  if (of == nullptr || nodes != nullptr || node_count != nullptr) return fakes::kInvalidValue;
  *status = of->is_capturing ? 1 : 0;
  *id = 1;
  *graph = of->graph;
  return 0;
}
FAKE_EXPORT int cuUserObjectCreate(void** object, void* value, void (*destroy)(void*), unsigned int references,
                                   unsigned int flags) {
  ENTER(cuUserObjectCreate);
  if (references != 1 || flags != 1) return fakes::kInvalidValue;
  *object = reinterpret_cast<void*>(0x50000000 + 64 * g_cuda.next_id++);
  g_cuda.objects[*object] = {destroy, value};
  return 0;
}
FAKE_EXPORT int cuUserObjectRelease(void* object, unsigned int) {
  fakes::Cuda::Object released;
  {
    ENTER(cuUserObjectRelease);
    released = g_cuda.objects[object];
    g_cuda.objects.erase(object);
  }
  released.destroy(released.value);
  return 0;
}
FAKE_EXPORT int cuGraphRetainUserObject(void* graph, void* object, unsigned int, unsigned int flags) {
  ENTER(cuGraphRetainUserObject);
  if (flags != 1 || g_cuda.graphs.count(graph) == 0) return fakes::kInvalidValue;
  g_cuda.graphs[graph].objects.push_back(object);
  return 0;
}
FAKE_EXPORT int cuDeviceGetName(char* name, int size, int device) {
  ENTER(cuDeviceGetName);
  if (device != 1 || size < 16) return fakes::kInvalidValue;
  std::strncpy(name, "Fake GPU", static_cast<size_t>(size));
  return 0;
}
#endif
