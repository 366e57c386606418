// SPDX-License-Identifier: Apache-2.0
//
// Switches CUPTI's recording while it runs, and shares CUPTI with others who want it, too. Belongs to one thread. That
// thread may hang in any call of CUPTI, and so holds no lock in them.
//
// The order of the calls follows from measurements on an H100 with CUPTI 13.0 Update 1: docs/lab/gpu.md.
#ifndef PITOT_LIB_COLLECT_CUPTI_CONTROL_H_
#define PITOT_LIB_COLLECT_CUPTI_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "base/until_exit.h"
#include "collect/cupti/api.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/driver.h"
#include "collect/cupti/kineto.h"
#include "pitot/depth.h"
#include "pitot/status.h"

namespace pitot::cupti {

enum class Mode : uint8_t {
  kOff,     // not started, or stopped
  kReady,   // CUPTI was not called yet
  kOn,      // CUPTI is ours
  kPaused,  // handed over at the host's wish
  kAside,   // PyTorch's profiler has it
  kDead,    // it failed, and is not tried again
};
// How calls of the CUDA API are recorded.
enum class CallSource : uint8_t { kNone, kCallbacks, kRecords };
// When CUPTI is first called; from then on it costs (docs/lab/gpu.md).
enum class Attach : uint8_t {
  kAtStart,
  kWhenWanted,  // by SetDepth. A refusal pauses it: Resume tries again.
};

// The environment variable that told this process to load a tool with its own use of CUPTI; null: none.
const char* ToolVariable() noexcept;
// Whether single calls of the CUDA API can be had as records: from CUDA 12.5 on. Next to PyTorch's profiler, calls are
// recorded this way.
bool HasFilteredRecords(const Api& api) noexcept;

// The answer of a collector that does not run.
Status NotRunning();

inline constinit std::atomic<bool> g_has_recorded{false};

class Control {
 public:
  struct Callbacks {
    CallbackFunction on_call;
    void* context;
    RequestBuffer request;
    CompleteBuffer complete;
    // Called before they are registered; `is_again`: another may have had its own until now.
    void (*on_register)(void* context, bool is_again);
  };
  // Questions to the process.
  struct Surroundings {
    KinetoState (*ask_kineto)() noexcept;
    CudaState (*ask_cuda)() noexcept;
    // After this time PyTorch's profiler is not about to begin. Without a buffer for as long, it may have come and
    // gone.
    int64_t long_idle_ns = 10'000'000'000;
    // Whether anyone recorded kernels in the process; the process's own except in tests.
    std::atomic<bool>* has_recorded = &g_has_recorded;
  };

  // All live as long as this.
  Control(const Api* api, base::UntilExit* until_exit, ApiCalls* calls, const Callbacks& callbacks,
          const Surroundings& surroundings)
      : api_(*api), until_exit_(*until_exit), calls_(*calls), callbacks_(callbacks), surroundings_(surroundings) {}

  // Takes CUPTI, now or later, at depth kScopes. `graph_level`: as in CuptiOptions, if it is taken now. Errors:
  // kUnavailable, with CUPTI's reason and its owner; later errors are in WhyNothing.
  Status Start(Attach attach, bool graph_level) noexcept;
  void Stop() noexcept;
  // Sets the depth, or remembers it while CUPTI is another's. Calls may come only all at once (needs_whole_kinds):
  // nothing is then recorded without `takes_any_cost`. Cost: 96 to 120 us (medians on H100s; 1.1 ms at most), more
  // while CUPTI is flushed.
  void SetDepth(Depth depth, bool takes_any_cost) noexcept;
  // Begins or ends a look: while nothing is recorded, calls are reported to ApiCalls::lasting_cost. What it may leave
  // behind is in docs/lab/gpu.md.
  void SetLook(bool on) noexcept;
  // Hand CUPTI over, and take it back. Resume also takes it back from a profiler without an answer to whether it
  // profiles: the host vouches for that. Errors: kNotRunning; of Resume also kUnavailable.
  Status Pause() noexcept;
  Status Resume() noexcept;
  // Does regular work: steps aside for PyTorch's profiler and comes back, and finishes changes begun by SetDepth.
  // `is_used`: CUPTI has asked for a buffer since it was taken. Call it every 20 ms or so.
  void Tick(int64_t now_ns, bool is_used) noexcept;
  // Records calls by whole kinds from now on, because work was recorded without a call: CUDA was in use before, which
  // the driver does not always tell.
  void OnMissingCalls() noexcept;
  // Registers callbacks again because somebody registered others over ours, three times at most; then gives up.
  void Reclaim() noexcept;
  // Registers the callbacks again, and switches on everything that should be on, after a silence without a request for
  // a buffer. Nothing was put on GPUs, or another has our place. Does so only if no profile of PyTorch's can be in
  // progress. Returns whether it did.
  bool Renew(int64_t silent_ns) noexcept;
  // Notes whether no buffer was asked for the last time that kernels could have come. Another may then have our place.
  // The next rise of depth takes it back if PyTorch's profiler has not profiled yet.
  void NoteSilence(bool is_silent) noexcept { is_silent_ = is_silent; }
  // Whether PyTorch's profiler could begin or end at any time, and this matters: HasProfilerSwitched must be asked
  // often.
  bool IsBesideProfiler() const noexcept;
  // Whether a profile could have come and gone unseen, and left its callbacks in place of ours.
  bool MayMissProfile() const noexcept;
  // Whether that profiler has begun or ended since the last Tick. Cost: 20 ns.
  bool HasProfilerSwitched() noexcept;
  // Has CUPTI hand over its complete buffers. False: it did not.
  bool Flush() noexcept;
  // Records dropped by CUPTI since the last call.
  uint64_t TakeDropped() noexcept;

  // Threads: any, from here on.
  Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  CallSource call_source() const noexcept { return source_.load(std::memory_order_relaxed); }
  // The depth at which it really records now.
  Depth depth() const noexcept { return effective_.load(std::memory_order_relaxed); }
  // How often the callbacks were registered again.
  uint32_t registrations() const noexcept { return registrations_.load(std::memory_order_relaxed); }
  // Whether CUPTI was given functions of ours to call.
  bool has_given() const noexcept { return has_given_.load(std::memory_order_relaxed); }
  // Whether calls can be recorded only by switching on all of them, which leaves far more behind than kernels do
  // (docs/lab/gpu.md). This is so next to LibTorch if CUPTI was not called before CUDA, and after a profile, seen or
  // not.
  bool needs_whole_kinds() const noexcept {
    return is_by_kind_.load() || (call_source() == CallSource::kRecords && kineto_.load() == KinetoState::kIdle);
  }
  // Whether CUPTI was first called when the process may already have captured graphs.
  bool has_begun_late() const noexcept { return attach_ == Attach::kWhenWanted && has_given(); }
  // Whether kernels were recorded in this process: by this control, an earlier one, or PyTorch's profiler (except in a
  // profile that nobody saw). Their lasting cost is then there.
  bool has_recorded() const noexcept { return surroundings_.has_recorded->load(std::memory_order_relaxed); }
  // Why it does not record, or records less; "" while all is well.
  std::string Reason() const;
  // Why nothing can be recorded, and the remedy; "" if it can.
  std::string WhyNothing() const;
  // The possible owner of our place while no buffer is asked for, and the remedy.
  std::string WhySilent() const;

  bool is_closed() const noexcept { return until_exit_.is_closed(); }

  // CUPTI's reports: it is lost, a graph becomes executable.
  void OnState(uint32_t callback_id) noexcept;
  void OnResource(uint32_t callback_id) noexcept;

 private:
  KinetoState AskKineto();
  Status TakeWhenWanted();
  Status Take(bool is_back);
  // Take, or the end of recording.
  void TakeOrDie(bool is_back);
  Status Subscribe(KinetoState kineto);
  void EnableCallbacks();
  void SetAttributes();
  Result RegisterCallbacks(bool is_again);
  void DisableAll();
  void Release();
  void HandBack(KinetoState kineto);
  void Unsubscribe();
  void TickOn(int64_t now_ns, bool is_used, KinetoState kineto);
  void Apply();
  bool EnterGraphLevel();
  // The wanted depth, unless it was chosen without knowing that calls would come only all at once.
  Depth WantedDepth() const { return is_by_kind_ && !takes_any_cost_ ? Depth::kScopes : wanted_; }
  uint8_t CallsLevelFor(Depth wanted, bool is_looking) const;
  bool IsLongIdle() const;
  bool HasNotBegun() const { return kineto_.load() == KinetoState::kUnused; }
  void Register();
  void RegisterAgain();
  void EnableAgain();
  bool IsEnabled(uint32_t kind) const { return (enabled_ >> kind & 1) != 0; }
  void Enable(uint32_t kind, bool on);
  void OnRefused(uint32_t kind, bool on, Result result);
  void LeaveGraphLevel();
  void EnableCalls(uint8_t level, bool is_look = false);
  void EnableCallKinds(uint8_t level);
  void TakeWholeKinds();
  void SwitchCall(const ApiCalls::Id& id, bool on);
  Result EnableCallRecords(const ApiCalls::Id& id, bool on);
  Result EnableCallback(Domain domain, uint32_t callback_id, bool on);
  void Fail(const char* what, Result result);
  void NoteMissing(const char* what, Result result);
  std::string ReasonAnd() const;
  void SetReason(std::string reason, const char* remedy = nullptr);

  const Api& api_;
  base::UntilExit& until_exit_;
  ApiCalls& calls_;
  const Callbacks callbacks_;
  const Surroundings surroundings_;

  Attach attach_ = Attach::kAtStart;
  int64_t idle_since_ns_ = 0;  // if it is kIdle
  CudaState cuda_ = CudaState::kUntouched;
  Subscriber subscriber_ = nullptr;
  bool has_graph_level_ = false;  // switched on before the process used CUDA, and no graph was made without it
  uint64_t enabled_ = 0;          // kinds, by bit
  uint8_t calls_level_ = 0;       // of ApiCalls::SetLevel, as CUPTI was asked
  Depth wanted_ = Depth::kScopes;
  bool takes_any_cost_ = false;
  bool has_call_records_ = false;  // they were on when the process first used CUDA
  bool is_settling_ = false;       // they are on until it does
  bool is_looking_ = false;
  bool is_silent_ = false;
  bool is_put_off_ = false;       // the first call, until PyTorch's profiler is long idle
  bool is_waiting_ = false;       // until each graph was launched once with nothing recorded
  int64_t without_since_ns_ = 0;  // the beginning of that wait
  uint32_t reclaimed_ = 0;
  int64_t reclaimed_ns_ = 0;  // the last time

  mutable base::Mutex reason_mutex_;
  std::string reason_ PITOT_GUARDED_BY(reason_mutex_);
  const char* remedy_ PITOT_GUARDED_BY(reason_mutex_) = nullptr;

  std::atomic<KinetoState> kineto_{KinetoState::kAbsent};
  std::atomic<Mode> mode_{Mode::kOff};
  std::atomic<CallSource> source_{CallSource::kNone};
  std::atomic<Depth> effective_{Depth::kScopes};
  std::atomic<bool> is_fatal_{false};
  // Single calls cannot be had as records: whole kinds are on, without the unwanted calls.
  std::atomic<bool> is_by_kind_{false};
  std::atomic<bool> has_given_{false};
  std::atomic<uint32_t> registrations_{0};
  std::atomic<bool> is_graph_trace_on_{false};
  std::atomic<bool> has_unsafe_graphs_{false};  // executable ones, made while graph level was off
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_CONTROL_H_
