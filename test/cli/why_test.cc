// SPDX-License-Identifier: Apache-2.0
//
// `pitot why` on the dump of a small server: requests are decoded, wait in a queue, and are served in batches of one.
// One of them waits behind a long batch of another route, and its batch allocates memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/columns.h"
#include "cli/folder.h"
#include "golden.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;
using pitot::ArgType;
using pitot::SiteKind;
using pitot::WaitKind;
using pitot::model::kNone;
using pitot::model::Trace;

constexpr int64_t kUs = 1000, kBegin = 1'000'000 * kUs;
constexpr uint64_t kSlow = 0x8f0c, kOther = 0x77aa;

class Server {
 public:
  Server() {
    Trace& trace = maker_.trace;
    trace.window_begin_ns = kBegin;
    trace.clock = {kBegin, 1795228277123456789, kBegin, true, 2.1, 40};
    trace.pid = 4242;
    http_ = maker_.Thread("http-1");
    other_ = maker_.Thread("http-2");
    executor_ = maker_.Thread("executor");
    decode_ = maker_.Site(SiteKind::kScope, "decode");
    forward_ = maker_.Site(SiteKind::kScope, "forward");
    respond_ = maker_.Site(SiteKind::kScope, "respond");
    wait_ = maker_.Site(SiteKind::kWait, "wait",
                        {{"kind", ArgType::kUint},
                         {"resource", ArgType::kName},
                         {"owner_thread", ArgType::kUint},
                         {"owner_request", ArgType::kUint}});
  }
  // 4 ms of decoding, 10 ms of the model and 1 ms of the answer, each a bit more or less.
  void Normal(int i) {
    const int64_t jitter = (i * 37 % 101) * 3;
    Serve(0x1000 + static_cast<uint64_t>(i), "/classify", http_, 4'000 + jitter, 10'000 + (i * 53 % 97) * 5, 1'000);
  }
  // Returns when its batch began.
  int64_t Serve(uint64_t id, const char* route, uint32_t thread, int64_t decode_us, int64_t forward_us,
                int64_t respond_us, int64_t queued_us = 0) {
    const int64_t end_us = at_us_ + decode_us + queued_us + forward_us + respond_us;
    const uint32_t request = maker_.Request(id, route, At(at_us_), (end_us - at_us_) * kUs);
    maker_.trace.requests[request].begin_thread = thread;
    maker_.trace.requests[request].end_thread = executor_;
    const int64_t queue_us = at_us_ + decode_us, take_us = queue_us + queued_us;
    const uint32_t batch =
        maker_.Batch(id + 1, route[1] == 'c' ? "resnet50" : "unet", executor_, At(take_us), (end_us - take_us) * kUs);
    maker_.Member(batch, request, At(take_us));
    maker_.Event(thread, decode_, At(at_us_), decode_us * kUs, {request, kNone});
    maker_.trace.handoffs.push_back(
        {request, maker_.String("images"), thread, executor_, At(queue_us), At(take_us), batch});
    maker_.Event(executor_, forward_, At(take_us), forward_us * kUs, {kNone, batch});
    maker_.Event(executor_, respond_, At(take_us + forward_us), respond_us * kUs, {kNone, batch});
    last_ = batch;
    at_us_ = end_us + 100;
    return take_us;
  }
  // The long batch of another, the slow request behind it.
  void Slow() {
    const int64_t begin_us = at_us_ + 5'000;
    Serve(kOther, "/segment", other_, 2'000, 20'000, 500);
    const int64_t free_us = at_us_ - 100;
    at_us_ = begin_us;
    const int64_t take_us = Serve(kSlow, "/classify", http_, 4'000, 15'000, 1'000, free_us - begin_us - 4'000);
    maker_.Call(executor_, "cudaMalloc", At(take_us + 1'000), 5'000 * kUs, {kNone, last_});
  }
  Trace Make(int normal, bool has_fired = true) {
    for (int i = 0; i < normal; ++i) Normal(i);
    Slow();
    Trace& trace = maker_.trace;
    trace.window_end_ns = At(at_us_ + 1'000);
    if (has_fired) trace.firings.push_back({At(at_us_), kSlow, maker_.String("latency /classify"), 0});
    return maker_.Finish();
  }

 private:
  static int64_t At(int64_t us) { return kBegin + us * kUs; }
  pitot::test::TraceMaker maker_;
  uint32_t http_, other_, executor_, decode_, forward_, respond_, wait_, last_ = kNone;
  int64_t at_us_ = 1'000;
};

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("why says what was not normal of the request that fired", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140)));

  const Result result = folder.Run("why dump.pitot");

  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CheckGolden("cli_why.txt", result.out);
}

TEST_CASE("why says so where too few requests are like it, and what it was made of", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("why dump.pitot");

  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CheckGolden("cli_why_few.txt", result.out);
}

TEST_CASE("why speaks JSON in whole ns that add up", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140, false)));

  const Result result = folder.Run("why dump.pitot --json --request 8f0c");

  REQUIRE(result.exit_code == 0);
  const json document = json::parse(result.out);
  CHECK(document["request"] == "0000000000008f0c");
  CHECK(document["verdict"] == "causes");
  CHECK(document["baseline"]["requests"] == 140);
  CHECK(document["baseline"]["level"] == "same route and size");
  const json& causes = document["causes"];
  REQUIRE(causes.size() == 2);
  CHECK(causes[0]["blame"] == "executor_busy");
  CHECK(causes[0]["by"]["requests"][0] == "00000000000077aa");
  CHECK(causes[1]["blame"] == "alloc_stall");
  CHECK(causes[1]["advice"]["code"] == "allocate_early");
  int64_t sum_ns = document["common_ns"].get<int64_t>() + document["rest_ns"].get<int64_t>(), blame_ns = 0, at_ns = 0;
  for (const json& cause : causes) {
    sum_ns += cause["excess_ns"].get<int64_t>();
    CHECK(cause["p"].get<double>() <= document["baseline"]["alpha"].get<double>());
  }
  for (const auto& [name, ns] : document["blame_ns"].items()) blame_ns += ns.get<int64_t>();
  for (const json& segment : document["segments"]) {
    CHECK(segment["begin_ns"] == at_ns);
    at_ns += segment["duration_ns"].get<int64_t>();
  }
  CHECK(sum_ns == document["latency_ns"].get<int64_t>() - document["typical_ns"].get<int64_t>());
  CHECK(blame_ns == document["latency_ns"]);
  CHECK(at_ns == document["latency_ns"]);
  CHECK(document["quality"]["reliable"] == true);
}

TEST_CASE("without a firing why is about the slowest request, with --request about that one", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140, false)));

  CHECK(Contains(folder.Run("why dump.pitot").out, "request 0000000000008f0c  /classify"));
  const Result normal = folder.Run("why dump.pitot --request 1007");
  CHECK(Contains(normal.out, "request 0000000000001007  /classify"));
  CHECK(Contains(normal.out, "not unusual"));
}

TEST_CASE("why --every has a line for each request that began and ended", "[cli]") {
  const Folder folder;
  Trace trace = Server().Make(140);
  trace.requests[3].parent_id = trace.requests[2].id;  // a part of another
  trace.requests[4].parent_id = 0xabc;                 // of who sent it
  trace.requests[5].end_known = false;
  folder.Write("dump.pitot", Dump(trace));

  const Result result = folder.Run("why dump.pitot --every --json");

  REQUIRE(result.exit_code == 0);
  std::vector<std::string> ids;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    ids.push_back(one["request"]);
    if (ids.back() != "0000000000008f0c") continue;
    CHECK(one == json::parse(folder.Run("why dump.pitot --request 8f0c --json").out));
  }
  CHECK(ids.size() == trace.requests.size() - 2);
  CHECK(std::find(ids.begin(), ids.end(), "0000000000008f0c") != ids.end());
  CHECK(std::find(ids.begin(), ids.end(), pitot::base::RequestId(trace.requests[4].id)) != ids.end());
  CHECK(folder.Run("why dump.pitot --every").exit_code == 2);
  CHECK(folder.Run("why dump.pitot --every --json --request 8f0c").exit_code == 2);
}

TEST_CASE("why refuses what it cannot do", "[cli]") {
  const Folder folder;
  const std::string dump = Dump(Server().Make(140));
  folder.Write("dump.pitot", dump);
  folder.Write("cut.pitot", dump.substr(0, dump.size() - 30));
  folder.Write("garbage", "garbage");
  pitot::test::TraceMaker empty;
  folder.Write("empty.pitot", Dump(empty.Finish()));

  CHECK(folder.Run("why").exit_code == 2);
  CHECK(folder.Run("why dump.pitot --request r2").exit_code == 2);
  CHECK(folder.Run("why none.pitot").exit_code == 3);
  CHECK(folder.Run("why garbage").exit_code == 5);
  const Result cut = folder.Run("why cut.pitot"), unknown = folder.Run("why dump.pitot --request 1234"),
               nothing = folder.Run("why empty.pitot");
  CHECK(cut.exit_code == 4);
  CHECK(unknown.exit_code == 1);
  CHECK(Contains(unknown.err, "no request 0000000000001234 is in"));
  CHECK(nothing.exit_code == 1);
  CHECK(Contains(nothing.err, "no request that began and ended"));
}

TEST_CASE("why says what it is asked", "[cli]") {
  const Result result = Folder().Run("why --help");
  REQUIRE(result.exit_code == 0);
  CheckGolden("cli_why_help.txt", result.out);
}
