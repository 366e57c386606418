// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/sampler.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <new>
#include <utility>

#include "base/columns.h"
#include "base/message.h"

namespace pitot::counters {
namespace {

constexpr size_t kHardwareBufferBytes = 16 << 20;  // docs/lab/counters.md: how many samples it has room for
constexpr uint64_t kMostCyclesPerUs = 1'600;       // T4: 1,590 MHz; A100: 1,410 (data sheets)
// Samples in that buffer, at most: 2,795 were seen, of 2.8 s, and 510 of 2.1 s.
constexpr int64_t kLeastKept = 1'024, kMostKept = 3'072;
constexpr int64_t kMostKeptNs = 5'000'000'000;
constexpr int64_t kClockStepNs = 100'000'000;  // less is a thread that was held up between two clocks
constexpr int64_t kForgetNs = 60'000'000'000;
constexpr int64_t kMeasureNs = 5'000'000'000;  // before the interval is judged

bool IsFinal(Result result) {
  return result == kInsufficientPrivileges || result == kVirtualizedDeviceNotSupported ||
         result == kVirtualizedDeviceInsufficientPrivileges || result == kNotSupported;
}

}  // namespace

void Sampler::Round(RoundFor what) {
  now_ns_ = environment_.timer->NowNs();
  // Asked in each round, because it tells of the time since the last one.
  const bool is_at_work = !environment_.is_needed || environment_.is_needed();
  is_needed_ = is_at_work || what == RoundFor::kIncident || is_owed_;
  is_owed_ = is_needed_;  // unless the round throws
  if (what == RoundFor::kPause) {
    for (SampledGpu& gpu : gpus_) {
      GiveAway(&gpu, "given away by Recorder::Pause", SharedState::kEnded);
    }
    return;
  }
  FindNewGpus();
  bool has_started = false;  // which takes much of a CPU, once
  bool has_rested = false;
  for (SampledGpu& gpu : gpus_) {
    if (IsExiting()) return;
    const SharedView view = gpu.file != nullptr ? gpu.file->Look() : SharedView();
    const int64_t realtime_ns = RealtimeNs();
    if (IsReleaseAsked(view, realtime_ns)) {
      GiveAway(
          &gpu,
          "given away for " + std::to_string(AskedSeconds(view)) + " s: " + TextOf(view.asked_by) + " asked for it",
          SharedState::kReleased);
      continue;
    }
    if (gpu.sampler != nullptr) {
      const bool is_asked = std::exchange(gpu.needed_ns, view.needed_ns) != view.needed_ns;
      is_needed_ || is_asked || IsChanged(gpu) ? Decode(&gpu) : Rest(&gpu);
      has_rested |= gpu.rested_ns != 0;
      continue;
    }
    if (gpu.file != nullptr && view.session != gpu.file->session() && IsSampling(view, realtime_ns)) {
      StopGpm(&gpu);
      ReadShared(&gpu, view);
      if (is_needed_) AskForSamples(&gpu);
      continue;
    }
    if (gpu.session != 0) EndReading(&gpu, view);
    CountMissing(&gpu);
    gpu.state.not_shared = view.failure;
    if (gpu.retry_at_ns <= now_ns_) {
      Start(&gpu);
      has_started = true;
    }
    if (!gpu.refusal.empty() && gpu.gpm == nullptr && gpu.gpm_retry_at_ns <= now_ns_) StartGpm(&gpu);
  }
  is_owed_ = false;
  SampleGpm();
  if (has_started) measured_since_ns_ = 0;
  RestartChanged();
  // What a rest saves and its end costs belong together.
  if (!has_rested) ChooseInterval();
}

bool Sampler::IsBehind(int64_t at_ns) const noexcept {
  return std::any_of(gpus_.begin(), gpus_.end(), [at_ns](const SampledGpu& gpu) {
    if (gpu.gpm != nullptr) return gpu.newest_ns < at_ns;
    return gpu.session != 0 && gpu.newest_ns + int64_t{2'000} * gpu.state.interval_us < at_ns;
  });
}

int64_t Sampler::GpmIntervalNs() const noexcept {
  return int64_t{1'000} * std::max(kGpmIntervalUs, options_.interval_us);
}

void Sampler::StartGpm(SampledGpu* gpu) {
  if (environment_.nvml.empty()) {
    gpu->gpm_retry_at_ns = now_ns_ + kGpmRetryNs;
    return SetNotRecorded(gpu, gpu->refusal);
  }
  if (!is_gpm_open_) {
    gpm_failure_ = LoadGpm(environment_.nvml, &gpm_api_);
    is_gpm_open_ = gpm_failure_.empty();
    if (is_gpm_open_) ++libraries_;
  }
  std::string failure = gpm_failure_;
  if (is_gpm_open_) gpu->gpm = GpmGpu::Open(gpm_api_, gpu->device.id, &failure);
  if (gpu->gpm == nullptr) return FailGpm(gpu, failure);
  gpu->state.not_recorded.clear();
  TellGpm(gpu);
}

void Sampler::TellGpm(SampledGpu* gpu) {
  gpu->state.interval_us = static_cast<uint32_t>(GpmIntervalNs() / 1'000);
  gpu->state.source =
      "NVML GPM, every " + std::to_string(gpu->state.interval_us / 1'000) + " ms, because " + gpu->refusal;
  history_->SetState(gpu->row, gpu->state);
}

void Sampler::FailGpm(SampledGpu* gpu, const std::string& why) {
  const int64_t end_ns = gpu->gpm_end_ns;  // what follows is lost
  StopGpm(gpu);
  gpu->gpm_end_ns = end_ns;
  gpu->gpm_retry_at_ns = now_ns_ + kGpmRetryNs;
  gpu->state.not_recorded = gpu->refusal + "; NVML's GPM does not help: " + why;
  history_->SetState(gpu->row, gpu->state);
}

void Sampler::StopGpm(SampledGpu* gpu) noexcept {
  gpu->gpm.reset();
  gpu->gpm_end_ns = 0;
  gpu->gpm_retry_at_ns = 0;
  gpu->state.source.clear();
}

void Sampler::SampleGpm() {
  now_ns_ = environment_.timer->NowNs();
  for (SampledGpu& gpu : gpus_) {
    if (gpu.gpm == nullptr || now_ns_ - gpu.gpm->newest_ns() < GpmIntervalNs()) continue;
    std::string failure;
    if (gpu.gpm->newest_ns() == 0) CountMissing(&gpu);
    const std::optional<Sample> sample = gpu.gpm->Take(now_ns_, &failure);
    if (!failure.empty()) {
      FailGpm(&gpu, failure);
    } else if (sample) {
      gpu.newest_ns = gpu.gpm_end_ns = sample->end_ns;
      history_->Commit(gpu.row, {&*sample, 1}, 0);
    }
  }
}

int64_t Sampler::NextGpmNs() const noexcept {
  int64_t next_ns = std::numeric_limits<int64_t>::max();
  for (const SampledGpu& gpu : gpus_) {
    if (gpu.gpm != nullptr) next_ns = std::min(next_ns, gpu.gpm->newest_ns() + GpmIntervalNs());
  }
  return next_ns;
}

void Sampler::Close() noexcept {
  is_closing_ = true;
  for (SampledGpu& gpu : gpus_) {
    StopGpm(&gpu);
    try {
      Stop(&gpu);
      SetShared(&gpu, SharedState::kEnded);
      FreeHost(&gpu);
    } catch (const std::exception&) {
      // Out of memory: the others find the heartbeat old.
    }
  }
  const nvml::Result result = is_gpm_open_ ? gpm_api_.shutdown() : nvml::kSuccess;
  if (result == nvml::kSuccess) return;
  ++close_failures_;
  close_failure_ = base::Error(StatusCode::kInternal, "nvmlShutdown: error %d", static_cast<int>(result));
}

void Sampler::Abandon() noexcept {
  for (SampledGpu& gpu : gpus_) {
    if (gpu.gpm != nullptr) GpmGpu::Abandon(std::move(gpu.gpm));
  }
}

Status Sampler::Closed() const {
  if (close_failures_ == 0) return {};
  const char* const calls = close_failures_ == 1 ? "call" : "calls";
  return base::Error(StatusCode::kInternal, "counters: %llu %s failed while sampling stopped, the newest %s",
                     static_cast<unsigned long long>(close_failures_), calls, close_failure_.message());
}

void Sampler::Visit(const std::function<void(const Gpu&, const GpuState&)>& visit) const {
  for (const SampledGpu& gpu : gpus_) visit(gpu.device, gpu.state);
}

bool Sampler::IsAnyAllowed() const noexcept {
  return std::any_of(gpus_.begin(), gpus_.end(), [](const SampledGpu& gpu) { return gpu.refusal.empty(); });
}

void Sampler::FindNewGpus() {
  uint64_t without_memory = 0;
  for (const Gpu& found : environment_.find_gpus()) {
    const bool is_known = std::any_of(gpus_.begin(), gpus_.end(),
                                      [&](const SampledGpu& gpu) { return gpu.device.ordinal == found.ordinal; });
    if (is_known) continue;
    SampledGpu& gpu = gpus_.emplace_back();
    gpu.device = found;
    try {
      if (!found.id.empty() && !environment_.shared_directory.empty())
        gpu.file = std::make_unique<SharedFile>(environment_.shared_directory, found.id,
                                                environment_.shared_user.value_or(geteuid()));
      gpu.row = history_->AddGpu(found);
    } catch (const std::exception&) {
      gpus_.pop_back();  // without a ring it is not known: the next round tries again
      if (found.ordinal < 64) without_memory |= uint64_t{1} << found.ordinal;
    }
  }
  history_->SetWithoutMemory(without_memory);
}

void Sampler::GiveAway(SampledGpu* gpu, const std::string& why, SharedState state) {
  if (gpu->sampler != nullptr) Decode(gpu);
  if (gpu->sampler == nullptr) CountMissing(gpu);
  Stop(gpu);
  StopGpm(gpu);
  gpu->session = 0;
  gpu->end_ns = 0;
  // The one that sampled takes it back; the others need not even open CUPTI.
  const bool is_first = gpu->has_sampled || state != SharedState::kReleased;
  if (gpu->refusal.empty()) gpu->retry_at_ns = is_first ? 0 : now_ns_ + 2 * kRoundNs + DrawNs(kTakeoverNs);
  SetNotRecorded(gpu, why);
  SetShared(gpu, state);
}

// All in the file may be forged: a sample with an impossible time counts as lost.
void Sampler::ReadShared(SampledGpu* gpu, const SharedView& view) {
  const bool is_first = gpu->session != view.session;
  if (is_first) {
    gpu->has_sampled = false;
    gpu->session = view.session;
    gpu->next = view.written - std::min<uint64_t>(view.written, kSharedSlots / 2);
    gpu->lost = view.lost;
    gpu->state.sampled_by = TextOf(view.sampler);
    gpu->state.held.clear();
    gpu->end_ns = 0;
  }
  const int64_t before_ns = gpu->newest_ns;
  gpu->shared.clear();
  gpu->samples.clear();
  uint64_t lost = gpu->file->Read(view, &gpu->next, &gpu->shared);
  lost += view.lost - std::min(view.lost, gpu->lost);
  gpu->lost = view.lost;
  const int64_t offset_ns = environment_.realtime_offset_ns(), interval_ns = int64_t{1'000} * view.interval_us;
  for (Sample& sample : gpu->shared) {
    const bool is_possible = sample.begin_ns > offset_ns && sample.end_ns > sample.begin_ns &&
                             sample.end_ns - offset_ns <= now_ns_ + kRoundNs;
    if (is_possible) sample.begin_ns -= offset_ns, sample.end_ns -= offset_ns;
    if (is_possible && sample.begin_ns >= gpu->newest_ns - interval_ns) {
      gpu->newest_ns = sample.end_ns;
      gpu->samples.push_back(sample);
    } else if (!is_first) {
      ++lost;
    }
  }
  if (is_first) lost = 0;
  if (!is_first && lost == 0 && !gpu->samples.empty()) SetRested(gpu, before_ns, gpu->samples.front().begin_ns);
  gpu->state.interval_us = view.interval_us;
  gpu->state.not_recorded.clear();
  gpu->state.not_shared.clear();
  gpu->state.sampled_by_until_ns = gpu->newest_ns;
  history_->SetState(gpu->row, gpu->state);
  history_->Commit(gpu->row, gpu->samples, lost);
}

void Sampler::AskForSamples(SampledGpu* gpu) {
  const std::string failure = gpu->file->AskForSamples(RealtimeNs());
  if (failure == gpu->state.not_shared) return;
  gpu->state.not_shared = failure;
  history_->SetState(gpu->row, gpu->state);
}

// Shorter ones are no more than a late round.
void Sampler::SetRested(SampledGpu* gpu, int64_t from_ns, int64_t until_ns) {
  if (until_ns - from_ns < kRoundNs) return;
  gpu->state.rested_from_ns = from_ns, gpu->state.rested_until_ns = until_ns;
  history_->SetState(gpu->row, gpu->state);
}

void Sampler::EndReading(SampledGpu* gpu, const SharedView& view) {
  gpu->session = 0;
  gpu->tries = kTakeoverTries;
  if (gpu->refusal.empty()) gpu->retry_at_ns = now_ns_ + DrawNs(kTakeoverNs);
  const char* const how = view.state == SharedState::kSampling ? " sampled this GPU, and ended or does not answer"
                                                               : " sampled this GPU, and stopped";
  gpu->state.not_recorded = gpu->refusal.empty() ? gpu->state.sampled_by + how : gpu->refusal;
  history_->SetState(gpu->row, gpu->state);
}

// A number that differs between processes.
int64_t Sampler::DrawNs(int64_t most_ns) noexcept {
  drawn_ = (drawn_ + static_cast<uint64_t>(now_ns_) + static_cast<uint64_t>(getpid())) * 0x9e3779b97f4a7c15;
  drawn_ ^= drawn_ >> 31;
  return static_cast<int64_t>(drawn_ % static_cast<uint64_t>(most_ns));
}

// A library that is missing or too old stays so.
bool Sampler::OpenLibrary() {
  if (library_ != Library::kNotOpened) return library_ == Library::kOpen;
  library_ = Library::kFailed;
  if (const Status loaded = LoadCupti(options_.library, &api_); !loaded.ok()) {
    library_failure_ = loaded.message();
    return false;
  }
  library_ = Library::kOpen;
  return true;
}

// If it fails, the next start tries again.
bool Sampler::Initialize(SampledGpu* gpu) {
  if (is_initialized_) return true;
  InitializeParams params = Make<InitializeParams>();
  if (const Result result = api_.initialize(&params); result != kSuccess)
    return Fail(gpu, {"cuptiProfilerInitialize", result});
  is_initialized_ = true;
  ++libraries_;
  return true;
}

void Sampler::Note(SampledGpu* gpu, const Failure& failure) {
  ++gpu->state.failed_calls;
  gpu->state.failed_call = TextOf(api_, failure);
  history_->SetState(gpu->row, gpu->state);
  if (!is_closing_) return;
  ++close_failures_;
  close_failure_ = base::Error(StatusCode::kInternal, "%s", gpu->state.failed_call.c_str());
}

bool Sampler::Fail(SampledGpu* gpu, const Failure& failure) {
  Note(gpu, failure);
  if (gpu->end_ns == 0) gpu->end_ns = gpu->sampler != nullptr ? gpu->start_ns : now_ns_;
  Stop(gpu);
  SetShared(gpu, SharedState::kEnded);
  const std::string why = Explain(api_, failure, "it is asked for again every 10 s", "");
  if (IsFinal(failure.result)) {
    CountMissing(gpu);
    Refuse(gpu, why);
    return false;
  }
  const bool is_others = failure.result == kHardwareBusy && gpu->state.held.empty();
  if (is_others) gpu->end_ns = 0;
  const bool is_taking_over = is_others && gpu->tries != 0;
  if (is_taking_over) --gpu->tries;
  gpu->retry_at_ns = now_ns_ + (is_taking_over ? DrawNs(2 * kRoundNs) : kRetryNs);
  SetNotRecorded(gpu, why);
  return false;
}

void Sampler::SetNotRecorded(SampledGpu* gpu, const std::string& why) {
  gpu->state.not_recorded = why;
  if (!gpu->state.held.empty()) gpu->state.not_recorded += "; this process may still hold the GPU: " + gpu->state.held;
  history_->SetState(gpu->row, gpu->state);
}

void Sampler::SetShared(SampledGpu* gpu, SharedState state) {
  if (gpu->file != nullptr && gpu->state.held.empty()) gpu->file->SetState(state, RealtimeNs());
}

void Sampler::CountMissing(SampledGpu* gpu) {
  const auto count = [&](int64_t* end_ns, int64_t interval_ns) {
    if (*end_ns == 0) return;
    const int64_t lost = std::max<int64_t>(now_ns_ - *end_ns, 0) / interval_ns;
    *end_ns += lost * interval_ns;
    history_->Commit(gpu->row, {}, static_cast<uint64_t>(lost));
  };
  count(&gpu->end_ns, int64_t{1'000} * (interval_us_ != 0 ? interval_us_ : kFirstIntervalUs));
  // A sample of GPM reaches back to the snapshot before, however late it is.
  if (gpu->gpm == nullptr || gpu->gpm->newest_ns() == 0) count(&gpu->gpm_end_ns, GpmIntervalNs());
}

void Sampler::Refuse(SampledGpu* gpu, const std::string& why) {
  gpu->refusal = why;
  gpu->retry_at_ns = std::numeric_limits<int64_t>::max();
  gpu->end_ns = 0;
  SetNotRecorded(gpu, why);
}

void Sampler::Start(SampledGpu* gpu) {
  try {
    TryStart(gpu);
  } catch (const std::exception&) {
    Stop(gpu);
    FreeHost(gpu);
    throw;  // the next round tries again
  }
}

void Sampler::TryStart(SampledGpu* gpu) {
  if (!OpenLibrary()) {
    Refuse(gpu, library_failure_);
    return;
  }
  if (!Initialize(gpu)) return;
  ChipNameParams chip = Make<ChipNameParams>();
  chip.device = gpu->device.ordinal;
  if (const Result result = api_.get_chip_name(&chip); result != kSuccess) {
    Fail(gpu, {"cuptiDeviceGetChipName", result});
    return;
  }
  if (gpu->config.host == nullptr && !Configure(gpu, chip.chip)) return;
  if (!Begin(gpu)) return;
  gpu->state.not_recorded.clear();
  history_->SetState(gpu->row, gpu->state);
}

// Finds the richest metrics that the chip can count in one pass.
bool Sampler::Configure(SampledGpu* gpu, const char* chip) {
  AvailabilityParams params = Make<AvailabilityParams>();
  params.device = gpu->device.ordinal;
  Result result = api_.get_availability(&params);
  if (result == kSuccess) {
    gpu->availability.resize(params.image_bytes);
    params.image = gpu->availability.data();
    result = api_.get_availability(&params);
  }
  if (result != kSuccess) return Fail(gpu, {"cuptiPmSamplingGetCounterAvailability", result});
  std::string refusal;
  for (const std::vector<Metric>& metrics : Choices()) {
    gpu->metrics = metrics;
    const Failure failure = gpu->config.Configure(api_, kPmSampling, chip, gpu->availability, metrics);
    if (!failure && gpu->config.passes == 1) {
      gpu->state.other_metrics = refusal;
      return true;
    }
    FreeHost(gpu);
    refusal = failure ? TextOf(api_, failure) : std::to_string(metrics.size()) + " metrics need more than one pass";
  }
  Refuse(gpu, std::string("no known metric fits this chip (") + chip + "): " + refusal);
  return false;
}

bool Sampler::Begin(SampledGpu* gpu) {
  if (interval_us_ == 0) interval_us_ = options_.interval_us != 0 ? options_.interval_us : kFirstIntervalUs;
  EnableParams enable = Make<EnableParams>();
  enable.device = gpu->device.ordinal;
  if (const Result result = api_.enable(&enable); result != kSuccess)
    return Fail(gpu, {"cuptiPmSamplingEnable", result});
  gpu->sampler = enable.sampler;
  gpu->state.held.clear();
  SetConfigParams config = Make<SetConfigParams>();
  config.sampler = gpu->sampler;
  config.config = gpu->config.image.data();
  config.config_bytes = gpu->config.image.size();
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
  if (configured != kSuccess) return Fail(gpu, {"cuptiPmSamplingSetConfig", configured});
  gpu->state.source.clear();
  if (config.trigger == kBySystemClock)
    gpu->state.source = "CUPTI by the GPU's clock, every " + std::to_string(interval_us_) + " us or more";
  if (!MakeImage(gpu, kRoundNs / 1'000 / interval_us_)) return false;
  SamplerParams start = Make<SamplerParams>();
  start.sampler = gpu->sampler;
  if (const Result result = api_.start(&start); result != kSuccess) return Fail(gpu, {"cuptiPmSamplingStart", result});
  gpu->start_ns = gpu->decoded_ns = environment_.timer->NowNs();
  gpu->offset_ns = environment_.realtime_offset_ns();
  gpu->rested_ns = 0;
  gpu->is_first = true;
  gpu->has_sampled = true;
  gpu->state.interval_us = interval_us_;
  if (gpu->file != nullptr) gpu->state.not_shared = gpu->file->Begin(ThisProcess(), interval_us_, RealtimeNs());
  return true;
}

// Makes the decoder's memory, with room for so many samples and a quarter more. Clearing it costs by its size, and what
// has no room is lost.
bool Sampler::MakeImage(SampledGpu* gpu, int64_t due) {
  DataSizeParams size = Make<DataSizeParams>();
  size.sampler = gpu->sampler;
  size.metrics = gpu->config.names.data();
  size.count = gpu->config.names.size();
  size.most_samples = static_cast<uint32_t>(due + due / 4 + 8);
  if (const Result result = api_.get_data_size(&size); result != kSuccess)
    return Fail(gpu, {"cuptiPmSamplingGetCounterDataSize", result});
  gpu->samples.reserve(size.most_samples);
  gpu->data.resize(size.bytes);
  gpu->data.shrink_to_fit();  // it may have been much larger
  gpu->room = size.most_samples;
  return Clear(gpu);
}

bool Sampler::Clear(SampledGpu* gpu) {
  DataInitializeParams clear = Make<DataInitializeParams>();
  clear.sampler = gpu->sampler;
  clear.bytes = gpu->data.size();
  clear.data = gpu->data.data();
  const Result result = api_.initialize_data(&clear);
  return result == kSuccess || Fail(gpu, {"cuptiPmSamplingCounterDataImageInitialize", result});
}

void Sampler::Rest(SampledGpu* gpu) {
  gpu->end_ns = gpu->rested_ns = now_ns_;
  if (HasClockStepped(*gpu)) return Decode(gpu);  // those that come later have times of one clock
  gpu->offset_ns = environment_.realtime_offset_ns();
  gpu->samples.clear();
  Share(gpu, 0);  // a sign of life
}

bool Sampler::HasClockStepped(const SampledGpu& gpu) const {
  return std::abs(environment_.realtime_offset_ns() - gpu.offset_ns) > kClockStepNs;
}

// Samples have times of CLOCK_REALTIME. When that steps, nobody knows by which of the two they go.
void Sampler::Decode(SampledGpu* gpu) {
  const bool has_stepped = HasClockStepped(*gpu);
  gpu->offset_ns = environment_.realtime_offset_ns();
  // A late round, for example after a rest, has more to decode than usual. In this round alone its memory is larger.
  const int64_t interval_ns = int64_t{1'000} * gpu->state.interval_us;
  const int64_t since_ns = now_ns_ - gpu->decoded_ns;
  const bool is_late = since_ns > kRoundNs + kRoundNs / 4;
  const int64_t due =
      std::max(kRoundNs / interval_ns,
               std::min(since_ns / interval_ns, std::clamp(kMostKeptNs / interval_ns, kLeastKept, kMostKept)));
  try {
    if (is_late && !MakeImage(gpu, due)) return;
  } catch (const std::bad_alloc&) {
    // What has no room in the usual memory is lost, and counted.
  }
  const Result result = DecodeAll(gpu, has_stepped ? &Sampler::Drop : &Sampler::Take);
  if (is_late && result == kUnknown) {
    // Seen once after a rest (docs/lab/counters.md). The first in a minute is made up for at once.
    if (gpu->unknown_ns == 0 || now_ns_ - gpu->unknown_ns > kForgetNs) gpu->retry_at_ns = now_ns_;
    gpu->unknown_ns = now_ns_;
  }
  if (is_late && gpu->sampler != nullptr) MakeImage(gpu, kRoundNs / interval_ns);
  if (has_stepped) gpu->end_ns = 0;
  gpu->rested_ns = 0;
  gpu->decoded_ns = now_ns_;
}

// Returns what cuptiPmSamplingDecodeData did.
Result Sampler::DecodeAll(SampledGpu* gpu, void (Sampler::*use)(SampledGpu*, size_t)) {
  const size_t most = static_cast<size_t>(kMostKept) / gpu->room + 2;
  for (size_t round = 0; round < most && gpu->sampler != nullptr && !IsExiting(); ++round) {
    DecodeParams decode = Make<DecodeParams>();
    decode.sampler = gpu->sampler;
    decode.data = gpu->data.data();
    decode.bytes = gpu->data.size();
    if (const Result result = api_.decode(&decode); result != kSuccess) {
      Fail(gpu, {"cuptiPmSamplingDecodeData", result});
      return result;
    }
    DataInfoParams info = Make<DataInfoParams>();
    info.data = gpu->data.data();
    info.bytes = gpu->data.size();
    if (const Result result = api_.get_data_info(&info); result != kSuccess) {
      Fail(gpu, {"cuptiPmSamplingGetCounterDataInfo", result});
      return kSuccess;
    }
    (this->*use)(gpu, info.completed);
    if (!Clear(gpu) || decode.stop_reason != kCounterDataFull) break;
  }
  return kSuccess;
}

// Nothing was due in a rest.
void Sampler::Drop(SampledGpu* gpu, size_t count) {
  const int64_t interval_ns = int64_t{1'000} * gpu->state.interval_us;
  if (gpu->end_ns == 0) gpu->end_ns = gpu->start_ns;
  const uint64_t due = static_cast<uint64_t>(std::max<int64_t>(now_ns_ - gpu->end_ns, 0) / interval_ns);
  const uint64_t lost = std::min<uint64_t>(count, due);
  gpu->end_ns += static_cast<int64_t>(lost) * interval_ns;
  gpu->samples.clear();
  history_->Commit(gpu->row, {}, lost);
  Share(gpu, lost);
}

void Sampler::Take(SampledGpu* gpu, size_t count) {
  const int64_t offset_ns = gpu->offset_ns, interval_ns = int64_t{1'000} * gpu->state.interval_us;
  uint64_t lost = 0;
  gpu->samples.clear();
  for (size_t i = 0; i < count && gpu->samples.size() < gpu->room; ++i) {
    progress_.fetch_add(1, std::memory_order_relaxed);
    SampleInfoParams info = Make<SampleInfoParams>();
    info.sampler = gpu->sampler;
    info.data = gpu->data.data();
    info.bytes = gpu->data.size();
    info.index = i;
    double values[kMostMetrics];
    EvaluateParams evaluate = Make<EvaluateParams>();
    evaluate.host = gpu->config.host;
    evaluate.data = gpu->data.data();
    evaluate.bytes = gpu->data.size();
    evaluate.index = i;
    evaluate.metrics = gpu->config.names.data();
    evaluate.count = gpu->config.names.size();
    evaluate.values = values;
    Result result = api_.get_sample_info(&info);
    if (result != kSuccess) {
      Note(gpu, {"cuptiPmSamplingCounterDataGetSampleInfo", result});
    } else if (result = api_.evaluate(&evaluate); result != kSuccess) {
      Note(gpu, {"cuptiProfilerHostEvaluateToGpuValues", result});
    }
    const int64_t begin_ns = static_cast<int64_t>(info.begin_ns) - offset_ns;
    const int64_t end_ns = static_cast<int64_t>(info.end_ns) - offset_ns;
    const bool is_ahead = end_ns > environment_.timer->NowNs() + kRoundNs;
    const bool is_again = begin_ns < gpu->newest_ns - interval_ns;
    if (result != kSuccess || begin_ns <= 0 || end_ns <= begin_ns || is_ahead || is_again) {
      ++lost;
      continue;
    }
    const bool is_first = std::exchange(gpu->is_first, false);
    SetRested(gpu, std::max(gpu->newest_ns, gpu->start_ns), std::min(begin_ns, gpu->rested_ns));
    if (gpu->end_ns != 0) lost += static_cast<uint64_t>(std::max<int64_t>(begin_ns - gpu->end_ns, 0) / interval_ns);
    gpu->end_ns = std::max(gpu->end_ns, end_ns);
    if (is_first) continue;  // it is not whole, and has an impossible clock
    Sample sample = Unmeasured(begin_ns, end_ns);
    for (size_t metric = 0; metric < gpu->config.names.size(); ++metric) {
      const Scale scale = gpu->metrics[metric].scale;
      const double per = scale == Scale::kPerSecond ? 1e9 / static_cast<double>(end_ns - begin_ns)
                         : scale == Scale::kMega    ? 1e-6
                                                    : 1;
      sample.values[ColumnOf(gpu->metrics[metric].counter)] = static_cast<float>(values[metric] * per);
    }
    gpu->samples.push_back(sample);
    gpu->newest_ns = end_ns;
  }
  history_->Commit(gpu->row, gpu->samples, lost);
  Share(gpu, lost);
}

void Sampler::Share(SampledGpu* gpu, uint64_t lost) {
  if (gpu->file == nullptr) return;
  gpu->shared = gpu->samples;
  for (Sample& sample : gpu->shared) sample.begin_ns += gpu->offset_ns, sample.end_ns += gpu->offset_ns;
  const std::string failure = gpu->file->Write(gpu->shared, lost, RealtimeNs());
  if (failure == gpu->state.not_shared) return;
  gpu->state.not_shared = failure;
  history_->SetState(gpu->row, gpu->state);
}

// A failed call may have freed the sampler, or not: it is never used again.
void Sampler::Stop(SampledGpu* gpu) {
  if (gpu->sampler == nullptr) return;
  SamplerParams stop = Make<SamplerParams>(), disable = Make<SamplerParams>();
  stop.sampler = disable.sampler = std::exchange(gpu->sampler, nullptr);
  const Result stopped = api_.stop(&stop), disabled = api_.disable(&disable);
  if (stopped != kSuccess) Note(gpu, {"cuptiPmSamplingStop", stopped});
  if (disabled == kSuccess) return;
  const Failure failure{"cuptiPmSamplingDisable", disabled};
  gpu->state.held = TextOf(api_, failure);
  Note(gpu, failure);
}

void Sampler::FreeHost(SampledGpu* gpu) {
  if (const Failure failure = gpu->config.Free(api_)) Note(gpu, failure);
}

// Lengthens the interval if the thread takes too much of its CPU, twice in a row: incidents make it take more for a
// moment. Starting again leaves a gap in the samples, so it never becomes shorter.
void Sampler::ChooseInterval() {
  const bool is_sampling = std::any_of(gpus_.begin(), gpus_.end(), [](const SampledGpu& gpu) {
    return gpu.sampler != nullptr || gpu.session != 0 || gpu.gpm != nullptr;
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
  RestartChanged();
}

void Sampler::RestartChanged() {
  for (SampledGpu& gpu : gpus_) {
    if (gpu.sampler == nullptr || !IsChanged(gpu)) continue;
    Stop(&gpu);
    Start(&gpu);
    measured_since_ns_ = 0;  // starting again is not counted
    is_over_ = false;
  }
}

void Sampler::SetInterval(uint32_t interval_us) {
  options_.interval_us = interval_us;
  interval_us_ = interval_us != 0 ? interval_us : kFirstIntervalUs;
  for (SampledGpu& gpu : gpus_) {
    if (gpu.gpm != nullptr) TellGpm(&gpu);
  }
}

}  // namespace pitot::counters
