// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/faulty_classify.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "load_generator/jpeg_maker.h"
#include "scoreboard/temporary_file.h"

namespace image_server {
namespace {

// Handles request 18; returns its lines of the log by the name of the fault.
std::map<std::string, nlohmann::json> LogOf(const std::string& jpeg, const std::vector<Fault>& wanted, int status) {
  const pitot::test::TemporaryFile log;
  {
    Faults faults({.faults = wanted, .log_file = log.name()});
    faults.Start();
    BatchDelays delays(&faults);
    Batcher batcher(
        {.workers = 1, .max_batch = 1, .max_delay_ns = 0, .max_queue = 10},
        BatchDelays::Around(
            [](std::span<const Job> jobs, pitot::Batch&) {
              return std::vector<Prediction>(jobs.size(), Prediction{{42, 0.5f}});
            },
            [](std::span<const uint64_t>) {}),
        [] { BatchDelays::WorkerBegins(); }, &delays);
    Preprocessor preprocessor(0, {});
    FaultyClassify handler({.side = 8}, &preprocessor, &batcher, &delays, &faults);
    server_common::Exchange exchange;
    exchange.id = 18;
    const server_common::Reply reply = handler.Handle(jpeg, exchange);
    CHECK(reply.status == status);
    if (status == 200) CHECK(nlohmann::json::parse(reply.json)["top"][0]["index"] == 42);
  }
  std::map<std::string, nlohmann::json> by_fault;
  for (const nlohmann::json& line : log.lines()) {
    CHECK(line["request"] == "0000000000000012");
    by_fault[line["fault"]] = line;
  }
  return by_fault;
}

TEST_CASE("a request without faults is logged with the CPU time of its picture and its batch", "[scoreboard]") {
  const auto log = LogOf(load_generator::MakeJpeg(32, 32, 1), {}, 200);
  REQUIRE(log.count("preprocess_code") == 1);
  CHECK(log.at("preprocess_code")["pixels"] == 32 * 32);
  CHECK(log.count("batch_code") == 1);
  for (const auto& [fault, line] : log) CHECK_FALSE(line.contains("as"));
}

TEST_CASE("each place in the handler makes its faults", "[scoreboard]") {
  const auto log = LogOf(load_generator::MakeJpeg(32, 32, 1),
                         {ParseFault("slow_decode_spin:rate=1,dose_ms=1"), ParseFault("decode_again:rate=1"),
                          ParseFault("lock_held:rate=1,dose_ms=1"), ParseFault("fsync:rate=1,dose_bytes=1"),
                          ParseFault("unhooked_hop:rate=1,dose_ms=1"), ParseFault("slow_postprocess:rate=1,dose_ms=1")},
                         200);
  for (const char* const fault :
       {"slow_decode_spin", "decode_again", "lock_held", "fsync", "unhooked_hop", "slow_postprocess"}) {
    INFO(fault);
    CHECK(log.count(fault) == 1);
  }
}

TEST_CASE("a faulty server refuses what is not a picture", "[scoreboard]") { LogOf("not a picture", {}, 400); }

}  // namespace
}  // namespace image_server
