// SPDX-License-Identifier: Apache-2.0
//
// Faults of batches by LibTorch: work on the GPU, or waits for it, before the network runs; and leaked memory, for
// which no GPU is needed.
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

  // Makes the faults of the batch of these requests, on its worker's thread. Logs for each request the time until the
  // GPU was done. The first draw of a fault warms up and has no line: loading code belongs to lazy_kernel only.
  // empty_cache does not warm up. On a CPU: memory_leak only.
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
  // batch waits for nothing of the host for it. One at a time: batches that begin meanwhile are struck, too.
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
  struct Torch;  // members of LibTorch's types
  const std::unique_ptr<Torch> torch_;
  std::mutex leaked_mutex_;
  uint64_t leaked_bytes_ = 0;        // guarded by leaked_mutex_, as Torch::leaked
  std::atomic<uint32_t> warmed_{0};  // a bit for each drawn FaultKind
  std::atomic<size_t> loaded_{0};    // kernels used by LazyKernel
  std::mutex neighbour_mutex_;
  std::condition_variable neighbour_changed_;
  std::optional<Visit> visit_;  // until it is over; guarded by neighbour_mutex_, as those
  bool is_over_ = false;
  std::thread neighbour_;
};

}  // namespace image_server

#endif  // PITOT_TEST_SCOREBOARD_IMAGE_SERVER_GPU_FAULTS_H_
