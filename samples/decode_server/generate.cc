// SPDX-License-Identifier: Apache-2.0
#include "decode_server/generate.h"

#include <algorithm>
#include <exception>
#include <random>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "pitot/trace.h"
#include "scoreboard/fault_log.h"
#include "server_common/monotonic.h"

namespace decode_server {
namespace {

using server_common::ErrorReply;
using server_common::MonotonicNs;
using server_common::Reply;

// How often a client that gets nothing is looked at, whether it is still there.
constexpr uint64_t kLookNs = 100'000'000;

double MsSince(uint64_t begin_ns, uint64_t end_ns) { return static_cast<double>(end_ns - begin_ns) * 1e-6; }

// The client's mistake.
struct BadRequest : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A text's tokens, were there a text: some time per token, and the same tokens for the same id.
std::vector<int32_t> MakeTokens(size_t count, int64_t vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(vocabulary - 1));
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = any(random);
  return tokens;
}

struct Wish {
  std::vector<int32_t> prompt;
  size_t prompt_length = 0;  // in place of a prompt
  size_t max_tokens = 16;
  Sampling sampling;
};

Wish Parse(std::string_view body, const GenerateOptions& options, uint64_t id) try {
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
  wish.sampling = {json.value("temperature", options.temperature), json.value("seed", id)};
  for (const int32_t token : wish.prompt) {
    if (token < 0 || token >= options.vocabulary) throw BadRequest("a token is not in the vocabulary");
  }
  if (wish.prompt_length == 0 || wish.max_tokens == 0) throw BadRequest("there is nothing to do");
  if (wish.prompt_length > options.context || wish.max_tokens > options.context - wish.prompt_length) {
    throw BadRequest("prompt and output have at most " + std::to_string(options.context) + " tokens");
  }
  return wish;
} catch (const nlohmann::json::exception& error) {
  throw BadRequest(error.what());
}

}  // namespace

Generation::Generation(std::shared_ptr<TokenStream> stream, uint64_t id, uint64_t arrival_ns, uint64_t timeout_ns)
    : stream_(std::move(stream)), id_(id), arrival_ns_(arrival_ns), timeout_ns_(timeout_ns) {}

std::string Generation::SummaryLine(const std::string& error) const {
  nlohmann::json json = {{"id", server_common::RequestIdText(id_)},
                         {"prompt_tokens", prompt_tokens},
                         {"tokens", sent_},
                         {"total_ms", MsSince(arrival_ns_, MonotonicNs())}};
  if (first_token_ns_ != 0) json["ttft_ms"] = MsSince(arrival_ns_, first_token_ns_);
  if (!error.empty()) json["error"] = error;
  return json.dump() + "\n";
}

pitot::Outcome Generation::Send(const Client& client) {
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

GenerateHandler::GenerateHandler(const GenerateOptions& options, Scheduler* scheduler, Faults* faults)
    : options_(options), scheduler_(scheduler), faults_(faults) {}

// Fills in the tokens of a prompt that has only a length.
void GenerateHandler::Tokenize(Job* job, size_t prompt_length) {
  PITOT_SCOPE("tokenize", prompt_length);
  if (job->prompt.size() != prompt_length) {
    job->prompt = MakeTokens(prompt_length, options_.vocabulary, job->sampling.seed);
  }
  faults_->InTokenizer(job->request_id);
}

Reply GenerateHandler::Begin(std::string_view body, pitot::Request& request, uint64_t id, uint64_t arrival_ns,
                             std::unique_ptr<Generation>* generation) try {
  Wish wish = Parse(body, options_, id);
  const size_t long_prompt = std::min(faults_->PromptTokens(), options_.context - wish.max_tokens);
  const bool is_made_long = long_prompt > wish.prompt_length;
  if (is_made_long) wish.prompt_length = long_prompt;

  request.Stage("tokenize");
  // Requests are compared with requests of their size: the first size divides the route.
  request.SetSize("prompt tokens", static_cast<double>(wish.prompt_length));
  request.SetSize("max tokens", static_cast<double>(wish.max_tokens));
  Job job;
  job.prompt = std::move(wish.prompt);
  job.max_tokens = wish.max_tokens;
  job.sampling = wish.sampling;
  job.is_chunked = !is_made_long;
  job.request_id = id;
  job.stream = std::make_shared<TokenStream>();
  Tokenize(&job, wish.prompt_length);

  request.Stage("look up");
  {
    PITOT_SCOPE("look up");
    faults_->InCache(id);
    faults_->InHandler(id);
  }

  auto begun = std::make_unique<Generation>(job.stream, id, arrival_ns, options_.timeout_ns);
  begun->prompt_tokens = wish.prompt_length;
  // The scheduler goes on with the stages "queue", "kv cache", "prefill", "decode" and "respond".
  switch (scheduler_->Submit(std::move(job), request)) {
    case Admission::kQueueFull:
      return ErrorReply(503, "the server is busy");
    case Admission::kNeverFits:
      return ErrorReply(400, "it does not fit into the KV cache");
    case Admission::kQueued:
      break;
  }
  *generation = std::move(begun);
  return {};
} catch (const BadRequest& error) {
  return ErrorReply(400, error.what());
} catch (const std::exception& error) {
  return ErrorReply(500, error.what());
}

}  // namespace decode_server
