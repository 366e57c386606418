// SPDX-License-Identifier: Apache-2.0
#include "decode_server/generate.h"

#include <algorithm>

#include <catch2/catch.hpp>
#include <new>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scoreboard/temporary_file.h"

#include "server_common/monotonic.h"

namespace decode_server {
namespace {

using pitot::test::TemporaryFile;

// A handler on a scheduler whose model makes sevens, when it is told to.
class Bench {
 public:
  explicit Bench(const FaultOptions& faults = {}, uint64_t timeout_ns = 60'000'000'000)
      : faults_(faults),
        scheduler_(
            {.kv_tokens = 100, .max_queue = 3},
            [this](std::span<const Slice> slices, pitot::Batch&) {
              if (fails) throw std::runtime_error("out of memory");
              prompts.push_back(slices[0].tokens.size());
              return std::vector<int32_t>(slices.size(), 7);
            },
            faults_.ForScheduler([](uint64_t) {})),
        handler_({.vocabulary = 10, .context = 50, .timeout_ns = timeout_ns}, &scheduler_, &faults_) {
    faults_.Start();
  }

  std::unique_ptr<Generation> Begin(const std::string& body, int status) {
    pitot::Request request;  // inert
    std::unique_ptr<Generation> generation;
    const server_common::Reply reply = handler_.Begin(body, request, ++id_, server_common::MonotonicNs(), &generation);
    CHECK(reply.status == status);
    CHECK((generation != nullptr) == (status == 200));
    return generation;
  }
  void SetFaults(const std::vector<Fault>& faults) { faults_.SetFaults(faults); }
  void RunAll() {
    while (scheduler_.Step()) {}
  }

  bool fails = false;
  std::vector<size_t> prompts;  // lengths of the first slice of each iteration

 private:
  uint64_t id_ = 0;
  Faults faults_;
  Scheduler scheduler_;
  GenerateHandler handler_;
};

// A client that keeps what it gets, and leaves after so many lines.
struct FakeClient {
  size_t leaves_after = SIZE_MAX;
  std::vector<nlohmann::json> lines{};

  pitot::Outcome Read(Generation& generation) {
    return generation.Send({[this](const std::string& line) {
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
  const auto generation = bench.Begin(R"({"prompt_tokens": [1, 2, 3], "max_tokens": 2})", 200);
  bench.RunAll();

  FakeClient client;
  CHECK(client.Read(*generation) == pitot::Outcome::kOk);

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
  const auto generation = bench.Begin(R"({"prompt_length": 12, "max_tokens": 1})", 200);
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
  std::vector<std::unique_ptr<Generation>> generations;
  for (int i = 0; i < 3; ++i) generations.push_back(bench.Begin(R"({"prompt_length": 3})", 200));
  bench.Begin(R"({"prompt_length": 3})", 503);
}

TEST_CASE("a client that has left has its request cancelled", "[generate]") {
  Bench bench;
  {
    const auto generation = bench.Begin(R"({"prompt_length": 3, "max_tokens": 40})", 200);
    bench.RunAll();
    FakeClient client{.leaves_after = 2};
    CHECK(client.Read(*generation) == pitot::Outcome::kCancelled);
  }
  bench.prompts.clear();
  {
    const auto generation = bench.Begin(R"({"prompt_length": 3, "max_tokens": 40})", 200);
    FakeClient client{.leaves_after = 0};
    CHECK(client.Read(*generation) == pitot::Outcome::kCancelled);  // nothing has come, and nobody is there
  }
  bench.RunAll();
  CHECK(bench.prompts.empty());
}

TEST_CASE("tokens that take too long or cannot be made end with a line that says why", "[generate]") {
  Bench slow({}, /*timeout_ns=*/1);
  const auto late = slow.Begin(R"({"prompt_length": 3})", 200);
  FakeClient client;
  CHECK(client.Read(*late) == pitot::Outcome::kTimedOut);
  CHECK(client.lines.at(0)["error"] == "it took too long");

  Bench broken;
  broken.fails = true;
  const auto failed = broken.Begin(R"({"prompt_length": 3})", 200);
  broken.RunAll();
  client.lines.clear();
  CHECK(client.Read(*failed) == pitot::Outcome::kFailed);
  CHECK(client.lines.at(0)["error"] == "out of memory");
}

TEST_CASE("a prompt that is made long is taken in one piece, and the log names who had to wait", "[generate]") {
  TemporaryFile log;
  Bench bench({.faults = {ParseFault("long_prompt:rate=1,dose_tokens=30")}, .log_file = log.name()});
  std::vector<std::unique_ptr<Generation>> generations;
  for (int i = 0; i < 3; ++i) generations.push_back(bench.Begin(R"({"prompt_length": 3, "max_tokens": 3})", 200));

  bench.RunAll();

  size_t holders = 0, waiters = 0;
  for (const nlohmann::json& line : log.injections()) {
    CHECK(line["fault"] == "long_prompt");
    CHECK(line["injected_ns"] > 0);
    holders += line["role"] == "holder";
    waiters += line["role"] == "waiter";
  }
  CHECK(holders == 3);
  CHECK(waiters == 6);
  CHECK(bench.prompts == std::vector<size_t>{30, 30, 30, 1, 1});
}

TEST_CASE("a tensor for which there is no memory ends no scheduler", "[generate]") {
  TemporaryFile log;
  {
    Faults faults({.faults = {ParseFault("big_tensor:rate=1,dose_mib=1")}, .log_file = log.name()});
    const Scheduler::Experiment experiment = faults.ForScheduler([](uint64_t) { throw std::bad_alloc(); });
    faults.Start();
    const uint64_t request = 7;
    CHECK_NOTHROW(experiment.before_iteration({&request, 1}));
  }
  CHECK(log.injections().size() == 1);
}

TEST_CASE("every other fault strikes and is logged", "[generate]") {
  TemporaryFile log;
  {
    Bench bench(
        {.faults = {ParseFault("slow_tokenizer_spin:rate=1,dose_ms=1"),
                    ParseFault("slow_tokenizer_sleep:rate=1,dose_ms=1"), ParseFault("lock_held:rate=1,dose_ms=1"),
                    ParseFault("kv_pressure:rate=1,dose_ms=3600000,dose_tokens=100"),
                    ParseFault("big_tensor:rate=1,dose_mib=1"), ParseFault("cpu_spinners:rate=1,dose_ms=1,threads=1")},
         .log_file = log.name()});
    const auto generation = bench.Begin(R"({"prompt_length": 3, "max_tokens": 1})", 200);
    bench.RunAll();
    CHECK(bench.prompts.empty());  // there is no room
    bench.SetFaults({ParseFault("big_tensor:rate=1,dose_mib=1")});
    bench.RunAll();
    CHECK(bench.prompts.size() == 1);
  }

  std::vector<std::string> names;
  for (const nlohmann::json& line : log.injections()) {
    CHECK(line["request"] == "0000000000000001");
    names.push_back(line["fault"]);
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"big_tensor", "cpu_spinners", "kv_pressure", "kv_pressure", "lock_held",
                                          "slow_tokenizer_sleep", "slow_tokenizer_spin"});
}

}  // namespace
}  // namespace decode_server
