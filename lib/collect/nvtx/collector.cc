// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/message.h"
#include "base/safe_read.h"
#include "collect/nvtx/abi.h"
#include "collect/nvtx/capture.h"
#include "collect/nvtx/claim.h"
#include "collect/nvtx/mirror.h"
#include "pitot/collect/nvtx.h"
#include "trace/manual.h"
#include "trace/names.h"
#include "trace/process.h"

namespace pitot::nvtx {
namespace {

using base::Error;

// The fork epoch of the running collector, plus one: a child does not inherit its parent's collector.
constinit std::atomic<uint32_t> g_taken_by{0};

class NvtxCollector final : public Collector {
 public:
  explicit NvtxCollector(const NvtxOptions& options) : options_(options) {}
  ~NvtxCollector() override { NvtxCollector::Stop(); }

  const char* Name() const noexcept override { return "nvtx"; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  void Keep(int64_t, KeepFor) noexcept override {
    if (is_capturing_) FindRangesUnderWay(&under_way_);
  }
  void AddTo(TraceBuilder& trace) override;

 private:
  Status Open();
  Status OpenBesideTool(const char* tool);

  const NvtxOptions options_;
  uint32_t taken_by_ = 0;  // the value of g_taken_by while this one runs; 0: it does not
  bool is_capturing_ = false, is_mirroring_ = false;
  uint64_t cut_before_ = 0;
  std::string missed_, tool_;
  std::vector<RangeUnderWay> under_way_;  // when the rings were copied
};

Status NvtxCollector::Start() noexcept {
  const uint32_t us = trace::ForkEpoch() + 1;
  if (g_taken_by.exchange(us) == us)
    return Status(StatusCode::kAlreadyRunning, "this process has an NVTX collector already");
  Status status;
  try {
    status = Open();
  } catch (const std::exception& e) {
    status = Error(StatusCode::kResourceExhausted, "cannot start the NVTX collector: %s", e.what());
  }
  if (status.ok())
    taken_by_ = us;
  else
    g_taken_by.store(0);
  return status;
}

Status NvtxCollector::Open() {
  const Claim claim = WhoseClaim();
  if (claim == Claim::kAnothers) return OpenBesideTool(std::getenv(abi::kVariable));
  if (!options_.capture) return {};
  // Before libraries can find us: their events are captured from now on.
  missed_ = base::CanReadMemory() ? MissedObjects() : "not known: this process may not read its own memory (seccomp)";
  cut_before_ = trace::RangesCut();
  under_way_.reserve(kMaxRangesUnderWay);
  BeginCapture();
  if (claim == Claim::kFree) {
    if (Status status = TakeClaim(); !status.ok()) {
      EndCapture();
      return status;
    }
  }
  is_capturing_ = true;
  return {};
}

Status NvtxCollector::OpenBesideTool(const char* tool) {
  if (!options_.mirror_scopes)
    return Error(StatusCode::kUnavailable, "%s=%s: NVTX goes to that tool, and none is captured", abi::kVariable, tool);
  tool_ = tool;
  Status status = BeginMirror(tool);
  is_mirroring_ = status.ok();
  return status;
}

void NvtxCollector::Stop() noexcept {
  const uint32_t us = std::exchange(taken_by_, 0);
  if (us == 0 || us != trace::ForkEpoch() + 1) return;
  if (is_capturing_) EndCapture();
  if (is_mirroring_) EndMirror();
  g_taken_by.store(0);
}

// Lists the ranges, the oldest first: "forward (TensorRT), and 3 more".
std::string TextOf(std::vector<RangeUnderWay>* ranges) {
  constexpr size_t kMost = 8;
  std::sort(ranges->begin(), ranges->end(), [](const auto& a, const auto& b) { return a.begin_ticks < b.begin_ticks; });
  std::string text;
  for (size_t i = 0; i < std::min(ranges->size(), kMost); ++i)
    text += (i != 0 ? ", " : "") + std::string(trace::NameText((*ranges)[i].name)) + " (" +
            std::string(trace::NameText((*ranges)[i].domain)) + ")";
  return ranges->size() > kMost ? text + ", and " + std::to_string(ranges->size() - kMost) + " more" : text;
}

void NvtxCollector::AddTo(TraceBuilder& trace) {
  const auto say = [&](const char* key, const std::string& value) {
    if (!value.empty()) trace.AddAttribute(key, value.c_str());
  };
  if (is_mirroring_) say("nvtx.tool", tool_ + ": NVTX goes to that tool; Pitot captures none and mirrors its scopes");
  if (!is_capturing_) return;
  say("nvtx.captured", AttachedObjects());
  say("nvtx.missed", missed_);
  const Counts& counts = GetCounts();
  const auto count = [&](const char* key, uint64_t number) {
    if (number != 0) say(key, std::to_string(number));
  };
  count("nvtx.names_folded", counts.names_folded.load(std::memory_order_relaxed));
  count("nvtx.domains_folded", counts.domains_folded.load(std::memory_order_relaxed));
  count("nvtx.unknown_handles", counts.unknown_handles.load(std::memory_order_relaxed));
  count("nvtx.bad_attributes", counts.bad_attributes.load(std::memory_order_relaxed));
  count("nvtx.payloads_unknown", counts.payloads_unknown.load(std::memory_order_relaxed));
  count("nvtx.pops_without_push", counts.pops_without_push.load(std::memory_order_relaxed));
  count("nvtx.ends_without_start", counts.ends_without_start.load(std::memory_order_relaxed));
  count("nvtx.starts_refused", counts.starts_refused.load(std::memory_order_relaxed));
  count("nvtx.never_popped", trace::RangesCut() - cut_before_);
  say("nvtx.under_way", TextOf(&under_way_));
}

}  // namespace
}  // namespace pitot::nvtx

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeNvtxCollector(const NvtxOptions& options) noexcept {
  return std::unique_ptr<Collector>(new (std::nothrow) nvtx::NvtxCollector(options));
}

PITOT_NAMESPACE_END
