// SPDX-License-Identifier: Apache-2.0
//
// The collector: CUPTI fills buffers on the host's threads, one thread of Pitot's decodes them into the history, an
// incident pins its window there.
#include "pitot/collect/cupti.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/message.h"
#include "base/signals.h"
#include "collect/cupti/buffers.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/clock_pairs.h"
#include "collect/cupti/collector.h"
#include "collect/cupti/control.h"
#include "collect/cupti/decode.h"
#include "collect/cupti/driver.h"
#include "collect/cupti/graph_scopes.h"
#include "collect/cupti/history.h"
#include "collect/cupti/lasting_cost.h"
#include "collect/cupti/strides.h"
#include "trace/names.h"
#include "trace/process.h"

namespace pitot::cupti {
namespace {

using base::ClockNs;
using base::Error;

constexpr uint64_t kLeastBytes = 8ull << 20;
constexpr uint32_t kBufferBytes = 256 << 10;
constexpr int64_t kTickNs = 20'000'000;       // the newest record is then 10 ms old at the median
constexpr int64_t kPairsNs = 100'000'000;     // between readings of the clocks
constexpr int64_t kForgetNs = 1'000'000'000;  // how long the name behind a pointer is believed
constexpr int64_t kWatchNs = 2'000'000;       // between looks at PyTorch's profiler, where it is in the process
constexpr uint64_t kSilentSubmissions = 1000;
constexpr int64_t kLookNs = 100'000'000;  // at the calls, before kernels are recorded for the first time
constexpr int64_t kBetweenLooksNs = 400'000'000, kBetweenLaterLooksNs = 10'000'000'000;  // once enough was seen
constexpr double kAnyLastingCost = 100;
constexpr std::chrono::milliseconds kKeepPatience{250};  // for the thread that decodes: 10 MB take it half of that
constexpr int64_t kSilentNs = 1'000'000'000;             // a round that takes longer hangs in CUPTI
constexpr size_t kDepthsKept = 4096;
constexpr uint32_t kAcceptsNullSince = 27;  // CUDA 12.9: older ones crash where they get no buffer

// What CUPTI may use at any time until the process ends: never freed.
struct Engine {
  Api api{};
  ApiCalls calls;
  GraphScopes scopes;
  std::unique_ptr<BufferPool> pool;
  std::atomic<Control*> control{nullptr};          // the last of these
  std::vector<std::unique_ptr<Control>> controls;  // of the collector that runs and of those before
  Engine* former = nullptr;
};

// The one whose callbacks are registered.
constinit std::atomic<Engine*> g_engine{nullptr};
constinit std::atomic<bool> g_is_taken{false};  // a collector runs
constinit std::atomic<bool> g_closes_at_exit{false};
constinit std::atomic<uint32_t> g_fork_epoch{0};  // of the process that has them

// Where CUPTI may write what nobody reads: an old one crashes without a buffer.
alignas(4096) uint8_t g_waste[kBufferBytes];

void RequestBufferFromPool(uint8_t** buffer, size_t* size, size_t* most_records) {
  Engine* const engine = g_engine.load(std::memory_order_acquire);
  *buffer = engine != nullptr ? engine->pool->Take() : nullptr;
  *size = *buffer != nullptr ? engine->pool->bytes() : 0;
  *most_records = 0;
  if (*buffer == nullptr && (engine == nullptr || engine->api.version < kAcceptsNullSince))
    *buffer = g_waste, *size = sizeof g_waste;
}

void CompleteBufferOfPool(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Engine* const engine = g_engine.load(std::memory_order_acquire);
  if (engine != nullptr && buffer != g_waste && buffer != nullptr) engine->pool->Complete(buffer, valid);
}

void OnCuptiCallback(void* context, int domain, uint32_t callback_id, const void* data) {
  auto* const engine = static_cast<Engine*>(context);
  if (domain == kRuntimeApi || domain == kDriverApi) {
    engine->calls.OnCallback(static_cast<Domain>(domain), callback_id, *static_cast<const CallbackData*>(data));
    return;
  }
  Control* const control = engine->control.load(std::memory_order_acquire);
  if (control == nullptr) return;
  if (domain == kState) control->OnState(callback_id);
  if (domain != kResource) return;
  control->OnResource(callback_id);
  const auto* const resource = static_cast<const ResourceData*>(data);
  const bool is_node = callback_id == kGraphNodeCreated || callback_id == kGraphNodeCloned;
  if (is_node && resource != nullptr && resource->descriptor != nullptr)
    engine->scopes.OnNode(engine->api, callback_id, *static_cast<const GraphData*>(resource->descriptor));
}

void OnRegister(void* context) { static_cast<Engine*>(context)->pool->BeginEra(); }

// Before CUPTI's own destructors: registered after it was loaded.
void CloseAtExit() {
  Engine* const engine = g_engine.load();
  Control* const control = engine != nullptr ? engine->control.load() : nullptr;
  if (control != nullptr && g_fork_epoch.load() == trace::ForkEpoch()) control->CloseForExit();
}

// As CUpti_ActivityMemoryKind.
const char* MemoryName(uint32_t kind) {
  switch (kind) {
    case 1:
      return "pageable";
    case 2:
      return "pinned";
    case 3:
      return "device";
    case 4:
      return "array";
    case 5:
      return "managed";
    default:
      return "memory";
  }
}

// "pageable to device" of GpuRecord::detail.
std::string CopyName(uint32_t detail) {
  return std::string(MemoryName(detail >> 8 & 255)) + " to " + MemoryName(detail & 255);
}

class CuptiCollector final : public Collector {
 public:
  CuptiCollector(const CuptiOptions& options, const Control::Surroundings& surroundings, int64_t silence_ns)
      : library_(options.library != nullptr ? options.library : ""),
        memory_bytes_(options.memory_bytes),
        graph_level_(options.graph_level),
        lasting_cost_percent_(options.lasting_cost_percent),
        surroundings_(surroundings),
        silence_ns_(silence_ns) {}
  ~CuptiCollector() override { Stop(); }

  const char* Name() const noexcept override { return "cupti"; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  Depth Deepest() const noexcept override;
  void SetDepth(Depth depth) noexcept override;
  Status Pause() noexcept override { return IsOfThisProcess() ? Noted(control_->Pause()) : NotRunning(); }
  Status Resume() noexcept override { return IsOfThisProcess() ? Noted(control_->Resume()) : NotRunning(); }
  void Keep(int64_t begin_ns) noexcept override;
  void AddTo(TraceBuilder& trace) override;

 private:
  struct DepthChange {
    int64_t at_ns;
    Depth depth;
  };

  Status Open();
  void ForgetUnused() noexcept;
  bool IsOfThisProcess() const noexcept { return is_running_ && g_fork_epoch.load() == trace::ForkEpoch(); }
  static Status NotRunning() { return Status(StatusCode::kNotRunning, "the CUPTI collector does not run"); }
  Status Noted(Status status) {
    NoteDepth();
    return status;
  }
  void NoteDepth() noexcept;
  void Run() noexcept;
  void Round(int64_t now_ns);
  void DecodeAll(int64_t now_ns);
  void TakeCalls();
  void LookForSilence(int64_t now_ns);
  void ForecastLastingCost(int64_t now_ns);
  bool MayRecord() const noexcept;
  bool AddDepths(TraceBuilder& trace);
  std::string WhyNoKernels(bool was_deep) const;
  void AddReasons(TraceBuilder& trace, bool was_deep);
  void AddForecast(TraceBuilder& trace);

  const std::string library_;
  const uint64_t memory_bytes_;
  const bool graph_level_;
  const double lasting_cost_percent_;
  const Control::Surroundings surroundings_;
  const int64_t silence_ns_;
  std::atomic<bool> is_running_{false};
  Engine* engine_ = nullptr;
  Control* control_ = nullptr;  // the engine's: CUPTI may be in a callback for ever
  std::unique_ptr<History> history_;
  Tables tables_;

  // The decoding thread's own.
  ClockPairs pairs_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<GpuRecord> decoded_;
  int64_t drained_ns_ = 0, paired_ns_ = 0, forgot_ns_ = 0, buffer_seen_ns_ = 0, renewed_ns_ = 0;
  BufferCounts before_, seen_;
  uint64_t bad_seen_ = 0, submissions_seen_ = 0;
  int64_t look_due_ns_ = 0, look_begin_ns_ = 0, write_off_ns_ = INT64_MAX;
  bool is_looking_ = false;
  uint32_t registrations_seen_ = 0, others_seen_ = 0;

  uint32_t asked_seen_ = 0;

  mutable std::atomic<uint32_t> asked_{0};   // how often Deepest was
  std::atomic<double> lasting_percent_{-1};  // the forecast; below 0: not known

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool is_stopping_ = false;
  uint64_t rounds_asked_ = 0, rounds_done_ = 0;
  std::deque<DepthChange> depths_;
  DecodeCounts counts_;
  uint64_t names_refused_ = 0, shapes_refused_ = 0, streams_refused_ = 0;
  std::thread thread_;

  std::atomic<int64_t> round_since_ns_{0};  // 0: none is under way

  // From Keep to AddTo.
  History::Pinned pinned_;
  int64_t kept_begin_ns_ = 0, kept_end_ns_ = 0;
  int64_t silent_ns_ = 0;  // how long the round took that did not end in time
};

Status CuptiCollector::Start() noexcept {
  if (g_is_taken.load() && g_fork_epoch.load() != trace::ForkEpoch())
    return Status(
        StatusCode::kUnavailable,
        "the parent of this fork records GPUs, and its CUPTI cannot be used in a child: fork before the collector "
        "is added");
  if (g_is_taken.exchange(true))
    return Status(StatusCode::kAlreadyRunning, "this process has a CUPTI collector already");
  Status status;
  try {
    status = Open();
  } catch (const std::exception& e) {
    status = Error(StatusCode::kResourceExhausted, "cannot start the CUPTI collector: %s", e.what());
  }
  if (!status.ok()) {
    if (control_ != nullptr) control_->Stop();
    ForgetUnused();
    g_is_taken.store(false);
    return status;
  }
  is_running_ = true;
  return {};
}

// The engine that was made for nothing: CUPTI never heard of it.
void CuptiCollector::ForgetUnused() noexcept {
  Engine* const engine = g_engine.load();
  const bool is_unused = engine != nullptr && engine == engine_ && engine->controls.size() == 1 &&
                         control_ != nullptr && !control_->has_given();
  if (!is_unused) return;
  g_engine.store(engine->former);
  engine_ = nullptr, control_ = nullptr;
  delete engine;
}

Status CuptiCollector::Open() {
  if (memory_bytes_ < kLeastBytes)
    return Error(StatusCode::kInvalidArgument, "CuptiOptions::memory_bytes is %llu, and must be at least %llu",
                 static_cast<unsigned long long>(memory_bytes_), static_cast<unsigned long long>(kLeastBytes));
  if (!(lasting_cost_percent_ >= 0))
    return Error(StatusCode::kInvalidArgument, "CuptiOptions::lasting_cost_percent is %g, and must be at least 0",
                 lasting_cost_percent_);
  Api api;
  if (Status status = LoadCupti(library_, &api); !status.ok()) return status;
  const Strides strides = ProbeStrides(api);
  if (strides[kConcurrentKernel] == 0)
    return Error(StatusCode::kUnavailable, "%s: its records of kernels are not readable", api.path.c_str());
  const auto buffers = static_cast<uint32_t>(memory_bytes_ / 4 / kBufferBytes);
  // CUPTI may still have buffers of a collector that ran before: its engine goes on where it suits.
  Engine* engine = g_engine.load();
  const auto suits = [&](const Engine& it) {
    return it.api.path == api.path && it.api.version == api.version && it.pool->count() == buffers;
  };
  if (engine == nullptr || !suits(*engine)) {
    auto made = std::make_unique<Engine>();
    made->api = api;
    made->pool = BufferPool::Make(buffers, kBufferBytes);
    if (made->pool == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for CUPTI's buffers");
    made->calls.Find(api);
    made->former = engine;
    engine = made.release();
    g_engine.store(engine);
    if (!g_closes_at_exit.exchange(true)) std::atexit(CloseAtExit);  // not once for each start that fails
  }
  engine_ = engine;
  // What a collector before has out may never come back.
  engine_->pool->BeginEra();
  write_off_ns_ = ClockNs(CLOCK_MONOTONIC) + surroundings_.long_idle_ns;
  engine_->calls.lasting_cost().Forget();
  history_ = History::Make(memory_bytes_ - memory_bytes_ / 4);
  if (history_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for the records of GPUs");
  decoder_ = std::make_unique<Decoder>(&engine->api, strides, &pairs_, &tables_, &engine->scopes);
  pairs_.Add(ReadClockPair());
  g_fork_epoch.store(trace::ForkEpoch());
  engine->controls.push_back(std::make_unique<Control>(
      &engine->api, &engine->calls,
      Control::Callbacks{OnCuptiCallback, engine, RequestBufferFromPool, CompleteBufferOfPool, OnRegister},
      surroundings_));
  control_ = engine->controls.back().get();
  engine->control.store(control_);
  if (Status status = control_->Start(graph_level_); !status.ok()) return status;
  before_ = seen_ = engine->pool->counts();
  NoteDepth();
  const base::SignalsBlocked blocked;  // the thread inherits it
  thread_ = std::thread([this] { Run(); });
  return {};
}

void CuptiCollector::Stop() noexcept {
  if (!is_running_.exchange(false)) return;
  if (g_fork_epoch.load() != trace::ForkEpoch()) {
    thread_.detach();  // of the parent: there is none here
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  control_->Stop();
  g_is_taken.store(false);
}

void CuptiCollector::SetDepth(Depth depth) noexcept {
  if (!IsOfThisProcess()) return;
  control_->SetDepth(depth);
  NoteDepth();
}

// From when on it records how deep, for what incidents say of it.
void CuptiCollector::NoteDepth() noexcept {
  const std::lock_guard lock(mutex_);
  const Depth depth = control_->depth();
  if (!depths_.empty() && depths_.back().depth == depth) return;
  try {
    depths_.push_back({ClockNs(CLOCK_MONOTONIC), depth});
    if (depths_.size() > kDepthsKept) depths_.pop_front();
  } catch (const std::bad_alloc&) {
    depths_.clear();  // nothing rather than what is wrong
  }
}

void CuptiCollector::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-cupti");
  int64_t due_ns = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    const uint64_t asked = rounds_asked_;
    const bool is_last = is_stopping_;
    lock.unlock();
    const int64_t now_ns = ClockNs(CLOCK_MONOTONIC);
    round_since_ns_.store(now_ns);
    try {
      Round(now_ns);
    } catch (const std::bad_alloc&) {
      history_->AddLoss({drained_ns_, now_ns, kNoDevice, "no memory", 0});
    }
    round_since_ns_.store(0);
    due_ns = now_ns + kTickNs;
    lock.lock();
    counts_ = decoder_->counts();
    names_refused_ = tables_.names.refused();
    shapes_refused_ = tables_.shapes.refused();
    streams_refused_ = tables_.streams.refused();
    rounds_done_ = asked;
    changed_.notify_all();
    if (is_last) return;
    const auto is_asked = [&] { return is_stopping_ || rounds_asked_ != asked; };
    for (int64_t left_ns; !is_asked() && (left_ns = due_ns - ClockNs(CLOCK_MONOTONIC)) > 0;) {
      const int64_t nap_ns = control_->IsBesideProfiler() ? std::min(left_ns, kWatchNs) : left_ns;
      changed_.wait_for(lock, std::chrono::nanoseconds(nap_ns), is_asked);
      lock.unlock();
      if (control_->HasProfilerSwitched()) due_ns = 0;
      lock.lock();
    }
  }
}

void CuptiCollector::Round(int64_t now_ns) {
  if (now_ns - paired_ns_ >= kPairsNs) paired_ns_ = now_ns, pairs_.Add(ReadClockPair());
  if (now_ns - forgot_ns_ >= kForgetNs) forgot_ns_ = now_ns, tables_.names.Forget();
  const BufferCounts before = engine_->pool->counts();
  const Mode mode_before = control_->mode();
  control_->Tick(now_ns, before.requested != before_.requested);
  // What was in buffers that another took, and what ran until this was noticed.
  if (control_->mode() != mode_before && (mode_before == Mode::kAside || control_->mode() == Mode::kAside))
    history_->AddLoss({drained_ns_, now_ns, kNoDevice, "PyTorch's profiler had CUPTI", 0});
  if (const uint32_t registrations = control_->registrations(); registrations != registrations_seen_) {
    registrations_seen_ = registrations;
    write_off_ns_ = now_ns + surroundings_.long_idle_ns;
  }
  if (now_ns >= write_off_ns_ && control_->mode() == Mode::kOn) {
    engine_->pool->WriteOff(now_ns);
    write_off_ns_ = INT64_MAX;
  }
  NoteDepth();
  // What registered handlers of its own later is torn down earlier: the driver, and PyTorch's profiler.
  const uint32_t others = (before.requested != before_.requested ? 1 : 0) + (control_->IsBesideProfiler() ? 2 : 0);
  if ((others & ~others_seen_) != 0) others_seen_ |= others, std::atexit(CloseAtExit);
  // Where nothing is out there is nothing to hand over. What was written off CUPTI may still be filling.
  if (before.out() + before.written_off != 0) control_->Flush();
  DecodeAll(now_ns);
  LookForSilence(now_ns);
  ForecastLastingCost(now_ns);
}

void CuptiCollector::DecodeAll(int64_t now_ns) {
  if (control_->is_closed()) return;  // to step over what is not known takes CUPTI
  engine_->pool->Drain([this](const uint8_t* buffer, uint64_t valid) {
    decoded_.clear();
    decoder_->Decode(buffer, valid, &decoded_);
    if (!control_->has_recorded()) TakeCalls();
    // In runs of one device, which is nearly always all of them.
    for (size_t i = 0, first = 0; i <= decoded_.size(); ++i) {
      const auto device = [this](size_t at) { return tables_.streams.rows()[decoded_[at].stream].device; };
      if (i == first || (i < decoded_.size() && device(i) == device(first))) continue;
      history_->Add(device(first), &decoded_[first], i - first);
      first = i;
    }
  });
  const BufferCounts counts = engine_->pool->counts();
  const auto lost = [&](uint64_t now, uint64_t before, const char* reason, bool is_number) {
    if (now != before) history_->AddLoss({drained_ns_, now_ns, kNoDevice, reason, is_number ? now - before : 0});
  };
  lost(counts.overwritten, seen_.overwritten, "decoded too late", false);
  lost(counts.refused, seen_.refused, "no buffer for CUPTI", false);
  lost(decoder_->counts().bad_timestamps, bad_seen_, "without a valid time", true);
  bad_seen_ = decoder_->counts().bad_timestamps;
  if (counts.requested != 0) lost(control_->TakeDropped(), 0, "dropped by CUPTI", true);
  if (counts.requested != seen_.requested || counts.completed != seen_.completed) buffer_seen_ns_ = now_ns;
  seen_ = counts;
  drained_ns_ = now_ns;
}

// Before kernels were recorded calls are only looked at.
void CuptiCollector::TakeCalls() {
  const auto is_call = [](const GpuRecord& record) { return record.activity == Activity::kCall; };
  for (const GpuRecord& call : decoded_) {
    if (!is_call(call)) continue;
    const auto domain = (call.detail >> 31) != 0 ? kDriverApi : kRuntimeApi;
    engine_->calls.lasting_cost().Add(call.value, engine_->calls.KindOf(domain, call.detail & 0x7fffffff),
                                      call.begin_ns, call.begin_ns + call.duration_ns);
  }
  std::erase_if(decoded_, is_call);
}

bool CuptiCollector::MayRecord() const noexcept {
  if (lasting_cost_percent_ >= kAnyLastingCost || control_->has_recorded()) return true;
  const double percent = lasting_percent_.load(std::memory_order_relaxed);
  return percent >= 0 && percent <= lasting_cost_percent_;
}

// As whoever governs depth asks: where the host fixes it nothing needs to be known.
Depth CuptiCollector::Deepest() const noexcept {
  if (!IsOfThisProcess() || control_->mode() != Mode::kOn) return Depth::kScopes;
  asked_.fetch_add(1, std::memory_order_relaxed);
  return MayRecord() ? Depth::kKernels : Depth::kScopes;
}

// Looks at the calls for a while, now and then, until kernels are recorded.
void CuptiCollector::ForecastLastingCost(int64_t now_ns) {
  if (now_ns < look_due_ns_) return;
  LastingCost& cost = engine_->calls.lasting_cost();
  const bool was_looking = std::exchange(is_looking_, false);
  if (was_looking) {
    control_->SetLook(false);
    cost.EndLook(now_ns - look_begin_ns_);
    if (cost.is_known()) lasting_percent_.store(cost.percent(), std::memory_order_relaxed);
    look_due_ns_ = now_ns + (cost.is_known() ? kBetweenLaterLooksNs : kBetweenLooksNs);
    return;
  }
  // The first to ask is whoever adds the collector.
  const uint32_t asked = asked_.load(std::memory_order_relaxed);
  const bool is_wanted = asked > 1 && std::exchange(asked_seen_, asked) != asked;
  look_due_ns_ = now_ns + (is_wanted ? kLookNs : kBetweenLooksNs);
  if (!is_wanted || lasting_cost_percent_ >= kAnyLastingCost || control_->has_recorded()) return;
  is_looking_ = true;
  look_begin_ns_ = now_ns;
  control_->SetLook(true);
}

// Work is put on GPUs and no buffer is asked for: somebody registered callbacks of their own.
void CuptiCollector::LookForSilence(int64_t now_ns) {
  if (now_ns - std::max(buffer_seen_ns_, renewed_ns_) >= surroundings_.long_idle_ns) {
    renewed_ns_ = now_ns;
    control_->Renew();
  }
  const uint64_t submissions = engine_->calls.submissions();
  const bool records = control_->mode() == Mode::kOn && control_->depth() >= Depth::kKernels;
  if (!records || buffer_seen_ns_ == 0 || now_ns == buffer_seen_ns_) {
    buffer_seen_ns_ = now_ns;
    submissions_seen_ = submissions;
    return;
  }
  // One that is being filled takes as long as a kernel, or went to another.
  const bool is_waiting = seen_.out() != 0 && now_ns - buffer_seen_ns_ < 3 * silence_ns_;
  if (is_waiting || now_ns - buffer_seen_ns_ < silence_ns_ || submissions - submissions_seen_ < kSilentSubmissions)
    return;
  history_->AddLoss({buffer_seen_ns_, now_ns, kNoDevice, "another profiler took the buffers", 0});
  control_->Reclaim();
  buffer_seen_ns_ = now_ns;
  submissions_seen_ = submissions;
}

void CuptiCollector::Keep(int64_t begin_ns) noexcept {
  if (!IsOfThisProcess()) return;
  bool is_complete = false;
  try {
    {
      // What CUPTI has by now.
      std::unique_lock lock(mutex_);
      const uint64_t asked = ++rounds_asked_;
      changed_.notify_all();
      is_complete = changed_.wait_for(lock, kKeepPatience, [&] { return rounds_done_ >= asked; });
    }
    kept_begin_ns_ = begin_ns;
    kept_end_ns_ = ClockNs(CLOCK_MONOTONIC);
    const int64_t since_ns = is_complete ? 0 : round_since_ns_.load();
    silent_ns_ = since_ns != 0 ? kept_end_ns_ - since_ns : 0;
    const int64_t lost_ns = std::max(kTickNs, silent_ns_ + kTickNs);
    if (!is_complete) history_->AddLoss({kept_end_ns_ - lost_ns, kept_end_ns_, kNoDevice, "not decoded in time", 0});
    history_->Pin(begin_ns, &pinned_);
  } catch (const std::bad_alloc&) {
    pinned_.Release();
  }
}

// How deep what was kept was recorded; false: nothing of it.
bool CuptiCollector::AddDepths(TraceBuilder& trace) {
  bool was_deep = false;
  std::vector<DepthChange> changes;
  {
    const std::lock_guard lock(mutex_);
    changes.assign(depths_.begin(), depths_.end());
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    const int64_t begin_ns = std::max(changes[i].at_ns, kept_begin_ns_);
    const int64_t end_ns = i + 1 < changes.size() ? std::min(changes[i + 1].at_ns, kept_end_ns_) : kept_end_ns_;
    if (begin_ns >= end_ns) continue;
    trace.AddDepth(begin_ns, end_ns, changes[i].depth);
    was_deep = was_deep || changes[i].depth != Depth::kScopes;
  }
  return was_deep;
}

// And what to do about it; "" where the depth that was asked for says it all.
std::string CuptiCollector::WhyNoKernels(bool was_deep) const {
  char text[320];
  if (silent_ns_ >= kSilentNs) {
    std::snprintf(text, sizeof text,
                  "CUPTI has not answered for %.1f s%sstart the process again (the kernel's log may say why the driver "
                  "hangs)",
                  static_cast<double>(silent_ns_) / 1e9, kRemedy);
    return text;
  }
  if (was_deep) return {};
  if (control_->mode() != Mode::kOn) return control_->WhyNothing();
  if (asked_.load(std::memory_order_relaxed) < 2 || MayRecord()) return {};
  const double percent = lasting_percent_.load(std::memory_order_relaxed);
  if (percent < 0)
    return std::string("what CUPTI would leave behind for good is not forecast yet") + kRemedy +
           "wait for the first seconds of work, or CuptiOptions::lasting_cost_percent = 100";
  std::snprintf(
      text, sizeof text,
      "CUPTI would leave %.1f %% behind for good (forecast), above CuptiOptions::lasting_cost_percent = %g%sset "
      "that to 100, or fix the depth",
      percent, lasting_cost_percent_, kRemedy);
  return text;
}

// Why no kernels are recorded at kAuto.
void CuptiCollector::AddForecast(TraceBuilder& trace) {
  if (asked_.load(std::memory_order_relaxed) < 2 || lasting_cost_percent_ >= kAnyLastingCost ||
      control_->has_recorded())
    return;
  const double percent = lasting_percent_.load(std::memory_order_relaxed);
  if (percent < 0)
    return trace.AddAttribute("cupti.lasting_cost", "not known yet: no kernels at the automatic depth until it is");
  const bool is_too_much = percent > lasting_cost_percent_;
  char text[160];
  std::snprintf(
      text, sizeof text,
      is_too_much ? "%.1f %% forecast, above CuptiOptions::lasting_cost_percent (%g): no kernels at the automatic depth"
                  : "%.1f %% forecast, at most %g %% is allowed",
      percent, lasting_cost_percent_);
  trace.AddAttribute("cupti.lasting_cost", text);
}

void CuptiCollector::AddReasons(TraceBuilder& trace, bool was_deep) {
  DecodeCounts counts;
  uint64_t names_refused, shapes_refused, streams_refused;
  {
    const std::lock_guard lock(mutex_);
    counts = counts_;
    names_refused = names_refused_;
    shapes_refused = shapes_refused_;
    streams_refused = streams_refused_;
  }
  const auto add_count = [&](const char* key, uint64_t count) {
    if (count != 0) trace.AddAttribute(key, std::to_string(count).c_str());
  };
  const BufferCounts buffers = engine_->pool->counts();
  trace.AddAttribute("cupti.version", std::to_string(engine_->api.version).c_str());
  if (const std::string reason = control_->Reason(); !reason.empty()) trace.AddAttribute("cupti", reason.c_str());
  AddForecast(trace);
  if (const std::string why = WhyNoKernels(was_deep); !why.empty())
    trace.AddAttribute("cupti.not_recorded", why.c_str());
  static constexpr const char* kSources[] = {"not recorded", "API callbacks", "API records"};
  trace.AddAttribute("cupti.calls", kSources[static_cast<int>(control_->call_source())]);
  add_count("cupti.records", counts.records);
  add_count("cupti.bad_timestamps", counts.bad_timestamps);
  add_count("cupti.unknown_records", counts.unknown);
  add_count("cupti.unreadable_bytes", counts.unreadable_bytes);
  add_count("cupti.foreign_buffers", buffers.foreign - before_.foreign);
  add_count("cupti.buffers_written_off", buffers.written_off - before_.written_off);
  add_count("cupti.names_refused", names_refused);
  add_count("cupti.shapes_refused", shapes_refused);
  add_count("cupti.streams_refused", streams_refused);
  add_count("cupti.graph_nodes_without_scopes", engine_->scopes.refused());
}

void CuptiCollector::AddTo(TraceBuilder& trace) {
  struct Unpin {
    ~Unpin() { pinned->Release(); }
    History::Pinned* pinned;
  } unpin{&pinned_};
  if (engine_ == nullptr) return;
  // Rows of the tables in rows of the trace, as they are needed.
  constexpr uint32_t kNotYet = kNoRow - 1;
  std::vector<uint32_t> streams(tables_.streams.rows().size(), kNotYet), names(tables_.names.names().size(), kNotYet),
      shapes(tables_.shapes.rows().size(), kNotYet);
  std::unordered_map<uint32_t, uint32_t> devices, copies, paths;
  const auto device_of = [&](uint32_t ordinal) {
    const auto [device, is_new] = devices.try_emplace(ordinal, 0);
    if (is_new) {
      const DeviceFacts facts = DescribeDevice(ordinal);
      device->second = trace.AddDevice({ordinal, trace.AddText(facts.name.c_str()), facts.multiprocessors,
                                        facts.threads_per_multiprocessor, facts.blocks_per_multiprocessor,
                                        facts.registers_per_multiprocessor, facts.shared_bytes_per_multiprocessor});
    }
    return device->second;
  };
  const auto stream_of = [&](uint32_t row) {
    uint32_t& stream = streams[row];
    if (stream == kNotYet) {
      const StreamKey& key = tables_.streams.rows()[row];
      stream = trace.AddStream(key.device != kNoDevice ? device_of(key.device) : kNoRow, key.context, key.stream);
    }
    return stream;
  };
  const auto name_of = [&](uint32_t row) {
    if (names[row] == kNotYet) names[row] = trace.AddText(tables_.names.names()[row].c_str());
    return names[row];
  };
  const auto shape_of = [&](uint32_t row) {
    if (shapes[row] == kNotYet) {
      const KernelShape& shape = tables_.shapes.rows()[row];
      shapes[row] = trace.AddShape(shape.grid, shape.block, shape.static_shared_bytes, shape.dynamic_shared_bytes,
                                   shape.local_bytes_per_thread, shape.registers);
    }
    return shapes[row];
  };
  const auto path_of = [&](uint32_t name) {
    const auto [path, is_new] = paths.try_emplace(name, 0);
    if (is_new && name != 0) path->second = trace.AddText(std::string(pitot::trace::NameText(name)).c_str());
    return path->second;
  };
  const auto copy_of = [&](uint32_t detail) {
    const auto [copy, is_new] = copies.try_emplace(detail, 0);
    if (is_new) copy->second = trace.AddText(CopyName(detail).c_str());
    return copy->second;
  };
  pinned_.ForEach([&](const GpuRecord& record) {
    GpuActivity activity;
    switch (record.activity) {
      case Activity::kCall: {
        const auto domain = (record.detail >> 31) != 0 ? kDriverApi : kRuntimeApi;
        const uint32_t name = engine_->calls.NameOf(domain, record.detail & 0x7fffffff).index;
        const std::string text(pitot::trace::NameText(name));
        trace.Add(GpuCall{record.begin_ns, record.duration_ns, static_cast<int64_t>(record.value),
                          trace.AddText(text.c_str()), record.correlation});
        return;
      }
      case Activity::kOverhead:
        return trace.AddOverhead(record.begin_ns, record.duration_ns, trace.AddText(OverheadName(record.detail)));
      case Activity::kJit:
        return trace.AddOverhead(record.begin_ns, record.duration_ns, trace.AddText("compiling PTX"));
      case Activity::kSynchronization:
        return trace.AddWait(record.correlation, record.begin_ns, stream_of(record.stream));
      case Activity::kKernel:
        activity.name = name_of(record.name);
        activity.shape = shape_of(record.detail);
        activity.scope_path = path_of(static_cast<uint32_t>(record.value));
        break;
      case Activity::kMemcpy:
        activity.name = copy_of(record.detail);
        break;
      case Activity::kMemset:
        activity.name = trace.AddText(MemoryName(record.detail));
        break;
      case Activity::kGraph:
        break;
    }
    activity.kind = static_cast<uint8_t>(record.activity);  // model::GpuKind's numbers
    activity.begin_ns = record.begin_ns;
    activity.duration_ns = record.duration_ns;
    activity.stream = stream_of(record.stream);
    activity.correlation = record.correlation;
    activity.graph = record.graph;
    activity.node = record.node;
    activity.bytes = record.activity != Activity::kKernel ? record.value : 0;
    trace.Add(activity);
  });
  for (const Loss& loss : pinned_.losses()) {
    // Of a device all streams; which, nobody knows.
    trace.Add(GpuLoss{loss.begin_ns, loss.end_ns, kNoRow, trace.AddText(loss.reason), loss.records});
  }
  const bool was_deep = AddDepths(trace);
  AddReasons(trace, was_deep);
}

}  // namespace

std::unique_ptr<Collector> MakeCollector(const CuptiOptions& options, const Control::Surroundings& surroundings,
                                         int64_t silence_ns) {
  return std::unique_ptr<Collector>(new (std::nothrow) CuptiCollector(options, surroundings, silence_ns));
}

}  // namespace pitot::cupti

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeCuptiCollector(const CuptiOptions& options) noexcept {
  try {
    return cupti::MakeCollector(options, {cupti::AskKineto, cupti::IsCudaInUse});
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

PITOT_NAMESPACE_END
