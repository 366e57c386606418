// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/calls.h"

#include <pthread.h>

#include <algorithm>
#include <string_view>

#include "base/clock.h"

namespace pitot::cupti {
namespace {

// The outermost call of a thread.
struct InCall {
  uint32_t period;  // of its level, at its beginning; 0: none
  uint32_t correlation;
  uint32_t domain, callback_id;
  uint64_t begin;  // ns of CLOCK_MONOTONIC for a look, otherwise ticks
  uint8_t level;
  bool is_look;
};
// Initial-exec: a callback must not allocate.
[[gnu::tls_model("initial-exec")]] constinit thread_local InCall t_call{};

// The thread's stripe for counting, its highest bit set; 0: it has none yet.
[[gnu::tls_model("initial-exec")]] constinit thread_local uint32_t t_stripe = 0;
constinit std::atomic<uint32_t> g_stripes{0};

uint32_t StripeOfThread() {
  if (__builtin_expect(t_stripe == 0, 0)) t_stripe = g_stripes.fetch_add(1, std::memory_order_relaxed) | 1u << 31;
  return t_stripe;
}

// Periods of the calls of level 1, and of level 2: odd while CUPTI reports both their ends, and one more at each
// change. A call begun in the present period is in flight until its end is reported. One from an earlier period may
// have ended unreported. Periods belong to the process, as do the threads' memories of calls. Each is one bit up, above
// kLook: a thread must not see a period without whether it is a look.
constexpr uint32_t kLook = 1;
constinit std::atomic<uint32_t> g_periods[2]{};

uint32_t PeriodAndLook(uint8_t level) { return g_periods[level - 1].load(std::memory_order_acquire); }
uint32_t PeriodOf(uint8_t level) { return PeriodAndLook(level) >> 1; }

// Whether the call's end is still to be reported. `period` was read for `level`: a second reading may differ.
bool IsInFlight(const InCall& call, uint8_t level, uint32_t period) {
  return call.period != 0 && call.period == (call.level == level ? period : PeriodOf(call.level));
}

// Whether the beginning of this very call was reported, in any period. Correlations are used again: a beginning of long
// ago is another call's.
bool IsBegun(const InCall& call, Domain domain, uint32_t callback_id, uint32_t correlation) {
  return call.period != 0 && call.correlation == correlation && call.domain == static_cast<uint32_t>(domain) &&
         call.callback_id == callback_id;
}

// Whether more changes have passed since the call's beginning than a call outlasts: from the last time that both ends
// were reported on, it may be this one.
constexpr uint32_t kChangesOutlasted = 2;
bool IsStale(const InCall& call, uint32_t period) { return period - call.period > kChangesOutlasted; }

uint64_t BeginOf(bool is_look) { return is_look ? static_cast<uint64_t>(base::ClockNs(CLOCK_MONOTONIC)) : BeginCall(); }

bool StartsWith(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }
bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Launch {
  Domain domain;
  uint32_t callback_id;
  const char* name;
};
// Sources: cupti_runtime_cbid.h and cupti_driver_cbid.h of CUDA 13.0.
constexpr Launch kLaunches[] = {
    {kRuntimeApi, 211, "cudaLaunchKernel"},
    {kRuntimeApi, 214, "cudaLaunchKernel"},
    {kRuntimeApi, 269, "cudaLaunchCooperativeKernel"},
    {kRuntimeApi, 270, "cudaLaunchCooperativeKernel"},
    {kRuntimeApi, 311, "cudaGraphLaunch"},
    {kRuntimeApi, 312, "cudaGraphLaunch"},
    {kRuntimeApi, 430, "cudaLaunchKernelExC"},
    {kRuntimeApi, 431, "cudaLaunchKernelExC"},
    {kRuntimeApi, 505, "cudaLaunchKernel"},
    {kRuntimeApi, 506, "cudaLaunchKernel"},
    {kDriverApi, 307, "cuLaunchKernel"},
    {kDriverApi, 442, "cuLaunchKernel"},
    {kDriverApi, 477, "cuLaunchCooperativeKernel"},
    {kDriverApi, 478, "cuLaunchCooperativeKernel"},
    {kDriverApi, 514, "cuGraphLaunch"},
    {kDriverApi, 515, "cuGraphLaunch"},
    {kDriverApi, 652, "cuLaunchKernelEx"},
    {kDriverApi, 653, "cuLaunchKernelEx"},
};

}  // namespace

std::string PlainName(std::string_view name) {
  while (!name.empty() && name[0] == '_') name.remove_prefix(1);
  for (size_t at; (at = name.rfind('_')) != std::string_view::npos && at != 0;) {
    const std::string_view last = name.substr(at + 1);
    const bool is_version = last.size() > 1 && last[0] == 'v' && IsDigits(last.substr(1));
    if (!is_version && last != "ptsz" && last != "ptds") break;
    name = name.substr(0, at);
  }
  return std::string(name);
}

bool IsRecorded(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"cudaLaunchKernel",
                                                   "cudaLaunchCooperativeKernel",
                                                   "cudaLaunchHostFunc",
                                                   "cudaGraphLaunch",
                                                   "cudaGraphInstantiate",
                                                   "cudaGraphUpload",
                                                   "cudaMemcpy",
                                                   "cudaMemset",
                                                   "cudaMalloc",
                                                   "cudaFree",
                                                   "cudaHostAlloc",
                                                   "cudaHostRegister",
                                                   "cuLaunchKernel",
                                                   "cuLaunchCooperativeKernel",
                                                   "cuGraphLaunch",
                                                   "cuGraphInstantiate",
                                                   "cuMemcpy",
                                                   "cuMemset",
                                                   "cuMemAlloc",
                                                   "cuMemFree",
                                                   "cuMemHostAlloc",
                                                   "cuModuleLoad",
                                                   "cuLibraryLoad"};
  static constexpr std::string_view kNames[] = {"cudaStreamSynchronize", "cudaDeviceSynchronize",
                                                "cudaEventSynchronize",  "cuStreamSynchronize",
                                                "cuCtxSynchronize",      "cuEventSynchronize"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](auto prefix) { return StartsWith(name, prefix); }) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

void ApiCalls::Find(const Api& api) {
  ids_.clear(), others_.clear();
  const auto add = [this](Domain domain, uint32_t callback_id, const std::string& name) {
    const uint8_t level = name.find("GraphLaunch") != std::string::npos ? 1 : 2;
    ids_.push_back({domain, callback_id, level});
    levels_[domain - kDriverApi][callback_id] = level;
    names_[domain - kDriverApi][callback_id] = Intern(name.c_str()).index;
    classes_[domain - kDriverApi][callback_id] = base::CallClassOf(name);
  };
  if (api.get_callback_name == nullptr) {
    for (const Launch& launch : kLaunches) add(launch.domain, launch.callback_id, launch.name);
    return;
  }
  for (const Domain domain : {kDriverApi, kRuntimeApi}) {
    for (uint32_t id = 1; id < kMostCallbacks; ++id) {
      const char* name = nullptr;
      if (api.get_callback_name(domain, id, &name) != kSuccess || name == nullptr) continue;
      const std::string plain = PlainName(name);
      if (cupti::IsRecorded(plain)) {
        add(domain, id, plain);
        waits_for_[domain - kDriverApi][id] = WaitsForOf(name);
      } else {
        others_.push_back({domain, id, 0});
      }
    }
  }
}

Name ApiCalls::NameOf(Domain domain, uint32_t callback_id) const noexcept {
  const bool is_known = (domain == kDriverApi || domain == kRuntimeApi) && callback_id < kMostCallbacks;
  return Name{is_known ? names_[domain - kDriverApi][callback_id] : 0};
}

base::CallClass ApiCalls::ClassOf(Domain domain, uint32_t callback_id) const noexcept {
  const bool is_known = (domain == kDriverApi || domain == kRuntimeApi) && callback_id < kMostCallbacks;
  return is_known ? classes_[domain - kDriverApi][callback_id] : base::CallClass::kOther;
}

void ApiCalls::SetLevel(uint8_t level, bool is_look) noexcept {
  for (const uint8_t of : {uint8_t{1}, uint8_t{2}}) {
    const uint32_t before = PeriodOf(of);
    const bool was_on = before % 2 != 0;
    const uint32_t period = was_on != (level >= of) ? before + 1 : before;
    g_periods[of - 1].store(period << 1 | (is_look ? kLook : 0), std::memory_order_release);
  }
}

ApiCalls::WaitsFor ApiCalls::WaitsForOf(std::string_view name) {
  const std::string plain = PlainName(name);
  if (plain == "cudaStreamSynchronize" || plain == "cuStreamSynchronize")
    return name.find("_ptsz") != std::string_view::npos ? WaitsFor::kPerThreadStream : WaitsFor::kStream;
  // The second version of cuCtxSynchronize names a context of its own.
  const bool is_of_current = plain == "cudaDeviceSynchronize" || name == "cuCtxSynchronize";
  return is_of_current ? WaitsFor::kContext : WaitsFor::kUnknown;
}

void ApiCalls::AddAwaited(WaitsFor what, const CallbackData& data, DeviceCall* call) noexcept {
  const auto* const result = static_cast<const int*>(data.return_value);
  if (data.context == nullptr || result == nullptr || *result != 0) return;
  if (what == WaitsFor::kContext) {
    call->context = data.context_id, call->stream = kAllStreams;
    return;
  }
  const auto* const parameters = static_cast<const StreamParameters*>(data.parameters);
  if (parameters == nullptr) return;
  const auto handle = reinterpret_cast<uintptr_t>(parameters->stream);
  const bool is_default = handle == kLegacyHandle || handle == kPerThreadHandle;
  const bool is_per_thread =
      handle == kPerThreadHandle || (what == WaitsFor::kPerThreadStream && handle != kLegacyHandle);
  const uint32_t id = stream_ids_.Of(data.context, data.context_id, is_default ? nullptr : parameters->stream,
                                     is_per_thread ? StreamIds::Default::kPerThread : StreamIds::Default::kLegacy);
  if (id != StreamIds::kUnknown) call->context = data.context_id, call->stream = id;
}

void ApiCalls::CountSubmission() noexcept {
  std::atomic<uint64_t>& own = stripes_[StripeOfThread() % kStripes].submissions;
  own.store(own.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

uint64_t ApiCalls::submissions() const noexcept {
  uint64_t all = 0;
  for (const Stripe& stripe : stripes_) all += stripe.submissions.load(std::memory_order_relaxed);
  return all;
}

void ApiCalls::OnCallback(Domain domain, uint32_t callback_id, const CallbackData& data) noexcept {
  const uint8_t level = LevelOf(domain, callback_id);
  if (level == 0) return;
  InCall& call = t_call;
  const uint32_t now = PeriodAndLook(level), period = now >> 1;
  const bool is_on = period % 2 != 0, is_looking = (now & kLook) != 0;
  const bool is_inside = IsInFlight(call, level, period);
  if (data.site == kEnter) {
    // While it is off, the thread may have been on its way here since it was on, and the end may not be reported.
    if (is_inside || !is_on) return;
    if (call.period != 0 && !call.is_look) CountMissed();  // the end of that call was not reported
    const uint64_t begin = BeginOf(is_looking);
    call = {period, data.correlation_id, static_cast<uint32_t>(domain), callback_id, begin, level, is_looking};
    return;
  }
  const bool is_recording = is_on && !is_looking;
  if (!IsBegun(call, domain, callback_id, data.correlation_id)) {
    if (!is_inside && is_recording) CountMissed();  // its beginning was not reported
    return;
  }
  const bool is_stale = IsStale(call, period);
  call.period = 0;
  if (call.is_look ? is_recording : is_stale) return CountMissed();
  if (call.is_look) {
    if (is_stale) return;
    return lasting_cost_.Add(pthread_self(), ClassOf(domain, callback_id), static_cast<int64_t>(call.begin),
                             base::ClockNs(CLOCK_MONOTONIC));
  }
  if (base::IsSubmission(ClassOf(domain, callback_id))) CountSubmission();
  const WaitsFor what = waits_for_[domain - kDriverApi][callback_id];
  DeviceCall ended{collector_name_, NameOf(domain, callback_id), data.correlation_id};
  if (__builtin_expect(what != WaitsFor::kUnknown, 0)) AddAwaited(what, data, &ended);
  EndCall(call.begin, ended);
}

}  // namespace pitot::cupti
