// SPDX-License-Identifier: Apache-2.0
#include <ATen/Version.h>
#include <torch/version.h>

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "base/message.h"
#include "collect/torch/operators.h"
#include "collect/torch/version.h"
#include "pitot/collect/torch.h"

namespace pitot::libtorch {
namespace {

// LibTorch calls functions without a context: there can be one.
constinit std::atomic<bool> g_is_taken{false};

class TorchCollector final : public Collector {
 public:
  explicit TorchCollector(const TorchOptions& options)
      : detail_(options.shapes ? Detail::kShapes : Detail::kOperators) {}
  ~TorchCollector() override { TorchCollector::Stop(); }

  const char* Name() const noexcept override { return "torch"; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  Depth Deepest() const noexcept override { return is_running_.load() ? Depth::kOps : Depth::kScopes; }
  void SetDepth(Depth depth) noexcept override;
  void Keep(int64_t) noexcept override {}  // all is in the threads' rings
  void AddTo(TraceBuilder& trace) override;

 private:
  Status Open();

  const Detail detail_;
  std::atomic<bool> is_running_{false};
  std::optional<Operators> operators_;
};

Status TorchCollector::Open() {
  if (Status status = CheckVersion(TORCH_VERSION, VersionIn(at::show_config())); !status.ok()) return status;
  operators_.emplace();
  return {};
}

Status TorchCollector::Start() noexcept {
  if (g_is_taken.exchange(true)) return Status(StatusCode::kAlreadyRunning, "LibTorch is recorded already");
  Status status;
  try {
    status = Open();
  } catch (const std::exception& e) {
    status = base::Error(StatusCode::kUnavailable, "LibTorch does not call us: %s", e.what());
  }
  if (!status.ok()) g_is_taken.store(false);
  is_running_.store(status.ok());
  return status;
}

void TorchCollector::Stop() noexcept {
  if (!is_running_.exchange(false)) return;
  try {
    operators_.reset();
  } catch (const std::exception&) {
    // What it still calls records nothing: the gate is closed.
  }
  g_is_taken.store(false);
}

void TorchCollector::SetDepth(Depth depth) noexcept {
  if (!is_running_.load()) return;
  try {
    operators_->Record(depth >= Depth::kOps ? detail_ : Detail::kRanges);
  } catch (const std::exception&) {
    // As it was. The next time.
  }
}

void TorchCollector::AddTo(TraceBuilder& trace) { trace.AddAttribute("torch.version", TORCH_VERSION); }

}  // namespace
}  // namespace pitot::libtorch

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeTorchCollector(const TorchOptions& options) noexcept {
  return std::unique_ptr<Collector>(new (std::nothrow) libtorch::TorchCollector(options));
}

PITOT_NAMESPACE_END
