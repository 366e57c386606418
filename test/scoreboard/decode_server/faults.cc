// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/decode_server/faults.h"

#include <exception>
#include <string>

#include "server_common/reply.h"

namespace decode_server {
namespace {

using scoreboard::FaultKindInfo;
using scoreboard::MonotonicNs;

// By FaultKind.
constexpr FaultKindInfo kKinds[kFaultKinds] = {
    {"slow_tokenizer_spin", {"dose_ms"}},     {"slow_tokenizer_sleep", {"dose_ms"}},       {"lock_held", {"dose_ms"}},
    {"long_prompt", {"dose_tokens"}},         {"kv_pressure", {"dose_ms", "dose_tokens"}}, {"big_tensor", {"dose_mib"}},
    {"cpu_spinners", {"dose_ms", "threads"}},
};

const char kHolder[] = ",\"role\":\"holder\"";

std::string WaiterFor(uint64_t holder) {
  return ",\"role\":\"waiter\",\"holder\":\"" + server_common::RequestIdText(holder) + "\"";
}

}  // namespace

Fault ParseFault(std::string_view text) { return scoreboard::ParseFault(kKinds, text); }

Faults::Faults(const FaultOptions& options) : FaultSchedule(kKinds, options) {}

void Faults::InTokenizer(uint64_t request) {
  Inject(kSlowTokenizerSpin, request, [](const Fault& fault) { scoreboard::SpinUntil(MonotonicNs() + fault.dose_ns); });
  Inject(kSlowTokenizerSleep, request, [](const Fault& fault) { scoreboard::SleepFor(fault.dose_ns); });
}

void Faults::InCache(uint64_t request) { cache_lock_.Pass(this, kLockHeld, request); }

void Faults::InHandler(uint64_t request) {
  spinners_.MayBegin(this, kCpuSpinners, request);
  Fault fault;
  const uint64_t now_ns = MonotonicNs();
  if (now_ns < kv_taken_until_ns_ || !Draw(kKvPressure, &fault)) return;  // one at a time
  kv_taken_by_ = request;
  kv_tokens_taken_ = fault.dose_tokens;
  kv_taken_until_ns_ = now_ns + fault.dose_ns;
  Log(kKvPressure, now_ns, request, fault.dose_ns, kHolder);
}

size_t Faults::PromptTokens() {
  Fault fault;
  return Draw(kLongPrompt, &fault) ? static_cast<size_t>(fault.dose_tokens) : 0;
}

size_t Faults::KvTokensTaken() const {
  return IsSet(kKvPressure) && MonotonicNs() < kv_taken_until_ns_ ? kv_tokens_taken_.load() : 0;
}

void Faults::HeldBack(uint64_t request, uint64_t from_ns, uint64_t until_ns) {
  Log(kKvPressure, from_ns, request, until_ns - from_ns, WaiterFor(kv_taken_by_));
}

void Faults::LongPromptTaken(uint64_t request, std::span<const uint64_t> members, uint64_t from_ns, uint64_t until_ns) {
  Log(kLongPrompt, from_ns, request, until_ns - from_ns, kHolder);
  for (const uint64_t member : members) {
    if (member != request) Log(kLongPrompt, from_ns, member, until_ns - from_ns, WaiterFor(request));
  }
}

void Faults::InIteration(std::span<const uint64_t> members, const std::function<void(uint64_t bytes)>& allocate) {
  Fault fault;
  if (!Draw(kBigTensor, &fault)) return;
  const uint64_t begin_ns = MonotonicNs();
  try {
    allocate(fault.dose_bytes);
  } catch (const std::exception&) {
    // There is not so much memory: the fault is the time until it was refused.
  }
  const uint64_t took_ns = MonotonicNs() - begin_ns;
  for (const uint64_t member : members) Log(kBigTensor, begin_ns, member, took_ns);
}

}  // namespace decode_server
