// SPDX-License-Identifier: Apache-2.0
//
// Rings in a black box, read by what reads those of others. They grow in the file as they do in memory, and threads
// that exit hand them on, so that a reader finds each thread's own records at any moment.
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fakes/child.h"
#include "fakes/not_run.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"
#include "pitot/manual.h"
#include "pitot/trace.h"
#include "session/calibrate.h"
#include "snapshot/box_reader.h"
#include "snapshot/former_threads.h"
#include "snapshot/record.h"
#include "snapshot/site_finder.h"
#include "snapshot/site_log.h"
#include "trace/box.h"
#include "trace/parent_only.h"
#include "trace/process.h"
#include "trace/requests.h"
#include "trace/rings.h"

namespace {

constexpr uint64_t kKiB = 1024;

void Number(uint64_t number) { PITOT_INSTANT("number", number); }

struct File {
  fakes::TempDirectory directory;
  const int fd = open((directory / "box").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ~File() { close(fd); }
};

constexpr pitot::trace::RingLimits kRings = {4 << 20, 64 * kKiB, 16 * kKiB, 1 << 20};
constexpr pitot::trace::RingLimits kOneRing = {24 * kKiB, 16 * kKiB, 16 * kKiB, 16 * kKiB};

// What a reader finds in the file: each thread's name and numbers, the newest first.
struct Found {
  std::string name;
  std::vector<uint64_t> numbers;
};
std::map<uint32_t, Found> Read(int file) {
  pitot::snapshot::BoxReader reader;
  REQUIRE(std::string(reader.Open(file)).empty());
  std::vector<uint64_t> words(1 << 18);
  pitot::snapshot::Snapshot snapshot;
  reader.Read(0, {words.data(), words.data() + words.size()}, &snapshot);
  pitot::snapshot::SplitByThreads(snapshot.texts->ThreadEndSite(), &snapshot.rings);
  std::map<uint32_t, Found> found;
  for (const pitot::snapshot::RingCopy& ring : snapshot.rings) {
    CHECK(found.count(ring.number) == 0);
    Found& thread = found[ring.number];
    thread.name = ring.name;
    pitot::snapshot::RecordCursor cursor(ring.first, ring.last, ring.now_ticks);
    pitot::snapshot::Record record;
    while (cursor.Next(&record)) {
      if (record.arg_words == 1) thread.numbers.push_back(record.args[0]);
    }
  }
  return found;
}

// A file of at most so many bytes, with the process's rings in it.
struct Boxed {
  explicit Boxed(uint64_t most_bytes, const pitot::trace::RingLimits& limits = kRings, int fd = -1)
      : file(fd >= 0 ? fd : own.fd), box(file, most_bytes) {
    bool available = false;
    slow_clock = pitot::trace::NeedsSlowClock(pitot::ClockSource::kAuto, &available);
    start = pitot::session::CalibrateTicks(slow_clock);
    ok = pitot::trace::MakeParentOnly() && box.Begin() && sites.Begin(&box) && pitot::trace::OpenRequests(64) &&
         pitot::trace::OpenRings(limits, slow_clock, &box);
    pitot::trace::BoxHeader* const header = box.header();
    std::copy_n(pitot::trace::kBoxMagic, sizeof header->magic, header->magic);
    header->version = pitot::trace::kBoxVersion;
    header->bytes = sizeof *header;
    header->start = start;
    header->state = pitot::trace::BoxState::kRecording;
  }
  ~Boxed() {
    pitot::trace::CloseRings();
    pitot::trace::CloseRequests();
  }
  void Record(uint64_t count) {
    for (uint64_t end = next + count; next < end; ++next) Number(next);
  }
  // Grows this thread's ring, which takes the offer at its next event.
  void Grow(uint64_t bytes) { pitot::trace::GrowRings({{pitot::trace::AttachedRing()->number, bytes}}); }
  // The numbers of the only thread.
  std::vector<uint64_t> Read() const {
    const pitot::trace::ClockReading now = pitot::trace::ReadClocks(slow_clock);
    pitot::trace::BoxPulse& pulse = box.header()->pulse[0];
    pulse.ticks = now.ticks;
    pulse.monotonic_ns = static_cast<uint64_t>(now.monotonic_ns);
    pulse.turn = 2;
    const std::map<uint32_t, Found> found = ::Read(file);
    REQUIRE(found.size() == 1);
    return found.begin()->second.numbers;
  }

  File own;
  const int file;
  mutable pitot::trace::Box box;
  pitot::snapshot::SiteLog sites;
  pitot::trace::ClockReading start;
  bool slow_clock = false, ok = false;
  uint64_t next = 0;
};

void CheckInOrder(const std::vector<uint64_t>& numbers, uint64_t newest) {
  REQUIRE_FALSE(numbers.empty());
  CHECK(numbers.front() == newest);
  CHECK(numbers.front() - numbers.back() + 1 == numbers.size());
}

TEST_CASE("sites are found before they are used, up to a number and in so many bytes", "[box]") {
  constexpr uint64_t kAllBytes = uint64_t{1} << 30;
  const auto count_named = [](const std::vector<uint64_t>& sites, std::string_view name) {
    return std::count_if(sites.begin(), sites.end(),
                         [&](uint64_t site) { return pitot::snapshot::ReadSite(site).name == name; });
  };
  const auto never_called = [] { PITOT_INSTANT("never called"); };
  static_cast<void>(static_cast<void (*)()>(never_called));
  const std::vector<uint64_t> sites = pitot::snapshot::FindSites(1 << 20, kAllBytes);
  CHECK(count_named(sites, "number") == 1);
  CHECK(count_named(sites, "never called") == 1);
  CHECK(pitot::snapshot::FindSites(1, kAllBytes) == std::vector<uint64_t>{sites.at(0)});
  CHECK(pitot::snapshot::FindSites(1 << 20, 0).empty());
}

TEST_CASE("sites that the start did not reach are written at the first look, once", "[box]") {
  const File file;
  pitot::trace::Box box(file.fd, 8 << 20);
  REQUIRE(box.Begin());
  const std::atomic<uint64_t>& written = box.header()->sites.written;
  pitot::snapshot::SiteLog sites;
  REQUIRE(sites.Begin(&box, 0));
  const uint64_t at_start = written;
  sites.Look(pitot::trace::PinnedRings());
  const uint64_t at_first_look = written;
  CHECK(at_first_look > at_start + 10 * sizeof(pitot::snapshot::SiteLogEntry));
  sites.Look(pitot::trace::PinnedRings());
  CHECK(written == at_first_look);
  const File other_file;
  pitot::trace::Box other(other_file.fd, 8 << 20);
  REQUIRE(other.Begin());
  pitot::snapshot::SiteLog at_once;
  REQUIRE(at_once.Begin(&other));
  CHECK(other.header()->sites.written == at_first_look);
}

TEST_CASE("a ring grows in its black box, and a reader finds the records of both sizes", "[box]") {
  Boxed boxed(8 << 20);
  REQUIRE(boxed.ok);
  boxed.Record(10'000);
  const size_t before = boxed.Read().size();
  boxed.Grow(512 * kKiB);
  boxed.Record(1);
  CHECK(boxed.Read().size() > before * 9 / 10);  // nothing was lost by it
  boxed.Record(15'000);
  const std::vector<uint64_t> after = boxed.Read();
  CheckInOrder(after, 24'999 + 1);
  CHECK(after.size() > 4 * before);
}

TEST_CASE("rings that somebody reads for ever are left as they are", "[box]") {
  Boxed boxed(8 << 20);
  REQUIRE(boxed.ok);
  boxed.Record(10);
  {
    const pitot::trace::PinnedRings pinned;
    CHECK_FALSE(pitot::trace::CloseRings(1'000'000));
    REQUIRE(pinned.size() == 1);
    CHECK(pinned[0].state == pitot::trace::RingState::kLive);
  }
  CHECK(pitot::trace::CloseRings());
}

TEST_CASE("a ring does not grow if its black box has no room, and records on", "[box]") {
  Boxed boxed(192 * kKiB);
  REQUIRE(boxed.ok);
  boxed.Record(10'000);
  const size_t before = boxed.Read().size();
  boxed.Grow(512 * kKiB);
  boxed.Record(30'000);
  const std::vector<uint64_t> after = boxed.Read();
  CheckInOrder(after, 39'999);
  CHECK(after.size() < 2 * before);
}

TEST_CASE("a thread that returns after its recorder stopped finds memory of its own", "[box]") {
  {
    Boxed boxed(8 << 20);
    REQUIRE(boxed.ok);
    PITOT_SCOPE("open across the stop");
    boxed.Record(10);
    pitot::trace::CloseRings();
  }  // the scope ends in the parked ring
  Boxed again(8 << 20);
  REQUIRE(again.ok);
  again.Record(5);
  CheckInOrder(again.Read(), 4);
}

// Runs `body` in a child, and calls `look` after each of its instructions between two SIGSTOPs. False: the machine does
// not allow it.
template <class Body, class Look> bool StepThrough(const Body& body, const Look& look) {
  const pid_t child = fakes::StartChild([&] {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return fakes::kCannotRun;
    return body();
  });
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == fakes::kCannotRun) return false;
  REQUIRE(ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL) == 0);
  while (WIFSTOPPED(status)) {
    const int signal = WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
    REQUIRE(ptrace(PTRACE_SINGLESTEP, child, nullptr, signal) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP) break;
    look();
  }
  REQUIRE(WIFSTOPPED(status));
  REQUIRE(ptrace(PTRACE_DETACH, child, nullptr, nullptr) == 0);
  CHECK(fakes::WaitForChild(child) == 0);
  return true;
}

// The page of the newest ring, and the begin of its words.
std::string NewestRing(int file) {
  uint64_t offset = 0;
  std::string bytes(2 * pitot::trace::kBoxPage, '\0');
  const auto place = static_cast<off_t>(offsetof(pitot::trace::BoxHeader, newest_ring));
  REQUIRE(pread(file, &offset, sizeof offset, place) == sizeof offset);
  REQUIRE(pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

// A thread records 1 and 2 and exits, in the way that is given; another one gets its ring and records 3.
int HandOver(int file, void (*last)()) {
  pitot::trace::BecomeChild();
  Boxed boxed(8 << 20, kOneRing, file);
  HOLDS(boxed.ok);
  std::thread([last] {
    pitot::SetThreadName("former");
    Number(1);
    Number(2);
    last();
  }).join();
  pitot::SetThreadName("latter");
  raise(SIGSTOP);
  Number(3);
  raise(SIGSTOP);
  HOLDS(pitot::trace::CountRings().live == 1);
  return 0;
}

TEST_CASE("a process that dies at any instruction of a handing over leaves each thread its own records",
          "[box][platform]") {
  if (fakes::kThreadSanitizer) return;  // the child of a fork could not start threads
  const bool is_handed_on = GENERATE(true, false);
  const File file;
  std::string before;
  std::map<uint32_t, Found> found;
  int states = 0;
  const auto look = [&] {
    std::string now = NewestRing(file.fd);
    if (now == before) return;
    before = std::move(now);
    ++states;
    found = Read(file.fd);
    for (const auto& [number, thread] : found) {
      CAPTURE(states, number, thread.name, thread.numbers);
      REQUIRE((number == 1 || number == 2));
      REQUIRE(thread.name == (number == 1 ? "former" : "latter"));
      if (number == 1) REQUIRE(thread.numbers == std::vector<uint64_t>{2, 1});
      if (number == 2 && !thread.numbers.empty()) REQUIRE(thread.numbers == std::vector<uint64_t>{3});
    }
    if (is_handed_on) REQUIRE(found.count(1) == 1);
  };
  const auto exit_plainly = [] {};
  const auto exit_inside_scope = [] { pitot::BeginScope(pitot::Intern("open")); };

  const bool can_step =
      StepThrough([&] { return HandOver(file.fd, is_handed_on ? +exit_plainly : +exit_inside_scope); }, look);
  if (!can_step) {
    NOT_RUN("no process may be traced here");
    return;
  }
  CHECK(states > 10);
  REQUIRE(found.count(2) == 1);
  CHECK(found[2].numbers == std::vector<uint64_t>{3});
  CHECK(found.count(1) == (is_handed_on ? 1 : 0));
}

TEST_CASE("without the site of threads' ends a reader takes no thread's records for another's", "[box]") {
  Boxed boxed(8 << 20);
  REQUIRE(boxed.ok);
  std::thread([] { Number(1); }).join();
  std::thread([] { Number(2); }).join();
  CHECK(Read(boxed.file).size() == 2);
  boxed.box.header()->sites.written = 0;

  const std::map<uint32_t, Found> found = Read(boxed.file);

  REQUIRE(found.size() == 1);
  CHECK(found.begin()->first == 2);
  CHECK(found.begin()->second.numbers.empty());
}

}  // namespace
