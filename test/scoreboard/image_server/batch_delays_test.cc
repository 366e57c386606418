// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/batch_delays.h"

#include <catch2/catch.hpp>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scoreboard/clocks.h"
#include "scoreboard/temporary_file.h"
#include "server_common/reply.h"

namespace image_server {
namespace {

using pitot::test::TemporaryFile;
using scoreboard::MonotonicNs;

constexpr uint64_t kForEverNs = 3'600'000'000'000;

std::string Text(uint64_t request) { return server_common::RequestIdText(request); }

// A watched batcher with one worker. Its network waits for its gate.
class Bench {
 public:
  Bench(const BatcherOptions& options, const FaultOptions& faults) : faults_(faults), delays(&faults_) {
    faults_.Start();
    batcher_.emplace(
        options,
        BatchDelays::Around(
            [this](std::span<const Job> jobs, pitot::Batch&) {
              gate_.wait();
              if (fails) throw std::runtime_error("out of memory");
              return std::vector<Prediction>(jobs.size());
            },
            [this](std::span<const uint64_t> requests) {
              struck.assign(requests.begin(), requests.end());
              begun.set_value();
              begun = {};
            }),
        [] { BatchDelays::WorkerBegins(); }, &delays);
  }
  std::future<Prediction> Submit(uint64_t request) {
    pitot::Request inert;
    return *batcher_->Submit({}, inert, request);
  }
  void Open() { open_.set_value(); }
  // Runs the queued requests; the log is complete then.
  void Stop() { batcher_.reset(); }

  bool fails = false;
  std::vector<uint64_t> struck;
  std::promise<void> begun;

 private:
  std::promise<void> open_;
  std::shared_future<void> gate_ = open_.get_future().share();
  Faults faults_;

 public:
  BatchDelays delays;

 private:
  std::optional<Batcher> batcher_;
};

TEST_CASE("a batch timeout stretches the delay, and each member is logged with what it lost", "[scoreboard]") {
  TemporaryFile log;
  Bench bench({.workers = 1, .max_batch = 100, .max_delay_ns = 1'000'000, .max_queue = 10},
              {.faults = {ParseFault("batch_timeout:rate=1,dose_ms=20")}, .log_file = log.name()});
  bench.Open();

  bench.Submit(7).get();
  bench.Stop();

  CHECK(bench.struck == std::vector<uint64_t>{7});
  const std::vector<nlohmann::json> lines = log.injections();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["fault"] == "batch_timeout");
  CHECK(lines[0]["request"] == Text(7));
  CHECK(lines[0]["injected_ns"] >= 19'000'000);
}

TEST_CASE("a request that waits for a worker is logged with the requests that the worker was busy with",
          "[scoreboard]") {
  TemporaryFile log;
  Bench bench({.workers = 1, .max_batch = 1, .max_delay_ns = 0, .max_queue = 10}, {.log_file = log.name()});
  std::future<void> begun = bench.begun.get_future();

  std::future<Prediction> first = bench.Submit(5);
  begun.wait();
  std::future<Prediction> second = bench.Submit(6);
  const uint64_t until_ns = MonotonicNs() + 1'000'000;
  while (MonotonicNs() < until_ns) {}
  bench.Open();
  first.get();
  second.get();
  bench.Stop();

  std::vector<nlohmann::json> queued;
  for (const nlohmann::json& line : log.lines()) {
    if (line["fault"] == "queued") queued.push_back(line);
  }
  REQUIRE(queued.size() == 1);
  CHECK(queued[0]["request"] == Text(6));
  CHECK(queued[0]["others"] == nlohmann::json({Text(5)}));
  CHECK(queued[0]["injected_ns"] >= 900'000);
}

TEST_CASE("the CPU time of a batch is logged for each member, also where the network failed", "[scoreboard]") {
  const bool fails = GENERATE(false, true);
  TemporaryFile log;
  Bench bench({.workers = 1, .max_batch = 2, .max_delay_ns = kForEverNs, .max_queue = 10}, {.log_file = log.name()});
  bench.fails = fails;
  bench.Open();

  std::future<Prediction> first = bench.Submit(1), second = bench.Submit(2);
  first.wait();
  second.wait();
  bench.Stop();

  std::vector<std::string> members;
  for (const nlohmann::json& line : log.lines()) {
    if (line["fault"] != "batch_code") continue;
    members.push_back(line["request"]);
    CHECK(line["injected_ns"] > 0);
  }
  CHECK(members == std::vector<std::string>{Text(1), Text(2)});
}

TEST_CASE("a watched request knows when it was queued and when its prediction was ready", "[scoreboard]") {
  Bench bench({.workers = 1, .max_batch = 1, .max_delay_ns = 0, .max_queue = 10}, {});
  const BatchDelays::Watch watch(&bench.delays, 9);
  CHECK(watch.times().enqueued_ns == 0);

  const uint64_t before_ns = MonotonicNs();
  std::future<Prediction> result = bench.Submit(9);
  const uint64_t after_ns = MonotonicNs();
  const uint64_t enqueued_ns = watch.times().enqueued_ns;
  CHECK(before_ns <= enqueued_ns);
  CHECK(enqueued_ns <= after_ns);
  CHECK(watch.times().ready_ns == 0);

  bench.Open();
  result.get();
  CHECK(watch.times().ready_ns >= enqueued_ns);
  CHECK(watch.times().ready_ns <= MonotonicNs());
}

}  // namespace
}  // namespace image_server
