// SPDX-License-Identifier: Apache-2.0
//
// Options: each wrong one is named, the right ones start, and the environment sets some.
#include "session/options.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pitot/recorder.h"
#include "pitot/request.h"
#include "session/host.h"
#include "session/memory_budget.h"
#include "trace/names.h"
#include "trace/requests.h"

namespace {

using pitot::Options;
using pitot::Recorder;
using pitot::StatusCode;
using session_test::Contains;
using session_test::SmallOptions;
using session_test::SumOf;

// A variable of the environment while this lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("each wrong option is refused and named, and nothing runs afterwards", "[options]") {
  const std::string long_path = "/" + std::string(4000, 'x');
  const std::vector<std::pair<std::string, std::function<void(Options&)>>> wrong = {
      {"memory_budget_bytes", [](Options& o) { o.memory_budget_bytes = (4 << 20) - 1; }},
      {"memory_budget_bytes", [](Options& o) { o.memory_budget_bytes = ~uint64_t{0}; }},
      {"max_ring_bytes", [](Options& o) { o.max_ring_bytes = 0; }},
      {"max_ring_bytes", [](Options& o) { o.max_ring_bytes = 100'000; }},
      {"max_ring_bytes", [](Options& o) { o.max_ring_bytes = 128 << 20; }},
      {"max_ring_bytes", [](Options& o) { o.max_ring_bytes = 8 << 20; }},  // more than a quarter
      {"min_ring_bytes", [](Options& o) { o.min_ring_bytes = 2048; }},
      {"min_ring_bytes", [](Options& o) { o.min_ring_bytes = 5000; }},
      {"min_ring_bytes", [](Options& o) { o.min_ring_bytes = o.max_ring_bytes * 2; }},
      {"min_ring_bytes",
       [](Options& o) {
         o.memory_budget_bytes = 4 << 20;
         o.max_open_requests = 16;
         o.max_ring_bytes = o.min_ring_bytes = 1 << 20;
       }},
      {"max_grown_ring_bytes", [](Options& o) { o.max_grown_ring_bytes = 2048; }},
      {"max_grown_ring_bytes", [](Options& o) { o.max_grown_ring_bytes = 100'000; }},
      {"max_grown_ring_bytes", [](Options& o) { o.max_grown_ring_bytes = 128 << 20; }},
      {"max_open_requests", [](Options& o) { o.max_open_requests = 15; }},
      {"max_open_requests", [](Options& o) { o.max_open_requests = 65'537; }},
      {"max_open_requests", [](Options& o) { o.max_open_requests = 65'536; }},  // more than the budget holds
      {"clock", [](Options& o) { o.clock = static_cast<pitot::ClockSource>(3); }},
      {"pre_window_ms", [](Options& o) { o.pre_window_ms = 0; }},
      {"pre_window_ms", [](Options& o) { o.pre_window_ms = 3'600'001; }},
      {"post_window_ms", [](Options& o) { o.post_window_ms = 60'001; }},
      {"max_incidents_per_cause_and_hour", [](Options& o) { o.max_incidents_per_cause_and_hour = 0; }},
      {"max_incidents_kept", [](Options& o) { o.max_incidents_kept = 0; }},
      {"max_incident_directory_bytes", [](Options& o) { o.max_incident_directory_bytes = 0; }},
      {"handle_ends", [](Options& o) { o.handle_ends = static_cast<pitot::Ends>(4); }},
      {"end_grace_ms", [](Options& o) { o.end_grace_ms = 0; }},
      {"end_grace_ms", [](Options& o) { o.end_grace_ms = 60'001; }},
      {"worker_cpu_percent", [](Options& o) { o.worker_cpu_percent = 0; }},
      {"worker_cpu_percent", [](Options& o) { o.worker_cpu_percent = 101; }},
      {"incident_directory", [&](Options& o) { o.incident_directory = long_path.c_str(); }},
      {"incident_directory", [](Options& o) { o.incident_directory = "/tmp/../tmp/x"; }},
      {"black_box_directory", [&](Options& o) { o.black_box_directory = long_path.c_str(); }},
      {"black_box_directory", [](Options& o) { o.black_box_directory = "/tmp/../tmp/x"; }},
  };
  for (const auto& [field, spoil] : wrong) {
    Options options = SmallOptions();
    spoil(options);

    fakes::Log log;
    log.Listen(&options);
    const Recorder recorder = Recorder::Start(options);
    CHECK(log.Has(pitot::LogLevel::kError, recorder.status().message()));

    const pitot::Status status = recorder.status();
    INFO(field << ": " << status.message());
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(Contains(status.message(), "Options::" + field));
    CHECK(pitot::Now().ticks == 0);
  }
}

TEST_CASE("the least and the most of each option start", "[options]") {
  const std::vector<std::function<void(Options&)>> right = {
      [](Options& o) {
        o.memory_budget_bytes = 4 << 20;
        o.max_ring_bytes = o.min_ring_bytes = 4096;
        o.max_open_requests = 16;
      },
      [](Options& o) { o.memory_budget_bytes = 256 << 20, o.max_ring_bytes = 64 << 20; },
      [](Options& o) { o.memory_budget_bytes = 256 << 20, o.max_open_requests = 65'536; },
      [](Options& o) { o.pre_window_ms = 1, o.post_window_ms = 60'000; },
      [](Options& o) { o.pre_window_ms = 3'600'000; },
      [](Options& o) { o.worker_cpu_percent = 1; },
      [](Options& o) { o.max_incidents_kept = ~0u, o.max_incident_directory_bytes = ~uint64_t{0}; },
      [](Options& o) { o.clock = pitot::ClockSource::kOperatingSystem; },
      [](Options& o) { o.incident_directory = "", o.process_name = ""; },
  };
  for (const auto& change : right) {
    Options options = SmallOptions();
    change(options);
    const Recorder recorder = Recorder::Start(options);
    INFO(recorder.status().message());
    CHECK(recorder.status().ok());
  }
}

TEST_CASE("the parts of the memory budget add up to it, whatever is added to the recorder", "[options]") {
  for (const uint64_t budget : {4ull << 20, 5'000'001ull, 64ull << 20, 128ull << 20, 1ull << 40}) {
    for (const bool has_judge : {false, true}) {
      for (const uint64_t collectors : {0ull, 4ull << 20, 1ull << 40}) {
        Options options;
        options.memory_budget_bytes = budget;
        options.max_open_requests = 16;
        const pitot::MemorySplit split = pitot::session::Split(options, {has_judge, collectors});
        INFO(budget << ", judge " << has_judge << ", collectors " << collectors);
        CHECK(SumOf(split) == budget);
        CHECK(SumOf(pitot::session::Split(options, {has_judge, collectors, true})) == budget);
        CHECK(split.rings == budget / 4);
        CHECK(split.collectors <= collectors);
        CHECK((split.learned != 0) == has_judge);
        CHECK(split.snapshot_reserve > 0);
        CHECK(split.snapshot_reserve % 4096 == 0);
        CHECK(pitot::session::RowBytes(split) > 0);
      }
    }
  }
}

TEST_CASE("a judge and collectors take their memory from incidents, and not from rings", "[options]") {
  const Options options;
  const pitot::MemorySplit alone = pitot::session::Split(options);
  const pitot::MemorySplit judged = pitot::session::Split(options, {true, 0});
  const pitot::MemorySplit watched = pitot::session::Split(options, {true, 4 << 20});

  CHECK(judged.rings == alone.rings);
  CHECK(judged.snapshot_reserve < alone.snapshot_reserve);
  CHECK(watched.snapshot_reserve < judged.snapshot_reserve);
  CHECK(watched.collectors == 4 << 20);
  // A trace made of a whole copy, 36 bytes for an event of 16, has room for its judgement.
  const pitot::session::CaseRoom room = pitot::session::RoomForCases(judged);
  CHECK(room.times == 4);
  CHECK(room.times * judged.snapshot_reserve / 2 / 16 * 36 <= room.bytes);
  CHECK(pitot::session::RoomForCases(alone).times == 1);
}

TEST_CASE("by default there are 32 MiB of rings, and 4.8 MiB of events with a judge and the host collector",
          "[options]") {
  const pitot::MemorySplit split = pitot::session::Split(Options(), {true, 4 << 20});

  CHECK(split.rings == 32 << 20);
  CHECK(static_cast<double>(split.snapshot_reserve / 2) >= 4.8 * (1 << 20));
}

TEST_CASE("a black box takes room for its texts and the last rows, and none for what lies in it", "[options]") {
  const pitot::MemorySplit without = pitot::session::Split(Options(), {true, 0});
  const pitot::MemorySplit with = pitot::session::Split(Options(), {true, 0, true});

  CHECK(with.rings == without.rings);
  CHECK(with.requests_and_names == without.requests_and_names + (10 << 20));
}

TEST_CASE("a budget made for large collectors holds them", "[options]") {
  const bool has_black_box = GENERATE(false, true);
  Options options;
  const pitot::session::AddedParts added{true, 64 << 20, has_black_box};
  CHECK(pitot::session::Split(options, added).collectors < added.collector_bytes);

  options.memory_budget_bytes = pitot::session::BudgetFor(options, added);

  CHECK(pitot::session::Split(options, added).collectors == added.collector_bytes);
}

TEST_CASE("a ring grows to a quarter of the budget at most, and never to less than it began with", "[options]") {
  const auto largest = [](uint64_t budget, uint64_t first, uint64_t grown) {
    Options options;
    options.memory_budget_bytes = budget;
    options.max_ring_bytes = first;
    options.max_grown_ring_bytes = grown;
    return pitot::session::LargestRingBytes(options);
  };
  CHECK(largest(64 << 20, 1 << 20, 16 << 20) == 16 << 20);
  CHECK(largest(64 << 20, 1 << 20, 64 << 20) == 16 << 20);
  CHECK(largest(63 << 20, 1 << 20, 16 << 20) == 8 << 20);
  CHECK(largest(64 << 20, 1 << 20, 4096) == 1 << 20);
}

TEST_CASE("full tables of requests and names stay within their part of the budget", "[options]") {
  Options options = SmallOptions();
  const Recorder recorder = Recorder::Start(options);
  REQUIRE(recorder.status().ok());
  std::vector<pitot::Request> requests;
  for (uint32_t i = 0; i < options.max_open_requests; ++i) requests.push_back(pitot::Request::Begin("/r"));

  CHECK(requests.back().id() != 0);
  CHECK(pitot::trace::RequestBytes() + pitot::trace::MostNameBytes() <= recorder.Stats().memory.requests_and_names);
}

TEST_CASE("the environment overlays the options", "[options]") {
  const Environment directory("PITOT_INCIDENT_DIRECTORY", "/var/lib/x"),
      boxes("PITOT_BLACK_BOX_DIRECTORY", "/dev/shm/x"), name("PITOT_PROCESS_NAME", "y"),
      budget("PITOT_MEMORY_BUDGET_BYTES", "8388608"), pre("PITOT_PRE_WINDOW_MS", "123"),
      post("PITOT_POST_WINDOW_MS", "0"), clock("PITOT_CLOCK", "operating_system"),
      ring("PITOT_MAX_RING_BYTES", "65536"), open("PITOT_MAX_OPEN_REQUESTS", "32");

  const Options options = Options::FromEnvironment();

  CHECK(std::string(options.incident_directory) == "/var/lib/x");
  CHECK(std::string(options.black_box_directory) == "/dev/shm/x");
  CHECK(std::string(options.process_name) == "y");
  CHECK(options.memory_budget_bytes == 8 << 20);
  CHECK(options.max_ring_bytes == 65536);
  CHECK(options.max_open_requests == 32);
  CHECK(options.pre_window_ms == 123);
  CHECK(options.post_window_ms == 0);
  CHECK(options.clock == pitot::ClockSource::kOperatingSystem);
}

TEST_CASE("an empty environment leaves the defaults", "[options]") {
  const Options options = Options::FromEnvironment(), defaults;

  CHECK(options.incident_directory == nullptr);
  CHECK(options.memory_budget_bytes == defaults.memory_budget_bytes);
  CHECK(options.pre_window_ms == defaults.pre_window_ms);
  CHECK(options.clock == pitot::ClockSource::kAuto);
}

TEST_CASE("an invalid value in the environment is refused by name, with the range", "[options]") {
  const std::string bytes = "a number of bytes, 4194304 to 1099511627776";
  const std::string pre = "a number of milliseconds, 1 to 3600000", post = "a number of milliseconds, 0 to 60000";
  struct Wrong {
    const char* variable;
    const char* value;
    std::string expected;
  };
  const std::vector<Wrong> wrong = {
      {"PITOT_MEMORY_BUDGET_BYTES", "much", bytes},
      {"PITOT_MEMORY_BUDGET_BYTES", "", bytes},
      {"PITOT_MEMORY_BUDGET_BYTES", "64M", bytes},
      {"PITOT_MEMORY_BUDGET_BYTES", "-1", bytes},
      {"PITOT_MEMORY_BUDGET_BYTES", "99999999999999999999999", bytes},
      {"PITOT_MAX_RING_BYTES", "1M", "a number of bytes, a power of two, 4096 to 67108864"},
      {"PITOT_MAX_OPEN_REQUESTS", "all", "a number of requests, 16 to 65536"},
      {"PITOT_PRE_WINDOW_MS", "5s", pre},
      {"PITOT_PRE_WINDOW_MS", "4294967297", pre},  // 1 beyond 32 bits
      {"PITOT_PRE_WINDOW_MS", "99999999999", pre},
      {"PITOT_POST_WINDOW_MS", "x", post},
      {"PITOT_CLOCK", "sundial", "auto, cycle_counter or operating_system"},
  };
  for (const Wrong& each : wrong) {
    const Environment variable(each.variable, each.value);
    const Recorder recorder = Recorder::Start(Options::FromEnvironment());
    const pitot::Status status = recorder.status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()) ==
          std::string(each.variable) + " is \"" + each.value + "\"; it must be " + each.expected);
  }
}

TEST_CASE("PITOT_OFF switches the recorder off, whatever the options say", "[options]") {
  {
    const Environment off("PITOT_OFF", "1");
    Options wrong = SmallOptions();
    wrong.pre_window_ms = 0;
    CHECK(Recorder::Start(SmallOptions()).status().code() == StatusCode::kDisabled);
    CHECK(Recorder::Start(wrong).status().code() == StatusCode::kDisabled);
    CHECK(pitot::Now().ticks == 0);
  }
  for (const char* value : {"", "0"}) {
    const Environment off("PITOT_OFF", value);
    CHECK(Recorder::Start(SmallOptions()).status().ok());
  }
}
