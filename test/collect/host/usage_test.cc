// SPDX-License-Identifier: Apache-2.0
#include "trace/usage.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/host_counters.h"
#include "fakes/recording.h"
#include "pitot/pitot.h"
#include "trace/internal_sites.h"

namespace {

using pitot::trace::Usage;

uint32_t g_reads = 0;
int g_schedstat = 0;
Usage g_usage;

bool Read(int schedstat, Usage* usage) noexcept {
  ++g_reads;
  g_schedstat = schedstat;
  *usage = g_usage;
  return true;
}

// Threads record their usage while this lives.
class Reading {
 public:
  explicit Reading(pitot::trace::UsageReader read = Read) {
    g_reads = 0;
    g_usage = {};
    pitot::trace::SetUsageReader(read);
  }
  ~Reading() { pitot::trace::SetUsageReader(nullptr); }
};

// Lets the calling thread record its usage anew, as after a long time.
void Forget() { pitot::trace::EnterThread()->usage_due = 0; }

std::vector<double> ValuesOf(const pitot::model::Trace& trace, const pitot::base::CounterName& what) {
  std::vector<double> values;
  const std::string name = pitot::base::ThreadCounter(syscall(SYS_gettid), what);
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const pitot::model::CounterRow& counter = trace.counters[trace.samples.counter[i]];
    if (trace.strings[counter.name] == name) values.push_back(trace.samples.value[i]);
  }
  return values;
}

}  // namespace

TEST_CASE("a thread records its usage at the ends of a request or a batch", "[usage]") {
  const fakes::Recording recording;
  REQUIRE(recording.ok());
  const Reading reading;
  const auto reads_of = [](auto work) {
    Forget();
    const uint32_t before = g_reads;
    work();
    return g_reads - before;
  };

  pitot::Request request;
  CHECK(reads_of([&] { request = pitot::Request::Begin("/route"); }) == 1);
  pitot::Batch batch;
  CHECK(reads_of([&] { batch = pitot::Batch::Begin("executor"); }) == 1);
  CHECK(reads_of([&] { batch.Finish(); }) == 1);
  CHECK(reads_of([&] { request.Finish(pitot::Outcome::kOk); }) == 1);
}

TEST_CASE("scopes never read a thread's usage", "[usage]") {
  const fakes::Recording recording;
  const Reading reading;
  for (int i = 0; i < 100; ++i) {
    PITOT_SCOPE("scope");
    PITOT_INSTANT("instant");
  }
  CHECK(g_reads == 0);
}

TEST_CASE("a thread records its usage once a millisecond at most, and for 0.5 % of its time", "[usage]") {
  const fakes::Recording recording;
  PITOT_INSTANT("a ring is made");
  pitot::trace::ThreadRing* const ring = pitot::trace::EnterThread();
  const uint64_t ms = pitot::detail::TicksOf(1'000'000), now = 100 * ms;
  const auto reads_again = [&](pitot::trace::UsageReader read, uint64_t later) {
    const Reading reading(read);
    Forget();
    pitot::trace::RecordUsage(ring, read, now);
    const uint32_t before = g_reads;
    pitot::trace::RecordUsage(ring, read, now + later);
    return g_reads != before;
  };
  const auto slow = [](int, Usage* usage) noexcept {
    const uint32_t gate = pitot::trace::EnterThread()->gate;
    const uint64_t end = pitot::detail::Clock(gate) + pitot::detail::TicksOf(50'000);
    while (pitot::detail::Clock(gate) < end) continue;
    return Read(-1, usage);
  };

  CHECK_FALSE(reads_again(Read, ms - 1));
  CHECK_FALSE(reads_again(slow, 9 * ms));
  CHECK(reads_again(Read, 20 * ms));
  CHECK(reads_again(slow, 20 * ms));
}

TEST_CASE("a thread that lost its CPU while it read its usage reads it once more", "[usage]") {
  const fakes::Recording recording;
  const Reading reading;
  PITOT_INSTANT("a ring is made");
  const auto read = [](int, Usage* usage) noexcept {
    const uint32_t gate = pitot::trace::EnterThread()->gate;
    const uint64_t end = pitot::detail::Clock(gate) + pitot::detail::TicksOf(g_reads == 0 ? 200'000 : 0);
    while (pitot::detail::Clock(gate) < end) continue;
    *usage = {};
    usage->cpu_ns = ++g_reads;
    return true;
  };
  pitot::trace::RecordUsage(pitot::trace::EnterThread(), read, uint64_t{1} << 40);

  CHECK(ValuesOf(recording.Trace(), pitot::base::kOnCpu) == std::vector<double>{2});
}

TEST_CASE("no usage is recorded without a collector", "[usage]") {
  const fakes::Recording recording;
  { const pitot::Request request = pitot::Request::Begin("/route"); }
  CHECK(recording.Trace().counters.empty());
}

TEST_CASE("values missing in the system are not recorded", "[usage]") {
  const fakes::Recording recording;
  const Reading reading([](int, Usage*) noexcept { return false; });
  { const pitot::Request request = pitot::Request::Begin("/route"); }
  CHECK(recording.Trace().counters.empty());
}

TEST_CASE("a thread's usage becomes counters, with one sample for an unchanged value", "[usage]") {
  const fakes::Recording recording;
  const Reading reading;
  const auto look = [](const Usage& usage) {
    g_usage = usage;
    pitot::trace::RecordUsage(pitot::trace::EnterThread(), Read, (g_reads + uint64_t{1}) << 40);
  };
  PITOT_INSTANT("a ring is made");
  look({});
  look({uint64_t{5'000'000'000}, 7, 1, 0xffffffff, 0});
  look({uint64_t{5'000'000'001}, 7, 1, 0xffffffff, 2, 900});

  const pitot::model::Trace trace = recording.Trace();

  CHECK(FindInconsistency(trace).empty());
  CHECK(ValuesOf(trace, pitot::base::kOnCpu) == std::vector<double>{0, 5e9, 5e9 + 1});
  CHECK(ValuesOf(trace, pitot::base::kRunQueueDelay) == std::vector<double>{900});
  CHECK(ValuesOf(trace, pitot::base::kVoluntary) == std::vector<double>{0, 7, 7});
  CHECK(ValuesOf(trace, pitot::base::kInvoluntary) == std::vector<double>{0, 1});
  CHECK(ValuesOf(trace, pitot::base::kMinorFaults) == std::vector<double>{0, 4294967295});
  CHECK(ValuesOf(trace, pitot::base::kMajorFaults) == std::vector<double>{0, 2});
}

TEST_CASE("a thread gets a file to read, and loses it before it is closed", "[usage]") {
  const fakes::Recording recording;
  const Reading reading;
  PITOT_INSTANT("a ring is made");
  pitot::trace::ThreadRing* const ring = pitot::trace::EnterThread();
  const auto read = [&] {
    pitot::trace::RecordUsage(ring, Read, (g_reads + uint64_t{1}) << 40);
    return g_schedstat;
  };

  CHECK(read() == -1);
  CHECK(pitot::trace::SetSchedstat(ring, 7));
  CHECK(read() == 7);
  CHECK(pitot::trace::SetSchedstat(ring, -1));
  CHECK(read() == -1);
}

TEST_CASE("a file still being read by a thread is not closed", "[usage]") {
  const fakes::Recording recording;
  PITOT_INSTANT("a ring is made");
  pitot::trace::ThreadRing* const ring = pitot::trace::EnterThread();
  ring->is_reading.store(true);
  CHECK_FALSE(pitot::trace::SetSchedstat(ring, -1, 0));
  ring->is_reading.store(false);
}
