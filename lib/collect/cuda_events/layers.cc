// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/layers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/handle_table.h"
#include "pitot/trace.h"
#include "trace/mirror.h"
#include "trace/stream_use.h"

namespace pitot::cuda_events {

constinit LayerCounts g_layer_counts{};

namespace {

constexpr uint32_t kMostLevels = 8;   // of scopes in the work
constexpr uint32_t kMostStreams = 4;  // changes of stream in one piece of work; then it stays with the last
constexpr uint32_t kFreeSpans = 32;   // in one piece of work; more may take the share of its time that layers may
constexpr uint32_t kRaiseAfter = 4;   // pieces of work for which a deeper level was cheap enough
// What a pair of events delays the GPU (docs/lab/gpu.md), in addition to the host's time.
constexpr uint64_t kGpuNs = 1000;

constinit std::atomic<Pools*> g_layer_pools{nullptr};
constinit std::atomic<double> g_most_share{0};      // of the work's time
constinit std::atomic<uint32_t> g_session{0};       // a thread's levels and costs are those of one collector
constinit std::atomic<uint32_t> g_request_name{0};  // of the work of a request outside of batches
// The thread that launches on the default stream, and whether others do: it is then idle for none of them.
constinit std::atomic<const void*> g_default_user{nullptr};
constinit std::atomic<bool> g_is_default_shared{false};
// The thread that launched on each of the newest other streams, by session; 0: several did.
constinit base::HandleTable<1024> g_users{};
// Changes when a stream is destroyed: streams known before may be gone.
constinit std::atomic<uint32_t> g_streams_epoch{0};

// The layers of a thread.
struct ThreadLayers {
  constexpr ThreadLayers() = default;
  ThreadLayers(const ThreadLayers&) = delete;
  ThreadLayers& operator=(const ThreadLayers&) = delete;
  ~ThreadLayers() {
    if (open.pair != nullptr) Pools::Cancel(open);
    work = 0;
    open = {};
    const void* self = this;
    g_default_user.compare_exchange_strong(self, nullptr);
  }
  void Reset() {
    work = 0;
    deepest = 1;
    cheap = 0;
    end_ticks = 0;
    is_idle = false;
  }

  uint32_t session = 0;
  Pools* pools = nullptr;
  uint64_t work = 0;  // 0: none
  bool is_batch = false;
  uint64_t begin_ticks = 0;
  Name work_name{};
  void* stream = nullptr;
  uint32_t epoch = 0;
  bool has_stream = false;
  bool is_said = false;         // by SetWorkStream
  bool is_seen = false;         // launches of this thread are told
  bool has_launched = false;    // since the last event
  bool is_running = false;      // launched and did not wait since
  bool is_idle = false;         // waited for `last_stream`, and did not launch since
  bool is_left_out = false;     // since the last wait: a span would cost too much
  bool is_late = false;         // a timed scope began or ended: the next launch begins another span
  void* last_stream = nullptr;  // launched on
  uint32_t idle_epoch = 0;      // of is_idle
  detail::CudaSpan open{};
  detail::CudaSpan replay{};  // in which this thread launched a graph last
  uint32_t spans = 0;         // begun in this work
  uint32_t streams = 0;
  // Scopes open in the work; those beyond kMostLevels only count.
  uint32_t level = 0;
  std::array<uint32_t, kMostLevels> names{};
  std::array<uint32_t, kMostLevels> scopes{};  // of this work, by level
  uint32_t deepest = 1;                        // timed level
  uint32_t cheap = 0;                          // pieces of work in a row that could have been timed deeper
  uint64_t end_ticks = 0;                      // what the second event of a pair takes, about
};
thread_local ThreadLayers t_layers{};

uint64_t Ticks() {
  const uint32_t gate = __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED);
  return detail::Clock(gate);
}

Name NameNow(const ThreadLayers& layers) {
  const uint32_t level = std::min({layers.level, layers.deepest, kMostLevels});
  return level == 0 ? layers.work_name : Name{layers.names[level - 1]};
}

bool IsDefault(void* stream) {
  constexpr uintptr_t kLastDefault = 2;  // CU_STREAM_PER_THREAD
  return reinterpret_cast<uintptr_t>(stream) <= kLastDefault;
}

// Whether the stream is there whatever the host did: the driver crashes on one that was destroyed, and not all
// libraries are seen. Others are used only in calls that name them.
bool IsStreamThere(const ThreadLayers& layers) {
  if (!layers.has_stream) return false;
  return IsDefault(layers.stream) ||
         (layers.is_said && layers.epoch == g_streams_epoch.load(std::memory_order_acquire));
}

void Cancel(ThreadLayers* layers, std::atomic<uint64_t>* count = nullptr) {
  if (layers->open.pair == nullptr) return;
  Pools::Cancel(std::exchange(layers->open, {}));
  if (count != nullptr) count->fetch_add(1, std::memory_order_relaxed);
}

// `is_there`: the host uses the stream just now.
void End(ThreadLayers* layers, bool is_there = false) {
  if (layers->open.pair == nullptr) return;
  if (!is_there && !IsStreamThere(*layers)) return Cancel(layers, &g_layer_counts.stream_unsure);
  const uint64_t begin_ticks = Ticks();
  Pools::End(std::exchange(layers->open, {}));
  const uint64_t ticks = Ticks() - begin_ticks;
  layers->end_ticks = layers->end_ticks == 0 ? ticks : layers->end_ticks - layers->end_ticks / 16 + ticks / 16;
}

void UseStream(const ThreadLayers& layers, void* stream) {
  const void* const self = &layers;
  if (IsDefault(stream)) {
    if (g_default_user.load(std::memory_order_relaxed) == self) return;
    const void* nobody = nullptr;
    if (!g_default_user.compare_exchange_strong(nobody, self)) g_is_default_shared.store(true);
    return;
  }
  uint64_t user = 0;
  const bool is_known = g_users.Find(g_session.load(std::memory_order_relaxed), stream, &user);
  const auto own = reinterpret_cast<uint64_t>(self);
  if (!is_known || (user != own && user != 0))
    g_users.Set(g_session.load(std::memory_order_relaxed), stream, is_known ? 0 : own);
}

// Whether no other thread is known to launch on the stream, so that it is idle once this one has waited for it.
bool IsOnlyUser(const ThreadLayers& layers, void* stream) {
  if (IsDefault(stream)) return !g_is_default_shared.load(std::memory_order_relaxed);
  uint64_t user = 0;
  return g_users.Find(g_session.load(std::memory_order_relaxed), stream, &user) &&
         user == reinterpret_cast<uint64_t>(&layers);
}

void Begin(ThreadLayers* layers) {
  const bool is_idle = layers->is_idle && layers->idle_epoch == g_streams_epoch.load(std::memory_order_acquire) &&
                       IsOnlyUser(*layers, layers->stream);
  layers->open = layers->pools->Begin(layers->stream, NameNow(*layers), is_idle);
  if (!layers->is_seen) Pools::NoteGraph(layers->open, kAnyGraph);
  layers->is_idle = layers->is_late = false;
  layers->has_launched = false;
  layers->is_running = true;
  ++layers->spans;
}

// What a span costs, in ticks.
double CostOf(const ThreadLayers& layers) {
  return static_cast<double>(2 * layers.end_ticks + detail::TicksOf(kGpuNs));
}

// Work that waits often has a span after each wait. Whether one more costs too much.
bool IsLeftOut(ThreadLayers* layers) {
  if (layers->spans < kFreeSpans || layers->is_left_out) return layers->is_left_out;
  const double most = static_cast<double>(Ticks() - layers->begin_ticks) * g_most_share.load(std::memory_order_relaxed);
  layers->is_left_out = CostOf(*layers) * layers->spans > most;
  if (layers->is_left_out) g_layer_counts.after_waits.fetch_add(1, std::memory_order_relaxed);
  return layers->is_left_out;
}

// A timed scope begins, or ends and leaves the one around it. Where launches are told, a span begins with one, or with
// a scope that follows one: libraries may launch unseen. A span without any is given up.
void Edge(ThreadLayers* layers, bool is_begin) {
  const bool is_open = layers->open.pair != nullptr;
  if (is_open && layers->is_seen && !layers->has_launched && is_begin)
    return Pools::Rename(layers->open, NameNow(*layers));
  if (is_open && !IsStreamThere(*layers)) {
    layers->is_late = true;
    return;
  }
  if (is_open && layers->is_seen && !layers->has_launched) {
    Cancel(layers);
  } else {
    End(layers);
  }
  const bool is_at_work = layers->is_seen ? is_begin && layers->is_running : layers->is_said;
  if (is_at_work && IsStreamThere(*layers)) Begin(layers);
}

// Chooses the timed levels by what they cost of the work's time.
void ChooseLevel(ThreadLayers* layers) {
  if (layers->end_ticks == 0) return;
  const auto took = static_cast<double>(Ticks() - layers->begin_ticks);
  const double each = CostOf(*layers);
  const double most = g_most_share.load(std::memory_order_relaxed);
  double left = took * most;
  uint32_t level = 0;
  while (level < kMostLevels && layers->scopes[level] != 0) {
    left -= each * layers->scopes[level];
    if (left < 0) break;
    ++level;
  }
  const bool has_deeper = layers->deepest < kMostLevels && layers->scopes[layers->deepest] != 0;
  if (left < 0) {
    g_layer_counts.too_costly.fetch_add(1, std::memory_order_relaxed);
    g_layer_counts.last_cost_share.store(most - left / std::max(took, 1.0), std::memory_order_relaxed);
  }
  if (left < 0 && level < layers->deepest) {
    layers->deepest = level;
    layers->cheap = 0;
  } else if (level <= layers->deepest || !has_deeper) {
    layers->cheap = 0;
  } else if (++layers->cheap >= kRaiseAfter) {
    ++layers->deepest;
    layers->cheap = 0;
  }
}

void OnWork(uint64_t id, Name executor) noexcept {
  ThreadLayers& layers = t_layers;
  const bool is_batch = executor.index != 0;
  if (const uint32_t session = g_session.load(std::memory_order_relaxed); layers.session != session) {
    Cancel(&layers);
    layers.Reset();
    layers.session = session;
  }
  if (layers.work != 0 && layers.is_batch && is_batch) {
    Cancel(&layers, &g_layer_counts.ended_elsewhere);  // the former batch ended on another thread
  } else if (layers.work != 0) {
    if (layers.is_seen && !layers.has_launched) Cancel(&layers);  // nothing ran
    End(&layers);
    ChooseLevel(&layers);
  }
  layers.work = id;
  layers.is_batch = is_batch;
  layers.level = layers.streams = layers.spans = 0;
  layers.scopes.fill(0);
  layers.has_stream = layers.is_said = layers.is_seen = layers.is_running = layers.is_late = false;
  layers.is_left_out = false;
  if (id == 0) return;
  layers.pools = g_layer_pools.load(std::memory_order_acquire);
  layers.begin_ticks = Ticks();
  layers.work_name = executor.index != 0 ? executor : Name{g_request_name.load(std::memory_order_relaxed)};
}

void OnScopeBegin(const Site* site, Name name) noexcept {
  ThreadLayers& layers = t_layers;
  if (layers.work == 0) return;
  const uint32_t level = layers.level++;
  if (level >= kMostLevels) return;
  ++layers.scopes[level];
  if (level >= layers.deepest) return;
  layers.names[level] = (site->flags & kNameIsFirstArg) != 0 ? name.index : Intern(site->name).index;
  Edge(&layers, /*is_begin=*/true);
}

void OnScopeEnd() noexcept {
  ThreadLayers& layers = t_layers;
  if (layers.work == 0 || layers.level == 0) return;
  const uint32_t level = --layers.level;
  if (level < std::min(layers.deepest, kMostLevels)) Edge(&layers, /*is_begin=*/false);
}

// The part of a launch in a batch or request.
void LaunchInWork(ThreadLayers* layers, void* stream) {
  layers->is_seen = true;
  const bool is_timed = layers->open.pair != nullptr && layers->stream == stream && !layers->is_late;
  if (!is_timed && !(layers->is_said && layers->stream != stream)) {
    if (layers->open.pair != nullptr && layers->stream != stream && ++layers->streams > kMostStreams) {
      g_layer_counts.streams.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    End(layers, /*is_there=*/stream == layers->stream);
    layers->stream = stream;
    layers->has_stream = true;
    layers->epoch = g_streams_epoch.load(std::memory_order_acquire);
    if (!IsLeftOut(layers)) Begin(layers);
  }
  layers->has_launched = true;
}

// In which span the graph runs: that of its layer, or of a scope that the host placed.
void NoteGraph(ThreadLayers* layers, Pools* pools, void* stream, void* graph) {
  const bool is_in_layer = layers->work != 0 && layers->open.pair != nullptr && layers->stream == stream;
  layers->replay = is_in_layer ? layers->open : Pools::OpenScope(stream);
  if (layers->replay.pair != nullptr) return Pools::NoteGraph(layers->replay, graph);
  if (pools->most_graph_scopes.load(std::memory_order_relaxed) != 0)
    pools->lone_graph_ns.store(base::ClockNs(CLOCK_MONOTONIC), std::memory_order_relaxed);
}

void OnLaunch(void* stream, void* graph) noexcept {
  ThreadLayers& layers = t_layers;
  Pools* const pools = g_layer_pools.load(std::memory_order_acquire);
  if (!pools->are_launches_seen.load(std::memory_order_relaxed))
    pools->are_launches_seen.store(true, std::memory_order_relaxed);
  UseStream(layers, stream);
  if (graph != nullptr) Pools::ReadReplay(std::exchange(layers.replay, {}));
  layers.is_idle = layers.is_idle && stream == layers.last_stream && layers.work != 0;
  layers.last_stream = stream;
  if (layers.work != 0) LaunchInWork(&layers, stream);
  if (graph != nullptr) NoteGraph(&layers, pools, stream, graph);
}

void OnWait(void* stream) noexcept {
  ThreadLayers& layers = t_layers;
  layers.is_running = layers.is_left_out = false;
  End(&layers, /*is_there=*/stream == layers.stream);
  layers.is_idle = stream == layers.last_stream;  // all streams of a device need not be those of this one's
  layers.idle_epoch = g_streams_epoch.load(std::memory_order_acquire);
}

void OnDestroy() noexcept {
  OnWait(trace::kNoStream);
  g_streams_epoch.fetch_add(1, std::memory_order_acq_rel);
}

void AddTarget(void* stream, DeviceCall* call) noexcept {
  g_layer_pools.load(std::memory_order_acquire)->AddTarget(stream, call);
}

constexpr trace::Mirror kMirror = {OnScopeBegin, OnScopeEnd, OnWork};
constexpr trace::StreamWatcher kWatcher = {OnLaunch, OnWait, OnDestroy, AddTarget};

}  // namespace

void BeginLayers(Pools* pools, double most_cost_percent) noexcept {
  g_default_user.store(nullptr);
  g_is_default_shared.store(false);
  for (auto* count : {&g_layer_counts.stream_unsure, &g_layer_counts.ended_elsewhere, &g_layer_counts.streams,
                      &g_layer_counts.after_waits, &g_layer_counts.too_costly})
    count->store(0, std::memory_order_relaxed);
  g_most_share.store(most_cost_percent / 100, std::memory_order_relaxed);
  g_request_name.store(Intern("request").index, std::memory_order_relaxed);
  g_layer_pools.store(pools, std::memory_order_release);
  g_session.fetch_add(1, std::memory_order_relaxed);
  trace::SetMirror(trace::MirrorUse::kLayers, &kMirror);
  trace::g_stream_watcher.store(&kWatcher, std::memory_order_release);
}

void EndLayers() noexcept {
  trace::g_stream_watcher.store(nullptr, std::memory_order_release);
  trace::SetMirror(trace::MirrorUse::kLayers, nullptr);
}

}  // namespace pitot::cuda_events

PITOT_NAMESPACE_BEGIN

void SetWorkStream(void* stream) noexcept {
  using namespace cuda_events;  // NOLINT: this part stands on what is above
  ThreadLayers& layers = t_layers;
  if (layers.work == 0 || !detail::HasCudaEvents()) return;
  End(&layers);
  layers.stream = stream;
  layers.has_stream = layers.is_said = true;
  layers.epoch = g_streams_epoch.load(std::memory_order_acquire);
  if (!layers.is_seen) Begin(&layers);
}

PITOT_NAMESPACE_END
