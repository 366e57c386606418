// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/last_memory.h"

#include <string>
#include <utility>

#include "pitot/collect/torch.h"
#include "trace/clock.h"

namespace pitot::libtorch {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// These are not the counters of other incidents: a second is too long to tell a request's own peak.
std::string NameOf(const char* what, int32_t device) {
  constexpr const char* kWhich = ": most of each second";
  return device == torch::kCpu ? std::string("LibTorch CPU ") + what + kWhich
                               : std::string("LibTorch ") + what + " on GPU " + std::to_string(device) + kWhich;
}

}  // namespace

void LastMemory::SampleLast(int64_t now_ns) noexcept {
  if (begin_ns_ == 0) begin_ns_ = now_ns;
  if (now_ns - begin_ns_ < kSecondNs) return;
  const int64_t begin_ns = std::exchange(begin_ns_, now_ns);
  int64_t begin = 0, end = 0;
  for (int32_t device = torch::kCpu; device < kMostDevices; ++device) {
    const Memory* const memory = FindMemory(device);
    if (memory == nullptr) continue;
    if (end == 0) {
      end = MemoryNow();
      begin = end - static_cast<int64_t>(static_cast<double>(now_ns - begin_ns) * MemoryClock().TicksPerNs());
    }
    const auto note = [&](const MemoryHistory& history, const char* what, trace::LastCounter* counter) {
      const auto most = static_cast<double>(history.PeakBetween(begin, end));
      counter->Note(
          begin_ns, most, [&] { return NameOf(what, device); }, "bytes");
    };
    note(memory->allocated, "allocated", &allocated_[device + 1]);
    if (memory->reserved != nullptr) note(*memory->reserved, "reserved", &reserved_[device + 1]);
  }
}

}  // namespace pitot::libtorch
