// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/decode_server/faulty_scheduling.h"

#include <catch2/catch.hpp>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "scoreboard/temporary_file.h"
#include "server_common/reply.h"

namespace decode_server {
namespace {

using pitot::test::TemporaryFile;

constexpr uint64_t kIterationNs = 1'000'000;

std::string Text(uint64_t request) { return server_common::RequestIdText(request); }

// A watched scheduler without a thread. Time passes only in the model.
class Bench {
 public:
  explicit Bench(const FaultOptions& faults) : faults_(faults) { faults_.Start(); }

  // `is_long`: the prompt was made long.
  void Submit(size_t prompt, size_t max_tokens, bool is_long = false) {
    Job job;
    job.prompt.assign(prompt, 7);
    job.max_tokens = max_tokens;
    job.is_chunked = !is_long;
    job.request_id = ++submitted_;
    job.stream = std::make_shared<TokenStream>();
    if (is_long) scheduling_.MadeLong(job.request_id);
    pitot::Request request;  // inert
    CHECK(scheduler_.Submit(std::move(job), request) == Admission::kQueued);
  }
  void Step() { scheduler_.Step(); }
  void SetFaults(const std::vector<Fault>& faults) { faults_.SetFaults(faults); }
  Faults& faults() { return faults_; }

  uint64_t now_ns = 0;

 private:
  uint64_t submitted_ = 0;
  Faults faults_;
  FaultyScheduling scheduling_{&faults_, [](uint64_t) {}, [this] { return now_ns; }};
  Scheduler scheduler_{{.kv_tokens = 200},
                       [this](std::span<const Slice> slices, pitot::Batch&) {
                         now_ns += kIterationNs;
                         return std::vector<int32_t>(slices.size(), 7);
                       },
                       &scheduling_,
                       [this] { return now_ns; }};
};

std::vector<nlohmann::json> LinesOf(const TemporaryFile& log, const std::string& fault) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& line : log.lines()) {
    if (line["fault"] == fault) found.push_back(line);
  }
  return found;
}

TEST_CASE("requests that wait for a long prompt are logged with its request and how long it took", "[scoreboard]") {
  TemporaryFile log;
  Bench bench({.log_file = log.name()});
  bench.Submit(2, 10);
  bench.Step();
  bench.Submit(100, 2, /*is_long=*/true);
  bench.Step();
  bench.Step();

  const std::vector<nlohmann::json> lines = LinesOf(log, "long_prompt");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["request"] == Text(2));
  CHECK(lines[0]["role"] == "holder");
  CHECK(lines[1]["request"] == Text(1));
  CHECK(lines[1]["role"] == "waiter");
  CHECK(lines[1]["holder"] == Text(2));
  for (const nlohmann::json& line : lines) CHECK(line["injected_ns"] == kIterationNs);
}

TEST_CASE("a request that waits only because room was taken is logged with how long", "[scoreboard]") {
  TemporaryFile log;
  Bench bench({.faults = {ParseFault("kv_pressure:rate=1,dose_ms=3600000,dose_tokens=199")}, .log_file = log.name()});
  bench.faults().InHandler(1);  // begins the pressure
  bench.Submit(2, 8);
  bench.now_ns = 5'000;
  bench.Step();
  CHECK(LinesOf(log, "kv_pressure").size() == 1);

  bench.now_ns = 9'000;
  bench.SetFaults({});
  bench.Step();

  const std::vector<nlohmann::json> lines = LinesOf(log, "kv_pressure");
  REQUIRE(lines.size() == 2);
  CHECK(lines[1]["time_ns"] == 5'000);
  CHECK(lines[1]["injected_ns"] == 4'000);
  CHECK(lines[1]["role"] == "waiter");
  CHECK(lines[1]["holder"] == Text(1));
}

TEST_CASE("a request that came during an iteration is logged with the requests that it was for", "[scoreboard]") {
  TemporaryFile log;
  Bench bench({.log_file = log.name()});
  bench.Submit(2, 8);
  bench.Step();
  bench.Submit(2, 2);  // after it
  bench.Step();
  CHECK(LinesOf(log, "queued").empty());

  const uint64_t over_ns = bench.now_ns;
  bench.now_ns = over_ns - kIterationNs / 2;
  bench.Submit(2, 2);
  bench.now_ns = over_ns;
  bench.Step();

  const std::vector<nlohmann::json> lines = LinesOf(log, "queued");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["request"] == Text(3));
  CHECK(lines[0]["injected_ns"] == kIterationNs / 2);
  CHECK(lines[0]["others"] == nlohmann::json({Text(2), Text(1)}));
}

TEST_CASE("the CPU time of a pass is logged for each of its requests", "[scoreboard]") {
  TemporaryFile log;
  Bench bench({.log_file = log.name()});
  bench.Submit(2, 10);
  bench.Step();
  bench.Submit(100, 2, /*is_long=*/true);
  bench.Step();

  std::vector<std::string> requests;
  for (const nlohmann::json& line : LinesOf(log, "batch_code")) requests.push_back(line["request"]);
  CHECK(requests == std::vector<std::string>{Text(1), Text(2), Text(2), Text(1)});
}

TEST_CASE("a tensor for which there is no memory ends no scheduler", "[scoreboard]") {
  TemporaryFile log;
  Faults faults({.faults = {ParseFault("big_tensor:rate=1,dose_mib=1")}, .log_file = log.name()});
  FaultyScheduling scheduling(&faults, [](uint64_t) { throw std::bad_alloc(); });
  faults.Start();
  const uint64_t request = 7;

  CHECK_NOTHROW(scheduling.IterationBegins({&request, 1}));
  CHECK(log.injections().size() == 1);
}

}  // namespace
}  // namespace decode_server
