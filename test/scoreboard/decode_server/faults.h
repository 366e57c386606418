// SPDX-License-Identifier: Apache-2.0
//
// Faults on purpose: causes of slowness in servers of language models, injected into a share of the requests. The log
// records each injection.
#ifndef PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTS_H_
#define PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "scoreboard/fault_doses.h"
#include "scoreboard/fault_schedule.h"

namespace decode_server {

using scoreboard::Fault;
using scoreboard::FaultOptions;

enum FaultKind : size_t {
  kSlowTokenizerSpin,   // the tokenizer burns CPU
  kSlowTokenizerSleep,  // the tokenizer sleeps
  kLockHeld,            // the request holds a lock of all requests
  kLongPrompt,          // the request has a long prompt, prefilled in one piece
  kKvPressure,          // room in the KV cache is gone for a while
  kBigTensor,           // an iteration allocates, fills and frees a big tensor
  kCpuSpinners,         // other threads burn CPU
};
inline constexpr size_t kFaultKinds = 7;

// As scoreboard::ParseFault, of these.
Fault ParseFault(std::string_view text);

// Threads: any.
class Faults : public scoreboard::FaultSchedule {
 public:
  // Throws std::runtime_error when the log cannot be opened, std::invalid_argument when a kind is given twice.
  explicit Faults(const FaultOptions& options);

  // The places of faults in the server. `request` is the id for the log.
  void InTokenizer(uint64_t request);  // slow_tokenizer_spin, slow_tokenizer_sleep
  void InCache(uint64_t request);      // lock_held; stands for the look-up in a shared cache
  void InHandler(uint64_t request);    // kv_pressure, cpu_spinners
  // long_prompt: how many tokens the request's prompt has; 0: as many as it has.
  size_t PromptTokens();

  // kv_pressure: how much room in the KV cache is gone now. HeldBack: a request waited for room only because of it.
  size_t KvTokensTaken() const;
  void HeldBack(uint64_t request, uint64_t from_ns, uint64_t until_ns);
  // long_prompt: the prompt of `request` was taken in one piece, and the others of its iteration waited for it.
  void LongPromptTaken(uint64_t request, std::span<const uint64_t> members, uint64_t from_ns, uint64_t until_ns);
  // big_tensor, in an iteration of these requests. `allocate` takes, fills and frees so many bytes.
  void InIteration(std::span<const uint64_t> members, const std::function<void(uint64_t bytes)>& allocate);

 private:
  scoreboard::HeldLock cache_lock_{"prefix cache"};
  scoreboard::Spinners spinners_;
  // kv_pressure: its request, its end, and its size.
  std::atomic<uint64_t> kv_taken_by_{0};
  std::atomic<uint64_t> kv_taken_until_ns_{0};
  std::atomic<uint64_t> kv_tokens_taken_{0};
};

}  // namespace decode_server

#endif  // PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTS_H_
