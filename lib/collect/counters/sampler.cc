// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/sampler.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "base/columns.h"

namespace pitot::counters {
namespace {

constexpr size_t kHardwareBufferBytes = 16 << 20;  // 2,795 samples of 7 metrics on an H100
constexpr uint64_t kMostCyclesPerUs = 1'600;       // T4: 1,590 MHz; A100: 1,410 (data sheets)
constexpr uint32_t kMostDecodes = 64;              // in a round, for one GPU
constexpr int64_t kMeasureNs = 5'000'000'000;      // before the interval is judged

// Why a GPU is not sampled, and what to do.
std::string Explain(Result result, const std::string& name, const char* function) {
  switch (result) {
    case kHardwareBusy:
      return "another profiler samples this GPU (" + name + "): it is asked for again every 10 s";
    case kInsufficientPrivileges:
      return "the driver allows profiling for administrators alone (" + name +
             "): set NVreg_RestrictProfilingToAdminUsers=0 for the kernel module nvidia, or give the process "
             "CAP_SYS_ADMIN";
    case kVirtualizedDeviceNotSupported:
    case kVirtualizedDeviceInsufficientPrivileges:
      return "the virtual GPU does not allow profiling (" + name + "): its host's administrator can enable it";
    default:
      return std::string(function) + ": " + name;
  }
}

bool IsFinal(Result result) {
  return result == kInsufficientPrivileges || result == kVirtualizedDeviceNotSupported ||
         result == kVirtualizedDeviceInsufficientPrivileges || result == kNotSupported;
}

}  // namespace

void Sampler::Round(bool is_paused) {
  now_ns_ = environment_.timer->NowNs();
  if (is_paused) {
    for (Sampled& of : gpus_) {
      GiveAway(&of, "given away by Recorder::Pause", SharedState::kEnded);
    }
    return;
  }
  FindNewGpus();
  bool has_started = false;  // which takes 0.5 s of a CPU, once
  for (Sampled& of : gpus_) {
    const SharedView view = of.file != nullptr ? of.file->Look() : SharedView();
    const int64_t realtime_ns = RealtimeNs();
    if (IsReleaseAsked(view, realtime_ns)) {
      GiveAway(
          &of,
          "given away for " + std::to_string(AskedSeconds(view)) + " s: " + TextOf(view.asked_by) + " asked for it",
          SharedState::kReleased);
      continue;
    }
    if (of.sampler != nullptr) {
      Decode(&of);
      continue;
    }
    if (of.file != nullptr && view.session != of.file->session() && IsSampling(view, realtime_ns)) {
      StopGpm(&of);
      ReadShared(&of, view);
      continue;
    }
    if (of.session != 0) EndReading(&of, view);
    of.state.not_shared = view.failure;
    if (of.retry_at_ns <= now_ns_) {
      Start(&of);
      has_started = true;
    }
    if (!of.refusal.empty() && of.gpm == nullptr && of.gpm_retry_at_ns <= now_ns_) StartGpm(&of);
  }
  SampleGpm();
  if (has_started) measured_since_ns_ = 0;
  ChooseInterval();
}

bool Sampler::IsBehind(int64_t at_ns) const noexcept {
  return std::any_of(gpus_.begin(), gpus_.end(), [at_ns](const Sampled& of) {
    if (of.gpm != nullptr) return of.newest_ns < at_ns;
    return of.session != 0 && of.newest_ns + int64_t{2'000} * of.state.interval_us < at_ns;
  });
}

int64_t Sampler::GpmIntervalNs() const noexcept {
  return int64_t{1'000} * std::max(kGpmIntervalUs, options_.interval_us);
}

void Sampler::StartGpm(Sampled* of) {
  if (environment_.nvml.empty()) return;
  if (gpm_library_ == Library::kNotOpened) {
    gpm_failure_ = LoadGpm(environment_.nvml, &gpm_api_);
    gpm_library_ = gpm_failure_.empty() ? Library::kOpen : Library::kFailed;
  }
  std::string failure = gpm_failure_;
  if (gpm_library_ == Library::kOpen) of->gpm = GpmGpu::Open(gpm_api_, of->gpu.id, &failure);
  if (of->gpm == nullptr) return FailGpm(of, failure);
  of->state.interval_us = static_cast<uint32_t>(GpmIntervalNs() / 1'000);
  of->state.source = "NVML GPM, every " + std::to_string(of->state.interval_us / 1'000) + " ms, because " + of->refusal;
  of->state.not_recorded.clear();
  history_->SetState(of->row, of->state);
}

void Sampler::FailGpm(Sampled* of, const std::string& why) {
  StopGpm(of);
  of->gpm_retry_at_ns = now_ns_ + kGpmRetryNs;
  of->state.not_recorded = of->refusal + "; NVML's GPM does not help: " + why;
  history_->SetState(of->row, of->state);
}

void Sampler::StopGpm(Sampled* of) noexcept {
  of->gpm.reset();
  of->gpm_retry_at_ns = 0;
  of->state.source.clear();
}

void Sampler::SampleGpm() {
  now_ns_ = environment_.timer->NowNs();
  for (Sampled& of : gpus_) {
    if (of.gpm == nullptr || now_ns_ - of.gpm->newest_ns() < GpmIntervalNs()) continue;
    std::string failure;
    const std::optional<Sample> sample = of.gpm->Take(now_ns_, &failure);
    if (!failure.empty()) {
      FailGpm(&of, failure);
    } else if (sample) {
      of.newest_ns = sample->end_ns;
      history_->Commit(of.row, {&*sample, 1}, 0);
    }
  }
}

int64_t Sampler::NextGpmNs() const noexcept {
  int64_t next_ns = std::numeric_limits<int64_t>::max();
  for (const Sampled& of : gpus_) {
    if (of.gpm != nullptr) next_ns = std::min(next_ns, of.gpm->newest_ns() + GpmIntervalNs());
  }
  return next_ns;
}

void Sampler::Close() noexcept {
  for (Sampled& of : gpus_) {
    Stop(&of);
    StopGpm(&of);
    FreeHost(&of);
    try {
      if (of.file != nullptr) of.file->SetState(SharedState::kEnded, RealtimeNs());
    } catch (const std::exception&) {
      // Out of memory: the others find the heartbeat old.
    }
  }
  if (gpm_library_ == Library::kOpen) gpm_api_.shutdown();
}

void Sampler::Visit(const std::function<void(const Gpu&, const GpuState&)>& visit) const {
  for (const Sampled& of : gpus_) visit(of.gpu, of.state);
}

bool Sampler::IsAnyAllowed() const noexcept {
  return std::any_of(gpus_.begin(), gpus_.end(), [](const Sampled& of) { return of.refusal.empty(); });
}

void Sampler::FindNewGpus() {
  for (const Gpu& gpu : environment_.find_gpus()) {
    const bool is_known =
        std::any_of(gpus_.begin(), gpus_.end(), [&](const Sampled& of) { return of.gpu.ordinal == gpu.ordinal; });
    if (is_known) continue;
    Sampled& of = gpus_.emplace_back();
    of.gpu = gpu;
    of.row = history_->AddGpu(gpu);
    if (!gpu.id.empty() && !environment_.shared_directory.empty())
      of.file = std::make_unique<SharedFile>(environment_.shared_directory, gpu.id,
                                             environment_.shared_user.value_or(geteuid()));
  }
}

void Sampler::GiveAway(Sampled* of, std::string why, SharedState state) {
  if (of->sampler != nullptr) Decode(of), Stop(of);
  StopGpm(of);
  of->session = 0;
  // The one that sampled takes it back; the others need not even open CUPTI.
  const bool is_first = of->has_sampled || state != SharedState::kReleased;
  if (of->refusal.empty()) of->retry_at_ns = is_first ? 0 : now_ns_ + 2 * kRoundNs + DrawNs(kTakeoverNs);
  of->state.not_recorded = std::move(why);
  history_->SetState(of->row, of->state);
  if (of->file != nullptr) of->file->SetState(state, RealtimeNs());
}

// All in the file may be forged: a sample with an impossible time counts as lost.
void Sampler::ReadShared(Sampled* of, const SharedView& view) {
  const bool is_first = of->session != view.session;
  if (is_first) {
    of->has_sampled = false;
    of->session = view.session;
    of->next = view.written - std::min<uint64_t>(view.written, kSharedSlots / 2);
    of->lost = view.lost;
    of->state.sampled_by = TextOf(view.sampler);
  }
  of->shared.clear();
  of->samples.clear();
  uint64_t lost = of->file->Read(view, &of->next, &of->shared);
  lost += view.lost - std::min(view.lost, of->lost);
  of->lost = view.lost;
  const int64_t offset_ns = environment_.realtime_offset_ns(), interval_ns = int64_t{1'000} * view.interval_us;
  for (Sample& sample : of->shared) {
    const bool is_possible = sample.begin_ns > offset_ns && sample.end_ns > sample.begin_ns &&
                             sample.end_ns - offset_ns <= now_ns_ + kRoundNs;
    if (is_possible) sample.begin_ns -= offset_ns, sample.end_ns -= offset_ns;
    if (is_possible && sample.begin_ns >= of->newest_ns - interval_ns) {
      of->newest_ns = sample.end_ns;
      of->samples.push_back(sample);
    } else if (!is_first) {
      ++lost;
    }
  }
  if (is_first) lost = 0;
  of->state.interval_us = view.interval_us;
  of->state.not_recorded.clear();
  of->state.not_shared.clear();
  of->state.sampled_by_until_ns = of->newest_ns;
  history_->SetState(of->row, of->state);
  history_->Commit(of->row, of->samples, lost);
}

void Sampler::EndReading(Sampled* of, const SharedView& view) {
  of->session = 0;
  of->tries = kTakeoverTries;
  if (of->refusal.empty()) of->retry_at_ns = now_ns_ + DrawNs(kTakeoverNs);
  const char* const how = view.state == SharedState::kSampling ? " sampled this GPU, and ended or does not answer"
                                                               : " sampled this GPU, and stopped";
  of->state.not_recorded = of->refusal.empty() ? of->state.sampled_by + how : of->refusal;
  history_->SetState(of->row, of->state);
}

// A number that differs between processes.
int64_t Sampler::DrawNs(int64_t most_ns) noexcept {
  drawn_ = (drawn_ + static_cast<uint64_t>(now_ns_) + static_cast<uint64_t>(getpid())) * 0x9e3779b97f4a7c15;
  drawn_ ^= drawn_ >> 31;
  return static_cast<int64_t>(drawn_ % static_cast<uint64_t>(most_ns));
}

bool Sampler::OpenLibrary() {
  if (library_ != Library::kNotOpened) return library_ == Library::kOpen;
  library_ = Library::kFailed;
  if (const Status loaded = LoadCupti(options_.library, &api_); !loaded.ok()) {
    library_failure_ = loaded.message();
    return false;
  }
  InitializeParams params = Make<InitializeParams>();
  if (const Result result = api_.initialize(&params); result != kSuccess) {
    library_failure_ = "cuptiProfilerInitialize: " + ResultName(api_, result);
    return false;
  }
  library_ = Library::kOpen;
  return true;
}

bool Sampler::Fail(Sampled* of, const char* function, Result result) {
  const std::string why = Explain(result, ResultName(api_, result), function);
  Stop(of);
  if (of->file != nullptr) of->file->SetState(SharedState::kEnded, RealtimeNs());
  if (IsFinal(result)) {
    Refuse(of, why);
    return false;
  }
  const bool is_taking_over = result == kHardwareBusy && of->tries != 0;
  if (is_taking_over) --of->tries;
  of->retry_at_ns = now_ns_ + (is_taking_over ? DrawNs(2 * kRoundNs) : kRetryNs);
  of->state.not_recorded = why;
  history_->SetState(of->row, of->state);
  return false;
}

void Sampler::Refuse(Sampled* of, const std::string& why) {
  of->refusal = of->state.not_recorded = why;
  of->retry_at_ns = std::numeric_limits<int64_t>::max();
  history_->SetState(of->row, of->state);
}

void Sampler::Start(Sampled* of) {
  if (!OpenLibrary()) {
    Refuse(of, library_failure_);
    return;
  }
  ChipNameParams chip = Make<ChipNameParams>();
  chip.device = of->gpu.ordinal;
  if (const Result result = api_.get_chip_name(&chip); result != kSuccess) {
    Fail(of, "cuptiDeviceGetChipName", result);
    return;
  }
  if (of->host == nullptr && !Configure(of, chip.chip)) return;
  if (!Begin(of)) return;
  of->state.not_recorded.clear();
  history_->SetState(of->row, of->state);
}

// Finds the richest metrics that the chip can count in one pass.
bool Sampler::Configure(Sampled* of, const char* chip) {
  AvailabilityParams params = Make<AvailabilityParams>();
  params.device = of->gpu.ordinal;
  Result result = api_.get_availability(&params);
  if (result == kSuccess) {
    of->availability.resize(params.image_bytes);
    params.image = of->availability.data();
    result = api_.get_availability(&params);
  }
  if (result != kSuccess) return Fail(of, "cuptiPmSamplingGetCounterAvailability", result);
  for (const std::vector<Metric>& metrics : Choices()) {
    if (Choose(of, chip, metrics)) return true;
    FreeHost(of);
  }
  Refuse(of, std::string("no known metric fits this chip (") + chip + ")");
  return false;
}

bool Sampler::Choose(Sampled* of, const char* chip, const std::vector<Metric>& metrics) {
  HostInitializeParams host = Make<HostInitializeParams>();
  host.type = kPmSampling;
  host.chip = chip;
  host.availability = of->availability.data();
  if (api_.host_initialize(&host) != kSuccess) return false;
  of->host = host.host;
  of->names.clear();
  for (const Metric& metric : metrics) of->names.push_back(metric.name);
  AddMetricsParams add = Make<AddMetricsParams>();
  add.host = of->host;
  add.metrics = of->names.data();
  add.count = of->names.size();
  if (api_.add_metrics(&add) != kSuccess) return false;
  ConfigSizeParams size = Make<ConfigSizeParams>();
  size.host = of->host;
  if (api_.get_config_size(&size) != kSuccess) return false;
  of->config.resize(size.bytes);
  ConfigImageParams image = Make<ConfigImageParams>();
  image.host = of->host;
  image.bytes = of->config.size();
  image.image = of->config.data();
  if (api_.get_config_image(&image) != kSuccess) return false;
  PassesParams passes = Make<PassesParams>();
  passes.bytes = of->config.size();
  passes.image = of->config.data();
  if (api_.get_passes(&passes) != kSuccess || passes.passes != 1) return false;
  of->metrics = metrics;
  return true;
}

bool Sampler::Begin(Sampled* of) {
  if (interval_us_ == 0) interval_us_ = options_.interval_us != 0 ? options_.interval_us : kFirstIntervalUs;
  EnableParams enable = Make<EnableParams>();
  enable.device = of->gpu.ordinal;
  if (const Result result = api_.enable(&enable); result != kSuccess) return Fail(of, "cuptiPmSamplingEnable", result);
  of->sampler = enable.sampler;
  SetConfigParams config = Make<SetConfigParams>();
  config.sampler = of->sampler;
  config.config = of->config.data();
  config.config_bytes = of->config.size();
  config.hardware_buffer_bytes = kHardwareBufferBytes;
  config.interval = uint64_t{1'000} * interval_us_;
  config.trigger = kByTime;
  config.append = kKeepLatest;
  Result configured = api_.set_config(&config);
  if (configured == kNotSupported || configured == kInvalidParameter) {
    // Turing and GA100 count cycles instead. The clock varies, so samples are longer where it is slower.
    config.interval = kMostCyclesPerUs * interval_us_;
    config.trigger = kBySystemClock;
    configured = api_.set_config(&config);
  }
  if (configured != kSuccess) return Fail(of, "cuptiPmSamplingSetConfig", configured);
  of->state.source.clear();
  if (config.trigger == kBySystemClock)
    of->state.source = "CUPTI by the GPU's clock, every " + std::to_string(interval_us_) + " us or more";
  // Room for a round and a quarter: clearing the decoder's memory costs by its size.
  const uint32_t due = static_cast<uint32_t>(kRoundNs / 1'000 / interval_us_);
  DataSizeParams size = Make<DataSizeParams>();
  size.sampler = of->sampler;
  size.metrics = of->names.data();
  size.count = of->names.size();
  size.most_samples = due + due / 4 + 8;
  if (const Result result = api_.get_data_size(&size); result != kSuccess)
    return Fail(of, "cuptiPmSamplingGetCounterDataSize", result);
  of->data.resize(size.bytes);
  of->samples.reserve(size.most_samples);
  DataInitializeParams clear = Make<DataInitializeParams>();
  clear.sampler = of->sampler;
  clear.bytes = of->data.size();
  clear.data = of->data.data();
  if (const Result result = api_.initialize_data(&clear); result != kSuccess)
    return Fail(of, "cuptiPmSamplingCounterDataImageInitialize", result);
  SamplerParams start = Make<SamplerParams>();
  start.sampler = of->sampler;
  if (const Result result = api_.start(&start); result != kSuccess) return Fail(of, "cuptiPmSamplingStart", result);
  of->end_ns = 0;
  of->has_sampled = true;
  of->state.interval_us = interval_us_;
  if (of->file != nullptr) of->state.not_shared = of->file->Begin(ThisProcess(), interval_us_, RealtimeNs());
  return true;
}

void Sampler::Decode(Sampled* of) {
  for (uint32_t round = 0; round < kMostDecodes && of->sampler != nullptr; ++round) {
    DecodeParams decode = Make<DecodeParams>();
    decode.sampler = of->sampler;
    decode.data = of->data.data();
    decode.bytes = of->data.size();
    if (const Result result = api_.decode(&decode); result != kSuccess) {
      Fail(of, "cuptiPmSamplingDecodeData", result);
      return;
    }
    DataInfoParams info = Make<DataInfoParams>();
    info.data = of->data.data();
    info.bytes = of->data.size();
    if (const Result result = api_.get_data_info(&info); result != kSuccess) {
      Fail(of, "cuptiPmSamplingGetCounterDataInfo", result);
      return;
    }
    Take(of, info.completed);
    DataInitializeParams clear = Make<DataInitializeParams>();
    clear.sampler = of->sampler;
    clear.bytes = of->data.size();
    clear.data = of->data.data();
    if (const Result result = api_.initialize_data(&clear); result != kSuccess) {
      Fail(of, "cuptiPmSamplingCounterDataImageInitialize", result);
      return;
    }
    if (decode.stop_reason != kCounterDataFull) return;
  }
}

// Hands the decoded samples to the history.
void Sampler::Take(Sampled* of, size_t count) {
  const int64_t offset_ns = environment_.realtime_offset_ns(), interval_ns = int64_t{1'000} * of->state.interval_us;
  uint64_t lost = 0;
  of->samples.clear();
  for (size_t i = 0; i < count && of->samples.size() < of->samples.capacity(); ++i) {
    SampleInfoParams info = Make<SampleInfoParams>();
    info.sampler = of->sampler;
    info.data = of->data.data();
    info.bytes = of->data.size();
    info.index = i;
    double values[kMostMetrics];
    EvaluateParams evaluate = Make<EvaluateParams>();
    evaluate.host = of->host;
    evaluate.data = of->data.data();
    evaluate.bytes = of->data.size();
    evaluate.index = i;
    evaluate.metrics = of->names.data();
    evaluate.count = of->names.size();
    evaluate.values = values;
    const bool is_known = api_.get_sample_info(&info) == kSuccess && api_.evaluate(&evaluate) == kSuccess;
    const int64_t begin_ns = static_cast<int64_t>(info.begin_ns) - offset_ns;
    const int64_t end_ns = static_cast<int64_t>(info.end_ns) - offset_ns;
    if (!is_known || begin_ns <= 0 || end_ns <= begin_ns || begin_ns < of->end_ns - interval_ns) {
      ++lost;
      continue;
    }
    const bool is_first = of->end_ns == 0;
    if (!is_first) lost += static_cast<uint64_t>(std::max<int64_t>(begin_ns - of->end_ns, 0) / interval_ns);
    of->end_ns = end_ns;
    if (is_first) continue;  // it is not whole: an H100 gave a clock of 0.05 Hz
    Sample sample = Unmeasured(begin_ns, end_ns);
    for (size_t metric = 0; metric < of->names.size(); ++metric) {
      const Scale scale = of->metrics[metric].scale;
      const double per = scale == Scale::kPerSecond ? 1e9 / static_cast<double>(end_ns - begin_ns)
                         : scale == Scale::kMega    ? 1e-6
                                                    : 1;
      sample.values[ColumnOf(of->metrics[metric].counter)] = static_cast<float>(values[metric] * per);
    }
    of->samples.push_back(sample);
    of->newest_ns = end_ns;
  }
  history_->Commit(of->row, of->samples, lost);
  Share(of, lost, offset_ns);
}

void Sampler::Share(Sampled* of, uint64_t lost, int64_t offset_ns) {
  if (of->file == nullptr) return;
  of->shared = of->samples;
  for (Sample& sample : of->shared) sample.begin_ns += offset_ns, sample.end_ns += offset_ns;
  const std::string failure = of->file->Write(of->shared, lost, RealtimeNs());
  if (failure == of->state.not_shared) return;
  of->state.not_shared = failure;
  history_->SetState(of->row, of->state);
}

void Sampler::Stop(Sampled* of) noexcept {
  if (of->sampler == nullptr) return;
  SamplerParams params = Make<SamplerParams>();
  params.sampler = of->sampler;
  api_.stop(&params);
  params = Make<SamplerParams>();
  params.sampler = of->sampler;
  api_.disable(&params);
  of->sampler = nullptr;
}

void Sampler::FreeHost(Sampled* of) noexcept {
  if (of->host == nullptr) return;
  HostDeinitializeParams params = Make<HostDeinitializeParams>();
  params.host = of->host;
  api_.host_deinitialize(&params);
  of->host = nullptr;
}

// Lengthens the interval if the thread takes too much of its CPU, twice in a row: incidents make it take more for a
// moment. Starting again costs 0.15 s without samples, so it never becomes shorter.
void Sampler::ChooseInterval() {
  const bool is_sampling = std::any_of(gpus_.begin(), gpus_.end(), [](const Sampled& of) {
    return of.sampler != nullptr || of.session != 0 || of.gpm != nullptr;
  });
  const int64_t cpu_ns = environment_.cpu_ns();
  if (measured_since_ns_ == 0 || !is_sampling) {
    measured_since_ns_ = now_ns_, cpu_since_ns_ = cpu_ns;
    return;
  }
  if (now_ns_ - measured_since_ns_ < kMeasureNs) return;
  const double percent =
      100 * static_cast<double>(cpu_ns - cpu_since_ns_) / static_cast<double>(now_ns_ - measured_since_ns_);
  measured_since_ns_ = now_ns_, cpu_since_ns_ = cpu_ns;
  history_->SetCpu(percent);
  if (options_.interval_us != 0 || percent <= options_.most_cpu_percent) {
    is_over_ = false;
    return;
  }
  if (!std::exchange(is_over_, true)) return;
  const double longer = std::ceil(interval_us_ / 1e3 * percent / options_.most_cpu_percent) * 1e3;
  const uint32_t interval_us = static_cast<uint32_t>(std::min<double>(longer, kMostChosenIntervalUs));
  if (interval_us <= interval_us_) return;
  interval_us_ = interval_us;
  for (Sampled& of : gpus_) {
    if (of.sampler == nullptr) continue;
    Stop(&of);
    Start(&of);
  }
  measured_since_ns_ = 0;  // starting again is not counted
  is_over_ = false;
}

}  // namespace pitot::counters
