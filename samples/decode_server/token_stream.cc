// SPDX-License-Identifier: Apache-2.0
#include "decode_server/token_stream.h"

#include <mutex>
#include <utility>

namespace decode_server {

void TokenStream::Push(MadeToken token) {
  std::lock_guard lock(mutex_);
  pending_.tokens.push_back(token);
  token_made_.notify_one();
}

void TokenStream::End() { Fail({}); }

void TokenStream::Fail(std::string error) {
  std::lock_guard lock(mutex_);
  pending_.has_ended = true;
  pending_.error = std::move(error);
  token_made_.notify_one();
}

TokenStream::Taken TokenStream::Take(uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  token_made_.wait_for(lock, timeout_ns, [&] { return pending_.has_ended || !pending_.tokens.empty(); });
  Taken taken = pending_;
  pending_.tokens.clear();
  return taken;
}

}  // namespace decode_server
