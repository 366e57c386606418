// SPDX-License-Identifier: Apache-2.0
#include "load_generator/generate.h"

#include <deque>
#include <random>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "load_generator/connection.h"
#include "load_generator/pacing.h"

namespace load_generator {
namespace {

// A connection that is kept alive, used by one thread.
class PromptConnection {
 public:
  PromptConnection(const Options& options, uint64_t seed) : client_(options.host, options.port), random_(seed) {
    Prepare(&client_, 60);
  }

  // Fills in the remaining fields of `sample`.
  void Send(GenerateSample* sample) {
    httplib::Request request;
    request.method = "POST";
    request.path = "/generate";
    request.headers = {{"traceparent", MakeTraceparent(&random_)}, {"Content-Type", "application/json"}};
    request.body = nlohmann::json{{"prompt_length", sample->prompt_length}, {"max_tokens", sample->max_tokens}}.dump();
    request.response_handler = [sample](const httplib::Response& response) {
      sample->status = response.status;
      sample->id = response.get_header_value("x-request-id");
      return true;
    };
    std::string rest;
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      rest.append(data, size);
      for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
        Note(std::string_view(rest).substr(0, end), sample);
        rest.erase(0, end + 1);
      }
      // Returning false closes the connection.
      return !(sample->leaves_half_way && sample->token_ns.size() * 2 >= sample->max_tokens);
    };

    sample->sent_ns = MonotonicNs();
    const httplib::Result result = client_.send(request);
    sample->done_ns = MonotonicNs();
    if (!result && !sample->leaves_half_way) sample->error = httplib::to_string(result.error());
  }

 private:
  static void Note(std::string_view line, GenerateSample* sample) {
    if (line.starts_with("{\"index\":")) {
      sample->token_ns.push_back(MonotonicNs());
      return;
    }
    const nlohmann::json summary = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (summary.is_object()) sample->error = summary.value("error", "");
  }

  httplib::Client client_;
  std::mt19937_64 random_;
};

}  // namespace

GenerateRun SendPrompts(const Options& options) {
  CheckServer(options);
  GenerateRun run;
  run.samples = DrawPrompts(options);
  run.begin_ns = MonotonicNs() + 50'000'000;  // time to start the threads
  run.measured_from_ns = run.begin_ns + static_cast<uint64_t>(options.warm_up_s * 1e9);
  std::vector<uint64_t> at_ns;
  for (GenerateSample& sample : run.samples) at_ns.push_back(sample.intended_ns += run.begin_ns);
  std::deque<PromptConnection> connections;
  for (size_t i = 0; i < options.concurrency; ++i) connections.emplace_back(options, options.arrivals.seed + i);
  SendAtTheirTimes(at_ns, options.concurrency,
                   [&](size_t connection, size_t at) { connections[connection].Send(&run.samples[at]); });
  run.end_ns = MonotonicNs();
  return run;
}

}  // namespace load_generator
