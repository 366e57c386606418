// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/decode_server/faulty_generate.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "pitot/trace.h"

namespace decode_server {

using server_common::ErrorReply;
using server_common::Reply;

FaultyGenerate::FaultyGenerate(const GenerateOptions& options, Scheduler* scheduler, FaultyScheduling* scheduling,
                               Faults* faults)
    : options_(options), scheduler_(scheduler), scheduling_(scheduling), faults_(faults) {}

Reply FaultyGenerate::Handle(std::string_view body, server_common::Exchange& exchange) try {
  Wish wish = Parse(body, options_, exchange.id);
  const size_t long_prompt = std::min(faults_->PromptTokens(), options_.context - wish.max_tokens);
  const bool is_made_long = long_prompt > wish.prompt_length;
  if (is_made_long) wish.prompt_length = long_prompt;

  exchange.request.Stage("tokenize");
  exchange.request.SetSize("prompt tokens", static_cast<double>(wish.prompt_length));
  exchange.request.SetSize("max tokens", static_cast<double>(wish.max_tokens));
  Job job;
  {
    PITOT_SCOPE("tokenize", wish.prompt_length);
    job = Tokenize(wish, options_);
    faults_->InTokenizer(exchange.id);
  }
  job.is_chunked = options_.chunks_prompts && !is_made_long;

  exchange.request.Stage("look up");
  {
    PITOT_SCOPE("look up");
    faults_->InCache(exchange.id);
    faults_->InHandler(exchange.id);
  }

  if (is_made_long) scheduling_->MadeLong(exchange.id);
  return Submit(std::move(job), exchange, scheduler_, options_.timeout_ns);
} catch (const std::invalid_argument& error) {
  return ErrorReply(400, error.what());
} catch (const std::exception& error) {
  return ErrorReply(500, error.what());
}

}  // namespace decode_server
