// SPDX-License-Identifier: Apache-2.0
//
// The handler of one request, from the bytes of the body to the last line of the reply. Read this file first to see how
// a streaming handler is instrumented.
#ifndef SAMPLES_DECODE_SERVER_GENERATE_H_
#define SAMPLES_DECODE_SERVER_GENERATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decode_server/scheduler.h"
#include "decode_server/token_stream.h"
#include "pitot/outcome.h"
#include "server_common/http_listener.h"
#include "server_common/reply.h"

namespace decode_server {

struct GenerateOptions {
  int64_t vocabulary = 4096;
  size_t context = 512;  // tokens of prompt and output
  float temperature = 0;
  bool chunks_prompts = true;  // as Job::is_chunked
  bool mixes_prompts = false;  // the opposite of Job::is_alone
  uint64_t timeout_ns = 60'000'000'000;
};

// Takes {"prompt_tokens": [17, 4]} or {"prompt_length": 64}; {"max_tokens": 32, "temperature": 0, "seed": 1} are
// optional. Replies a JSON line per token as it is made, and a summary. A client cancels its request by closing the
// connection. Never throws. Threads: any.
server_common::Reply Generate(std::string_view body, server_common::Exchange& exchange, Scheduler* scheduler,
                              const GenerateOptions& options);

// ---- Generate's parts

// The request of a client.
struct Wish {
  std::vector<int32_t> prompt{};
  size_t prompt_length = 0;  // in place of a prompt
  size_t max_tokens = 16;
  Sampling sampling{};
};
// Throws std::invalid_argument with a message for the client.
Wish Parse(std::string_view body, const GenerateOptions& options, uint64_t request_id);

// The job of a wish. Makes up the tokens if the prompt has only a length.
Job Tokenize(const Wish& wish, const GenerateOptions& options);

// Gives the job to the scheduler. The reply streams its tokens, or says why there are none.
server_common::Reply Submit(Job job, server_common::Exchange& exchange, Scheduler* scheduler, uint64_t timeout_ns);

// A request in the hands of the scheduler. Its destructor cancels the request if that has not ended.
class Generation {
 public:
  Generation(std::shared_ptr<TokenStream> stream, size_t prompt_tokens, uint64_t id, uint64_t arrival_ns,
             uint64_t timeout_ns);
  ~Generation() { stream_->Cancel(); }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Writes a line per token as they come, and a summary; returns the outcome of the request.
  //   {"index":0,"token":1234}
  //   {"id":"96b37ebb202f6a7b","tokens":32,"prompt_tokens":..., "ttft_ms":..., "total_ms":...}
  // If tokens cannot be made, the summary has "error".
  pitot::Outcome Send(const server_common::Client& client);

 private:
  std::string SummaryLine(const std::string& error) const;

  const std::shared_ptr<TokenStream> stream_;
  const size_t prompt_tokens_;
  const uint64_t id_;
  const uint64_t arrival_ns_;
  const uint64_t timeout_ns_;
  size_t sent_ = 0;
  uint64_t first_token_ns_ = 0;
};

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_GENERATE_H_
