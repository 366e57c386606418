// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/faults.h"

#include <algorithm>

namespace image_server {
namespace {

using scoreboard::FaultKindInfo;
using scoreboard::MonotonicNs;

constexpr bool kNeedsGpu = true;

// By FaultKind.
constexpr FaultKindInfo kKinds[kFaultKinds] = {
    {"slow_decode_spin", {"dose_ms"}},
    {"slow_decode_sleep", {"dose_ms"}},
    {"lock_held", {"dose_ms"}},
    {"batch_timeout", {"dose_ms"}},
    {"fsync", {"dose_bytes"}},
    {"page_faults", {"dose_mib"}},
    {"cpu_spinners", {"dose_ms", "threads"}},
    {"major_faults", {"dose_mib"}},
    {"slow_postprocess", {"dose_ms"}},
    {"unhooked_hop", {"dose_ms"}},
    {"decode_again", {}},
    {"memory_leak", {"dose_mib"}},
    {"small_copies", {"dose_count"}, kNeedsGpu},
    {"pageable_copy", {"dose_mib"}, kNeedsGpu},
    {"sync_each", {"dose_count"}, kNeedsGpu},
    {"scalar_readback", {"dose_count"}, kNeedsGpu},
    {"device_malloc", {"dose_mib"}, kNeedsGpu},
    {"lazy_kernel", {}, kNeedsGpu},
    {"tiny_kernels", {"dose_count"}, kNeedsGpu},
    {"full_queue", {"dose_count"}, kNeedsGpu},
    {"shared_stream", {"dose_count"}, kNeedsGpu},
    {"neighbour", {"dose_count"}, kNeedsGpu},
    {"empty_cache", {}, kNeedsGpu},
};

constexpr char kInDecode[] = R"(,"scope":"decode")";

constexpr char kInPostprocess[] = R"(,"scope":"postprocess")";

void Spin(const Fault& fault) { scoreboard::SpinUntil(MonotonicNs() + fault.dose_ns); }
void Sleep(const Fault& fault) { scoreboard::SleepFor(fault.dose_ns); }

}  // namespace

const char* FaultName(FaultKind kind) { return kKinds[kind].name; }

Fault ParseFault(std::string_view text) { return scoreboard::ParseFault(kKinds, text); }

Faults::Faults(const FaultOptions& options) : FaultSchedule(kKinds, options), directory_(options.directory) {}

void Faults::InDecode(uint64_t request) {
  Inject(kSlowDecodeSpin, request, Spin, kInDecode);
  Inject(kSlowDecodeSleep, request, Sleep, kInDecode);
  Inject(
      kPageFaults, request, [](const Fault& fault) { scoreboard::TouchColdMemory(fault.dose_bytes); }, kInDecode);
  ReadColdFile(request);
}

void Faults::AfterDecode(uint64_t request, const std::function<void()>& decode) {
  Inject(
      kDecodeAgain, request, [&](const Fault&) { decode(); }, kInDecode);
}

void Faults::InCache(uint64_t request) { cache_lock_.Pass(this, kLockHeld, request); }

void Faults::InHandler(uint64_t request) {
  Inject(
      kFsync, request, [this](const Fault& fault) { scoreboard::WriteAndSync(directory_, fault.dose_bytes); },
      R"(,"file":"journal")");
  spinners_.MayBegin(this, kCpuSpinners, request);
}

void Faults::InPostprocess(uint64_t request) { Inject(kSlowPostprocess, request, Spin, kInPostprocess); }

void Faults::BetweenScopes(uint64_t request) {
  Fault fault;
  if (!Draw(kUnhookedHop, &fault)) return;
  const uint64_t begin_ns = MonotonicNs(), cpu_ns = scoreboard::HopUnrecorded(fault.dose_ns);
  Log(kUnhookedHop, begin_ns, request, MonotonicNs() - begin_ns, scoreboard::CpuTaken(cpu_ns));
}

void Faults::ReadColdFile(uint64_t request) {
  Fault fault;
  if (!Draw(kMajorFaults, &fault)) return;
  std::call_once(mapped_once_,
                 [&] { mapped_ = std::make_unique<scoreboard::MappedFile>(directory_, fault.dose_bytes); });
  const scoreboard::ThreadUse begun = scoreboard::ThreadUseNow();
  const uint64_t faults = mapped_->ForgetAndRead(fault.dose_bytes);
  const scoreboard::ThreadUse ended = scoreboard::ThreadUseNow();
  // Asking for pages takes CPU time; while they are on their way the thread sleeps.
  const scoreboard::Delays delays = scoreboard::DelaysOfCode(begun, ended);
  const uint64_t cpu_ns = ended.cpu_ns - begun.cpu_ns;
  Log(kMajorFaults, begun.at_ns, request, delays.paged_ns + delays.slept_ns,
      ",\"major_faults\":" + std::to_string(faults));
  log().Write(begun.at_ns, request, "paging_code", cpu_ns, scoreboard::CpuTaken(cpu_ns));
}

uint64_t Faults::BatchDelayNs(uint64_t normal_ns) {
  Fault fault;
  return Draw(kBatchTimeout, &fault) ? std::max(normal_ns, fault.dose_ns) : normal_ns;
}

void Faults::BatchWaited(std::span<const Member> members, uint64_t normal_ns, uint64_t closed_ns) {
  uint64_t should_close_ns = 0;
  for (const Member& member : members) {
    if (member.enqueued_ns > should_close_ns) should_close_ns = member.enqueued_ns + normal_ns;
    if (closed_ns > should_close_ns) Log(kBatchTimeout, should_close_ns, member.request, closed_ns - should_close_ns);
  }
}

void Faults::Slept(uint64_t request, const scoreboard::ThreadUse& begun) {
  scoreboard::Delays delays = scoreboard::DelaysOfCode(begun, scoreboard::ThreadUseNow());
  delays.cpu_waited_ns = 0;
  log().WriteDelays(begun.at_ns, request, delays);
}

void Faults::Preprocessed(uint64_t request, const scoreboard::ThreadUse& begun, uint64_t pixels) {
  const scoreboard::Work work = scoreboard::WorkBetween(begun, scoreboard::ThreadUseNow());
  log().Write(begun.at_ns, request, "preprocess_code", work.cpu_ns, ",\"pixels\":" + std::to_string(pixels));
}

void Faults::HandedOver(uint64_t request, uint64_t ready_ns, uint64_t woken_ns) {
  scoreboard::Delays delays;
  delays.handed_over_ns = woken_ns - std::min(woken_ns, ready_ns);
  log().WriteDelays(ready_ns, request, delays);
}

void Faults::LockWaited(uint64_t request, uint64_t submitted_ns, uint64_t enqueued_ns) {
  scoreboard::Delays delays;
  delays.lock_waited_ns = enqueued_ns - std::min(enqueued_ns, submitted_ns);
  log().WriteDelays(enqueued_ns, request, delays);
}

}  // namespace image_server
