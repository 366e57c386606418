// SPDX-License-Identifier: Apache-2.0
#include "decode_server/generate.h"

#include <exception>
#include <random>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "pitot/trace.h"
#include "server_common/monotonic.h"

namespace decode_server {

using server_common::ErrorReply;
using server_common::Exchange;
using server_common::MonotonicNs;
using server_common::Reply;

namespace {

// How often the server checks that a client is still there while it gets no tokens.
constexpr uint64_t kLookNs = 100'000'000;

double MsSince(uint64_t begin_ns, uint64_t end_ns) { return static_cast<double>(end_ns - begin_ns) * 1e-6; }

// Stands for a text's tokens: takes some time per token, and makes the same tokens for the same seed.
std::vector<int32_t> MakeTokens(size_t count, int64_t vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(vocabulary - 1));
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = any(random);
  return tokens;
}

}  // namespace

Reply Generate(std::string_view body, Exchange& exchange, Scheduler* scheduler, const GenerateOptions& options) try {
  const Wish wish = Parse(body, options, exchange.id);

  exchange.request.Stage("tokenize");
  // Requests are compared with requests of their size: the first size divides the route.
  exchange.request.SetSize("prompt tokens", static_cast<double>(wish.prompt_length));
  exchange.request.SetSize("max tokens", static_cast<double>(wish.max_tokens));
  Job job;
  {
    PITOT_SCOPE("tokenize", wish.prompt_length);
    job = Tokenize(wish, options);
  }

  // The scheduler goes on with the stages "queue", "kv cache", "prefill", "decode" and "respond".
  return Submit(std::move(job), exchange, scheduler, options.timeout_ns);
} catch (const std::invalid_argument& error) {
  return ErrorReply(400, error.what());
} catch (const std::exception& error) {
  return ErrorReply(500, error.what());
}

Wish Parse(std::string_view body, const GenerateOptions& options, uint64_t request_id) try {
  PITOT_SCOPE("parse", body.size());
  const nlohmann::json json = nlohmann::json::parse(body);
  Wish wish;
  if (json.contains("prompt_tokens")) {
    wish.prompt = json["prompt_tokens"].get<std::vector<int32_t>>();
    wish.prompt_length = wish.prompt.size();
  } else {
    wish.prompt_length = json.at("prompt_length").get<size_t>();
  }
  wish.max_tokens = json.value("max_tokens", wish.max_tokens);
  wish.sampling = {json.value("temperature", options.temperature), json.value("seed", request_id)};
  for (const int32_t token : wish.prompt) {
    if (token < 0 || token >= options.vocabulary) throw std::invalid_argument("a token is not in the vocabulary");
  }
  if (wish.prompt_length == 0 || wish.max_tokens == 0) throw std::invalid_argument("there is nothing to do");
  if (wish.prompt_length > options.context || wish.max_tokens > options.context - wish.prompt_length) {
    throw std::invalid_argument("prompt and output have at most " + std::to_string(options.context) + " tokens");
  }
  return wish;
} catch (const nlohmann::json::exception& error) {
  throw std::invalid_argument(error.what());
}

Job Tokenize(const Wish& wish, const GenerateOptions& options) {
  Job job;
  job.prompt = wish.prompt.size() == wish.prompt_length
                   ? wish.prompt
                   : MakeTokens(wish.prompt_length, options.vocabulary, wish.sampling.seed);
  job.max_tokens = wish.max_tokens;
  job.sampling = wish.sampling;
  job.is_chunked = options.chunks_prompts && !options.mixes_prompts;
  job.is_alone = !options.mixes_prompts;
  return job;
}

Reply Submit(Job job, Exchange& exchange, Scheduler* scheduler, uint64_t timeout_ns) {
  job.request_id = exchange.id;
  job.stream = std::make_shared<TokenStream>();
  // The reply owns it: a reply that is not sent cancels the request.
  const auto generation =
      std::make_shared<Generation>(job.stream, job.prompt.size(), exchange.id, exchange.arrival_ns, timeout_ns);
  switch (scheduler->Submit(std::move(job), exchange.request)) {
    case Admission::kQueueFull:
      return ErrorReply(503, "the server is busy");
    case Admission::kNeverFits:
      return ErrorReply(400, "the request does not fit into the KV cache");
    case Admission::kQueued:
      break;
  }
  Reply reply;
  reply.stream = [generation](const server_common::Client& client) { return generation->Send(client); };
  return reply;
}

Generation::Generation(std::shared_ptr<TokenStream> stream, size_t prompt_tokens, uint64_t id, uint64_t arrival_ns,
                       uint64_t timeout_ns)
    : stream_(std::move(stream)),
      prompt_tokens_(prompt_tokens),
      id_(id),
      arrival_ns_(arrival_ns),
      timeout_ns_(timeout_ns) {}

std::string Generation::SummaryLine(const std::string& error) const {
  nlohmann::json json = {{"id", server_common::RequestIdText(id_)},
                         {"prompt_tokens", prompt_tokens_},
                         {"tokens", sent_},
                         {"total_ms", MsSince(arrival_ns_, MonotonicNs())}};
  if (first_token_ns_ != 0) json["ttft_ms"] = MsSince(arrival_ns_, first_token_ns_);
  if (!error.empty()) json["error"] = error;
  return json.dump() + "\n";
}

pitot::Outcome Generation::Send(const server_common::Client& client) {
  const uint64_t deadline_ns = arrival_ns_ + timeout_ns_;
  while (true) {
    const TokenStream::Taken taken = stream_->Take(kLookNs);
    for (const MadeToken& made : taken.tokens) {
      if (sent_ == 0) first_token_ns_ = made.made_ns;
      const std::string line =
          "{\"index\":" + std::to_string(sent_) + ",\"token\":" + std::to_string(made.token) + "}\n";
      if (!client.write(line)) return pitot::Outcome::kCancelled;
      ++sent_;
    }
    if (taken.has_ended) {
      const bool is_written = client.write(SummaryLine(taken.error));
      if (!taken.error.empty()) return pitot::Outcome::kFailed;
      return is_written ? pitot::Outcome::kOk : pitot::Outcome::kCancelled;
    }
    if (!client.is_there()) return pitot::Outcome::kCancelled;
    if (MonotonicNs() > deadline_ns) {
      client.write(SummaryLine("it took too long"));
      return pitot::Outcome::kTimedOut;
    }
  }
}

}  // namespace decode_server
