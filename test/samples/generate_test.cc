// SPDX-License-Identifier: Apache-2.0
#include "decode_server/generate.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server_common/monotonic.h"

namespace decode_server {
namespace {

// A handler on a scheduler. The model makes sevens, in RunAll.
class Bench {
 public:
  explicit Bench(uint64_t timeout_ns = 60'000'000'000) : options_{.vocabulary = 10, .context = 50} {
    options_.timeout_ns = timeout_ns;
  }

  // Returns the reply, a stream if the request was accepted.
  server_common::Reply Begin(const std::string& body, int status) {
    server_common::Exchange exchange;
    exchange.id = ++id_;
    exchange.arrival_ns = server_common::MonotonicNs();
    server_common::Reply reply = Generate(body, exchange, &scheduler_, options_);
    CHECK(reply.status == status);
    CHECK((reply.stream != nullptr) == (status == 200));
    return reply;
  }
  void RunAll() {
    while (scheduler_.Step()) {}
  }

  bool fails = false;
  std::vector<size_t> prompts;  // lengths of the first slice of each iteration

 private:
  GenerateOptions options_;
  uint64_t id_ = 0;
  Scheduler scheduler_{{.kv_tokens = 100, .max_queue = 3}, [this](std::span<const Slice> slices, pitot::Batch&) {
                         if (fails) throw std::runtime_error("out of memory");
                         prompts.push_back(slices[0].tokens.size());
                         return std::vector<int32_t>(slices.size(), 7);
                       }};
};

// A client: keeps its lines, and leaves after so many.
struct FakeClient {
  size_t leaves_after = SIZE_MAX;
  std::vector<nlohmann::json> lines{};

  pitot::Outcome Read(const server_common::Reply& reply) {
    return reply.stream({[this](const std::string& line) {
                           if (lines.size() >= leaves_after) return false;
                           CHECK(line.back() == '\n');
                           lines.push_back(nlohmann::json::parse(line));
                           return true;
                         },
                         [this] { return lines.size() < leaves_after; }});
  }
};

TEST_CASE("a client gets a line per token, and one with what it took", "[generate]") {
  Bench bench;
  const auto reply = bench.Begin(R"({"prompt_tokens": [1, 2, 3], "max_tokens": 2})", 200);
  bench.RunAll();

  FakeClient client;
  CHECK(client.Read(reply) == pitot::Outcome::kOk);

  REQUIRE(client.lines.size() == 3);
  CHECK(client.lines[0] == nlohmann::json{{"index", 0}, {"token", 7}});
  CHECK(client.lines[1] == nlohmann::json{{"index", 1}, {"token", 7}});
  CHECK(client.lines[2]["id"] == "0000000000000001");
  CHECK(client.lines[2]["tokens"] == 2);
  CHECK(client.lines[2]["prompt_tokens"] == 3);
  CHECK(client.lines[2]["ttft_ms"] > 0);
  CHECK(client.lines[2]["total_ms"] >= client.lines[2]["ttft_ms"]);
  CHECK(bench.prompts == std::vector<size_t>{3, 1});
}

TEST_CASE("a prompt that has only a length is made up", "[generate]") {
  Bench bench;
  const auto reply = bench.Begin(R"({"prompt_length": 12, "max_tokens": 1})", 200);
  bench.RunAll();
  CHECK(bench.prompts == std::vector<size_t>{12});
}

TEST_CASE("what cannot be done is the client's mistake", "[generate]") {
  Bench bench;
  for (const char* body :
       {"", "no JSON", "[]", "{}", R"({"prompt_length": 0})", R"({"prompt_length": -1})",
        R"({"prompt_length": 3, "max_tokens": 0})", R"({"prompt_length": 49, "max_tokens": 2})",
        R"({"prompt_length": 1, "max_tokens": 18446744073709551615})", R"({"prompt_tokens": [10]})",
        R"({"prompt_tokens": [-1]})", R"({"prompt_tokens": "text"})", R"({"prompt_length": 1, "seed": "one"})"}) {
    CAPTURE(body);
    bench.Begin(body, 400);
  }
}

TEST_CASE("a full queue is busy", "[generate]") {
  Bench bench;
  std::vector<server_common::Reply> replies;
  for (int i = 0; i < 3; ++i) replies.push_back(bench.Begin(R"({"prompt_length": 3})", 200));
  bench.Begin(R"({"prompt_length": 3})", 503);
}

TEST_CASE("a client that has left has its request cancelled", "[generate]") {
  Bench bench;
  {
    const auto reply = bench.Begin(R"({"prompt_length": 3, "max_tokens": 40})", 200);
    bench.RunAll();
    FakeClient client{.leaves_after = 2};
    CHECK(client.Read(reply) == pitot::Outcome::kCancelled);
  }
  bench.prompts.clear();
  {
    const auto reply = bench.Begin(R"({"prompt_length": 3, "max_tokens": 40})", 200);
    FakeClient client{.leaves_after = 0};
    CHECK(client.Read(reply) == pitot::Outcome::kCancelled);  // nothing has come, and nobody is there
  }
  bench.RunAll();
  CHECK(bench.prompts.empty());
}

TEST_CASE("tokens that take too long or cannot be made end with a line that says why", "[generate]") {
  Bench slow(/*timeout_ns=*/1);
  const auto late = slow.Begin(R"({"prompt_length": 3})", 200);
  FakeClient client;
  CHECK(client.Read(late) == pitot::Outcome::kTimedOut);
  CHECK(client.lines.at(0)["error"] == "it took too long");

  Bench broken;
  broken.fails = true;
  const auto failed = broken.Begin(R"({"prompt_length": 3})", 200);
  broken.RunAll();
  client.lines.clear();
  CHECK(client.Read(failed) == pitot::Outcome::kFailed);
  CHECK(client.lines.at(0)["error"] == "out of memory");
}

}  // namespace
}  // namespace decode_server
