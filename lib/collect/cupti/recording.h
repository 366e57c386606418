// SPDX-License-Identifier: Apache-2.0
//
// The collector's thread, "pitot-cupti", and everything it works on. It alone calls CUPTI, except for questions inside
// CUPTI's own callbacks (stream_ids.h, graph_scopes.h). Other threads give it orders, and wait for them as long as
// their patience lasts. So a hanging call of CUPTI costs them that time, once. Later orders are answered at once while
// it hangs, and done when it returns. The thread keeps this alive.
#ifndef PITOT_LIB_COLLECT_CUPTI_RECORDING_H_
#define PITOT_LIB_COLLECT_CUPTI_RECORDING_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "collect/cupti/clock_pairs.h"
#include "collect/cupti/collector.h"
#include "collect/cupti/decode.h"
#include "collect/cupti/driver.h"
#include "collect/cupti/engine.h"
#include "collect/cupti/history.h"
#include "collect/cupti/last_work.h"

namespace pitot::cupti {

// Whether a collector that was stopped while CUPTI hung still waits for it: none can be added until then.
bool IsLeftBehind() noexcept;

inline constexpr double kAnyLastingCost = 100;  // percent

class Recording {
 public:
  // The options must be valid. `attach`: as Control::Start's. Throws bad_alloc.
  Recording(const CuptiOptions& options, const Environment& environment, Attach attach);

  // Claims CUPTI for this recording, until Release. Errors: kAlreadyRunning, kUnavailable.
  static Status Claim() noexcept;
  void Release() noexcept;
  // Sets the depth fixed by the host, or kAuto. Before Open, and for the next SetDepth.
  void ExpectDepth(Depth depth) noexcept { expected_.store(depth, std::memory_order_relaxed); }
  // Finds the library. Throws bad_alloc.
  Status Open();
  // The thread's work, from taking CUPTI to releasing it after End.
  void Run() noexcept;

  // For other threads. Waits for CUPTI's answer to being taken.
  Status AwaitStart() noexcept;
  // Has the thread hand CUPTI back and end.
  void End() noexcept;
  // Called if the thread did not end: until it does, nobody else may claim CUPTI.
  void LeaveBehind() noexcept;
  void SetDepth(Depth depth) noexcept;
  // As Control's. Errors: also kUnavailable, if CUPTI does not answer.
  Status Pause() noexcept;
  Status Resume() noexcept;
  uint32_t Depths() const noexcept;
  // Limit for buffers, records, names and the scopes of graphs' nodes together.
  uint64_t memory_bytes() const noexcept { return memory_bytes_; }
  // Limit for the rows of an incident.
  uint64_t incident_bytes() const noexcept { return memory_bytes_ / 2; }
  // How long CUPTI has not answered; 0: it answers.
  int64_t HangingNs() const noexcept;

  // As the collector's.
  void Keep(int64_t begin_ns) noexcept;
  void AddTo(TraceBuilder& trace);

 private:
  struct DepthChange {
    int64_t at_ns;
    Depth depth;
    bool is_heard;  // CUPTI has asked for or given back a buffer since, or nobody can be in the way
  };
  struct ClockStep {
    int64_t at_ns;     // when it was noticed
    int64_t by_ns;     // of CLOCK_REALTIME
    uint64_t records;  // that could not be placed
    int64_t until_ns;  // when the last of them was decoded
  };
  // The later of two orders of a kind counts.
  struct Orders {
    std::optional<Depth> depth;
    Status (Control::*hand)() noexcept = nullptr;  // Pause or Resume
  };

  // How deeply the kept window was recorded.
  enum class Kept : uint8_t { kShallow, kUnheard, kDeep };

  // Called by other threads.
  Status Order(const Orders& orders) noexcept;
  // A refused CUPTI is given back by then.
  bool IsStartKnown() const noexcept PITOT_REQUIRES(mutex_) { return has_taken_ && (taken_.ok() || is_over_); }
  bool IsRoundAsked(uint64_t after) const noexcept PITOT_REQUIRES(mutex_) {
    return is_ending_ || rounds_asked_ != after;
  }
  // False: not within this time.
  bool AwaitOrder(uint64_t order, int64_t ns) noexcept PITOT_REQUIRES(mutex_);
  bool AwaitRound(uint64_t round, int64_t ns) noexcept PITOT_REQUIRES(mutex_);
  Kept AddDepths(TraceBuilder& trace);
  void AddMissing(TraceBuilder& trace) const;
  std::string WhyNoKernels(Kept kept) const;
  void AddReasons(TraceBuilder& trace, Kept kept, bool has_bare_nodes);
  void AddLastingCost(TraceBuilder& trace);
  std::string Forecast(bool is_there) const;
  void AddClockSteps(TraceBuilder& trace);
  std::map<uint32_t, DeviceFacts> Devices();
  bool TakesAnyCost() const noexcept;
  bool MayRecord() const noexcept;

  // Called by the thread.
  Status Take();
  void Work() noexcept;
  void Wait(uint64_t round, int64_t due_ns) noexcept;
  void Obey() noexcept;
  void NoteDepth() noexcept;
  void NoteHeard(const BufferCounts& counts) noexcept;
  void NoteUnheard(int64_t since_ns, int64_t registered_ns) noexcept;
  // Notes that the thread is at work, and no longer in its call before.
  void Mark() noexcept;
  void Round(int64_t now_ns);
  void ReadClocks();
  void NoteUnplaced(uint64_t records, int64_t now_ns);
  void WriteOffBuffers(int64_t now_ns, bool switched);
  void DecodeAll(int64_t now_ns);
  void DecodeBuffer(const uint8_t* buffer, uint64_t valid, int64_t now_ns);
  void AddDecoded();
  void NoteLosses(const BufferCounts& counts, int64_t now_ns);
  void PayForTables() noexcept;
  void NoteDevice(uint32_t device);
  void TakeCalls();
  void LookForSilence(int64_t now_ns);
  void LookForLongSilence(int64_t now_ns) noexcept;
  void ForecastLastingCost(int64_t now_ns);

  const std::string library_;
  const uint64_t memory_bytes_;
  const bool graph_level_;
  const Attach attach_;
  const double lasting_cost_percent_;
  const Environment environment_;
  Api api_;
  Engine* engine_ = nullptr;
  Control* control_ = nullptr;  // the engine's: CUPTI may be in a callback forever
  std::unique_ptr<History> history_;
  Tables tables_;
  LastWork last_work_{&tables_};

  // Used by the thread.
  ClockPairs pairs_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<GpuRecord> decoded_;
  uint64_t paid_bytes_ = 0;
  int64_t forgot_ns_ = 0, buffer_seen_ns_ = 0, recorded_ns_ = 0;
  int64_t silent_since_ns_ = 0, silence_noted_ns_ = 0;  // next to LibTorch: no buffer, while kernels could have come
  BufferCounts before_, seen_;
  uint64_t missed_before_ = 0, forgotten_before_ = 0;  // calls and nodes, counted by the engine
  int64_t withheld_ns_ = INT64_MAX;                    // since when, by the pool, after the last round
  bool has_flushed_ = true;                            // CUPTI has handed over all it had
  uint64_t bad_seen_ = 0, unreadable_seen_ = 0, unplaced_seen_ = 0, submissions_seen_ = 0;
  int64_t awaited_since_ns_ = 0;  // for calls
  int64_t look_due_ns_ = 0, look_begin_ns_ = 0, write_off_ns_ = INT64_MAX;
  bool is_looking_ = false;
  uint32_t registrations_seen_ = 0;
  uint32_t asked_seen_ = 0;
  uint64_t heard_ = 0;  // buffers asked for and given back, when the depth changed

  std::atomic<int64_t> drained_ns_{0};      // until when all of CUPTI's records are decoded
  std::atomic<int64_t> marked_ns_{0};       // 0: the thread waits for work
  std::atomic<bool> may_begin_{false};      // its work may be CUPTI's first calls, which take longer
  mutable std::atomic<uint32_t> asked_{0};  // how often Depths was called
  std::atomic<Depth> expected_{Depth::kAuto};
  std::atomic<bool> awaits_calls_{false};    // work came, and CUPTI was asked for records of its calls
  std::atomic<double> lasting_percent_{-1};  // the forecast; below 0: unknown
  std::atomic<int64_t> clock_error_ns_{0};   // of the clock readings used for conversion

  base::Mutex mutex_;  // not held in any call of CUPTI
  base::CondVar changed_;
  bool has_taken_ PITOT_GUARDED_BY(mutex_) = false;
  bool is_ending_ PITOT_GUARDED_BY(mutex_) = false, is_over_ PITOT_GUARDED_BY(mutex_) = false;
  Status taken_ PITOT_GUARDED_BY(mutex_);
  Status answer_ PITOT_GUARDED_BY(mutex_);  // to Pause and Resume
  Orders orders_ PITOT_GUARDED_BY(mutex_);
  uint64_t ordered_ PITOT_GUARDED_BY(mutex_) = 0, obeyed_ PITOT_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_asked_ PITOT_GUARDED_BY(mutex_) = 0, rounds_done_ PITOT_GUARDED_BY(mutex_) = 0;
  bool is_round_whole_ PITOT_GUARDED_BY(mutex_) = true;  // the last one done
  std::deque<DepthChange> depths_ PITOT_GUARDED_BY(mutex_);
  std::deque<ClockStep> clock_steps_ PITOT_GUARDED_BY(mutex_);
  std::map<uint32_t, DeviceFacts> devices_ PITOT_GUARDED_BY(mutex_);  // of all devices with records
  DecodeCounts counts_ PITOT_GUARDED_BY(mutex_);
  uint64_t names_refused_ PITOT_GUARDED_BY(mutex_) = 0, shapes_refused_ PITOT_GUARDED_BY(mutex_) = 0,
                          streams_refused_ PITOT_GUARDED_BY(mutex_) = 0;

  // From Keep to AddTo.
  History::Pinned pinned_;
  int64_t kept_begin_ns_ = 0, kept_end_ns_ = 0;
  int64_t missing_from_ns_ = 0;   // until kept_end_ns_; 0: nothing is
  const char* why_missing_ = "";  // a literal
  int64_t withheld_from_ns_ = 0;  // by CUPTI, likewise
  int64_t deep_until_ns_ = 0;     // end of the part recorded deeply
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_RECORDING_H_
