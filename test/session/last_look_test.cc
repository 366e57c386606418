// SPDX-License-Identifier: Apache-2.0
//
// The end of a black box whose watcher was left behind: it may look at any time.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "fakes/temp_directory.h"
#include "session/black_box.h"
#include "session/memory_budget.h"

namespace {

using pitot::session::BlackBox;

constexpr int64_t kPatienceNs = 60'000'000'000;

// In a folder of its own.
struct Recording {
  fakes::TempDirectory directory;
  pitot::session::IncidentCounts counts;
  BlackBox box;

  Recording() {
    pitot::session::OwnedOptions options;
    options.values.memory_budget_bytes = 16 << 20;
    options.black_box_directory = directory.path();
    std::vector<std::string> removed;
    const pitot::Status status = box.Begin(options, pitot::session::Split(options.values, {.has_black_box = true}),
                                           true, pitot::trace::ReadClocks(true), nullptr, &removed);
    INFO(status.message());
    REQUIRE(status.ok());
  }
  uint64_t Turns() const { return box.box()->header()->pulse[0].turn + box.box()->header()->pulse[1].turn; }
};

TEST_CASE("a look after the end of looks leaves the black box alone", "[last_look]") {
  Recording recording;
  recording.box.Look(recording.counts);
  const uint64_t turns = recording.Turns();
  CHECK(turns != 0);
  REQUIRE(recording.box.EndLooks(kPatienceNs));
  recording.box.Look(recording.counts);
  CHECK(recording.Turns() == turns);
  recording.box.End();
  recording.box.Look(recording.counts);
  CHECK(fakes::NamesIn(recording.directory.path()).empty());
}

TEST_CASE("a black box ends while its watcher goes on looking", "[last_look]") {
  for (int i = 0; i < 10; ++i) {
    Recording recording;
    std::atomic<bool> has_looked{false}, is_over{false};
    std::thread watcher([&] {
      while (!is_over) recording.box.Look(recording.counts), has_looked = true;
    });
    while (!has_looked) std::this_thread::yield();
    CHECK(recording.box.EndLooks(kPatienceNs));
    recording.box.End();
    is_over = true;
    watcher.join();
    CHECK(fakes::NamesIn(recording.directory.path()).empty());
  }
}

}  // namespace
