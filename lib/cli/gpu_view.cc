// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_view.h"

#include <time.h>

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/gpu_counters.h"
#include "base/text.h"
#include "cli/child.h"
#include "collect/nvml/api.h"

namespace pitot::cli {
namespace {

constexpr int64_t kPatienceNs = 2'000'000'000, kHungNs = 60'000'000'000;
constexpr unsigned int kMostProcesses = 256;

double GiB(unsigned long long bytes) { return static_cast<double>(bytes) / (1 << 30); }

// ", this process 12.0"; "": it has none there, or NVML does not tell.
std::string MemoryOf(const nvml::Api& api, nvml::Device device, int64_t pid) {
  std::vector<nvml::ProcessInfo> processes(kMostProcesses);
  unsigned int count = kMostProcesses;
  if (api.get_processes == nullptr || api.get_processes(device, &count, processes.data()) != nvml::kSuccess) return "";
  processes.resize(count);
  for (const nvml::ProcessInfo& process : processes) {
    if (process.pid == pid && process.used_bytes != nvml::kNotAvailable)
      return absl::StrFormat(", this process %.1f", GiB(process.used_bytes));
  }
  return "";
}

// " (held by SW power cap)"; "": they are not lowered.
std::string WhyLowered(const nvml::Api& api, nvml::Device device) {
  unsigned long long reasons = 0;
  if (api.get_clock_event_reasons == nullptr || api.get_clock_event_reasons(device, &reasons) != nvml::kSuccess)
    return "";
  std::string names;
  for (size_t bit = 0; bit < std::size(base::kClockReasons); ++bit) {
    if ((reasons >> bit & 1) != 0 && base::kClockReasons[bit].is_throttling)
      names += (names.empty() ? "" : ", ") + std::string(base::kClockReasons[bit].name);
  }
  return names.empty() ? "" : " (held by " + names + ")";
}

// "busy 100 %, memory 33.1 of 139.8 GiB, this process 12.0, SM 1980 MHz, 345 W, 61 C".
std::string Describe(const nvml::Api& api, nvml::Device device, int64_t pid) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  char name[nvml::kNameBytes] = "";
  if (api.get_name != nullptr && api.get_name(device, name, sizeof name - 1) == nvml::kSuccess) text = name;
  nvml::Utilization busy{};
  nvml::Memory memory{};
  unsigned int clock = 0, power = 0, temperature = 0;
  unsigned long long errors = 0;
  if (api.get_utilization != nullptr && api.get_utilization(device, &busy) == nvml::kSuccess)
    add(absl::StrCat("busy ", busy.gpu, " %"));
  if (api.get_memory != nullptr && api.get_memory(device, &memory) == nvml::kSuccess)
    add(absl::StrFormat("memory %.1f of %.1f GiB%s", GiB(memory.used), GiB(memory.total), MemoryOf(api, device, pid)));
  if (api.get_clock != nullptr && api.get_clock(device, nvml::kClockSm, &clock) == nvml::kSuccess)
    add(absl::StrCat("SM ", clock, " MHz", WhyLowered(api, device)));
  if (api.get_power != nullptr && api.get_power(device, &power) == nvml::kSuccess)
    add(absl::StrCat(power / 1000, " W"));
  if (api.get_temperature != nullptr && api.get_temperature(device, nvml::kSensorGpu, &temperature) == nvml::kSuccess)
    add(absl::StrCat(temperature, " C"));
  if (api.get_ecc_errors != nullptr &&
      api.get_ecc_errors(device, nvml::kUncorrected, nvml::kVolatile, &errors) == nvml::kSuccess && errors != 0)
    add(absl::StrCat(errors, " memory errors that were not corrected"));
  return text;
}

void AskNvml(const std::string& library, int64_t pid, const Teller& teller) {
  nvml::Api api;
  if (const Status status = nvml::LoadNvml(library, &api); !status.ok())
    return teller.Tell(status.code() == StatusCode::kNotFound ? "missing" : "error", status.message());
  teller.Begin("in nvmlInit");
  if (const nvml::Result result = api.init(); result != nvml::kSuccess)
    return teller.Tell("error", "nvmlInit failed: " + nvml::ResultName(result));
  teller.Begin("in nvmlDeviceGetCount");
  unsigned int count = 0;
  if (const nvml::Result result = api.get_count(&count); result != nvml::kSuccess)
    return teller.Tell("error", "nvmlDeviceGetCount failed: " + nvml::ResultName(result));
  for (unsigned int i = 0; i < count; ++i) {
    teller.Begin(absl::StrCat("when asked for GPU ", i));
    nvml::Device device{};
    const nvml::Result result = api.get_handle(i, &device);
    const std::string text =
        result == nvml::kSuccess ? Describe(api, device, pid) : "cannot be asked: " + nvml::ResultName(result);
    teller.Tell("gpu", absl::StrCat("GPU ", i, "  ", text));
  }
}

class GpusFile final : public Serializer {
 public:
  explicit GpusFile(std::string view) : view_(std::move(view)) {}
  const char* FileName() const noexcept override { return "gpus.txt"; }
  Status Serialize(const model::Trace&, ByteSink& sink) override {
    return sink.Write(view_.data(), view_.size()) ? Status() : Status(StatusCode::kUnavailable, "not written");
  }

 private:
  const std::string view_;
};

}  // namespace

std::string GpuView(const std::string& library, int64_t pid) {
  // A GPU goes on hanging: others' incidents do not wait for it, too.
  static int64_t hung_ns = -kHungNs;
  static std::string hung;
  if (base::ClockNs(CLOCK_MONOTONIC) - hung_ns < kHungNs) return hung;
  const Told told = AskInChild([&](const Teller& teller) { AskNvml(library, pid, teller); }, kPatienceNs);
  if (told.Has("missing")) return "";
  std::string text = "NVML's view of the GPUs:\n\n";
  for (const std::string& gpu : told.Each("gpu")) text += base::SanitizeText(gpu) + "\n";
  if (told.Has("error")) text += base::SanitizeText(told.Get("error")) + "\n";
  if (!told.failure.empty()) {
    text += "NVML " + told.failure + "\n";
    hung_ns = base::ClockNs(CLOCK_MONOTONIC);
    hung = text;
  }
  return text;
}

std::unique_ptr<Serializer> MakeGpusFile(std::string view) { return std::make_unique<GpusFile>(std::move(view)); }

}  // namespace pitot::cli
