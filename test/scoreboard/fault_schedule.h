// SPDX-License-Identifier: Apache-2.0
//
// The faults of a server, their time and their victims: parses faults, draws victims, logs injections. The faults
// themselves are in fault_doses.h, their places in each server's faults.h.
#ifndef PITOT_TEST_SCOREBOARD_FAULT_SCHEDULE_H_
#define PITOT_TEST_SCOREBOARD_FAULT_SCHEDULE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scoreboard/clocks.h"
#include "scoreboard/fault_log.h"

namespace scoreboard {

// A kind of fault.
struct FaultKindInfo {
  const char* name;
  std::array<std::string_view, 2> keys;  // the doses it takes, besides rate
  bool needs_gpu = false;
};

struct Fault {
  size_t kind = 0;                          // index into the server's FaultKindInfos
  double rate = 0.1;                        // share of requests, or of batches
  uint64_t dose_ns = 40'000'000;            // how long
  uint64_t dose_bytes = uint64_t{1} << 20;  // how much
  uint64_t dose_tokens = 256;               // how many
  uint64_t dose_count = 1000;               // the same
  size_t threads = 0;                       // 0: one a CPU
  std::string text{};                       // it was parsed from
};

// Parses "NAME" or "NAME:rate=0.1,dose_ms=40"; the other keys are dose_bytes, dose_mib, dose_tokens, dose_count and
// threads, where the fault has them. Throws std::invalid_argument with a message for the user.
Fault ParseFault(std::span<const FaultKindInfo> kinds, std::string_view text);

// For the log: the CPU time of a fault, taken from others.
std::string CpuTaken(uint64_t ns);

struct FaultOptions {
  std::vector<Fault> faults{};  // at most one of a kind
  bool has_gpu = false;         // without, faults of a GPU are refused
  uint64_t seed = 1;
  double after_s = 0;  // inactive before, counted from Start
  double for_s = 0;    // inactive this long after that; 0: never ends
  std::string log_file{};
  std::string directory = "/tmp";  // for files of faults
  bool allow_control = false;      // POST /faultz
};

// Threads: any.
class FaultSchedule {
 public:
  // `kinds` outlives it. Throws std::runtime_error when the log cannot be opened, std::invalid_argument when a kind is
  // given twice, or needs a GPU and there is none.
  FaultSchedule(std::span<const FaultKindInfo> kinds, const FaultOptions& options);
  FaultSchedule(const FaultSchedule&) = delete;
  FaultSchedule& operator=(const FaultSchedule&) = delete;

  // Begins to count after_s.
  void Start();
  // Overrides the schedule from now on.
  void SetActive(bool is_active);
  // Replaces the faults; as the constructor.
  void SetFaults(const std::vector<Fault>& faults);
  bool is_active() const;
  std::vector<Fault> faults() const;
  std::span<const FaultKindInfo> kinds() const { return kinds_; }
  const char* NameOf(size_t kind) const { return kinds_[kind].name; }

  // Whether it may strike now.
  bool IsSet(size_t kind) const { return slots_[kind].is_set && is_active(); }
  // Whether the fault strikes now; `fault` gets its dose.
  bool Draw(size_t kind, Fault* fault);
  FaultLog& log() { return log_; }
  // Logs an injection and its dose. As FaultLog::Write.
  void Log(size_t kind, uint64_t time_ns, uint64_t request, uint64_t injected_ns, const std::string& more = {});

  // Draws; where it strikes, does `dose` and logs its time, its CPU time, and its place: R"(,"scope":"decode")".
  template <class Dose> void Inject(size_t kind, uint64_t request, const Dose& dose, const std::string& more = {}) {
    Fault fault;
    if (!Draw(kind, &fault)) return;
    const uint64_t begin_ns = MonotonicNs(), cpu_ns = ThreadCpuNs();
    dose(fault);
    const std::string taken = CpuTaken(ThreadCpuNs() - cpu_ns);
    Log(kind, begin_ns, request, MonotonicNs() - begin_ns, taken + more);
  }

 private:
  // Each kind draws from a sequence of its own, so that adding one leaves the others' victims as they were.
  struct Slot {
    std::atomic<bool> is_set{false};
    Fault fault;  // written only under faults_mutex_
    std::atomic<uint64_t> draws{0};
  };

  const std::span<const FaultKindInfo> kinds_;
  const bool has_gpu_;
  const uint64_t seed_;
  const double after_s_;
  const double for_s_;
  FaultLog log_;

  mutable std::mutex faults_mutex_;
  std::vector<Slot> slots_;
  std::atomic<uint64_t> active_from_ns_{UINT64_MAX};
  std::atomic<uint64_t> active_until_ns_{UINT64_MAX};
};

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_FAULT_SCHEDULE_H_
