// SPDX-License-Identifier: Apache-2.0
//
// The tokens of one request on their way from the scheduler to the handler.
#ifndef SAMPLES_DECODE_SERVER_TOKEN_STREAM_H_
#define SAMPLES_DECODE_SERVER_TOKEN_STREAM_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "pitot/wait.h"

namespace decode_server {

struct MadeToken {
  int32_t token = 0;
  uint64_t made_ns = 0;  // the scheduler's clock
};

// Threads: one writes, another reads and cancels.
class TokenStream {
 public:
  struct Taken {
    std::vector<MadeToken> tokens;
    bool has_ended = false;  // no more will come
    std::string error;       // why, if they should have
  };

  void Push(MadeToken token);
  void End();
  void Fail(std::string error);

  // Whoever reads wants no more: the scheduler drops the request before its next iteration.
  void Cancel() { is_cancelled_ = true; }
  bool is_cancelled() const { return is_cancelled_; }

  // Returns all since the last call. Waits up to `timeout_ns` for something; then returns nothing.
  Taken Take(uint64_t timeout_ns);

 private:
  pitot::Mutex mutex_{"token stream"};
  pitot::ConditionVariable token_made_{"next token"};
  Taken pending_;
  std::atomic<bool> is_cancelled_{false};
};

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_TOKEN_STREAM_H_
