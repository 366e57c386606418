// SPDX-License-Identifier: Apache-2.0
//
// What CUPTI is asked to record, switched while it runs, shared with others who want CUPTI too. Belongs to one thread,
// which may hang in any of its calls, and so holds no lock in them.
//
// What is known of CUPTI and stands behind the order of the calls was measured on an H100 with CUPTI 13.0 Update 1:
// docs/lab/gpu.md.
#ifndef PITOT_LIB_COLLECT_CUPTI_CONTROL_H_
#define PITOT_LIB_COLLECT_CUPTI_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "collect/cupti/api.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/driver.h"
#include "collect/cupti/kineto.h"
#include "collect/cupti/until_exit.h"
#include "pitot/depth.h"
#include "pitot/status.h"

namespace pitot::cupti {

enum class Mode : uint8_t {
  kOff,     // not started, or stopped
  kReady,   // CUPTI was not called yet
  kOn,      // CUPTI is ours
  kPaused,  // handed over by the host's wish
  kAside,   // PyTorch's profiler has it
  kDead,    // it failed, for good
};
// How calls of the CUDA API are recorded.
enum class CallSource : uint8_t { kNone, kCallbacks, kRecords };
// When CUPTI is called for the first time, from which on it costs (docs/lab/gpu.md).
enum class Attach : uint8_t {
  kAtStart,
  kWhenWanted,  // by SetDepth or SetLook; where there is no driver, or a tool may have CUPTI, at the start.
                // What is refused then is paused: Resume tries again.
};

// The environment variable by which this process was told to load a tool that wants CUPTI itself; null: none.
const char* ToolVariable() noexcept;
// Whether single calls of the CUDA API can be had as records, which is how they are recorded beside PyTorch's profiler:
// from CUDA 12.5 on.
bool HasFilteredRecords(const Api& api) noexcept;

// What whoever asks something of a collector that does not run is told.
Status NotRunning();

inline constinit std::atomic<bool> g_has_recorded{false};

class Control {
 public:
  struct Callbacks {
    CallbackFunction on_call;
    void* context;
    RequestBuffer request;
    CompleteBuffer complete;
    // Before they are registered; `is_again`: another may have had its own till now.
    void (*on_register)(void* context, bool is_again);
  };
  // What the process says of itself.
  struct Surroundings {
    KinetoState (*ask_kineto)() noexcept;
    CudaState (*ask_cuda)() noexcept;
    bool (*has_driver)() noexcept = HasDriver;
    // After so long PyTorch's profiler is not about to begin, and without a buffer it may have come and gone.
    int64_t long_idle_ns = 10'000'000'000;
    // Kernels were recorded in the process, by whoever; of the process but for tests.
    std::atomic<bool>* has_recorded = &g_has_recorded;
  };

  // All live as long as this.
  Control(const Api* api, UntilExit* until_exit, ApiCalls* calls, const Callbacks& callbacks,
          const Surroundings& surroundings)
      : api_(*api), until_exit_(*until_exit), calls_(*calls), callbacks_(callbacks), surroundings_(surroundings) {}

  // Takes CUPTI, now or later, at depth kScopes. `graph_level` as CuptiOptions, where it is taken now. Errors:
  // kUnavailable, with CUPTI's reason and who has it; those of later are in WhyNothing.
  Status Start(Attach attach, bool graph_level) noexcept;
  void Stop() noexcept;
  // Remembered while CUPTI is another's. `takes_any_cost`: also where calls come only all at once (needs_whole_kinds);
  // else nothing is recorded there. Cost: 96 to 120 us (medians on H100s; 1.1 ms at most), more while CUPTI is flushed.
  void SetDepth(Depth depth, bool takes_any_cost) noexcept;
  // Has calls told to ApiCalls::lasting_cost, or no more, while nothing is recorded. docs/lab/gpu.md says what
  // that may leave behind.
  void SetLook(bool on) noexcept;
  // Resume takes back, too, what a profiler has taken that cannot be asked whether it profiles: the host says that it
  // does not. Errors: kNotRunning; of Resume also kUnavailable.
  Status Pause() noexcept;
  Status Resume() noexcept;
  // What has to be done now and then: steps aside for PyTorch's profiler and comes back, ends what SetDepth began.
  // `is_used`: CUPTI has asked for a buffer since it was taken. Every 20 ms or so.
  void Tick(int64_t now_ns, bool is_used) noexcept;
  // Work was recorded, and no call: CUDA was in use before, which the driver does not always tell.
  void OnMissingCalls() noexcept;
  // Somebody registered callbacks over ours: registers them again, three times at most, then gives up.
  void Reclaim() noexcept;
  // No buffer was asked for in so long: nothing was put on GPUs, or another has our place. Where that can be no profile
  // that PyTorch's profiler is in the middle of, the callbacks are registered again, and all is switched on that should
  // be. Says whether it did.
  bool Renew(int64_t silent_ns) noexcept;
  // Whether no buffer was asked for the last time that kernels could have come: another may have our place, which the
  // next rise of depth takes back where PyTorch's profiler has not profiled yet.
  void NoteSilence(bool is_silent) noexcept { is_silent_ = is_silent; }
  // PyTorch's profiler could begin or end at any time, and it matters: HasProfilerSwitched is to be asked often.
  bool IsBesideProfiler() const noexcept;
  // A profile of its could have come and gone unseen, and its callbacks be in place of ours.
  bool MayMissProfile() const noexcept;
  // It has begun or ended since the last Tick. Cost: 20 ns.
  bool HasProfilerSwitched() noexcept;
  // Has CUPTI hand over what is complete. False: it did not.
  bool Flush() noexcept;
  // How many records CUPTI has dropped since the last time.
  uint64_t TakeDropped() noexcept;

  // Threads: any, from here on.
  Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  CallSource call_source() const noexcept { return source_.load(std::memory_order_relaxed); }
  // The depth at which it really records now.
  Depth depth() const noexcept { return effective_.load(std::memory_order_relaxed); }
  // How often the callbacks were registered again.
  uint32_t registrations() const noexcept { return registrations_.load(std::memory_order_relaxed); }
  // CUPTI was given something of ours to call.
  bool has_given() const noexcept { return has_given_.load(std::memory_order_relaxed); }
  // Calls can be recorded only by switching on all of them, which leaves far more behind than kernels do
  // (docs/lab/gpu.md): beside LibTorch where CUPTI was not called before CUDA, and after a profile, seen or
  // not.
  bool needs_whole_kinds() const noexcept {
    const KinetoState kineto = kineto_.load();
    return is_by_kind_.load() || (mode() == Mode::kReady && kineto != KinetoState::kAbsent) ||
           (call_source() == CallSource::kRecords && kineto == KinetoState::kIdle);
  }
  // CUPTI was called for the first time when the process may have captured graphs.
  bool has_begun_late() const noexcept { return attach_ == Attach::kWhenWanted && has_given(); }
  // Kernels were recorded in this process, by this one, one before or PyTorch's profiler (of which a profile that
  // nobody saw is not known): what that leaves behind is there.
  bool has_recorded() const noexcept { return surroundings_.has_recorded->load(std::memory_order_relaxed); }
  // In words, why it does not record or records less; "" while all is well.
  std::string Reason() const;
  // Why nothing can be recorded, and what to do about it; "" if it can.
  std::string WhyNothing() const;
  // Who may have our place where no buffer is asked for, and what to do about it.
  std::string WhySilent() const;

  bool is_closed() const noexcept { return until_exit_.is_closed(); }

  // CUPTI says what it does: that it is lost, that a graph becomes executable.
  void OnState(uint32_t callback_id) noexcept;
  void OnResource(uint32_t callback_id) noexcept;

 private:
  KinetoState AskKineto();
  Status TakeWhenWanted();
  Status Take(bool is_back);
  Status Subscribe(KinetoState kineto);
  Result RegisterCallbacks(bool is_again);
  void DisableAll();
  void Release();
  void HandBack(KinetoState kineto);
  void Unsubscribe();
  void Apply();
  bool IsLongIdle() const;
  bool HasNotBegun() const { return kineto_.load() == KinetoState::kUnused; }
  void Register();
  void RegisterAgain();
  void EnableAgain();
  bool IsEnabled(uint32_t kind) const { return (enabled_ >> kind & 1) != 0; }
  void Enable(uint32_t kind, bool on);
  void LeaveGraphLevel();
  void EnableCalls(uint8_t level, bool is_look = false);
  void EnableCallKinds(uint8_t level);
  void TakeWholeKinds();
  void SwitchCall(const ApiCalls::Id& id, bool on);
  Result EnableCallRecords(const ApiCalls::Id& id, bool on);
  Result EnableCallback(Domain domain, uint32_t callback_id, bool on);
  void Fail(const char* what, Result result);
  void NoteMissing(const char* what, Result result);
  void SetReason(std::string reason, const char* remedy = nullptr);

  const Api& api_;
  UntilExit& until_exit_;
  ApiCalls& calls_;
  const Callbacks callbacks_;
  const Surroundings surroundings_;

  Attach attach_ = Attach::kAtStart;
  int64_t idle_since_ns_ = 0;  // if it is kIdle
  CudaState cuda_ = CudaState::kUntouched;
  Subscriber subscriber_ = nullptr;
  bool has_graph_level_ = false;  // it was switched on before the process used CUDA, and no graph was made without it
  uint64_t enabled_ = 0;          // kinds, by bit
  uint8_t calls_level_ = 0;       // of ApiCalls::SetLevel; what CUPTI was asked for
  Depth wanted_ = Depth::kScopes;
  bool takes_any_cost_ = false;
  bool has_call_records_ = false;  // they were on when the process first used CUDA
  bool is_settling_ = false;       // they are on until it does
  bool is_looking_ = false;
  bool is_silent_ = false;
  bool is_put_off_ = false;       // the first call, until PyTorch's profiler is long idle
  bool is_waiting_ = false;       // for each graph to be launched once with nothing recorded
  int64_t without_since_ns_ = 0;  // since when
  uint32_t reclaimed_ = 0;
  int64_t reclaimed_ns_ = 0;  // the last time

  mutable std::mutex reason_mutex_;
  std::string reason_;  // written under the mutex
  const char* remedy_ = nullptr;

  std::atomic<KinetoState> kineto_{KinetoState::kAbsent};
  std::atomic<Mode> mode_{Mode::kOff};
  std::atomic<CallSource> source_{CallSource::kNone};
  std::atomic<Depth> effective_{Depth::kScopes};
  std::atomic<bool> is_fatal_{false};
  // Records of single calls cannot be had: whole kinds, without the calls not wanted.
  std::atomic<bool> is_by_kind_{false};
  std::atomic<bool> has_given_{false};
  std::atomic<uint32_t> registrations_{0};
  std::atomic<bool> is_graph_trace_on_{false};
  std::atomic<bool> has_unsafe_graphs_{false};  // executable ones, made while graph level was off
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_CONTROL_H_
