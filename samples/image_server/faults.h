// SPDX-License-Identifier: Apache-2.0
//
// Faults on purpose: what makes real servers slow, injected into a share of the requests, with a record of what was
// really done to which one. A server of yours has no such file; it has the faults.
#ifndef SAMPLES_IMAGE_SERVER_FAULTS_H_
#define SAMPLES_IMAGE_SERVER_FAULTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "image_server/fault_log.h"
#include "pitot/wait.h"

namespace image_server {

enum class FaultKind : uint8_t {
  kSlowDecodeSpin,   // the decoder burns CPU
  kSlowDecodeSleep,  // the decoder sleeps
  kLockHeld,         // the request keeps a lock that every request takes
  kBatchTimeout,     // a batch waits too long for members
  kFsync,            // the handler writes and syncs a file
  kPageFaults,       // the decoder touches memory for the first time
  kCpuSpinners,      // other threads burn CPU
};
inline constexpr size_t kFaultKinds = 7;

struct Fault {
  FaultKind kind = FaultKind::kSlowDecodeSpin;
  double rate = 0.1;                        // share of requests (of batches: batch_timeout) that it is done to
  uint64_t dose_ns = 40'000'000;            // how long
  uint64_t dose_bytes = uint64_t{1} << 20;  // how much: fsync, page_faults
  size_t threads = 0;                       // cpu_spinners; 0: one a CPU
};

const char* FaultName(FaultKind kind);

// Parses "NAME" or "NAME:rate=0.1,dose_ms=40"; the other keys are dose_bytes, dose_mib and threads, where the fault has
// them. Throws std::invalid_argument with a message for the user.
Fault ParseFault(std::string_view text);

struct FaultOptions {
  std::vector<Fault> faults{};  // at most one of a kind
  uint64_t seed = 1;
  double after_s = 0;  // inactive before, counted from Start
  double for_s = 0;    // inactive this long after that; 0: never ends
  std::string log_file{};
  std::string directory = "/tmp";  // of fsync
};

// Threads: any.
class Faults {
 public:
  // Throws std::runtime_error when the log cannot be opened, std::invalid_argument when a kind is given twice.
  explicit Faults(const FaultOptions& options);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // Begins to count after_s.
  void Start();
  // Overrides the schedule from now on.
  void SetActive(bool is_active);
  // Replaces the faults; as the constructor.
  void SetFaults(const std::vector<Fault>& faults);
  bool is_active() const;
  std::vector<Fault> faults() const;

  // Where the server lets faults happen. `request` is the id that the log gets.
  void InDecode(uint64_t request);   // slow_decode_spin, slow_decode_sleep, page_faults
  void InCache(uint64_t request);    // lock_held; stands for the look-up in a cache that all requests share
  void InHandler(uint64_t request);  // fsync, cpu_spinners

  // batch_timeout: the delay for the next batch; and that a member with this id waited until closed_ns in a batch that
  // should have closed at should_close_ns.
  uint64_t BatchDelayNs(uint64_t normal_ns);
  void BatchWaited(uint64_t request, uint64_t should_close_ns, uint64_t closed_ns);

 private:
  // Each kind draws from a sequence of its own, so that adding one leaves the others' victims as they were.
  struct Slot {
    std::atomic<bool> is_set{false};
    Fault fault;  // written only under faults_mutex_
    std::atomic<uint64_t> draws{0};
  };
  bool Draw(FaultKind kind, Fault* fault);
  void SpinBeside(uint64_t request, const Fault& fault);

  const uint64_t seed_;
  const double after_s_;
  const double for_s_;
  const std::string directory_;
  FaultLog log_;

  mutable std::mutex faults_mutex_;
  std::array<Slot, kFaultKinds> slots_;
  std::atomic<uint64_t> active_from_ns_{UINT64_MAX};
  std::atomic<uint64_t> active_until_ns_{UINT64_MAX};

  pitot::Mutex cache_mutex_{"cache"};
  // Guarded by cache_mutex_: the request that last kept the lock on purpose, and until when.
  uint64_t cache_holder_ = 0;
  uint64_t cache_held_until_ns_ = 0;

  std::atomic<bool> is_spinning_{false};
  std::mutex spinner_mutex_;
  std::thread spinner_;
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_FAULTS_H_
