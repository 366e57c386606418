// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/control.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/message.h"
#include "collect/cupti/quirks.h"

namespace pitot::cupti {
namespace {

using base::Error;

// Without SYNCHRONIZATION: once enabled, it makes every synchronisation dearer for the life of the process.
constexpr uint32_t kKernelKinds[] = {kConcurrentKernel, kMemcpy, kMemcpyPeer, kMemset, kOverhead, kJit};
constexpr uint32_t kCallKinds[] = {kRuntime, kDriver};
constexpr int64_t kWithoutNs = 500'000'000;  // in which every graph still in use is replayed
constexpr uint32_t kMostReclaims = 3;
constexpr int64_t kReclaimsWithinNs = 60'000'000'000;  // of each other
// If PyTorch's profiler has never profiled, it took nothing, and hardly anybody else does. So silences this many times
// as long nearly always mean that there is no work. Callbacks registered again make that unknown.
constexpr int64_t kSilencesUnused = 6;

// The remedy for anyone who wants kernels.
const char* RemedyOf(Result result) {
  switch (result) {
    case kUnknown:
    case kNotInitialized:
      return "make a driver and a GPU available to this process; `pitot doctor` checks them";
    case kInsufficientPrivileges:
      return "give the process CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0";
    case kVirtualizedDeviceNotSupported:
      return "use a physical GPU, or a virtual one with profiling enabled";
    case kConfidentialComputingNotSupported:
      return "use a GPU outside confidential computing";
    default:
      return "`pitot doctor` shows the obstacle";
  }
}

// Makes the call, twice if need be: anything that stays on costs the host, and nobody else would switch it off.
template <class Call> Result Insist(Call call) {
  const Result result = call();
  return result == kSuccess ? result : call();
}

}  // namespace

Status NotRunning() { return Status(StatusCode::kNotRunning, "the CUPTI collector is not running"); }

const char* ToolVariable() noexcept {
  for (const char* variable : {"CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NV_NSIGHT_INJECTION_PORT_BASE"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return variable;
  }
  return nullptr;
}

bool HasFilteredRecords(const Api& api) noexcept {
  return api.activity_enable_runtime_api != nullptr && api.activity_enable_driver_api != nullptr &&
         !HasQuirk(api.version, Quirk::kNoFilteredRecords);
}

// Asks about PyTorch's profiler; once it is known to be there, without a lock of the loader. Does not ask once the
// process exits, because LibTorch is torn down, too.
KinetoState Control::AskKineto() {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return kineto_.load();
  const KinetoState state = surroundings_.ask_kineto();
  if (state == KinetoState::kActive) surroundings_.has_recorded->store(true);
  if (kineto_.exchange(state) != state) idle_since_ns_ = base::ClockNs(CLOCK_MONOTONIC);
  return state;
}

// Whether PyTorch's profiler is long idle. It then registered its callbacks long ago, if ever. While it begins it does
// not say so, and must not be disturbed.
bool Control::IsLongIdle() const {
  return kineto_.load() == KinetoState::kIdle &&
         base::ClockNs(CLOCK_MONOTONIC) - idle_since_ns_ >= surroundings_.long_idle_ns;
}

bool Control::IsBesideProfiler() const noexcept {
  // Profiles come in series, and an unseen one is made up for only when the profiler is long idle.
  const bool is_soon = kineto_.load() == KinetoState::kIdle && !IsLongIdle();
  return kineto_.load() != KinetoState::kAbsent && mode() != Mode::kDead && mode() != Mode::kPaused &&
         mode() != Mode::kReady && (depth() != Depth::kScopes || mode() == Mode::kAside || is_soon);
}

bool Control::MayMissProfile() const noexcept {
  return kineto_.load() != KinetoState::kAbsent && subscriber_ == nullptr;
}

bool Control::HasProfilerSwitched() noexcept {
  try {
    return (AskKineto() == KinetoState::kActive) != (mode() == Mode::kAside);
  } catch (const std::exception&) {
    return false;
  }
}

std::string Control::Reason() const {
  const base::MutexLock lock(&reason_mutex_);
  return reason_;
}

// The beginning of a text that goes on with another reason.
std::string Control::ReasonAnd() const {
  const std::string reason = Reason();
  return reason.empty() ? reason : reason + "; ";
}

void Control::SetReason(std::string reason, const char* remedy) {
  const base::MutexLock lock(&reason_mutex_);
  reason_ = std::move(reason);
  remedy_ = remedy;
}

std::string Control::WhyNothing() const {
  const base::MutexLock lock(&reason_mutex_);
  const char* remedy = remedy_;
  switch (mode()) {
    case Mode::kReady:
      if (reason_.empty()) return {};
      break;
    case Mode::kPaused:
      remedy = "call Recorder::Resume(\"cupti\")";
      break;
    case Mode::kAside:
      remedy = "end its profile; Pitot then resumes by itself";
      break;
    case Mode::kDead:
      if (remedy == nullptr) remedy = "restart the process without other users of CUPTI";
      break;
    default:
      return {};
  }
  return reason_.find(kRemedy) != std::string::npos ? reason_ : reason_ + kRemedy + remedy;
}

std::string Control::WhySilent() const {
  switch (kineto_.load()) {
    case KinetoState::kUnknown:
      return std::string("PyTorch's profiler does not announce its profiles, and took the buffers") + kRemedy +
             "call Recorder::Resume(\"cupti\") when no profile runs";
    case KinetoState::kIdle:
    case KinetoState::kActive:
      return std::string("PyTorch's profiler came and went unseen") + kRemedy +
             "wait, Pitot resumes 10 s after a profile";
    default:
      return std::string("another profiler took the buffers") + kRemedy + "wait, Pitot takes them back after a minute";
  }
}

Status Control::Start(Attach attach, bool graph_level) noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return Status(StatusCode::kUnavailable, "the process is exiting");
  if (const char* const why = WhyQuirk(api_.version, Quirk::kRefused)) return Status(StatusCode::kUnavailable, why);
  try {
    const bool is_active = AskKineto() == KinetoState::kActive;
    cuda_ = surroundings_.ask_cuda();
    attach_ = attach;
    if (attach_ == Attach::kWhenWanted) {
      mode_.store(Mode::kReady);
      return {};
    }
    // If CUDA is initialised, graphs may have been made in contexts that nobody reports.
    has_graph_level_ = graph_level && cuda_ == CudaState::kUntouched;
    if (is_active) {
      SetReason("PyTorch's profiler has CUPTI");
      mode_.store(Mode::kAside);
      return {};
    }
    Status status = Take(false);
    if (graph_level && !has_graph_level_)
      SetReason(ReasonAnd() +
                "no graph level: the collector was added after CUDA was initialised, PyTorch's profiler is in the "
                "process, or CUPTI does not report graphs");
    return status;
  } catch (const std::exception& e) {
    return Error(StatusCode::kResourceExhausted, "cannot start the CUPTI collector: %s", e.what());
  }
}

// Takes CUPTI for the first time, if it is wanted. Errors: as Take.
Status Control::TakeWhenWanted() {
  if (mode() != Mode::kReady) return {};
  if (std::exchange(is_put_off_, false)) SetReason("");
  if (wanted_ == Depth::kScopes) return {};
  cuda_ = surroundings_.ask_cuda();
  const KinetoState kineto = AskKineto();
  if (kineto == KinetoState::kActive) {
    SetReason("PyTorch's profiler has CUPTI");
    mode_.store(Mode::kAside);
    return {};
  }
  // The profiler does not say yet that it begins, and our callbacks would take its buffers.
  is_put_off_ = kineto == KinetoState::kIdle && !IsLongIdle();
  if (is_put_off_) {
    SetReason("PyTorch's profiler has profiled, and may be about to profile again",
              "wait, Pitot begins once it was idle for 10 s");
    return {};
  }
  Status status = Take(false);
  if (!status.ok() && mode() == Mode::kReady) SetReason(status.message()), mode_.store(Mode::kPaused);
  return status;
}

// Makes CUPTI ours: attributes, subscription, callbacks, kinds. `is_back`: others had it, and left it in any state.
Status Control::Take(bool is_back) {
  const KinetoState kineto = kineto_.load();
  source_.store(CallSource::kNone);
  SetReason("");
  if (Status status = Subscribe(kineto); !status.ok()) {
    if (is_back) DisableAll();  // kinds that were on when another took CUPTI
    return status;
  }
  SetAttributes();
  if (const Result result = RegisterCallbacks(is_back); result != kSuccess) {
    Release();
    if (is_back) DisableAll();
    return Error(StatusCode::kUnavailable, "cuptiActivityRegisterCallbacks failed: %s%s%s",
                 ResultName(api_, result).c_str(), kRemedy, RemedyOf(result));
  }
  enabled_ = 0, calls_level_ = 0;
  calls_.SetLevel(0, false);  // not switched off when another took CUPTI
  if (is_back) {
    api_.activity_flush_all(0);  // the buffer being filled is another's: ours from here on
    DisableAll();
  }
  // Single calls bring records only if some were on when the process first used CUDA, and until PyTorch's profiler has
  // profiled.
  const bool is_first = kineto_.load() == KinetoState::kUnused && (has_call_records_ || cuda_ != CudaState::kInUse);
  is_by_kind_ = source_.load() == CallSource::kRecords && !is_first;
  is_settling_ = source_.load() == CallSource::kRecords && !is_by_kind_ && !has_call_records_;
  // Without reports of new graphs, it is unknown which may be recorded as a whole.
  has_graph_level_ = has_graph_level_ && source_.load() == CallSource::kCallbacks;
  if (kineto == KinetoState::kUnknown)
    SetReason(ReasonAnd() +
              "PyTorch's profiler is in the process, in a version that does not announce its profiles: call "
              "Recorder::Pause(\"cupti\") before a profile, Resume(\"cupti\") after");
  mode_.store(Mode::kOn);
  Apply();
  return mode() == Mode::kOn ? Status() : Error(StatusCode::kUnavailable, "%s", Reason().c_str());
}

void Control::TakeOrDie(bool is_back) {
  if (Status status = Take(is_back); !status.ok()) mode_.store(Mode::kDead), SetReason(status.message());
}

void Control::SetAttributes() {
  uint8_t one = 1;
  size_t size = sizeof one;
  // Older libraries have neither; they then zero the buffers themselves.
  api_.activity_set_attribute(kZeroedOutBuffer, &size, &one);
  if (!HasQuirk(api_.version, Quirk::kNoPerThreadBuffers)) api_.activity_set_attribute(kPerThreadBuffer, &size, &one);
  if (api_.set_thread_id_type != nullptr) {
    const Result result = api_.set_thread_id_type(kSystemThreadId);
    if (result != kSuccess && source_.load() == CallSource::kRecords) NoteMissing("threads of calls", result);
  }
}

Status Control::Subscribe(KinetoState kineto) {
  char other[128] = "";
  SubscriberParams params{sizeof params, "Pitot", other, sizeof other};
  const Result result = api_.subscribe_v2 != nullptr
                            ? api_.subscribe_v2(&subscriber_, callbacks_.on_call, callbacks_.context, &params)
                            : api_.subscribe(&subscriber_, callbacks_.on_call, callbacks_.context);
  const bool has_kineto = kineto != KinetoState::kAbsent;
  if (result == kSuccess) {
    has_given_.store(true);
    if (!has_kineto) {
      source_.store(CallSource::kCallbacks);
      EnableCallbacks();
      return {};
    }
    // Otherwise PyTorch's profiler would find its place taken, and see no GPU for the life of the process.
    Unsubscribe();
  } else if (result != kMultipleSubscribersNotSupported) {
    const char* hint = result == kUnknown || result == kNotInitialized ? " (no NVIDIA driver or no GPU?)" : "";
    return Error(StatusCode::kUnavailable, "CUPTI cannot be used: %s%s%s%s", ResultName(api_, result).c_str(), hint,
                 kRemedy, RemedyOf(result));
  } else if (!has_kineto || ToolVariable() != nullptr) {
    return Error(StatusCode::kUnavailable,
                 "another tool has CUPTI%s%s (Nsight Systems, Nsight Compute, a debugger or an injected library)%srun "
                 "without it",
                 other[0] != '\0' ? ": " : "", other, kRemedy);
  }
  subscriber_ = nullptr;
  if (HasFilteredRecords(api_))
    source_.store(CallSource::kRecords);
  else
    SetReason(
        "calls are not recorded, and GPU work is not tied to requests: PyTorch's profiler is in the process, "
        "and CUPTI is older than 12.5");
  return {};
}

// Switches on the reports other than calls.
void Control::EnableCallbacks() {
  if (const Result on = EnableCallback(kState, kFatalError, true); on != kSuccess)
    NoteMissing("fatal errors of CUPTI", on);
  for (const uint32_t id : {kGraphNodeCreated, kGraphNodeCloned}) {
    if (const Result on = EnableCallback(kResource, id, true); on != kSuccess)
      NoteMissing("scopes of captured graph nodes", on);
  }
  for (const uint32_t id : {kGraphExecCreateStarting, kGraphExecCreated}) {
    if (EnableCallback(kResource, id, true) != kSuccess) has_graph_level_ = false;
  }
  bool is_told = true;
  for (const uint32_t id : {kStreamDestroyStarting, kContextDestroyStarting})
    is_told = EnableCallback(kResource, id, true) == kSuccess && is_told;
  calls_.stream_ids().SetTold(is_told);
}

// Disables everything that was ever ours, whoever it may be on for.
void Control::DisableAll() {
  for (const uint32_t kind : kKernelKinds) Insist([&] { return api_.activity_disable(kind); });
  // Callbacks are gone with their subscriber.
  if (kineto_.load() == KinetoState::kAbsent || !HasFilteredRecords(api_)) return;
  for (const ApiCalls::Id& id : calls_.ids()) Insist([&] { return EnableCallRecords(id, false); });
  for (const uint32_t kind : kCallKinds) Insist([&] { return api_.activity_disable(kind); });
}

// Hands CUPTI back: nothing stays enabled, nobody is subscribed. Buffers come back in their own time.
void Control::Release() {
  LeaveGraphLevel();
  for (const uint32_t kind : kKernelKinds) Enable(kind, false);
  EnableCalls(0);
  api_.activity_flush_all(0);
  Unsubscribe();
}

// Hands CUPTI back as far as it is ours. Also disables kinds left to PyTorch's profiler once that has ended, because
// nobody else would.
void Control::HandBack(KinetoState kineto) {
  const bool is_theirs = kineto == KinetoState::kActive;
  if (mode() == Mode::kOn) is_theirs ? Unsubscribe() : Release();
  if (mode() == Mode::kAside && !is_theirs) DisableAll();
}

void Control::Stop() noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return;
  try {
    HandBack(kineto_.load() != KinetoState::kAbsent ? AskKineto() : KinetoState::kAbsent);
    mode_.store(Mode::kOff);
  } catch (const std::bad_alloc&) {
    mode_.store(Mode::kOff);
  }
}

// Ends everything that is ours; enabled kinds may be another's by now.
void Control::Unsubscribe() {
  if (subscriber_ != nullptr) Insist([this] { return api_.unsubscribe(subscriber_); });
  subscriber_ = nullptr;
  effective_.store(Depth::kScopes);
}

Status Control::Pause() noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return NotRunning();
  try {
    if (mode() == Mode::kOff) return NotRunning();
    HandBack(kineto_.load() != KinetoState::kAbsent ? AskKineto() : KinetoState::kAbsent);
    if (mode() != Mode::kDead) SetReason("paused by the host"), mode_.store(Mode::kPaused);
    return {};
  } catch (const std::exception& e) {
    return Status(StatusCode::kResourceExhausted, e.what());
  }
}

Status Control::Resume() noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return NotRunning();
  try {
    const bool is_active = AskKineto() == KinetoState::kActive;
    cuda_ = surroundings_.ask_cuda();
    if (mode() == Mode::kOff) return NotRunning();
    if (mode() == Mode::kOn && kineto_.load() == KinetoState::kUnknown) RegisterAgain();
    if (mode() == Mode::kReady || mode() == Mode::kOn || mode() == Mode::kAside) return {};
    if (mode() == Mode::kDead) return Error(StatusCode::kUnavailable, "%s", Reason().c_str());
    if (is_active) {
      SetReason("PyTorch's profiler has CUPTI");
      mode_.store(Mode::kAside);
      return {};
    }
    if (attach_ == Attach::kWhenWanted && !has_given()) {
      mode_.store(Mode::kReady);
      SetReason("");
      return TakeWhenWanted();
    }
    has_graph_level_ = false;  // graphs captured meanwhile are unknown
    Status status = Take(true);
    if (!status.ok() && mode() == Mode::kPaused) SetReason(status.message());
    return status;
  } catch (const std::exception& e) {
    return Status(StatusCode::kResourceExhausted, e.what());
  }
}

void Control::SetDepth(Depth depth, bool takes_any_cost) noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return;
  try {
    // Kinds belong to the process: one switched off now would be missing in PyTorch's profile.
    const bool is_active = kineto_.load() != KinetoState::kAbsent && AskKineto() == KinetoState::kActive;
    wanted_ = depth, takes_any_cost_ = takes_any_cost;
    TakeWhenWanted();
    if (mode() != Mode::kOn || is_active) return;
    // An unseen profile has left its callbacks; another may have its own there, and a buffer that is not full.
    const bool rises = effective_.load() == Depth::kScopes && depth != Depth::kScopes;
    const bool is_taken = is_silent_ && HasNotBegun();
    if (rises && MayMissProfile() && (is_taken || IsLongIdle())) {
      Register();
      if (is_taken) api_.activity_flush_all(0);
    }
    Apply();
  } catch (const std::bad_alloc&) {
    // Reported with the next fault.
  }
}

void Control::SetLook(bool on) noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return;
  try {
    const bool is_active = kineto_.load() != KinetoState::kAbsent && AskKineto() == KinetoState::kActive;
    is_looking_ = on;
    if (mode() == Mode::kOn && !is_active) Apply();
  } catch (const std::bad_alloc&) {
    // Tried with the next look.
  }
}

void Control::Tick(int64_t now_ns, bool is_used) noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return;
  try {
    const KinetoState kineto = AskKineto();
    const bool is_kineto_active = kineto == KinetoState::kActive;
    if (is_put_off_) TakeWhenWanted();
    if (mode() == Mode::kAside || (source_.load() == CallSource::kCallbacks && kineto != KinetoState::kAbsent))
      cuda_ = surroundings_.ask_cuda();
    if (is_fatal_.exchange(false)) {
      mode_.store(Mode::kDead);
      effective_.store(Depth::kScopes);
      SetReason("CUPTI met a fatal error and detached itself");
    }
    if (mode() == Mode::kOn && is_kineto_active) {
      // Nothing is switched off: it belongs to the profiler now.
      Unsubscribe();
      mode_.store(Mode::kAside);
      SetReason("stepped aside for PyTorch's profiler");
    } else if (mode() == Mode::kAside && !is_kineto_active) {
      has_graph_level_ = false;
      TakeOrDie(true);
    } else if (mode() == Mode::kOn) {
      TickOn(now_ns, is_used, kineto);
    }
  } catch (const std::exception&) {
    // The next tick tries again.
  }
}

void Control::TickOn(int64_t now_ns, bool is_used, KinetoState kineto) {
  if (source_.load() == CallSource::kCallbacks && kineto != KinetoState::kAbsent) {
    // LibTorch was loaded after us: leave the subscription to its profiler.
    Release();
    TakeOrDie(false);
  }
  const bool has_settled = is_settling_ && is_used;
  if (has_settled) is_settling_ = false, has_call_records_ = true;
  if (has_settled || (is_waiting_ && now_ns - without_since_ns_ >= kWithoutNs)) Apply();
}

void Control::Reclaim() noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return;
  try {
    if (mode() != Mode::kOn) return;
    const int64_t now_ns = base::ClockNs(CLOCK_MONOTONIC);
    if (now_ns - reclaimed_ns_ > kReclaimsWithinNs) reclaimed_ = 0;
    reclaimed_ns_ = now_ns;
    if (++reclaimed_ > kMostReclaims) {
      // The kinds belong to the other profiler now.
      EnableCalls(0);
      Unsubscribe();
      mode_.store(Mode::kDead);
      SetReason("another profiler takes CUPTI's buffers");
      return;
    }
    Register();
    EnableAgain();
    Apply();
  } catch (const std::bad_alloc&) {
    // Tried the next time.
  }
}

// PyTorch's profiler leaves kUnused before it registers anything; one that cannot be asked may be profiling now.
bool Control::Renew(int64_t silent_ns) noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return false;
  try {
    AskKineto();
    if (mode() != Mode::kOn || effective_.load() == Depth::kScopes || !MayMissProfile()) return false;
    const bool is_safe = HasNotBegun() ? silent_ns / kSilencesUnused >= surroundings_.long_idle_ns : IsLongIdle();
    if (is_safe) RegisterAgain();
    return is_safe;
  } catch (const std::bad_alloc&) {
    return false;  // tried the next time
  }
}

Result Control::RegisterCallbacks(bool is_again) {
  has_given_.store(true);
  if (is_again) registrations_.fetch_add(1, std::memory_order_relaxed);
  callbacks_.on_register(callbacks_.context, is_again);
  return api_.activity_register_callbacks(callbacks_.request, callbacks_.complete);
}

void Control::Register() {
  const Result result = RegisterCallbacks(true);
  if (result != kSuccess) Fail("cuptiActivityRegisterCallbacks", result);
}

void Control::RegisterAgain() {
  Register();
  api_.activity_flush_all(0);
  EnableAgain();
  Apply();
}

// Enables again everything that should be on, in case another switched it off. The former state is not forgotten: if
// this fails it may still be on.
void Control::EnableAgain() {
  for (const uint32_t kind : kKernelKinds) {
    if (!IsEnabled(kind) || mode() != Mode::kOn) continue;
    const Result result = api_.activity_enable(kind);
    if (result == kSuccess) continue;
    if (kind == kConcurrentKernel) return Fail("cuptiActivityEnable", result);
    NoteMissing("copies, sets or overhead", result);
  }
  if (is_by_kind_ && calls_level_ != 0) return EnableCallKinds(calls_level_);
  for (const ApiCalls::Id& id : calls_.ids()) {
    if (calls_level_ >= id.level) SwitchCall(id, true);
  }
}

void Control::OnMissingCalls() noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  if (!entered) return;
  try {
    if (mode() != Mode::kOn || is_by_kind_ || AskKineto() == KinetoState::kActive) return;
    TakeWholeKinds();
    Apply();
  } catch (const std::bad_alloc&) {
    // Tried the next time.
  }
}

uint64_t Control::TakeDropped() noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  size_t dropped = 0;
  if (!entered || mode() != Mode::kOn || api_.activity_get_dropped == nullptr) return 0;
  return api_.activity_get_dropped(nullptr, 0, &dropped) == kSuccess ? dropped : 0;
}

bool Control::Flush() noexcept {
  const base::UntilExit::Entered entered(&until_exit_);
  return !entered || mode() != Mode::kOn || api_.activity_flush_all(0) == kSuccess;
}

void Control::OnState(uint32_t callback_id) noexcept {
  if (callback_id == kFatalError) is_fatal_.store(true, std::memory_order_relaxed);
}

void Control::OnResource(uint32_t callback_id) noexcept {
  // With graph level on CUPTI crashes at the launch of a graph that was made executable without it.
  const bool is_new = callback_id == kGraphExecCreateStarting || callback_id == kGraphExecCreated;
  if (is_new && !is_graph_trace_on_.load(std::memory_order_relaxed))
    has_unsafe_graphs_.store(true, std::memory_order_relaxed);
}

// Makes CUPTI record at the wanted depth, in an order that neither crashes it nor leaves a cost behind. Graph level, if
// available, is off only while nodes are recorded.
void Control::Apply() {
  // It failed, and all was handed back.
  if (mode() != Mode::kOn) return;
  if (kineto_.load() == KinetoState::kIdle) TakeWholeKinds();  // a profile has ended
  const Depth wanted = WantedDepth();
  const bool wants_nodes = wanted >= Depth::kKernels;
  has_graph_level_ = has_graph_level_ && !has_unsafe_graphs_.load();
  if (has_graph_level_ && !wants_nodes && !IsEnabled(kGraphTrace) && !EnterGraphLevel()) return;
  is_waiting_ = false;
  const bool is_looking = is_looking_ && wanted == Depth::kScopes && !is_by_kind_;
  const uint8_t calls_level = CallsLevelFor(wanted, is_looking);
  // Calls go on before kinds, and off after them: no kernel is recorded without its call.
  if (wanted != Depth::kScopes) EnableCalls(std::max(calls_level, calls_level_));
  if (wants_nodes) LeaveGraphLevel();
  for (const uint32_t kind : kKernelKinds) Enable(kind, wanted != Depth::kScopes);
  if (mode() != Mode::kOn) return;
  EnableCalls(calls_level, is_looking);
  if (mode() == Mode::kOn) effective_.store(std::min(wanted, Depth::kKernels));
}

// Switches graph level on. After nodes were recorded, graphs stay as dear until they were launched once with nothing
// recorded: until then switches everything off, and returns false.
bool Control::EnterGraphLevel() {
  const int64_t now_ns = base::ClockNs(CLOCK_MONOTONIC);
  if (IsEnabled(kConcurrentKernel)) is_waiting_ = true, without_since_ns_ = now_ns;
  if (is_waiting_ && now_ns - without_since_ns_ < kWithoutNs) {
    for (const uint32_t kind : kKernelKinds) Enable(kind, false);
    EnableCalls(0);
    effective_.store(Depth::kScopes);
    return false;
  }
  Enable(kGraphTrace, true);
  return true;
}

uint8_t Control::CallsLevelFor(Depth wanted, bool is_looking) const {
  if (wanted >= Depth::kKernels || is_settling_ || is_looking) return 2;
  return wanted == Depth::kGraphs ? 1 : 0;
}

// Ends graph level by way of records of kernels. Switched off without them, CUPTI goes on as before, and crashes at the
// launch of the next new graph. If they are not available, it stays on.
void Control::LeaveGraphLevel() {
  if (!IsEnabled(kGraphTrace)) return;
  if (!IsEnabled(kConcurrentKernel)) {
    if (Insist([this] { return api_.activity_enable(kConcurrentKernel); }) != kSuccess) return;
    enabled_ |= uint64_t{1} << kConcurrentKernel;
    surroundings_.has_recorded->store(true);
  }
  Enable(kGraphTrace, false);
}

void Control::Enable(uint32_t kind, bool on) {
  if (IsEnabled(kind) == on || (on && mode() != Mode::kOn)) return;
  // A graph is safe only if it was made while this was on from beginning to end.
  if (kind == kGraphTrace) is_graph_trace_on_.store(false);
  const Result result = on ? api_.activity_enable(kind) : Insist([&] { return api_.activity_disable(kind); });
  if (result == kSuccess) enabled_ ^= uint64_t{1} << kind;
  if (kind == kGraphTrace) is_graph_trace_on_.store(IsEnabled(kind));
  if (result != kSuccess) return OnRefused(kind, on, result);
  if (kind == kConcurrentKernel) surroundings_.has_recorded->store(true);
}

void Control::OnRefused(uint32_t kind, bool on, Result result) {
  // An older library does not know every kind; without kernels there is nothing to record.
  if (kind == kConcurrentKernel) return Fail(on ? "cuptiActivityEnable" : "cuptiActivityDisable", result);
  const bool is_unknown = result == kInvalidKind || result == kNotSupported || result == kNotCompatible;
  if (on && !is_unknown) NoteMissing(kind == kGraphTrace ? "graphs as a whole" : "copies, sets or overhead", result);
}

Result Control::EnableCallback(Domain domain, uint32_t callback_id, bool on) {
  return subscriber_ != nullptr ? api_.enable_callback(on ? 1 : 0, subscriber_, domain, callback_id) : kSuccess;
}

void Control::EnableCalls(uint8_t level, bool is_look) {
  calls_.SetLevel(std::min(level, calls_level_), is_look);
  if (is_by_kind_ && (level == 0) != (calls_level_ == 0)) {
    EnableCallKinds(level);
  } else {
    for (const ApiCalls::Id& id : calls_.ids()) {
      const bool was = calls_level_ >= id.level, is = level >= id.level;
      if (was != is) SwitchCall(id, is);
    }
  }
  calls_level_ = level;
  calls_.SetLevel(level, is_look);
}

// Switches whole kinds of calls, with the unwanted calls off. At level 0 the kinds go off as a whole: with only all
// their calls off, CUPTI still has each call pay (docs/lab/gpu.md).
void Control::EnableCallKinds(uint8_t level) {
  for (const uint32_t kind : kCallKinds) {
    if (level == 0)
      Insist([&] { return api_.activity_disable(kind); });
    else if (const Result result = api_.activity_enable(kind); result != kSuccess)
      NoteMissing("some calls", result);
  }
  if (level == 0) return;
  for (const ApiCalls::Id& id : calls_.others()) EnableCallRecords(id, false);
  for (const ApiCalls::Id& id : calls_.ids()) {
    if (id.level > level) EnableCallRecords(id, false);
  }
}

// Records calls by whole kinds from here on; Apply switches the wanted ones on again.
void Control::TakeWholeKinds() {
  if (source_.load() != CallSource::kRecords || is_by_kind_) return;
  EnableCalls(0);
  is_by_kind_ = true, is_settling_ = false;
}

Result Control::EnableCallRecords(const ApiCalls::Id& id, bool on) {
  const auto enable = id.domain == kRuntimeApi ? api_.activity_enable_runtime_api : api_.activity_enable_driver_api;
  return enable(id.callback_id, on ? 1 : 0);
}

void Control::SwitchCall(const ApiCalls::Id& id, bool on) {
  if (on && mode() != Mode::kOn) return;
  const auto switch_it = [&] {
    switch (source_.load()) {
      case CallSource::kCallbacks:
        return EnableCallback(id.domain, id.callback_id, on);
      case CallSource::kRecords:
        return EnableCallRecords(id, on);
      default:
        return kSuccess;
    }
  };
  const Result result = on ? switch_it() : Insist(switch_it);
  if (on && result != kSuccess) NoteMissing("some calls", result);
}

// Notes a part that is not recorded, or not known, because CUPTI refused it; the rest is recorded.
void Control::NoteMissing(const char* what, Result result) {
  const std::string note = std::string(what) + ": not recorded, CUPTI says " + ResultName(api_, result);
  const base::MutexLock lock(&reason_mutex_);
  if (reason_.find(note) == std::string::npos) reason_ += (reason_.empty() ? "" : "; ") + note;
}

// Gives back everything that can be given back.
void Control::Fail(const char* what, Result result) {
  if (mode() == Mode::kDead) return;
  mode_.store(Mode::kDead);
  SetReason(std::string(what) + " failed: " + ResultName(api_, result), RemedyOf(result));
  Release();
}

}  // namespace pitot::cupti
