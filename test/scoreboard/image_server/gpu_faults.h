// SPDX-License-Identifier: Apache-2.0
//
// Faults of batches by LibTorch: what one does to the GPU, or has to wait for, before its network runs; and memory that
// is never freed, which needs no GPU.
#ifndef PITOT_TEST_SCOREBOARD_IMAGE_SERVER_GPU_FAULTS_H_
#define PITOT_TEST_SCOREBOARD_IMAGE_SERVER_GPU_FAULTS_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "scoreboard/image_server/faults.h"

namespace image_server {

class GpuFaults {
 public:
  // `device`: auto, cpu or cuda. Throws std::runtime_error when it is not there.
  GpuFaults(Faults* faults, const std::string& device);
  ~GpuFaults();
  GpuFaults(const GpuFaults&) = delete;
  GpuFaults& operator=(const GpuFaults&) = delete;

  // On a worker's thread, in the batch of these requests: the faults that strike it, and a line of the log for each of
  // them with how long that took until the GPU was done. What the first time costs (code that is loaded) is of no such
  // fault but lazy_kernel: the first draw of each (not of empty_cache) warms up, and has no line. On a CPU: memory_leak
  // alone.
  void BeforeNetwork(std::span<const uint64_t> requests);

 private:
  void Inject(FaultKind kind, std::span<const uint64_t> requests, void (GpuFaults::*dose)(const Fault& fault));
  void SmallCopies(const Fault& fault);
  void PageableCopy(const Fault& fault);
  void SyncEach(const Fault& fault);
  void ScalarReadback(const Fault& fault);
  void DeviceMalloc(const Fault& fault);
  void LazyKernel(const Fault& fault);
  void TinyKernels(const Fault& fault);
  void FullQueue(const Fault& fault);
  void EmptyCache(const Fault& fault);
  void MemoryLeak(std::span<const uint64_t> requests);
  // Another request's work on the device, beside this batch's on a stream of its own, or before it on the same one. The
  // batch waits for nothing of the host for it. One at a time: batches that begin while it is there are struck, too.
  enum class Stream { kDefault, kOwn };
  struct Victim {
    uint64_t request;
    uint64_t since_ns;
  };
  struct Visit {
    FaultKind kind;
    Stream stream;
    uint64_t count;
    std::vector<Victim> victims;
  };
  void Neighbour(FaultKind kind, Stream stream, std::span<const uint64_t> requests);
  void ServeNeighbours();

  Faults* const faults_;
  struct Torch;  // what includes LibTorch
  const std::unique_ptr<Torch> torch_;
  std::mutex leaked_mutex_;
  uint64_t leaked_bytes_ = 0;        // guarded by leaked_mutex_, as Torch::leaked
  std::atomic<uint32_t> warmed_{0};  // a bit for each FaultKind that was drawn
  std::atomic<size_t> loaded_{0};    // of the kernels that LazyKernel uses for the first time
  std::mutex neighbour_mutex_;
  std::condition_variable neighbour_changed_;
  std::optional<Visit> visit_;  // until it is over; guarded by neighbour_mutex_, as those
  bool is_over_ = false;
  std::thread neighbour_;
};

}  // namespace image_server

#endif  // PITOT_TEST_SCOREBOARD_IMAGE_SERVER_GPU_FAULTS_H_
