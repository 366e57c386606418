// SPDX-License-Identifier: Apache-2.0
//
// What the server does with one request, from the bytes of the body to the last line of the reply. The file to read
// first if you want to see how a handler that streams is instrumented.
#ifndef SAMPLES_DECODE_SERVER_GENERATE_H_
#define SAMPLES_DECODE_SERVER_GENERATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "decode_server/scheduler.h"
#include "decode_server/token_stream.h"
#include "pitot/outcome.h"
#include "pitot/request.h"
#include "scoreboard/decode_server/faults.h"
#include "server_common/reply.h"

namespace decode_server {

struct GenerateOptions {
  int64_t vocabulary = 4096;
  size_t context = 512;  // tokens of prompt and output
  float temperature = 0;
  uint64_t timeout_ns = 60'000'000'000;
};

// A request that the scheduler has, as its handler sees it. Destroyed before its end it cancels the request.
class Generation {
 public:
  struct Client {
    std::function<bool(const std::string& line)> write;  // false: it is gone
    std::function<bool()> is_there;
  };

  Generation(std::shared_ptr<TokenStream> stream, uint64_t id, uint64_t arrival_ns, uint64_t timeout_ns);
  ~Generation() { stream_->Cancel(); }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Writes a line per token as they come and one with what it took; returns what has become of the request.
  //   {"index":0,"token":1234}
  //   {"id":"96b37ebb202f6a7b","tokens":32,"prompt_tokens":..., "ttft_ms":..., "total_ms":...}
  // In place of tokens that cannot be made, the last line has "error".
  pitot::Outcome Send(const Client& client);

  size_t prompt_tokens = 0;

 private:
  std::string SummaryLine(const std::string& error) const;

  const std::shared_ptr<TokenStream> stream_;
  const uint64_t id_;
  const uint64_t arrival_ns_;
  const uint64_t timeout_ns_;
  size_t sent_ = 0;
  uint64_t first_token_ns_ = 0;
};

class GenerateHandler {
 public:
  GenerateHandler(const GenerateOptions& options, Scheduler* scheduler, Faults* faults);

  // Gives the request to the scheduler. Without a `generation` the reply says why not. Never throws. `id` is the
  // request's id as the client gets it.
  server_common::Reply Begin(std::string_view body, pitot::Request& request, uint64_t id, uint64_t arrival_ns,
                             std::unique_ptr<Generation>* generation);

 private:
  void Tokenize(Job* job, size_t prompt_length);

  const GenerateOptions options_;
  Scheduler* const scheduler_;
  Faults* const faults_;
};

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_GENERATE_H_
