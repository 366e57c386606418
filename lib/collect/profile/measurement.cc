// SPDX-License-Identifier: Apache-2.0
#include "collect/profile/measurement.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/message.h"
#include "base/quantile.h"
#include "collect/profile/occupancy.h"
#include "model/kernel_name.h"
#include "trace/process.h"
#include "trace/profile_runs.h"

namespace pitot::profile {
namespace {

using base::Error;
using counters::kSuccess;

// Room for ranges: one is expected, and a second one is of another kernel.
constexpr size_t kMostRanges = 4;
// A shape with more samples than another gives way so often.
constexpr uint32_t kMostRefusals = 16;
// The default stream would wait for a stream under capture.
constexpr int kCaptureImplicit = 906;

// The running measurement, and the threads that may use it: counted before they look.
constinit std::atomic<Measurement*> g_running{nullptr};
constinit std::atomic<uint32_t> g_inside{0};
constinit std::atomic<Measurement*> g_left_behind{nullptr};  // the newest
__thread uint32_t t_depth = 0;                               // of nested launches
__thread Measurement* t_measured = nullptr;                  // by the launch of this thread

// The running measurement, if it is this process's. Counted in g_inside then.
Measurement* Enter() noexcept {
  g_inside.fetch_add(1);
  Measurement* const measurement = g_running.load();
  if (measurement != nullptr && measurement->IsOurs()) return measurement;
  g_inside.fetch_sub(1);
  return nullptr;
}
void Leave() noexcept { g_inside.fetch_sub(1); }

void BeforeLaunch(trace::Launch* launch) noexcept {
  if (t_depth++ != 0) return;
  Measurement* const measurement = Enter();
  if (measurement == nullptr) return;
  launch->is_taken = true;
  t_measured = measurement->BeginLaunch(*launch) ? measurement : nullptr;
}
void AfterLaunch(trace::Launch* launch, int result) noexcept {
  if (--t_depth != 0 || !launch->is_taken) return;
  if (Measurement* const measurement = std::exchange(t_measured, nullptr)) measurement->EndLaunch(result);
  Leave();
}
void OnCopy() noexcept {
  if (Measurement* const measurement = Enter()) measurement->NoteWork(), Leave();
}
void OnInterrupt(trace::Interruption what) noexcept {
  if (Measurement* const measurement = Enter()) measurement->EndFor(what), Leave();
}
constexpr trace::LaunchHook kHook = {BeforeLaunch, AfterLaunch, OnCopy, OnInterrupt};

}  // namespace

Measurement::Measurement(const ProfileOptions& options, const Environment& environment)
    : options_(options),
      filter_(options.kernel != nullptr ? options.kernel : ""),
      environment_(environment),
      driver_(environment_.driver),
      fork_epoch_(trace::ForkEpoch()),
      kernels_(std::make_unique<std::array<Kernel, kMostKernels>>()) {
  shapes_.reserve(kMostShapes);  // a launch's thread does not allocate
}

bool Measurement::IsOurs() const noexcept { return fork_epoch_ == trace::ForkEpoch(); }

// ---- On the threads of launches. ------------------------------------------------------------------------------------

bool Measurement::BeginLaunch(const trace::Launch& launch) noexcept {
  seen_.fetch_add(1, std::memory_order_relaxed);
  NoteWork();
  int capturing = 0;
  const int asked = driver_.is_capturing(launch.stream, &capturing);
  if (asked == kCaptureImplicit || capturing != 0) {
    captured_.fetch_add(1, std::memory_order_relaxed);
    interruption_.store(trace::Interruption::kCapture);  // its beginning was not seen
    wake_.Give();
    return false;
  }
  Kernel* const kernel = launch.kernel != nullptr ? FindKernel(launch) : nullptr;
  if (kernel == nullptr || kernel->state.load(std::memory_order_acquire) != Kernel::kMatched) return false;
  void* current = nullptr;
  if (driver_.get_current(&current) != 0 || current != context_) {
    elsewhere_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  NoteShape(launch);
  Phase armed = Phase::kArmed;
  if (!phase_.compare_exchange_strong(armed, Phase::kMeasuring)) return false;
  if (interruption_.load() != trace::Interruption::kNone) {
    phase_.store(Phase::kArmed);
    return false;
  }
  // A launch that begins from here on finds kMeasuring. One that began before is counted in g_inside.
  notes_before_ = notes_.load();
  Shape* const shape = FindShape(kernel, launch);
  if (shape == nullptr || (shape_ != nullptr ? shape != shape_ : !IsWanted(*shape))) {
    phase_.store(Phase::kArmed);
    return false;
  }
  shape_ = shape;
  is_disturbed_ = g_inside.load() != 1;
  auto start = MakeRange<RangeParams>();
  start.profiler = profiler_;
  failure_ = api_.start(&start);
  if (failure_ == kSuccess) return true;
  failed_ = "cuptiRangeProfilerStart";
  phase_.store(Phase::kMeasured);
  wake_.Give();
  return false;
}

void Measurement::EndLaunch(int result) noexcept {
  auto stop = MakeRange<RangeStopParams>();
  stop.profiler = profiler_;
  failure_ = api_.stop(&stop);
  failed_ = failure_ != kSuccess ? "cuptiRangeProfilerStop" : nullptr;
  is_all_submitted_ = stop.is_all_submitted != 0;
  if (result != 0 || notes_.load() != notes_before_) is_disturbed_ = true;
  Phase measuring = Phase::kMeasuring;
  if (phase_.compare_exchange_strong(measuring, Phase::kMeasured)) {
    wake_.Give();
    return;
  }
  // Abandoned: nobody else will.
  Disable();
}

// Work of another thread during a measured launch.
void Measurement::NoteWork() noexcept {
  if (phase_.load() == Phase::kMeasuring) notes_.fetch_add(1);
}

// CUPTI must let go of the context before it is destroyed. In a capture its calls fail, and so does the capture.
void Measurement::EndFor(trace::Interruption what) noexcept {
  interruption_.store(what);
  wake_.Give();
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + environment_.patience_ns;
  while (!has_ended_.load() && base::ClockNs(CLOCK_MONOTONIC) < until_ns) ended_.AwaitUntil(until_ns);
  ended_.Give();  // to the next waiting thread
}

Kernel* Measurement::FindKernel(const trace::Launch& launch) noexcept {
  const uint64_t hash = reinterpret_cast<uintptr_t>(launch.kernel) * uint64_t{0x9e3779b97f4a7c15} >> 48;
  for (uint32_t i = 0; i < kMostKernels; ++i) {
    Kernel& kernel = (*kernels_)[(hash + i) % kMostKernels];
    const void* key = kernel.key.load(std::memory_order_acquire);
    if (key == nullptr && kernel.key.compare_exchange_strong(key, launch.kernel)) {
      kernel.handle = launch.handle;
      kernel.original = launch.original;
      kernel.state.store(Kernel::kNew, std::memory_order_release);
      new_kernels_.fetch_add(1);
      wake_.Give();
      return &kernel;
    }
    if (key == launch.kernel) return &kernel;
  }
  left_out_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

Shape* Measurement::FindShape(Kernel* kernel, const trace::Launch& launch) noexcept {
  for (Shape& shape : shapes_) {
    if (shape.kernel == kernel && std::memcmp(shape.grid, launch.grid, sizeof shape.grid) == 0 &&
        std::memcmp(shape.block, launch.block, sizeof shape.block) == 0 && shape.shared_bytes == launch.shared_bytes)
      return &shape;
  }
  if (shapes_.size() == kMostShapes) {
    left_out_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  Shape& shape = shapes_.emplace_back();
  shape.kernel = kernel;
  std::memcpy(shape.grid, launch.grid, sizeof shape.grid);
  std::memcpy(shape.block, launch.block, sizeof shape.block);
  shape.shared_bytes = launch.shared_bytes;
  return &shape;
}

// Counts the shape if it was not seen before. Shapes in shapes_ were launched while a sample was wanted.
void Measurement::NoteShape(const trace::Launch& launch) noexcept {
  uint64_t hash = reinterpret_cast<uintptr_t>(launch.kernel);
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15; };
  for (const auto size : launch.grid) add(size);
  for (const auto size : launch.block) add(size);
  add(launch.shared_bytes);
  for (std::atomic<uint64_t>& seen : seen_shapes_) {
    uint64_t other = 0;
    if (seen.compare_exchange_strong(other, hash | 1)) {
      seen_shapes_count_.fetch_add(1);
      return;
    }
    if (other == (hash | 1)) return;
  }
}

// Shapes take turns: one with more samples of the set than another waits for it, for a while. A kernel that is known by
// its name, or a shape that was seen, and was never launched while a sample was wanted, counts as another.
bool Measurement::IsWanted(const Shape& shape) noexcept {
  std::array<const Kernel*, kMostShapes> sampled;
  size_t count = 0;
  for (const Shape& other : shapes_) {
    if (std::find(sampled.begin(), sampled.begin() + count, other.kernel) == sampled.begin() + count)
      sampled[count++] = other.kernel;
  }
  const bool is_other = count < matched_names_.load() || shapes_.size() < seen_shapes_count_.load();
  const bool awaits_other = awaits_others_ && shape.samples[set_] > 0 && is_other;
  const bool is_ahead = std::any_of(shapes_.begin(), shapes_.end(),
                                    [&](const Shape& other) { return other.samples[set_] < shape.samples[set_]; });
  if ((is_ahead || awaits_other) && ++refusals_ < kMostRefusals) return false;
  if (awaits_other) awaits_others_ = false;  // it may never be launched again, or in another context
  refusals_ = 0;
  return true;
}

// ---- On the caller's thread. ----------------------------------------------------------------------------------------

Status Measurement::Failed(const char* function, Result result) const {
  const std::string text =
      counters::Explain(api_, {function, result}, "end it, or run `pitot counters release`, and call again",
                        "; the server runs on, and the call may be tried again");
  return Status(StatusCode::kUnavailable, text.c_str());
}

bool Measurement::Run(Profile* profile, Status* status) {
  std::optional<trace::ProfileRun> run;  // ends after all others
  Publish();
  // One that began before the hook was there has interrupted nobody.
  if (trace::g_captures.load() > 0) interruption_.store(trace::Interruption::kCapture);
  try {
    *status = Interrupted();
    if (status->ok()) {
      run.emplace();
      *status = Prepare();
    }
    if (status->ok()) *status = Loop();
  } catch (...) {
    *status = Status(StatusCode::kResourceExhausted, "no memory to profile kernels");
  }
  bool is_ours = TakeBack();
  if (is_ours) {
    try {
      Report(profile);
    } catch (...) {
      *status = Status(StatusCode::kResourceExhausted, "no memory to profile kernels");
    }
    Finish();
  }
  void* popped = nullptr;
  if (std::exchange(is_pushed_, false)) driver_.pop(&popped);
  has_ended_.store(true);
  ended_.Give();
  if (is_ours) return Withdraw();
  Withdraw();
  *status = Error(StatusCode::kUnavailable,
                  "a measured launch has not returned for %.1f s: CUPTI ends once it does, and its profile is lost",
                  static_cast<double>(environment_.patience_ns) / 1e9);
  return false;
}

Status Measurement::FindContext() {
  unsigned int flags = 0;
  int is_active = 0;
  if (driver_.get_device(&device_, static_cast<int>(options_.device)) != 0 ||
      driver_.primary_state(device_, &flags, &is_active) != 0)
    return Error(StatusCode::kNotFound, "ProfileOptions::device is %u, and CUDA has no such GPU", options_.device);
  if (is_active == 0)
    return Error(StatusCode::kNotFound,
                 "this process has no primary context on GPU %u: profile once the server launches kernels there",
                 options_.device);
  is_retained_ = driver_.primary_retain(&context_, device_) == 0;
  if (!is_retained_) {
    return Error(StatusCode::kUnavailable,
                 "the driver does not give the context of GPU %u: it may be in an error state", options_.device);
  }
  is_pushed_ = driver_.push(context_) == 0;
  if (is_pushed_) return {};
  return Error(StatusCode::kUnavailable, "the context of GPU %u cannot be used: it may be in an error state",
               options_.device);
}

Status Measurement::Prepare() {
  int version = 0;
  const int major = driver_.get_version(&version) == 0 ? version / 1000 : 0;
  if (Status status = FindContext(); !status.ok()) return status;
  if (Status status = LoadCupti(options_.library != nullptr ? options_.library : "", major, &api_); !status.ok())
    return status;
  auto initialize = counters::Make<counters::InitializeParams>();
  if (const Result result = api_.initialize(&initialize); result != kSuccess)
    return Failed("cuptiProfilerInitialize", result);
  auto chip = counters::Make<counters::ChipNameParams>();
  chip.device = options_.device;
  if (const Result result = api_.get_chip_name(&chip); result != kSuccess)
    return Failed("cuptiDeviceGetChipName", result);
  auto availability = MakeRange<ContextAvailabilityParams>();
  availability.context = context_;
  Result result = api_.get_availability(&availability);
  if (result == kSuccess) {
    availability_.resize(availability.image_bytes);
    availability.image = availability_.data();
    result = api_.get_availability(&availability);
  }
  if (result != kSuccess) return Failed("cuptiProfilerGetCounterAvailability", result);
  if (Status status = Configure(chip.chip); !status.ok()) return status;
  Share();
  return {};
}

// Divides the launches among the sets: equally many samples of each, and the rest where it suffices.
void Measurement::Share() {
  const bool has_replay = options_.replay == ProfileReplay::kKernel;
  const auto cost = [&](const Set& set) { return has_replay ? uint64_t{1} : std::max<uint64_t>(set.config.passes, 1); };
  uint64_t round = 0;
  for (const Set& set : sets_) round += cost(set);
  round = std::max<uint64_t>(round, 1);
  uint64_t left = options_.launches % round;
  for (Set& set : sets_) {
    set.quota = options_.launches / round;
    if (cost(set) <= left) ++set.quota, left -= cost(set);
  }
  sets_[0].quota = std::max<uint64_t>(sets_[0].quota + left / cost(sets_[0]), 1);
}

bool Measurement::IsDone() const {
  return std::all_of(sets_.begin(), sets_.end(), [](const Set& set) { return set.samples >= set.quota; });
}

Status Measurement::Interrupted() const {
  switch (interruption_.load()) {
    case trace::Interruption::kNone:
      return {};
    case trace::Interruption::kReset:
      return Status(StatusCode::kUnavailable,
                    "the device was reset while its kernels were profiled: call again once the server has set it up");
    case trace::Interruption::kCapture:
      break;
  }
  return Status(StatusCode::kUnavailable,
                "the server captures a graph, and profiling would break it: call again once it is captured");
}

// With replay all metrics are of one launch.
Status Measurement::Configure(const char* chip) {
  std::vector<std::vector<Metric>> wanted = MetricSets(options_.metrics);
  if (options_.replay == ProfileReplay::kKernel) {
    for (size_t i = 1; i < wanted.size(); ++i) wanted[0].insert(wanted[0].end(), wanted[i].begin(), wanted[i].end());
    wanted.resize(1);
  }
  for (const std::vector<Metric>& metrics : wanted) {
    Set set;
    if (!ConfigureSet(chip, metrics, &set)) {
      // The chip may not know one of them. A host object answers nothing after that, so each is tried by itself.
      std::vector<Metric> known;
      for (const Metric& metric : metrics) {
        Set alone;
        if (metrics.size() > 1 && ConfigureSet(chip, {metric}, &alone)) known.push_back(metric);
        alone.config.Free(api_);
      }
      if (known.empty() || !ConfigureSet(chip, known, &set)) continue;
    }
    set.first = metric_count_;
    metric_count_ += set.metrics.size();
    sets_.push_back(std::move(set));
  }
  if (!sets_.empty()) return {};
  return Error(StatusCode::kUnavailable, "no known metric fits this chip (%s): %s", chip, refused_.c_str());
}

bool Measurement::ConfigureSet(const char* chip, std::vector<Metric> metrics, Set* set) {
  set->metrics = std::move(metrics);
  const counters::Failure failure = set->config.Configure(api_, kRangeProfiler, chip, availability_, set->metrics);
  if (!failure) return true;
  set->config.Free(api_);
  refused_ = TextOf(api_, failure);
  return false;
}

// From the beginning, to see a reset.
void Measurement::Publish() noexcept {
  const Measurement* const before = g_running.load();
  if (before != nullptr && !before->IsOurs()) g_inside.store(0);  // of a parent's threads
  g_running.store(this);
  trace::g_launch_hook.store(&kHook);
}

// True once no thread uses the measurement.
bool Measurement::Withdraw() noexcept {
  trace::g_launch_hook.store(nullptr);
  g_running.store(nullptr);
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + environment_.patience_ns;
  while (g_inside.load() != 0) {
    if (base::ClockNs(CLOCK_MONOTONIC) >= until_ns) return false;
    const timespec pause = {0, 50'000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

Status Measurement::Loop() {
  if (Status status = Arm(); !status.ok()) return status;
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + int64_t{1'000'000} * options_.timeout_ms;
  while (!IsDone()) {
    if (Status status = Interrupted(); !status.ok()) return status;
    if (new_kernels_.exchange(0) != 0) NameKernels();
    if (phase_.load() == Phase::kMeasured) {
      if (Status status = TakeMeasured(); !status.ok()) return status;
      continue;
    }
    if (base::ClockNs(CLOCK_MONOTONIC) >= until_ns) return TooFew();
    wake_.AwaitUntil(until_ns);
  }
  return {};
}

// Begins a sample: of one set after another, because a change takes 0.2 s.
Status Measurement::Arm() {
  const auto next = std::find_if(sets_.begin(), sets_.end(), [](const Set& set) { return set.samples < set.quota; });
  if (next == sets_.end()) return {};
  set_ = static_cast<size_t>(next - sets_.begin());
  // CUPTI keeps the passes and the replay of an object's first configuration.
  if (set_ != enabled_set_) Disable();
  if (profiler_ == nullptr) {
    if (Status status = Enable(); !status.ok()) return status;
  }
  if (Status status = Begin(); !status.ok()) return status;
  phase_.store(Phase::kArmed);
  return {};
}

Status Measurement::Enable() {
  auto enable = MakeRange<RangeEnableParams>();
  enable.context = context_;
  if (const Result result = api_.enable(&enable); result != kSuccess) return Failed("cuptiRangeProfilerEnable", result);
  profiler_ = enable.profiler;
  enabled_set_ = set_;
  is_warm_ = may_warm_ && options_.replay == ProfileReplay::kNone;
  if (!is_warm_) return {};
  // The first start takes 0.15 s. The caller makes it, with all passes empty: no launch waits so long.
  if (Status status = Begin(); !status.ok()) return status;
  if (Status status = Warm(); !status.ok()) return status;
  if (is_all_submitted_) return {};
  may_warm_ = false;
  Disable();
  return Enable();
}

// Makes the other passes of a sample, empty.
Status Measurement::Warm() {
  for (is_all_submitted_ = false; !is_all_submitted_ && pass_ < sets_[set_].config.passes; ++pass_) {
    if (Status status = Interrupted(); !status.ok()) return status;
    auto start = MakeRange<RangeParams>();
    start.profiler = profiler_;
    if (const Result result = api_.start(&start); result != kSuccess) return Failed("cuptiRangeProfilerStart", result);
    auto stop = MakeRange<RangeStopParams>();
    stop.profiler = profiler_;
    if (const Result result = api_.stop(&stop); result != kSuccess) return Failed("cuptiRangeProfilerStop", result);
    is_all_submitted_ = stop.is_all_submitted != 0;
  }
  return {};
}

// Configures a sample of the set.
Status Measurement::Begin() {
  Set& set = sets_[set_];
  pass_ = 0;
  shape_ = nullptr;
  if (set.data.empty()) {
    auto size = MakeRange<RangeDataSizeParams>();
    size.profiler = profiler_;
    size.metrics = set.config.names.data();
    size.count = set.config.names.size();
    size.most_ranges = kMostRanges;
    size.most_nodes = kMostRanges;
    if (const Result result = api_.get_data_size(&size); result != kSuccess)
      return Failed("cuptiRangeProfilerGetCounterDataSize", result);
    set.data.resize(size.bytes);
  }
  auto clear = MakeRange<RangeDataInitializeParams>();
  clear.profiler = profiler_;
  clear.bytes = set.data.size();
  clear.data = set.data.data();
  if (const Result result = api_.initialize_data(&clear); result != kSuccess)
    return Failed("cuptiRangeProfilerCounterDataImageInitialize", result);
  auto config = MakeRange<RangeConfigParams>();
  config.profiler = profiler_;
  config.config = set.config.image.data();
  config.config_bytes = set.config.image.size();
  config.data = set.data.data();
  config.data_bytes = set.data.size();
  config.range = kAutoRange;  // close around the kernel: neither the host's launch nor other work counts
  config.replay = options_.replay == ProfileReplay::kKernel ? kKernelReplay : kUserReplay;
  config.most_ranges = kMostRanges;
  config.levels = config.least_level = config.target_level = 1;
  if (const Result result = api_.set_config(&config); result != kSuccess)
    return Failed("cuptiRangeProfilerSetConfig", result);
  return {};
}

Status Measurement::TakeMeasured() {
  phase_.store(Phase::kCaller);
  if (failed_ != nullptr) return Failed(failed_, failure_);
  if (is_disturbed_) {
    disturbed_ += ++pass_;  // the passes of a sample belong together
    if (!is_all_submitted_ && may_warm_) {
      if (Status status = Warm(); !status.ok()) return status;
    }
    if (!is_all_submitted_) Disable();
    return Arm();
  }
  ++pass_;
  const bool is_whole = is_all_submitted_ || options_.replay == ProfileReplay::kKernel;
  if (!is_whole && pass_ <= sets_[set_].config.passes) {
    phase_.store(Phase::kArmed);
    return {};
  }
  if (Status status = Decode(); !status.ok()) return status;
  return Arm();
}

Status Measurement::Decode() {
  Set& set = sets_[set_];
  auto decode = MakeRange<RangeDecodeParams>();
  decode.profiler = profiler_;
  if (const Result result = api_.decode(&decode); result != kSuccess)
    return Failed("cuptiRangeProfilerDecodeData", result);
  auto info = MakeRange<RangeDataInfoParams>();
  info.data = set.data.data();
  info.bytes = set.data.size();
  if (const Result result = api_.get_data_info(&info); result != kSuccess)
    return Failed("cuptiRangeProfilerGetCounterDataInfo", result);
  if (info.ranges != 1 || decode.dropped != 0) {
    disturbed_ += pass_;
    return {};
  }
  std::vector<double> values(set.metrics.size(), NAN);
  auto evaluate = counters::Make<counters::EvaluateParams>();
  evaluate.host = set.config.host;
  evaluate.data = set.data.data();
  evaluate.bytes = set.data.size();
  evaluate.metrics = set.config.names.data();
  evaluate.count = set.config.names.size();
  evaluate.values = values.data();
  if (const Result result = api_.evaluate(&evaluate); result != kSuccess)
    return Failed("cuptiProfilerHostEvaluateToGpuValues", result);
  const bool has_value = std::any_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  if (!has_value && std::exchange(is_warm_, false)) {
    // Perhaps because of the empty passes: once more without them.
    may_warm_ = false;
    disturbed_ += pass_;
    Disable();
    return {};
  }
  is_warm_ = false;
  shape_->values.resize(metric_count_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) shape_->values[set.first + i].push_back(values[i]);
  }
  ++set.samples;
  ++shape_->samples[set_];
  shape_->launches += static_cast<uint32_t>(pass_);
  measured_ += pass_;
  return {};
}

// Ends the turn of launches. False: one has not come back.
bool Measurement::TakeBack() noexcept {
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + environment_.patience_ns;
  while (true) {
    Phase phase = phase_.load();
    if (phase == Phase::kCaller) return true;
    if (phase != Phase::kMeasuring) {
      if (phase_.compare_exchange_strong(phase, Phase::kCaller)) return true;
      continue;
    }
    if (base::ClockNs(CLOCK_MONOTONIC) >= until_ns && phase_.compare_exchange_strong(phase, Phase::kAbandoned))
      return false;
    wake_.AwaitUntil(std::min(until_ns, base::ClockNs(CLOCK_MONOTONIC) + 1'000'000));
  }
}

void Measurement::Disable() noexcept {
  if (profiler_ == nullptr) return;
  auto disable = MakeRange<RangeParams>();
  disable.profiler = std::exchange(profiler_, nullptr);
  api_.disable(&disable);
}

void Measurement::Finish() noexcept {
  Disable();
  for (Set& set : sets_) set.config.Free(api_);
  if (std::exchange(is_retained_, false)) driver_.primary_release(device_);
}

void Measurement::NameKernels() {
  for (Kernel& kernel : *kernels_) {
    if (kernel.state.load(std::memory_order_acquire) == Kernel::kNew) NameKernel(&kernel);
  }
}

void Measurement::NameKernel(Kernel* kernel) {
  void* const key = const_cast<void*>(kernel->key.load(std::memory_order_relaxed));
  void* function = key;
  const char* name = nullptr;
  const auto is_function = [&] { return driver_.function_name(&name, function) == 0 && name != nullptr; };
  const auto is_kernel = [&] {
    return driver_.kernel_name != nullptr && driver_.kernel_function != nullptr &&
           driver_.kernel_name(&name, key) == 0 && name != nullptr && driver_.kernel_function(&function, key) == 0;
  };
  bool has_name = false;
  switch (kernel->handle) {
    case trace::KernelHandle::kSymbol:
      has_name = driver_.symbol_function(kernel->original, &function, key) == 0 && is_function();
      break;
    case trace::KernelHandle::kKernel:
      has_name = is_kernel();
      break;
    case trace::KernelHandle::kFunction:
      has_name = is_function() || is_kernel();
      break;
  }
  uint32_t state = Kernel::kOther;
  if (has_name) {
    kernel->function = function;
    kernel->name = model::ReadKernelName(name).full;
    if (IsMatch(name) || IsMatch(kernel->name)) state = Kernel::kMatched, matched_names_.fetch_add(1);
  }
  kernel->state.store(state, std::memory_order_release);
}

bool Measurement::IsMatch(const std::string& name) const { return name.find(filter_) != std::string::npos; }

Status Measurement::TooFew() const {
  const auto number = [](const auto& count) { return static_cast<unsigned long long>(count); };
  const uint64_t seen = seen_.load(), elsewhere = elsewhere_.load();
  const char* hint = "raise ProfileOptions::timeout_ms";
  if (seen == 0) {
    hint =
        "the server launched nothing, or launches are not seen: link CUDA's runtime as a shared library (nvcc "
        "-cudart shared)";
  } else if (matched_names_.load() == 0) {
    hint = "no launched kernel has ProfileOptions::kernel in its name";
  } else if (elsewhere != 0) {
    hint = "the kernels run on another GPU or context: set ProfileOptions::device";
  } else if (disturbed_ > measured_) {
    hint = "other threads enqueued work meanwhile: profile with less load";
  }
  return Error(StatusCode::kUnavailable,
               "%llu of %u launches of \"%s\" were measured in %u ms (%llu launches seen, %llu disturbed, %llu "
               "elsewhere): %s",
               number(measured_), options_.launches, filter_.c_str(), options_.timeout_ms, number(seen),
               number(disturbed_), number(elsewhere), hint);
}

void Measurement::Report(Profile* profile) {
  profile->launches_seen = seen_.load();
  profile->launches_measured = measured_;
  profile->launches_disturbed = disturbed_;
  profile->launches_captured = captured_.load();
  profile->launches_elsewhere = elsewhere_.load();
  profile->launches_left_out = left_out_.load();
  std::vector<Metric> metrics;
  for (const Set& set : sets_) metrics.insert(metrics.end(), set.metrics.begin(), set.metrics.end());
  for (Shape& shape : shapes_) {
    if (shape.launches == 0) continue;
    KernelProfile& kernel = profile->kernels.emplace_back();
    kernel.name = shape.kernel->name;
    std::copy(std::begin(shape.grid), std::end(shape.grid), std::begin(kernel.grid));
    std::copy(std::begin(shape.block), std::end(shape.block), std::begin(kernel.block));
    kernel.dynamic_shared_bytes = shape.shared_bytes;
    kernel.launches = shape.launches;
    if (interruption_.load() != trace::Interruption::kReset)
      AddOccupancy(driver_, device_, shape.kernel->function, &kernel);
    for (size_t i = 0; i < shape.values.size(); ++i) {
      if (!shape.values[i].empty()) kernel.*metrics[i].value = base::Median(std::move(shape.values[i]));
    }
    // Hits of one launch, by the sectors of another.
    if (kernel.l2_hit_percent) kernel.l2_hit_percent = std::min(*kernel.l2_hit_percent, 100.0);
  }
  std::stable_sort(profile->kernels.begin(), profile->kernels.end(), [](const auto& one, const auto& other) {
    return one.duration_ns.value_or(0) > other.duration_ns.value_or(0);
  });
}

Status Measure(const ProfileOptions& options, const Environment& environment, Profile* profile) {
  auto measurement = std::make_unique<Measurement>(options, environment);
  Status status;
  if (!measurement->Run(profile, &status)) {
    Measurement* const used = measurement.release();  // by a thread that hangs
    used->before_ = g_left_behind.exchange(used);
  }
  return status;
}

}  // namespace pitot::profile
