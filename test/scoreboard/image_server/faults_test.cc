// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/faults.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "scoreboard/temporary_file.h"

namespace image_server {
namespace {

using pitot::test::TemporaryFile;

std::string ErrorOf(const char* text) {
  try {
    ParseFault(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

bool Contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_CASE("a fault has defaults and takes rate and dose", "[faults]") {
  const Fault plain = ParseFault("slow_decode_spin");
  CHECK(plain.kind == FaultKind::kSlowDecodeSpin);
  CHECK(plain.rate == 0.1);
  CHECK(plain.dose_ns == 40'000'000);

  const Fault dosed = ParseFault("lock_held:rate=0.25,dose_ms=1.5");
  CHECK(dosed.kind == FaultKind::kLockHeld);
  CHECK(dosed.rate == 0.25);
  CHECK(dosed.dose_ns == 1'500'000);

  CHECK(ParseFault("fsync:dose_bytes=4096").dose_bytes == 4096);
  CHECK(ParseFault("page_faults:dose_mib=2").dose_bytes == 2 << 20);
  CHECK(ParseFault("cpu_spinners:threads=3,dose_ms=5").threads == 3);
}

TEST_CASE("every fault is found by its name", "[faults]") {
  for (size_t i = 0; i < kFaultKinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    CHECK(ParseFault(FaultName(kind)).kind == kind);
  }
}

TEST_CASE("what is to be decoded again is decoded once more, and logged", "[faults]") {
  TemporaryFile log;
  int again = 0;
  Faults none({.log_file = log.name()});
  none.Start();
  none.AfterDecode(1, [&] { ++again; });
  CHECK(again == 0);

  Faults faults({.faults = {ParseFault("decode_again:rate=1")}, .log_file = log.name()});
  faults.Start();
  faults.AfterDecode(0x12, [&] { ++again; });

  CHECK(again == 1);
  const std::vector<nlohmann::json> lines = log.lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["fault"] == "decode_again");
  CHECK(lines[0]["request"] == "0000000000000012");
}

TEST_CASE("a fault that does not parse says what is wrong", "[faults]") {
  CHECK(Contains(ErrorOf("slow"), "unknown fault \"slow\"; there are slow_decode_spin, "));
  CHECK(Contains(ErrorOf(""), "unknown fault"));
  CHECK(Contains(ErrorOf("bursts"), "load generator"));
  CHECK(Contains(ErrorOf("fsync:dose_ms=4"), "fsync takes rate, dose_bytes; not \"dose_ms\""));
  CHECK(Contains(ErrorOf("fsync:rate=1.5"), "0 to 1"));
  CHECK(Contains(ErrorOf("fsync:rate"), "not a number"));
  CHECK(Contains(ErrorOf("fsync:rate=x"), "not a number"));
  CHECK(Contains(ErrorOf("fsync:rate=0.5x"), "not a number"));
  CHECK(Contains(ErrorOf("fsync:rate=-1"), "not a number"));
  CHECK(Contains(ErrorOf("fsync:rate=nan"), "not a number"));
  CHECK(Contains(ErrorOf("fsync:dose_bytes=1e30"), "not a number"));
  CHECK(ErrorOf("fsync:=1") != "");
}

TEST_CASE("a fault that needs a GPU is refused where there is none", "[faults]") {
  CHECK_THROWS_WITH(Faults({.faults = {ParseFault("neighbour:dose_count=5")}}),
                    "fault neighbour needs a GPU, and the network runs on the CPU");
  Faults faults({});
  CHECK_THROWS_AS(faults.SetFaults({ParseFault("tiny_kernels")}), std::invalid_argument);
  CHECK_THROWS_AS(faults.SetFaults({ParseFault("empty_cache")}), std::invalid_argument);
  faults.SetFaults({ParseFault("memory_leak:dose_mib=1")});
  faults.SetFaults({ParseFault("fsync")});
  CHECK(Faults({.faults = {ParseFault("neighbour:dose_count=5")}, .has_gpu = true}).faults()[0].dose_count == 5);
}

TEST_CASE("a kind is given once", "[faults]") {
  CHECK_THROWS_AS(Faults({.faults = {ParseFault("fsync"), ParseFault("fsync")}}), std::invalid_argument);
}

TEST_CASE("a fault log that cannot be opened is an error", "[faults]") {
  CHECK_THROWS_WITH(Faults({.log_file = "/nowhere/log"}), Catch::Contains("/nowhere/log"));
}

TEST_CASE("an injected fault is logged with what it took", "[faults]") {
  TemporaryFile log;
  Faults faults({.faults = {ParseFault("slow_decode_sleep:rate=1,dose_ms=2")}, .log_file = log.name()});
  faults.Start();

  faults.InDecode(0x1234);

  const std::vector<nlohmann::json> lines = log.lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["request"] == "0000000000001234");
  CHECK(lines[0]["fault"] == "slow_decode_sleep");
  CHECK(lines[0]["injected_ns"].get<uint64_t>() >= 2'000'000);
  CHECK(lines[0]["time_ns"].get<uint64_t>() > 0);
}

TEST_CASE("an injection says what was asked for, and in which scope it was", "[faults]") {
  TemporaryFile log;
  const char* const asked = "slow_postprocess:rate=1,dose_ms=1";
  Faults faults({.faults = {ParseFault(asked), ParseFault("unhooked_hop:rate=1,dose_ms=1"),
                            ParseFault("major_faults:rate=1,dose_mib=1")},
                 .log_file = log.name()});
  faults.Start();

  faults.InPostprocess(0x1234);
  faults.BetweenScopes(0x1234);
  faults.InDecode(0x1234);

  const std::vector<nlohmann::json> lines = log.lines();
  REQUIRE(lines.size() == 4);
  CHECK(lines[0]["as"] == asked);
  CHECK(lines[0]["scope"] == "postprocess");
  CHECK(lines[1]["fault"] == "unhooked_hop");
  CHECK(lines[1]["injected_ns"].get<uint64_t>() >= 1'000'000);
  CHECK(lines[2]["major_faults"].get<uint64_t>() <= 256);  // pages; a file system in memory has none
  CHECK(lines[3]["fault"] == "paging_code");
  CHECK(lines[3]["injected_ns"] == lines[3]["cpu_ns"]);
}

TEST_CASE("code that was neither on a CPU nor waiting for one slept, for pages where some came from a disk",
          "[faults]") {
  const scoreboard::ThreadUse before = {1000, 100, 50, 7};

  const scoreboard::Delays slept = scoreboard::DelaysOfCode(before, {1900, 400, 150, 7});
  CHECK(slept.cpu_waited_ns == 100);
  CHECK(slept.slept_ns == 500);
  CHECK(slept.paged_ns == 0);
  const scoreboard::Delays paged = scoreboard::DelaysOfCode(before, {1900, 400, 150, 8});
  CHECK(paged.slept_ns == 0);
  CHECK(paged.paged_ns == 500);
  // The kernel's clocks are read one after the other.
  CHECK(scoreboard::DelaysOfCode(before, {1900, 1010, 50, 7}).slept_ns == 0);
}

TEST_CASE("a thread that sleeps has slept, and one that spins has not", "[faults]") {
  const scoreboard::ThreadUse begun = scoreboard::ThreadUseNow();
  scoreboard::SleepFor(20'000'000);
  const scoreboard::ThreadUse slept = scoreboard::ThreadUseNow();
  scoreboard::SpinUntil(scoreboard::MonotonicNs() + 20'000'000);
  const scoreboard::ThreadUse spun = scoreboard::ThreadUseNow();

  CHECK(slept.cpu_ns - begun.cpu_ns < 10'000'000);
  CHECK(scoreboard::DelaysOfCode(begun, slept).slept_ns + (slept.runqueue_ns - begun.runqueue_ns) >= 10'000'000);
  CHECK(spun.cpu_ns - slept.cpu_ns + (spun.runqueue_ns - slept.runqueue_ns) >= 10'000'000);
}

TEST_CASE("delays are logged that are long enough to matter, a line each", "[faults]") {
  TemporaryFile log;
  Faults faults({.log_file = log.name()});
  scoreboard::Delays delays;
  delays.cpu_waited_ns = 3'000'000;
  delays.handed_over_ns = 99'999;
  delays.lock_waited_ns = 100'000;

  faults.log().WriteDelays(5, 0x12, delays);

  const std::vector<nlohmann::json> lines = log.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["fault"] == "cpu_waited");
  CHECK(lines[0]["injected_ns"] == 3'000'000);
  CHECK(lines[0]["request"] == "0000000000000012");
  CHECK_FALSE(lines[0].contains("as"));
  CHECK(lines[1]["fault"] == "lock_waited");
}

TEST_CASE("who waited for a worker is logged with whom that was at work for", "[faults]") {
  TemporaryFile log;
  Faults faults({.log_file = log.name()});
  const std::vector<uint64_t> others = {7, 8};

  faults.log().WriteQueued(1'000'000, 1'050'000, 1, others);  // too short to matter
  faults.log().WriteQueued(1'000'000, 3'000'000, 2, others);

  const std::vector<nlohmann::json> lines = log.lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["request"] == "0000000000000002");
  CHECK(lines[0]["injected_ns"] == 2'000'000);
  CHECK(lines[0]["others"] == nlohmann::json({"0000000000000007", "0000000000000008"}));
}

TEST_CASE("nothing is injected before the schedule, after it, or when switched off", "[faults]") {
  TemporaryFile log;
  Faults faults({.faults = {ParseFault("slow_decode_spin:rate=1,dose_ms=0")}, .after_s = 1000, .log_file = log.name()});
  faults.InDecode(1);
  faults.Start();
  faults.InDecode(2);
  CHECK(log.lines().empty());

  faults.SetActive(true);
  faults.InDecode(3);
  faults.SetActive(false);
  faults.InDecode(4);

  const std::vector<nlohmann::json> lines = log.lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["request"] == "0000000000000003");
}

std::set<std::string> Victims(uint64_t seed, double rate) {
  TemporaryFile log;
  Fault fault = ParseFault("slow_decode_spin:dose_ms=0");
  fault.rate = rate;
  Faults faults({.faults = {fault}, .seed = seed, .log_file = log.name()});
  faults.Start();
  for (uint64_t request = 1; request <= 2000; ++request) faults.InDecode(request);
  std::set<std::string> victims;
  for (const nlohmann::json& line : log.lines()) victims.insert(line["request"]);
  return victims;
}

TEST_CASE("the seed decides the victims, the rate their number", "[faults]") {
  CHECK(Victims(1, 0.1) == Victims(1, 0.1));
  CHECK(Victims(1, 0.1) != Victims(2, 0.1));
  CHECK(Victims(1, 0).empty());
  CHECK(Victims(1, 1).size() == 2000);
  const size_t tenth = Victims(1, 0.1).size();
  CHECK(tenth > 150);
  CHECK(tenth < 250);
}

TEST_CASE("a request that waits for the lock is logged with its holder", "[faults]") {
  TemporaryFile log;
  Faults faults({.faults = {ParseFault("lock_held:rate=1,dose_ms=20")}, .log_file = log.name()});
  faults.Start();

  std::vector<std::thread> threads;
  for (uint64_t request : {1, 2}) threads.emplace_back([&, request] { faults.InCache(request); });
  for (std::thread& thread : threads) thread.join();

  size_t holders = 0, waiters = 0;
  for (const nlohmann::json& line : log.injections()) {
    holders += line["role"] == "holder";
    if (line["role"] == "waiter") {
      ++waiters;
      CHECK(line["holder"] != line["request"]);
    }
  }
  CHECK(holders == 2);
  CHECK(waiters <= 1);  // none if the threads missed each other
  size_t slept = 0;     // the holder sleeps
  for (const nlohmann::json& line : log.lines()) slept += line["fault"] == "slept";
  CHECK(slept == 2);
}

TEST_CASE("every other fault strikes and is logged", "[faults]") {
  TemporaryFile log;
  {
    Faults faults({.faults = {ParseFault("fsync:rate=1,dose_bytes=100000"), ParseFault("page_faults:rate=1,dose_mib=1"),
                              ParseFault("cpu_spinners:rate=1,dose_ms=1,threads=2"),
                              ParseFault("batch_timeout:rate=1,dose_ms=30")},
                   .log_file = log.name()});
    faults.Start();
    faults.InDecode(1);
    faults.InHandler(1);
    CHECK(faults.BatchDelayNs(2'000'000) == 30'000'000);
    faults.BatchWaited(std::vector<Faults::Member>{{1, 100}}, 200, 350);
    faults.BatchWaited(std::vector<Faults::Member>{{1, 100}}, 200, 290);  // it was full in time
  }

  std::multiset<std::string> names;
  for (const nlohmann::json& line : log.lines()) names.insert(line["fault"]);
  CHECK(names == std::multiset<std::string>{"batch_timeout", "cpu_spinners", "fsync", "page_faults"});
}

TEST_CASE("who came to a batch that should have been closed lost what the next one would not have waited", "[faults]") {
  TemporaryFile log;
  {
    Faults faults({.faults = {ParseFault("batch_timeout:rate=1,dose_ms=30")}, .log_file = log.name()});
    faults.Start();
    REQUIRE(faults.BatchDelayNs(200) == 30'000'000);
    faults.BatchWaited(std::vector<Faults::Member>{{1, 1'000}, {2, 1'150}, {3, 1'250}, {4, 1'400}, {5, 1'900}}, 200,
                       2'000);
  }

  std::map<std::string, int> lost;
  for (const nlohmann::json& line : log.lines()) lost[line["request"]] = line["injected_ns"];
  CHECK(lost == std::map<std::string, int>{{"0000000000000001", 800},
                                           {"0000000000000002", 800},
                                           {"0000000000000003", 550},
                                           {"0000000000000004", 550}});
}

TEST_CASE("what burns CPU says how much, and what sleeps that it took none", "[faults]") {
  TemporaryFile log;
  {
    Faults faults(
        {.faults = {ParseFault("slow_decode_spin:rate=1,dose_ms=20"), ParseFault("slow_decode_sleep:rate=1,dose_ms=20"),
                    ParseFault("unhooked_hop:rate=1,dose_ms=20"),
                    ParseFault("cpu_spinners:rate=1,dose_ms=20,threads=2")},
         .log_file = log.name()});
    faults.Start();
    faults.InDecode(1);
    faults.BetweenScopes(1);
    faults.InHandler(1);
  }
  size_t burnt = 0;
  for (const nlohmann::json& line : log.lines()) {
    INFO(line.dump());
    const auto cpu_ns = line["cpu_ns"].get<uint64_t>();
    const uint64_t threads = line["fault"] == "cpu_spinners" ? 2 : 1;
    if (line["fault"] == "slow_decode_sleep") {
      CHECK(cpu_ns < 10'000'000);
    } else {
      ++burnt;
      CHECK(cpu_ns > 0);
      CHECK(cpu_ns <= threads * line["injected_ns"].get<uint64_t>());
    }
  }
  CHECK(burnt == 3);
}

}  // namespace
}  // namespace image_server
