// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/decode_server/faulty_generate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "scoreboard/temporary_file.h"

namespace decode_server {
namespace {

using pitot::test::TemporaryFile;

// A handler on a scheduler. The model makes sevens, in RunAll.
class Bench {
 public:
  explicit Bench(const FaultOptions& faults) : faults_(faults) { faults_.Start(); }

  server_common::Reply Begin(const std::string& body) {
    server_common::Exchange exchange;
    exchange.id = ++id_;
    server_common::Reply reply = handler_.Handle(body, exchange);
    CHECK(reply.status == 200);
    return reply;
  }
  void SetFaults(const std::vector<Fault>& faults) { faults_.SetFaults(faults); }
  void RunAll() {
    while (scheduler_.Step()) {}
  }

  std::vector<size_t> prompts;  // lengths of the first slice of each pass

 private:
  uint64_t id_ = 0;
  Faults faults_;
  FaultyScheduling scheduling_{&faults_, [](uint64_t) {}};
  Scheduler scheduler_{{.kv_tokens = 100, .max_queue = 3},
                       [this](std::span<const Slice> slices, pitot::Batch&) {
                         prompts.push_back(slices[0].tokens.size());
                         return std::vector<int32_t>(slices.size(), 7);
                       },
                       &scheduling_};
  FaultyGenerate handler_{{.vocabulary = 10, .context = 50}, &scheduler_, &scheduling_, &faults_};
};

TEST_CASE("a prompt that is made long is taken in one piece, and the log names who had to wait", "[generate]") {
  TemporaryFile log;
  Bench bench({.faults = {ParseFault("long_prompt:rate=1,dose_tokens=30")}, .log_file = log.name()});
  std::vector<server_common::Reply> replies;
  for (int i = 0; i < 3; ++i) replies.push_back(bench.Begin(R"({"prompt_length": 3, "max_tokens": 3})"));

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

TEST_CASE("every other fault strikes and is logged", "[generate]") {
  TemporaryFile log;
  {
    Bench bench(
        {.faults = {ParseFault("slow_tokenizer_spin:rate=1,dose_ms=1"),
                    ParseFault("slow_tokenizer_sleep:rate=1,dose_ms=1"), ParseFault("lock_held:rate=1,dose_ms=1"),
                    ParseFault("kv_pressure:rate=1,dose_ms=3600000,dose_tokens=100"),
                    ParseFault("big_tensor:rate=1,dose_mib=1"), ParseFault("cpu_spinners:rate=1,dose_ms=1,threads=1")},
         .log_file = log.name()});
    const server_common::Reply reply = bench.Begin(R"({"prompt_length": 3, "max_tokens": 1})");
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
