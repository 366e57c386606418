// SPDX-License-Identifier: Apache-2.0
//
// Samples all GPUs of the process: starts each when the process first uses it, decodes its samples now and then, gives
// it away and takes it back. Where another process of this user samples a GPU, its samples are read instead. Belongs to
// one thread; its samples go to a History. CUPTI keeps the newest samples in a buffer of its own, so a late round loses
// only what that had no room for. While nobody needs samples, the sampler rests: it leaves them there, and afterwards
// fetches what CUPTI still has. Samples that a late round or a failed call cost are counted; while a GPU is given away,
// refused or sampled by others, or nobody needs samples, none is due.
#ifndef PITOT_LIB_COLLECT_COUNTERS_SAMPLER_H_
#define PITOT_LIB_COLLECT_COUNTERS_SAMPLER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/timer.h"
#include "base/until_exit.h"
#include "collect/counters/api.h"
#include "collect/counters/gpm.h"
#include "collect/counters/history.h"
#include "collect/counters/shared_file.h"
#include "pitot/status.h"

namespace pitot::counters {

struct SamplerOptions {
  std::string library;
  uint32_t interval_us = 0;  // 0: chosen
  double most_cpu_percent = 2;
};

// The world of the sampling thread.
struct Environment {
  std::shared_ptr<base::Timer> timer;
  std::function<std::vector<Gpu>()> find_gpus;
  std::function<int64_t()> cpu_ns;              // of the calling thread
  std::function<int64_t()> realtime_offset_ns;  // CLOCK_REALTIME less CLOCK_MONOTONIC
  // Whether the host has needed samples since the call before. Empty: always.
  std::function<bool()> is_needed;
  std::string shared_directory;           // of SharedFile; empty: nothing is shared
  std::optional<uint32_t> shared_user;    // whose processes get the samples; unset: this process's user
  std::string nvml;                       // its file; empty: GPM is not asked
  base::UntilExit* until_exit = nullptr;  // if it is closed, a round ends early; null: it never is
  bool is_only = false;                   // one collector in the process; tests let several stand for processes
  int64_t patience_ns = 2'000'000'000;    // of Stop, Pause and AddTo with the thread; real time
};

// A call of CUPTI to decode costs much by itself, however few samples there are (docs/lab/counters.md).
inline constexpr int64_t kRoundNs = 500'000'000;
// A GPU held by another profiler is asked for again after this.
inline constexpr int64_t kRetryNs = 10'000'000'000;
// After the end of another process's sampling, a GPU is asked for within this time, so that not all ask at once. While
// the driver has not freed it, it is asked for again each round, so many times.
inline constexpr int64_t kTakeoverNs = 1'000'000'000;
inline constexpr uint32_t kTakeoverTries = 10;
// If GPM fails, it is asked again after this.
inline constexpr int64_t kGpmRetryNs = 60'000'000'000;
inline constexpr uint32_t kFirstIntervalUs = 4'000, kLeastIntervalUs = 100, kMostIntervalUs = 1'000'000;
// Longer ones tell nothing of a slow request: then the thread takes more of the CPU instead.
inline constexpr uint32_t kMostChosenIntervalUs = 20'000;

// What a round is for. kTime: samples, if anybody needs them.
enum class RoundFor : uint8_t { kTime, kIncident, kPause };

class Sampler {
 public:
  Sampler(SamplerOptions options, const Environment& environment, History* history)
      : options_(std::move(options)), environment_(environment), history_(history) {}

  // One round. kPause gives all GPUs away. Throws bad_alloc.
  void Round(RoundFor what);
  // From the next round on; 0: chosen again.
  void SetInterval(uint32_t interval_us);
  // Whether anybody in this process needed samples in the last round.
  bool is_needed() const noexcept { return is_needed_; }
  // Grows while a round makes progress. Threads: any.
  uint64_t progress() const noexcept { return progress_.load(std::memory_order_relaxed); }
  // Whether another process's samples up to this moment are still to come.
  bool IsBehind(int64_t at_ns) const noexcept;
  // Takes the samples of GPM that are due.
  void SampleGpm();
  // When the next of them is; INT64_MAX: none.
  int64_t NextGpmNs() const noexcept;
  void Close() noexcept;
  // In place of Close, once the process exits: nothing is freed in the driver.
  void Abandon() noexcept;
  // Libraries that are in use by now, which may have registered exit handlers.
  uint32_t libraries() const noexcept { return libraries_; }
  // Ok, or how many calls failed in Close, and the newest.
  Status Closed() const;
  // Whether each GPU is sampled, and why not.
  void Visit(const std::function<void(const Gpu&, const GpuState&)>& visit) const;
  // Whether there is a GPU that this process may sample, now or later.
  bool IsAnyAllowed() const noexcept;

 private:
  struct SampledGpu {
    Gpu device;
    uint32_t row = 0;  // of the history
    GpuState state;
    int64_t retry_at_ns = 0;  // INT64_MAX: never
    HostConfig config;        // also for values
    void* sampler = nullptr;  // null: not sampling
    std::vector<uint8_t> availability, data;
    std::vector<Metric> metrics;
    std::vector<Sample> samples;  // of one decoding
    uint32_t room = 0;            // samples in `data`
    int64_t start_ns = 0;         // of sampling
    bool is_first = false;        // no sample has come since the start
    int64_t end_ns = 0;           // of the newest sample, a rest, or what is counted as lost; 0: none is due since then
    int64_t newest_ns = 0;        // end of the newest one in the history
    int64_t unknown_ns = 0;       // the last late decoding that failed without a reason; 0: none
    int64_t decoded_ns = 0;       // the last round that decoded, or the start
    int64_t rested_ns = 0;        // the last round of a rest; 0: there was none since samples were decoded
    int64_t offset_ns = 0;        // from CLOCK_MONOTONIC to CLOCK_REALTIME, in the last round

    std::unique_ptr<SharedFile> file;  // null: not shared
    std::vector<Sample> shared;        // in CLOCK_REALTIME
    bool has_sampled = false;          // this process was the last to, as far as it knows
    uint64_t session = 0;              // of the other sampler that is read; 0: none
    uint64_t next = 0, lost = 0;       // its next sample, and its losses
    int64_t needed_ns = 0;             // as its readers said last
    uint32_t tries = 0;                // left after its end
    std::string refusal;               // why this process never samples it; empty: it may

    std::unique_ptr<GpmGpu> gpm;  // null: it is not sampled by GPM
    int64_t gpm_retry_at_ns = 0;
    int64_t gpm_end_ns = 0;  // as end_ns, of GPM's samples
  };

  int64_t RealtimeNs() const { return now_ns_ + environment_.realtime_offset_ns(); }
  bool IsExiting() const { return environment_.until_exit != nullptr && environment_.until_exit->is_closed(); }
  void FindNewGpus();
  void GiveAway(SampledGpu* gpu, const std::string& why, SharedState state);
  void ReadShared(SampledGpu* gpu, const SharedView& view);
  void AskForSamples(SampledGpu* gpu);
  void SetRested(SampledGpu* gpu, int64_t from_ns, int64_t until_ns);
  // Notes the end of the sampler that was read.
  void EndReading(SampledGpu* gpu, const SharedView& view);
  void Share(SampledGpu* gpu, uint64_t lost);
  void StartGpm(SampledGpu* gpu);
  void FailGpm(SampledGpu* gpu, const std::string& why);
  void StopGpm(SampledGpu* gpu) noexcept;
  int64_t GpmIntervalNs() const noexcept;
  int64_t DrawNs(int64_t most_ns) noexcept;
  bool OpenLibrary();
  bool Initialize(SampledGpu* gpu);
  void Start(SampledGpu* gpu);
  void TryStart(SampledGpu* gpu);  // if it throws, some of CUPTI's objects may have been made
  bool Configure(SampledGpu* gpu, const char* chip);
  bool Begin(SampledGpu* gpu);
  // Leaves the samples to CUPTI for another round.
  void Rest(SampledGpu* gpu);
  void Decode(SampledGpu* gpu);
  bool MakeImage(SampledGpu* gpu, int64_t due);
  bool Clear(SampledGpu* gpu);
  Result DecodeAll(SampledGpu* gpu, void (Sampler::*use)(SampledGpu*, size_t count));
  // Whether CLOCK_REALTIME has stepped since the last round.
  bool HasClockStepped(const SampledGpu& gpu) const;
  // Hands decoded samples to the history.
  void Take(SampledGpu* gpu, size_t count);
  // Counts those among decoded samples that were due.
  void Drop(SampledGpu* gpu, size_t count);
  // Counts the samples that are due since the newest one.
  void CountMissing(SampledGpu* gpu);
  void Stop(SampledGpu* gpu);
  void FreeHost(SampledGpu* gpu);
  // Tells the others that this process does not sample the GPU, unless it may still hold it.
  void SetShared(SampledGpu* gpu, SharedState state);
  void SetNotRecorded(SampledGpu* gpu, const std::string& why);
  // Counts a failed call.
  void Note(SampledGpu* gpu, const Failure& failure);
  // Notes a failed call without which there are no samples, and what to do next. Returns false.
  bool Fail(SampledGpu* gpu, const Failure& failure);
  // This process never samples the GPU.
  void Refuse(SampledGpu* gpu, const std::string& why);
  void ChooseInterval();
  // Starts GPUs again that are sampled at another interval.
  void RestartChanged();
  bool IsChanged(const SampledGpu& gpu) const { return gpu.state.interval_us != interval_us_; }
  void TellGpm(SampledGpu* gpu);

  SamplerOptions options_;
  const Environment& environment_;
  History* const history_;
  Api api_{};
  enum class Library : uint8_t { kNotOpened, kOpen, kFailed } library_ = Library::kNotOpened;
  std::string library_failure_;
  bool is_initialized_ = false;
  uint32_t libraries_ = 0;
  GpmApi gpm_api_{};
  bool is_gpm_open_ = false;
  bool is_closing_ = false;
  uint64_t close_failures_ = 0;
  Status close_failure_;     // the newest
  std::string gpm_failure_;  // of the library
  std::deque<SampledGpu> gpus_;
  uint32_t interval_us_ = 0;
  std::atomic<uint64_t> progress_{0};
  bool is_needed_ = true;
  bool is_owed_ = false;  // a round for somebody's samples did not come to its end
  int64_t now_ns_ = 0;
  uint64_t drawn_ = 0;
  bool is_over_ = false;                              // the share of the CPU, when it was measured last
  int64_t measured_since_ns_ = 0, cpu_since_ns_ = 0;  // since the last choice of the interval
};

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_SAMPLER_H_
