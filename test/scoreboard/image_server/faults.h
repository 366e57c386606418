// SPDX-License-Identifier: Apache-2.0
//
// Faults on purpose: causes of slowness in real servers, injected into a share of the requests. The log records each
// injection.
#ifndef PITOT_TEST_SCOREBOARD_IMAGE_SERVER_FAULTS_H_
#define PITOT_TEST_SCOREBOARD_IMAGE_SERVER_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "scoreboard/fault_doses.h"
#include "scoreboard/fault_schedule.h"
#include "scoreboard/io_faults.h"

namespace image_server {

using scoreboard::Fault;
using scoreboard::FaultOptions;

enum FaultKind : size_t {
  kSlowDecodeSpin,   // the decoder burns CPU
  kSlowDecodeSleep,  // the decoder sleeps
  kLockHeld,         // the request holds a lock of all requests
  kBatchTimeout,     // a batch waits too long for members
  kFsync,            // the handler writes and syncs a file
  kPageFaults,       // the decoder touches memory for the first time
  kCpuSpinners,      // other threads burn CPU
  kMajorFaults,      // the decoder reads memory from disk
  kSlowPostprocess,  // the handler burns CPU after the network
  kUnhookedHop,      // the handler has another thread do something, and nobody records it
  kDecodeAgain,      // the picture is decoded once more
  // For batches: gpu_faults.h.
  kMemoryLeak,  // a tensor is never freed
  // The same, on a GPU.
  kSmallCopies,     // many copies of 4 KiB to the device
  kPageableCopy,    // an asynchronous copy of pageable memory
  kSyncEach,        // a synchronisation after each of many kernels
  kScalarReadback,  // a number read back after each of many kernels
  kDeviceMalloc,    // cudaMalloc and cudaFree
  kLazyKernel,      // a kernel for the first time
  kTinyKernels,     // many short kernels
  kFullQueue,       // more launches than a stream holds
  kSharedStream,    // another request's work on the same stream
  kNeighbour,       // another request's work on another stream
  kEmptyCache,      // an impossible allocation, for which LibTorch gives back its cache
};
inline constexpr size_t kFaultKinds = 23;

const char* FaultName(FaultKind kind);

// As scoreboard::ParseFault, of these.
Fault ParseFault(std::string_view text);

// Threads: any.
class Faults : public scoreboard::FaultSchedule {
 public:
  // Throws std::runtime_error when the log cannot be opened, std::invalid_argument when a kind is given twice.
  explicit Faults(const FaultOptions& options);

  // The places of faults in the server. `request` is the id for the log.
  void InDecode(uint64_t request);  // slow_decode_spin, slow_decode_sleep, page_faults, major_faults
  // decode_again: `decode` decodes once more.
  void AfterDecode(uint64_t request, const std::function<void()>& decode);
  void InCache(uint64_t request);        // lock_held; stands for the look-up in a shared cache
  void InHandler(uint64_t request);      // fsync, cpu_spinners
  void InPostprocess(uint64_t request);  // slow_postprocess
  void BetweenScopes(uint64_t request);  // unhooked_hop

  // batch_timeout: the delay of the next batch. BatchWaited logs its members, in order of arrival: their batch closed
  // at closed_ns, later than normal_ns allows. A member that came after the normal end would have waited in the next
  // batch.
  struct Member {
    uint64_t request, enqueued_ns;
  };
  uint64_t BatchDelayNs(uint64_t normal_ns);
  void BatchWaited(std::span<const Member> members, uint64_t normal_ns, uint64_t closed_ns);
  // Not faults, as FaultLog::WriteDelays. Slept: sleep in code of this thread since `begun` (HttpDelays logs its waits
  // for a CPU). HandedOver: the answer was ready before its handler woke up.
  void Slept(uint64_t request, const scoreboard::ThreadUse& begun);
  // CPU time of this thread since `begun`, to make a picture of so many pixels ready for the network.
  void Preprocessed(uint64_t request, const scoreboard::ThreadUse& begun, uint64_t pixels);
  void HandedOver(uint64_t request, uint64_t ready_ns, uint64_t woken_ns);
  // The request waited for the lock of the batcher's queue.
  void LockWaited(uint64_t request, uint64_t submitted_ns, uint64_t enqueued_ns);

 private:
  void ReadColdFile(uint64_t request);

  const std::string directory_;
  scoreboard::HeldLock cache_lock_{"cache"};
  scoreboard::Spinners spinners_;
  std::once_flag mapped_once_;
  std::unique_ptr<scoreboard::MappedFile> mapped_;  // once major_faults has struck
};

}  // namespace image_server

#endif  // PITOT_TEST_SCOREBOARD_IMAGE_SERVER_FAULTS_H_
