// SPDX-License-Identifier: Apache-2.0
#include "pitot/recorder.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "convert.h"
#include "handle.h"
#include "pitot/analyze/judge.h"
#include "pitot/c.h"
#include "pitot/collect/counters.h"
#include "pitot/collect/cuda_calls.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/collect/cupti.h"
#include "pitot/collect/gpu.h"
#include "pitot/collect/host.h"
#include "pitot/collect/nvml.h"
#include "pitot/collect/nvtx.h"
#include "pitot/collect/stacks.h"
#ifdef PITOT_C_WITH_TORCH
#include "pitot/collect/torch.h"
#endif
#include "pitot/trigger/drift.h"
#include "pitot/trigger/failure.h"
#include "pitot/trigger/latency.h"
#include "pitot/trigger/predicate.h"
#include "pitot/trigger/stall.h"
#include "pitot/trigger/tokens.h"

namespace pitot::c {
namespace {

static_assert(PITOT_OK == static_cast<int>(StatusCode::kOk));
static_assert(PITOT_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(PITOT_ALREADY_RUNNING == static_cast<int>(StatusCode::kAlreadyRunning));
static_assert(PITOT_NOT_RUNNING == static_cast<int>(StatusCode::kNotRunning));
static_assert(PITOT_RESOURCE_EXHAUSTED == static_cast<int>(StatusCode::kResourceExhausted));
static_assert(PITOT_UNAVAILABLE == static_cast<int>(StatusCode::kUnavailable));
static_assert(PITOT_NOT_FOUND == static_cast<int>(StatusCode::kNotFound));
static_assert(PITOT_DATA_LOSS == static_cast<int>(StatusCode::kDataLoss));
static_assert(PITOT_IO_ERROR == static_cast<int>(StatusCode::kIoError));
static_assert(PITOT_INTERNAL == static_cast<int>(StatusCode::kInternal));
static_assert(PITOT_DISABLED == static_cast<int>(StatusCode::kDisabled));
static_assert(PITOT_CLOCK_AUTO == static_cast<int>(ClockSource::kAuto));
static_assert(PITOT_CLOCK_CYCLE_COUNTER == static_cast<int>(ClockSource::kCycleCounter));
static_assert(PITOT_CLOCK_OPERATING_SYSTEM == static_cast<int>(ClockSource::kOperatingSystem));
static_assert(PITOT_DEPTH_SCOPES == static_cast<int>(Depth::kScopes));
static_assert(PITOT_DEPTH_GRAPHS == static_cast<int>(Depth::kGraphs));
static_assert(PITOT_DEPTH_KERNELS == static_cast<int>(Depth::kKernels));
static_assert(PITOT_DEPTH_OPS == static_cast<int>(Depth::kOps));
static_assert(PITOT_DEPTH_AUTO == static_cast<int>(Depth::kAuto));
static_assert(PITOT_LANGUAGE_CPP == static_cast<int>(Language::kCpp));
static_assert(PITOT_LANGUAGE_C == static_cast<int>(Language::kC));
static_assert(PITOT_LANGUAGE_PYTHON == static_cast<int>(Language::kPython));
static_assert(PITOT_LOG_INFO == static_cast<int>(LogLevel::kInfo));
static_assert(PITOT_LOG_WARNING == static_cast<int>(LogLevel::kWarning));
static_assert(PITOT_LOG_ERROR == static_cast<int>(LogLevel::kError));

// Callbacks of the host, behind the C++ functions that the recorder calls.
template <class Value> struct Kept {
  Value value;
  Kept* next;
};
template <class Value> constinit std::atomic<Kept<Value>*> g_kept{nullptr};

// Returns a copy that lives for the life of the process, because a thread that hangs in the host's code outlives its
// recorder. The list makes a later start with the same callbacks reuse the same copy. Null: no memory.
template <class Value> Value* Keep(const Value& value) noexcept {
  auto& list = g_kept<Value>;
  Kept<Value>* newest = list.load(std::memory_order_acquire);
  for (auto* there = newest; there != nullptr; there = there->next) {
    if (there->value == value) return &there->value;
  }
  auto* added = new (std::nothrow) Kept<Value>{value, newest};
  if (added == nullptr) return nullptr;
  while (!list.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {}
  return &added->value;
}

void Log(void* context, LogLevel level, const char* message) {
  const auto* log = static_cast<const Callback<pitot_log_function>*>(context);
  log->function(log->context, static_cast<pitot_log_level>(level), message);
}

void Tell(const Callback<pitot_incident_function>& hook, const IncidentInfo& info) {
  const pitot_incident incident = ToC(info);
  hook.function(hook.context, &incident);
}
void OnIncident(void* context, const IncidentInfo& info) {
  Tell(static_cast<const HostHooks*>(context)->incident, info);
}
void OnVerdict(void* context, const IncidentInfo& info) { Tell(static_cast<const HostHooks*>(context)->verdict, info); }

// Sets one of the hooks; the other stays.
Status SetHook(pitot_recorder* recorder, Callback<pitot_incident_function> HostHooks::*which,
               pitot_incident_function function, void* context) {
  if (recorder == nullptr) return NotStarted();
  const std::lock_guard lock(recorder->hooks_mutex);
  HostHooks wanted = recorder->hooks;
  wanted.*which = {function, function != nullptr ? context : nullptr};
  Hooks hooks;
  if (wanted.incident.function != nullptr) hooks.on_incident = OnIncident;
  if (wanted.verdict.function != nullptr) hooks.on_verdict = OnVerdict;
  hooks.context = Keep(wanted);
  if (hooks.context == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for a hook");
  const Status status = recorder->recorder.SetHooks(hooks);
  if (status.ok()) recorder->hooks = wanted;
  return status;
}

// Copies all fields but the clock, the depth and the log.
template <class From, class To> void CopyOptions(const From& from, To* to) noexcept {
  to->incident_directory = from.incident_directory;
  to->black_box_directory = from.black_box_directory;
  to->process_name = from.process_name;
  to->memory_budget_bytes = from.memory_budget_bytes;
  to->max_ring_bytes = from.max_ring_bytes;
  to->min_ring_bytes = from.min_ring_bytes;
  to->max_grown_ring_bytes = from.max_grown_ring_bytes;
  to->max_open_requests = from.max_open_requests;
  to->pre_window_ms = from.pre_window_ms;
  to->post_window_ms = from.post_window_ms;
  to->max_incidents_per_cause_and_hour = from.max_incidents_per_cause_and_hour;
  to->max_incidents_kept = from.max_incidents_kept;
  to->worker_cpu_percent = from.worker_cpu_percent;
  to->max_incident_directory_bytes = from.max_incident_directory_bytes;
  to->overhead_budget_percent = from.overhead_budget_percent;
  to->end_grace_ms = from.end_grace_ms;
}

pitot_options ToC(const Options& from) noexcept {
  pitot_options to{};
  CopyOptions(from, &to);
  to.clock = static_cast<pitot_clock>(from.clock);
  to.depth = static_cast<pitot_depth>(from.depth);
  to.perfetto_file = from.perfetto_file ? 1 : 0;
  to.language = PITOT_LANGUAGE_C;
  to.accept_unsafe_directory = from.accept_unsafe_directory ? 1 : 0;
  to.handle_ends = static_cast<pitot_ends>(from.handle_ends);
  return to;
}

// Values outside the C++ enumeration become one that is refused.
Depth DepthOf(pitot_depth depth) noexcept { return static_cast<Depth>(depth >= 0 && depth < 256 ? depth : 254); }

Status FromC(const pitot_options& from, Options* to) noexcept {
  CopyOptions(from, to);
  if (from.perfetto_file > 1)
    return Status(StatusCode::kInvalidArgument, "pitot_options::perfetto_file must be 0 or 1");
  to->perfetto_file = from.perfetto_file != 0;
  if (from.accept_unsafe_directory > 1)
    return Status(StatusCode::kInvalidArgument, "pitot_options::accept_unsafe_directory must be 0 or 1");
  to->accept_unsafe_directory = from.accept_unsafe_directory != 0;
  if (from.language < PITOT_LANGUAGE_CPP || from.language > PITOT_LANGUAGE_PYTHON)
    return Status(StatusCode::kInvalidArgument, "pitot_options::language must be one of PITOT_LANGUAGE_...");
  to->language = static_cast<Language>(from.language);
  // Values outside the C++ enumeration become one that Start refuses by name.
  to->clock = static_cast<ClockSource>(from.clock >= 0 && from.clock < 255 ? from.clock : 255);
  to->depth = DepthOf(from.depth);
  to->handle_ends = static_cast<Ends>(from.handle_ends >= 0 && from.handle_ends < 255 ? from.handle_ends : 255);
  if (from.log == nullptr) return {};
  to->log = Log;
  to->log_context = Keep(Callback<pitot_log_function>{from.log, from.log_context});
  return to->log_context != nullptr ? Status() : Status(StatusCode::kResourceExhausted, "no memory for the log");
}

// For each struct of the host: the C++ options with the same fields, copied both ways, and the factory that uses them.
template <class Struct> struct Kind;

template <class From, class To> void CopyCommon(const From& from, To* to) noexcept {
  to->cool_down_ms = from.cool_down_ms;
  to->pre_window_ms = from.pre_window_ms;
  to->post_window_ms = from.post_window_ms;
}

template <> struct Kind<pitot_latency_trigger> {
  using Cpp = LatencyTriggerOptions;
  static constexpr auto kMake = MakeLatencyTrigger;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    CopyCommon(from, to);
    to->memory = from.memory;
    to->route = from.route;
    to->above_ms = from.above_ms;
    to->or_above_quantile = from.or_above_quantile;
    to->warm_up_requests = from.warm_up_requests;
    to->k = from.k;
    to->n = from.n;
  }
};
template <> struct Kind<pitot_failure_trigger> {
  using Cpp = FailureTriggerOptions;
  static constexpr auto kMake = MakeFailureTrigger;
  static constexpr const char* kReserved = "pitot_failure_trigger::reserved must be 0";
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    CopyCommon(from, to);
    to->on_failed = from.on_failed != 0;
    to->route = from.route;
    to->on_timed_out = from.on_timed_out != 0;
    to->on_abandoned = from.on_abandoned != 0;
  }
};
template <> struct Kind<pitot_tokens_trigger> {
  using Cpp = TokensTriggerOptions;
  static constexpr auto kMake = MakeTokensTrigger;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    CopyCommon(from, to);
    to->route = from.route;
    to->first_token_above_ms = from.first_token_above_ms;
    to->gap_above_ms = from.gap_above_ms;
    to->first_token_or_above_quantile = from.first_token_or_above_quantile;
    to->gap_or_above_quantile = from.gap_or_above_quantile;
    to->memory = from.memory;
    to->warm_up_marks = from.warm_up_marks;
  }
};
template <> struct Kind<pitot_stall_trigger> {
  using Cpp = StallTriggerOptions;
  static constexpr auto kMake = MakeStallTrigger;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    CopyCommon(from, to);
    to->route = from.route;
    to->request_open_ms = from.request_open_ms;
    to->scope = from.scope;
    to->scope_open_ms = from.scope_open_ms;
  }
};
template <> struct Kind<pitot_drift_trigger> {
  using Cpp = DriftTriggerOptions;
  static constexpr auto kMake = MakeDriftTrigger;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    CopyCommon(from, to);
    to->route = from.route;
    to->above_percent = from.above_percent;
    to->recent_requests = from.recent_requests;
    to->reference_requests = from.reference_requests;
  }
};
// Copies all fields but the predicate.
template <> struct Kind<pitot_predicate_trigger> {
  using Cpp = PredicateTriggerOptions;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    CopyCommon(from, to);
    to->cause = from.cause;
  }
};
template <> struct Kind<pitot_cupti> {
  using Cpp = CuptiOptions;
  static constexpr auto kMake = MakeCuptiCollector;
  // Programs of revision 5 said nothing more than graph_level = 1, and CUPTI was called at the start.
  static void CopyAttach(const pitot_cupti& from, CuptiOptions* to) noexcept {
    switch (from.attach_at_start) {
      case PITOT_ATTACH_WHEN_ASKED:
        to->attach = to->graph_level ? CuptiAttach::kAtStart : CuptiAttach::kWhenAsked;
        break;
      case PITOT_ATTACH_AT_START:
        to->attach = CuptiAttach::kAtStart;
        break;
      case PITOT_ATTACH_NEVER:
        to->attach = CuptiAttach::kNever;
        break;
      default:
        to->attach = static_cast<CuptiAttach>(255);  // refused by name
    }
  }
  static void CopyAttach(const CuptiOptions&, pitot_cupti* to) noexcept {
    static_assert(CuptiOptions{}.attach == CuptiAttach::kWhenAsked);
    to->attach_at_start = PITOT_ATTACH_WHEN_ASKED;
  }
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->graph_level = from.graph_level != 0;
    to->library = from.library;
    to->memory_bytes = from.memory_bytes;
    to->lasting_cost_percent = from.lasting_cost_percent;
    to->allow_torch_profiler = from.allow_torch_profiler != 0;
    CopyAttach(from, to);
  }
};
template <> struct Kind<pitot_nvml> {
  using Cpp = NvmlOptions;
  static constexpr auto kMake = MakeNvmlCollector;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->rate_hz = from.rate_hz;
    to->library = from.library;
    to->memory_bytes = from.memory_bytes;
  }
};
template <> struct Kind<pitot_counters> {
  using Cpp = CounterOptions;
  static constexpr auto kMake = MakeCounterCollector;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->interval_us = from.interval_us;
    to->library = from.library;
    to->most_cpu_percent = from.most_cpu_percent;
    to->memory_bytes = from.memory_bytes;
  }
};
template <> struct Kind<pitot_cuda_events> {
  using Cpp = CudaEventOptions;
  static constexpr auto kMake = MakeCudaEventCollector;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->pairs_per_context = from.pairs_per_context;
    to->memory_bytes = from.memory_bytes;
    to->layers = from.layers != 0;
    to->graph_scopes = from.graph_scopes;
    to->layer_cost_percent = from.layer_cost_percent;
  }
};
template <> struct Kind<pitot_cuda_calls> {
  using Cpp = CudaCallOptions;
  static constexpr auto kMake = MakeCudaCallCollector;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->slow_copy_us = from.slow_copy_us;
  }
};
// Copies which collectors are left out; AddTo copies their options.
template <> struct Kind<pitot_gpu> {
  using Cpp = GpuOptions;
  static constexpr const char* kReserved = "pitot_gpu::reserved must be 0";
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->with_counters = from.with_counters != 0;
    to->with_cuda_calls = from.with_cuda_calls != 0;
    to->with_cuda_events = from.with_cuda_events != 0;
    to->with_nvml = from.with_nvml != 0;
  }
};
template <> struct Kind<pitot_host> {
  using Cpp = HostOptions;
  static constexpr auto kMake = MakeHostCollector;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->rate_hz = from.rate_hz;
    to->thread_rate_hz = from.thread_rate_hz;
    to->most_threads = from.most_threads;
    to->memory_bytes = from.memory_bytes;
  }
};
template <> struct Kind<pitot_stacks> {
  using Cpp = StackOptions;
  static constexpr auto kMake = MakeStackCollector;
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->most_stacks = from.most_stacks;
    to->most_threads = from.most_threads;
    using Running = decltype(to->running_threads);
    to->running_threads = static_cast<Running>(std::min(static_cast<uint32_t>(from.running_threads), uint32_t{255}));
  }
};
template <> struct Kind<pitot_why> {
  using Cpp = WhyJudgeOptions;
  static constexpr auto kMake = [](const WhyJudgeOptions& options) { return MakeWhyJudge(options); };
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->budget_ms = from.budget_ms;
    to->html = from.html != 0;
    to->sample_every_ms = from.sample_every_ms;
    to->sample_window_ms = from.sample_window_ms;
    to->warm_up_ms = from.warm_up_ms;
    to->baseline_file = from.baseline_file;
  }
};
template <> struct Kind<pitot_nvtx> {
  using Cpp = NvtxOptions;
  static constexpr auto kMake = MakeNvtxCollector;
  static constexpr const char* kReserved = "pitot_nvtx::reserved must be 0";
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->capture = from.capture != 0;
    to->mirror_scopes = from.mirror_scopes != 0;
  }
};
#ifndef PITOT_C_WITH_TORCH
struct TorchOptions {
  bool shapes = false, memory = true;
};
#endif
template <> struct Kind<pitot_torch> {
  using Cpp = TorchOptions;
#ifdef PITOT_C_WITH_TORCH
  static constexpr auto kMake = MakeTorchCollector;
#endif
  static constexpr const char* kReserved = "pitot_torch::reserved must be 0";
  template <class From, class To> static void Copy(const From& from, To* to) noexcept {
    to->shapes = from.shapes != 0;
    to->memory = from.memory != 0;
  }
};

template <class Struct> Struct Defaults() noexcept {
  Struct to{};
  Kind<Struct>::Copy(typename Kind<Struct>::Cpp(), &to);
  return to;
}

template <class Struct> auto Make(const Struct& from) noexcept {
  typename Kind<Struct>::Cpp to;
  Kind<Struct>::Copy(from, &to);
  return Kind<Struct>::kMake(to);
}

// A C++ trigger around a C function. The inner trigger lives as long as this.
class PredicateTrigger final : public Trigger {
 public:
  explicit PredicateTrigger(const pitot_predicate_trigger& from) noexcept
      : function_(from.predicate), context_(from.context) {
    PredicateTriggerOptions to;
    if (function_ != nullptr) to.predicate = Ask;
    to.context = this;
    Kind<pitot_predicate_trigger>::Copy(from, &to);
    inner_ = MakePredicateTrigger(to);
  }

  Status Check() const noexcept override {
    return inner_ != nullptr ? inner_->Check() : Status(StatusCode::kResourceExhausted, "no memory for a trigger");
  }
  void OnFinish(const RequestView& request, FiringSink& sink) noexcept override { inner_->OnFinish(request, sink); }

 private:
  static bool Ask(void* context, const RequestView& request) {
    pitot_request_view view{};
    view.size = sizeof view;
    view.outcome = static_cast<pitot_outcome>(request.outcome);
    view.id = request.id;
    view.route = request.route;
    view.route_index = request.route_index;
    view.size_bucket = request.size_bucket;
    view.latency_ns = request.latency_ns;
    view.deadline_ns = request.deadline_ns;
    view.output_tokens = request.output_tokens;
    view.first_token_ns = request.first_token_ns;
    view.max_token_gap_ns = request.max_token_gap_ns;
    const auto* self = static_cast<const PredicateTrigger*>(context);
    return self->function_(self->context_, &view) != 0;
  }

  const pitot_predicate_function function_;
  void* const context_;
  std::unique_ptr<Trigger> inner_;
};

std::unique_ptr<Trigger> Make(const pitot_predicate_trigger& from) noexcept {
  return std::unique_ptr<Trigger>(new (std::nothrow) PredicateTrigger(from));
}

template <class Struct> Status AddTo(Recorder* recorder, const Struct& values) noexcept {
  return recorder->Add(Make(values));
}

// Copies a struct that another points to; NULL: the defaults.
template <class Struct> Status TakeInner(const Struct* given, typename Kind<Struct>::Cpp* to) noexcept {
  auto values = Defaults<Struct>();
  Status status = Take(given, &values);
  if (status.ok()) Kind<Struct>::Copy(values, to);
  return status;
}

Status AddTo(Recorder* recorder, const pitot_gpu& from) noexcept {
  GpuOptions to;
  Kind<pitot_gpu>::Copy(from, &to);
  if (Status s = TakeInner(from.counters, &to.counters); !s.ok()) return s;
  if (Status s = TakeInner(from.cuda_calls, &to.cuda_calls); !s.ok()) return s;
  if (Status s = TakeInner(from.cuda_events, &to.cuda_events); !s.ok()) return s;
  if (Status s = TakeInner(from.nvml, &to.nvml); !s.ok()) return s;
  return gpu::Enable(*recorder, to);
}
#ifndef PITOT_C_WITH_TORCH
Status AddTo(Recorder*, const pitot_torch&) noexcept {
  return Status(StatusCode::kUnavailable,
                "libpitot_c.so was built without LibTorch; to record it: build it against the LibTorch of this process "
                "with -DPITOT_C_WITH_TORCH=ON");
}
#endif

template <class Struct>
pitot_status Add(pitot_recorder* recorder, const Struct* given, char* message, size_t message_size) noexcept {
  if (recorder == nullptr) return Say(NotStarted(), message, message_size);
  auto values = Defaults<Struct>();
  if (Status s = Take(given, &values); !s.ok()) return Say(s, message, message_size);
  if constexpr (requires { Kind<Struct>::kReserved; }) {
    if (values.reserved != 0)
      return Say(Status(StatusCode::kInvalidArgument, Kind<Struct>::kReserved), message, message_size);
  }
  return Say(AddTo(&recorder->recorder, values), message, message_size);
}

}  // namespace
}  // namespace pitot::c

extern "C" {

using namespace pitot;     // NOLINT: this part only implements the C functions on what stands above
using namespace pitot::c;  // NOLINT

uint32_t pitot_abi() { return PITOT_ABI; }
uint32_t pitot_abi_revision() { return PITOT_ABI_REVISION; }
const char* pitot_version() { return Version(); }
const char* pitot_status_name(pitot_status status) {
  return StatusCodeName(static_cast<StatusCode>(status >= 0 && status < 255 ? status : 255));
}

void pitot_options_init(pitot_options* options, size_t size) { Give(ToC(Options()), options, size); }
void pitot_options_init_from_environment(pitot_options* options, size_t size) {
  Give(ToC(Options::FromEnvironment()), options, size);
}

pitot_status pitot_recorder_start(const pitot_options* options, pitot_recorder** recorder, char* message,
                                  size_t message_size) {
  const auto fail = [&](StatusCode code, const char* why) { return Say(Status(code, why), message, message_size); };
  if (recorder == nullptr) return fail(StatusCode::kInvalidArgument, "recorder must not be NULL");
  *recorder = nullptr;
  pitot_options values = ToC(Options());
  if (Status s = Take(options, &values); !s.ok()) return Say(s, message, message_size);
  Options cpp;
  if (Status s = FromC(values, &cpp); !s.ok()) return Say(s, message, message_size);
  std::unique_ptr<pitot_recorder> handle(new (std::nothrow) pitot_recorder);
  if (handle == nullptr) return fail(StatusCode::kResourceExhausted, "no memory for a handle");
  handle->recorder = Recorder::Start(cpp);
  const Status status = handle->recorder.status();
  if (status.ok()) *recorder = handle.release();
  return Say(status, message, message_size);
}

pitot_status pitot_recorder_status(pitot_recorder* recorder, char* message, size_t message_size) {
  return Say(recorder != nullptr ? recorder->recorder.status() : NotStarted(), message, message_size);
}

pitot_status pitot_recorder_trigger(pitot_recorder* recorder, const char* reason, char* message, size_t message_size) {
  return Say(recorder != nullptr ? recorder->recorder.Trigger(reason) : NotStarted(), message, message_size);
}

pitot_status pitot_recorder_flush(pitot_recorder* recorder, uint32_t timeout_ms, char* message, size_t message_size) {
  return Say(recorder != nullptr ? recorder->recorder.Flush(timeout_ms) : NotStarted(), message, message_size);
}

pitot_status pitot_recorder_set_depth(pitot_recorder* recorder, pitot_depth depth, char* message, size_t message_size) {
  return Say(recorder != nullptr ? recorder->recorder.SetDepth(DepthOf(depth)) : NotStarted(), message, message_size);
}

void pitot_cupti_init(pitot_cupti* cupti, size_t size) { Give(Defaults<pitot_cupti>(), cupti, size); }

pitot_status pitot_recorder_add_cupti(pitot_recorder* recorder, const pitot_cupti* cupti, char* message,
                                      size_t message_size) {
  return Add(recorder, cupti, message, message_size);
}

pitot_status pitot_recorder_pause(pitot_recorder* recorder, const char* collector, char* message, size_t message_size) {
  return Say(recorder != nullptr ? recorder->recorder.Pause(collector) : NotStarted(), message, message_size);
}

pitot_status pitot_recorder_resume(pitot_recorder* recorder, const char* collector, char* message,
                                   size_t message_size) {
  return Say(recorder != nullptr ? recorder->recorder.Resume(collector) : NotStarted(), message, message_size);
}

void pitot_nvml_init(pitot_nvml* nvml, size_t size) { Give(Defaults<pitot_nvml>(), nvml, size); }

pitot_status pitot_recorder_add_nvml(pitot_recorder* recorder, const pitot_nvml* nvml, char* message,
                                     size_t message_size) {
  return Add(recorder, nvml, message, message_size);
}

void pitot_counters_init(pitot_counters* counters, size_t size) { Give(Defaults<pitot_counters>(), counters, size); }

pitot_status pitot_recorder_add_counters(pitot_recorder* recorder, const pitot_counters* counters, char* message,
                                         size_t message_size) {
  return Add(recorder, counters, message, message_size);
}

pitot_status pitot_set_counter_interval(uint32_t interval_us, char* message, size_t message_size) {
  return Say(SetCounterInterval(interval_us), message, message_size);
}

void pitot_cuda_calls_init(pitot_cuda_calls* calls, size_t size) { Give(Defaults<pitot_cuda_calls>(), calls, size); }

pitot_status pitot_recorder_add_cuda_calls(pitot_recorder* recorder, const pitot_cuda_calls* calls, char* message,
                                           size_t message_size) {
  return Add(recorder, calls, message, message_size);
}

void pitot_cuda_events_init(pitot_cuda_events* events, size_t size) {
  Give(Defaults<pitot_cuda_events>(), events, size);
}

pitot_status pitot_recorder_add_cuda_events(pitot_recorder* recorder, const pitot_cuda_events* events, char* message,
                                            size_t message_size) {
  return Add(recorder, events, message, message_size);
}

void pitot_gpu_init(pitot_gpu* gpu, size_t size) { Give(Defaults<pitot_gpu>(), gpu, size); }

pitot_status pitot_recorder_enable_gpu(pitot_recorder* recorder, const pitot_gpu* gpu, char* message,
                                       size_t message_size) {
  return Add(recorder, gpu, message, message_size);
}

void pitot_host_init(pitot_host* host, size_t size) { Give(Defaults<pitot_host>(), host, size); }

pitot_status pitot_recorder_add_host(pitot_recorder* recorder, const pitot_host* host, char* message,
                                     size_t message_size) {
  return Add(recorder, host, message, message_size);
}

void pitot_stacks_init(pitot_stacks* stacks, size_t size) { Give(Defaults<pitot_stacks>(), stacks, size); }

pitot_status pitot_recorder_add_stacks(pitot_recorder* recorder, const pitot_stacks* stacks, char* message,
                                       size_t message_size) {
  return Add(recorder, stacks, message, message_size);
}

void pitot_why_init(pitot_why* why, size_t size) { Give(Defaults<pitot_why>(), why, size); }

pitot_status pitot_recorder_add_why(pitot_recorder* recorder, const pitot_why* why, char* message,
                                    size_t message_size) {
  return Add(recorder, why, message, message_size);
}

void pitot_nvtx_init(pitot_nvtx* nvtx, size_t size) { Give(Defaults<pitot_nvtx>(), nvtx, size); }

pitot_status pitot_recorder_add_nvtx(pitot_recorder* recorder, const pitot_nvtx* nvtx, char* message,
                                     size_t message_size) {
  return Add(recorder, nvtx, message, message_size);
}

void pitot_torch_init(pitot_torch* torch, size_t size) { Give(Defaults<pitot_torch>(), torch, size); }

pitot_status pitot_recorder_add_torch(pitot_recorder* recorder, const pitot_torch* torch, char* message,
                                      size_t message_size) {
  return Add(recorder, torch, message, message_size);
}

void pitot_recorder_stop(pitot_recorder* recorder, uint32_t timeout_ms) {
  if (recorder != nullptr) recorder->recorder.Stop(timeout_ms);
}

void pitot_recorder_free(pitot_recorder* recorder) { delete recorder; }

pitot_status pitot_recorder_stats(pitot_recorder* recorder, pitot_stats* stats, char* message, size_t message_size) {
  if (stats == nullptr || stats->size < sizeof stats->size || stats->size > kLargestStruct)
    return Say(Status(StatusCode::kInvalidArgument, "pitot_stats::size must be sizeof(pitot_stats)"), message,
               message_size);
  Give(ToC(recorder != nullptr ? recorder->recorder.Stats() : Stats{}), stats, stats->size);
  return Say(Status(), message, message_size);
}

pitot_status pitot_recorder_health(pitot_recorder* recorder, uint32_t stalled_after_ms, pitot_health* health,
                                   char* message, size_t message_size) {
  if (health == nullptr || health->size < sizeof health->size || health->size > kLargestStruct)
    return Say(Status(StatusCode::kInvalidArgument, "pitot_health::size must be sizeof(pitot_health)"), message,
               message_size);
  Give(ToC(recorder != nullptr ? recorder->recorder.Health(stalled_after_ms) : Health{}), health, health->size);
  return Say(Status(), message, message_size);
}

pitot_status pitot_recorder_on_incident(pitot_recorder* recorder, pitot_incident_function function, void* context,
                                        char* message, size_t message_size) {
  return Say(SetHook(recorder, &HostHooks::incident, function, context), message, message_size);
}

pitot_status pitot_recorder_on_verdict(pitot_recorder* recorder, pitot_incident_function function, void* context,
                                       char* message, size_t message_size) {
  return Say(SetHook(recorder, &HostHooks::verdict, function, context), message, message_size);
}

void pitot_latency_trigger_init(pitot_latency_trigger* trigger, size_t size) {
  Give(Defaults<pitot_latency_trigger>(), trigger, size);
}
void pitot_failure_trigger_init(pitot_failure_trigger* trigger, size_t size) {
  Give(Defaults<pitot_failure_trigger>(), trigger, size);
}
void pitot_tokens_trigger_init(pitot_tokens_trigger* trigger, size_t size) {
  Give(Defaults<pitot_tokens_trigger>(), trigger, size);
}
void pitot_stall_trigger_init(pitot_stall_trigger* trigger, size_t size) {
  Give(Defaults<pitot_stall_trigger>(), trigger, size);
}
void pitot_drift_trigger_init(pitot_drift_trigger* trigger, size_t size) {
  Give(Defaults<pitot_drift_trigger>(), trigger, size);
}
void pitot_predicate_trigger_init(pitot_predicate_trigger* trigger, size_t size) {
  Give(Defaults<pitot_predicate_trigger>(), trigger, size);
}

pitot_status pitot_recorder_add_latency_trigger(pitot_recorder* recorder, const pitot_latency_trigger* trigger,
                                                char* message, size_t message_size) {
  return Add(recorder, trigger, message, message_size);
}
pitot_status pitot_recorder_add_failure_trigger(pitot_recorder* recorder, const pitot_failure_trigger* trigger,
                                                char* message, size_t message_size) {
  return Add(recorder, trigger, message, message_size);
}
pitot_status pitot_recorder_add_tokens_trigger(pitot_recorder* recorder, const pitot_tokens_trigger* trigger,
                                               char* message, size_t message_size) {
  return Add(recorder, trigger, message, message_size);
}
pitot_status pitot_recorder_add_stall_trigger(pitot_recorder* recorder, const pitot_stall_trigger* trigger,
                                              char* message, size_t message_size) {
  return Add(recorder, trigger, message, message_size);
}
pitot_status pitot_recorder_add_drift_trigger(pitot_recorder* recorder, const pitot_drift_trigger* trigger,
                                              char* message, size_t message_size) {
  return Add(recorder, trigger, message, message_size);
}
pitot_status pitot_recorder_add_predicate_trigger(pitot_recorder* recorder, const pitot_predicate_trigger* trigger,
                                                  char* message, size_t message_size) {
  return Add(recorder, trigger, message, message_size);
}

}  // extern "C"
