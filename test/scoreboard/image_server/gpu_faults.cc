// SPDX-License-Identifier: Apache-2.0
//
// By LibTorch's device-neutral functions: it compiles without CUDA, whose own functions are looked up.
#include "scoreboard/image_server/gpu_faults.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "pitot/request.h"
#include "pitot/trace.h"
#include "scoreboard/clocks.h"
#include "server_common/reply.h"
#include "server_common/torch_device.h"

namespace image_server {
namespace {

using scoreboard::MonotonicNs;

constexpr int64_t kSmallFloats = 1024;  // 4 KiB
// Its square has more blocks than a GPU holds at once. Fewer leave room for others' kernels, which then do not wait.
constexpr int64_t kMatrix = 4096;
constexpr int64_t kMoreThanThereIs = int64_t{1} << 44;
constexpr uint64_t kMostLeakedBytes = uint64_t{1} << 30;  // the server must survive

template <class Function> Function Find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Waits for LibTorch's stream, the default one.
void Synchronize() {
  static const auto synchronize = Find<int (*)(void*)>("cudaStreamSynchronize");
  if (synchronize != nullptr) synchronize(nullptr);
}

}  // namespace

struct GpuFaults::Torch {
  const c10::Device device;
  std::vector<at::Tensor> leaked{};
};

GpuFaults::GpuFaults(Faults* faults, const std::string& device)
    : faults_(faults), torch_(new Torch{server_common::ChooseDevice(device)}) {}

void GpuFaults::BeforeNetwork(std::span<const uint64_t> requests) {
  MemoryLeak(requests);
  if (!torch_->device.is_cuda()) return;
  const c10::InferenceMode inference;
  Inject(kSmallCopies, requests, &GpuFaults::SmallCopies);
  Inject(kPageableCopy, requests, &GpuFaults::PageableCopy);
  Inject(kSyncEach, requests, &GpuFaults::SyncEach);
  Inject(kScalarReadback, requests, &GpuFaults::ScalarReadback);
  Inject(kDeviceMalloc, requests, &GpuFaults::DeviceMalloc);
  Inject(kLazyKernel, requests, &GpuFaults::LazyKernel);
  Inject(kTinyKernels, requests, &GpuFaults::TinyKernels);
  Inject(kFullQueue, requests, &GpuFaults::FullQueue);
  Inject(kEmptyCache, requests, &GpuFaults::EmptyCache);
  Neighbour(kSharedStream, Stream::kDefault, requests);
  Neighbour(kNeighbour, Stream::kOwn, requests);
}

GpuFaults::~GpuFaults() {
  {
    std::lock_guard lock(neighbour_mutex_);
    is_over_ = true;
  }
  neighbour_changed_.notify_one();
  if (neighbour_.joinable()) neighbour_.join();
}

void GpuFaults::Inject(FaultKind kind, std::span<const uint64_t> requests, void (GpuFaults::*dose)(const Fault&)) {
  Fault fault;
  if (!faults_->Draw(kind, &fault)) return;
  if (kind != kLazyKernel && kind != kEmptyCache && (warmed_.fetch_or(1U << kind) >> kind & 1U) == 0) {
    fault.dose_count = fault.dose_bytes = 1;
    (this->*dose)(fault);
    return Synchronize();
  }
  const uint64_t begin_ns = MonotonicNs();
  {
    PITOT_SCOPE("prepare");
    (this->*dose)(fault);
    Synchronize();
  }
  const uint64_t took_ns = MonotonicNs() - begin_ns;
  for (const uint64_t request : requests) faults_->Log(kind, begin_ns, request, took_ns);
}

void GpuFaults::SmallCopies(const Fault& fault) {
  const auto count = static_cast<int64_t>(fault.dose_count);
  const at::Tensor host = at::empty({count, kSmallFloats}, at::TensorOptions().pinned_memory(true));
  const at::Tensor on_gpu = at::empty({count, kSmallFloats}, torch_->device);
  for (int64_t i = 0; i < count; ++i) on_gpu[i].copy_(host[i], /*non_blocking=*/true);
}

void GpuFaults::PageableCopy(const Fault& fault) {
  const at::Tensor host = at::empty({static_cast<int64_t>(fault.dose_bytes)}, at::kByte);
  host.to(torch_->device, at::kByte, /*non_blocking=*/true);
}

void GpuFaults::SyncEach(const Fault& fault) {
  at::Tensor x = at::ones({kSmallFloats}, torch_->device);
  for (uint64_t i = 0; i < fault.dose_count; ++i) {
    x.add_(1);
    Synchronize();
  }
}

void GpuFaults::ScalarReadback(const Fault& fault) {
  at::Tensor x = at::ones({1}, torch_->device);
  for (uint64_t i = 0; i < fault.dose_count; ++i) x.add_(x.item<float>());
}

void GpuFaults::DeviceMalloc(const Fault& fault) {
  static const auto allocate = Find<int (*)(void**, size_t)>("cudaMalloc");
  static const auto release = Find<int (*)(void*)>("cudaFree");
  void* memory = nullptr;
  if (allocate != nullptr && release != nullptr && allocate(&memory, fault.dose_bytes) == 0) release(memory);
}

// Kernels unused by the network; each is new once. LibTorch brings them compiled, each in a file and so a module of its
// own. Kernels compiled at run time (lgamma, erfinv) take a CPU for half a second.
void GpuFaults::LazyKernel(const Fault&) {
  using Operation = at::Tensor (*)(const at::Tensor&);
  static constexpr std::array<Operation, 12> kOperations = {at::asinh, at::acosh, at::atanh, at::asin,
                                                            at::acos,  at::atan,  at::sinh,  at::cosh,
                                                            at::tan,   at::log1p, at::erfc,  at::frac};
  const size_t next = loaded_++;
  if (next < kOperations.size()) kOperations[next](at::ones({kSmallFloats}, torch_->device));
}

void GpuFaults::TinyKernels(const Fault& fault) {
  at::Tensor x = at::ones({kSmallFloats}, torch_->device);
  for (uint64_t i = 0; i < fault.dose_count; ++i) x.add_(1);
}

// More launches than a stream holds. The kernels take long enough for the host to get ahead.
void GpuFaults::FullQueue(const Fault& fault) {
  at::Tensor x = at::ones({int64_t{1} << 24}, torch_->device);
  for (uint64_t i = 0; i < fault.dose_count; ++i) x.add_(1);
}

// Before LibTorch refuses, it gives back its cache: the batch then has to ask the driver again.
void GpuFaults::EmptyCache(const Fault&) {
  try {
    at::empty({kMoreThanThereIs}, at::TensorOptions(torch_->device).dtype(at::kByte));
  } catch (const c10::Error&) {
    return;  // as it was meant
  }
}

// Memory is touched, or none is taken.
void GpuFaults::MemoryLeak(std::span<const uint64_t> requests) {
  Fault fault;
  if (!faults_->Draw(kMemoryLeak, &fault)) return;
  const uint64_t begin_ns = MonotonicNs(), cpu_ns = scoreboard::ThreadCpuNs();
  std::string more;
  {
    std::lock_guard lock(leaked_mutex_);
    if (leaked_bytes_ + fault.dose_bytes > kMostLeakedBytes) return;
    torch_->leaked.push_back(
        at::ones({static_cast<int64_t>(fault.dose_bytes)}, at::TensorOptions(torch_->device).dtype(at::kByte)));
    leaked_bytes_ += fault.dose_bytes;
    more = ",\"leaked_bytes\":" + std::to_string(leaked_bytes_);
  }
  const uint64_t took_ns = MonotonicNs() - begin_ns;
  more = scoreboard::CpuTaken(scoreboard::ThreadCpuNs() - cpu_ns) + more;
  for (const uint64_t request : requests) faults_->Log(kMemoryLeak, begin_ns, request, took_ns, more);
}

// Whom it strikes is logged when it is done, with how much longer it was there.
void GpuFaults::Neighbour(FaultKind kind, Stream stream, std::span<const uint64_t> requests) {
  std::lock_guard lock(neighbour_mutex_);
  Fault fault;
  if (!visit_.has_value()) {
    if (!faults_->Draw(kind, &fault)) return;
    if (!neighbour_.joinable()) {
      neighbour_ = std::thread([this] { ServeNeighbours(); });
      return;
    }
    visit_ = Visit{kind, stream, fault.dose_count, {}};
    neighbour_changed_.notify_one();
  }
  if (visit_->kind != kind) return;
  for (const uint64_t request : requests) visit_->victims.push_back({request, MonotonicNs()});
}

void GpuFaults::ServeNeighbours() {
  pitot::SetThreadName("neighbour");
  const c10::InferenceMode inference;
  const c10::impl::VirtualGuardImpl streams(torch_->device.type());
  const c10::Stream own = streams.getStreamFromGlobalPool(torch_->device);
  const auto multiply = [this](uint64_t count) {
    at::Tensor x = at::ones({kMatrix, kMatrix}, torch_->device);
    for (uint64_t i = 0; i < count; ++i) x = at::mm(x, x);
    x.max().item<float>();
  };
  multiply(1);
  std::unique_lock lock(neighbour_mutex_);
  while (true) {
    neighbour_changed_.wait(lock, [this] { return visit_.has_value() || is_over_; });
    if (is_over_) return;
    const Visit visit = *visit_;  // victims are added meanwhile, to visit_
    lock.unlock();
    const uint64_t begin_ns = MonotonicNs();
    pitot::Request request = pitot::Request::Begin("/neighbour");
    const uint64_t id = request.id();
    {
      PITOT_SCOPE("neighbour");
      std::optional<c10::StreamGuard> on_own;
      if (visit.stream == Stream::kOwn) on_own.emplace(own);
      multiply(visit.count);
    }
    const uint64_t end_ns = MonotonicNs();
    request.Finish(pitot::Outcome::kOk);
    const std::string more = ",\"holder\":\"" + server_common::RequestIdText(id) + "\"";
    lock.lock();
    for (const Victim& victim : visit_->victims) {
      const uint64_t since_ns = std::max(victim.since_ns, begin_ns);
      if (since_ns < end_ns) faults_->Log(visit.kind, since_ns, victim.request, end_ns - since_ns, more);
    }
    visit_.reset();
  }
}

}  // namespace image_server
