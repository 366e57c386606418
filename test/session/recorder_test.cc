// SPDX-License-Identifier: Apache-2.0
//
// The recorder's life: started, asked, moved, stopped, and again.
#include "pitot/recorder.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fakes/scale.h"
#include "fakes/virtual_clock.h"
#include "fakes/wait_until.h"
#include "pitot/version.h"
#include "session/host.h"
#include "trace/clock.h"
#include "trace/rest.h"

namespace {

using pitot::Recorder;
using pitot::StatusCode;
using session_test::Host;
using session_test::SmallOptions;

size_t EntriesOf(const char* path) {
  size_t count = 0;
  DIR* directory = opendir(path);
  while (directory != nullptr && readdir(directory) != nullptr) ++count;
  if (directory != nullptr) closedir(directory);
  return count;
}
size_t Threads() { return EntriesOf("/proc/self/task") - 2; }
size_t Descriptors() { return EntriesOf("/proc/self/fd") - 2; }

void CheckRefusesAll(Recorder& recorder) {
  CHECK(recorder.status().code() == StatusCode::kNotRunning);
  CHECK(recorder.Trigger("reason").code() == StatusCode::kNotRunning);
  CHECK(recorder.Flush(1000).code() == StatusCode::kNotRunning);
  CHECK(recorder.Add(pitot::MakeFailureTrigger({})).code() == StatusCode::kNotRunning);
  CHECK(recorder.Add(fakes::MakeEventsSerializer()).code() == StatusCode::kNotRunning);
  CHECK(recorder.SetHooks({}).code() == StatusCode::kNotRunning);
}

uint64_t MappedBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("a recorder never started answers so to everything", "[recorder]") {
  Recorder recorder;

  CheckRefusesAll(recorder);
  CHECK(recorder.Stats().events_recorded == 0);
  recorder.Stop();
  CHECK(std::string(pitot::Version()) == PITOT_VERSION_STRING);
}

TEST_CASE("a stopped recorder answers so, and stopping again does nothing", "[recorder]") {
  Host host;
  REQUIRE(host.Start());
  host.recorder.Stop();
  host.recorder.Stop();

  CheckRefusesAll(host.recorder);
  CHECK(host.incidents().empty());
}

TEST_CASE("a second recorder in the process is refused until the first has stopped", "[recorder]") {
  Recorder first = Recorder::Start(SmallOptions());
  REQUIRE(first.status().ok());

  const Recorder second = Recorder::Start(SmallOptions());
  CHECK(second.status().code() == StatusCode::kAlreadyRunning);
  CHECK(session_test::Contains(second.status().message(), "running in this process"));
  CHECK(first.status().ok());
  first.Stop();
  CHECK(Recorder::Start(SmallOptions()).status().ok());
}

TEST_CASE("a failed start leaves the process free for the next", "[recorder]") {
  pitot::Options options = SmallOptions();
  options.incident_directory = "/proc/no such place/incidents";
  CHECK(Recorder::Start(options).status().code() == StatusCode::kNotFound);

  CHECK(Recorder::Start(SmallOptions()).status().ok());
}

TEST_CASE("a handle can be moved, and stops when another is assigned to it", "[recorder]") {
  Recorder first = Recorder::Start(SmallOptions());
  Recorder second = std::move(first);
  CHECK(second.status().ok());

  second = Recorder();

  CHECK(second.status().code() == StatusCode::kNotRunning);
  CHECK(pitot::Now().ticks == 0);
  CHECK(Recorder::Start(SmallOptions()).status().ok());
}

TEST_CASE("a moved-from handle is not running, and its calls do not reach the recorder", "[recorder]") {
  Host host;
  REQUIRE(host.Start());
  Recorder& first = host.recorder;
  Recorder second = std::move(first);
  PITOT_INSTANT("event");

  CheckRefusesAll(first);
  CHECK(session_test::Contains(first.status().message(), "moved"));
  CHECK(first.Stats().events_recorded == 0);
  first.Stop();
  { const Recorder third = std::move(first); }

  CHECK(second.status().ok());
  CHECK(second.Stats().events_recorded == 1);
  CHECK(second.Trigger("because").ok());
  CHECK(second.Flush(60'000).ok());
  CHECK(host.incidents().size() == 1);
  CHECK(host.told().size() == 2);

  // Nor is one that was assigned from; and it may be used again.
  first = std::move(second);
  CheckRefusesAll(second);
  CHECK(first.status().ok());
}

TEST_CASE("no name of the host's makes a line of its own in the log", "[recorder]") {
  Host host;
  REQUIRE(host.Start());
  struct Trigger final : pitot::Trigger {
    pitot::Status Check() const noexcept override {
      return pitot::Status(StatusCode::kInvalidArgument,
                           "route \"a\n2026-01-01 FATAL b\" is \x1b[1m \xc2\x9b"
                           "1m \xe2\x80\xa8wrong \xc3\xa9");
    }
  };
  CHECK(!host.recorder.Add(std::make_unique<Trigger>()).ok());

  CHECK(host.log.Has(pitot::LogLevel::kError, "route \"a?2026-01-01 FATAL b\" is ?[1m ??1m ???wrong \xc3\xa9"));
}

TEST_CASE("starting and stopping a thousand times leaves no thread, descriptor or memory behind", "[recorder]") {
  size_t threads = 0, descriptors = 0;
  uint64_t mapped = 0;
  for (int i = 0; i < fakes::Scaled(1000); ++i) {
    if (i == 20) threads = Threads(), descriptors = Descriptors(), mapped = MappedBytes();
    Host host;
    REQUIRE(host.Start());
    PITOT_INSTANT("event");
    pitot::Request::Begin("/r").Finish(pitot::Outcome::kOk);
    if (i % 10 == 0) REQUIRE(host.TriggerAndFlush());
  }

  CHECK(Threads() == threads);
  CHECK(Descriptors() == descriptors);
  if (!fakes::kThreadSanitizer && !fakes::kAddressSanitizer) CHECK(MappedBytes() <= mapped + (8 << 20));
}

TEST_CASE("Stats may be asked while threads come and go and the recorder stops", "[recorder]") {
  std::atomic<bool> over{false};
  std::atomic<Recorder*> running{nullptr};
  std::atomic<int> asking{0};
  std::atomic<uint64_t> answers{0};
  std::thread recording([&] {
    while (!over) std::thread([] { PITOT_INSTANT("short lived"); }).join();
  });
  std::thread asker([&] {
    while (!over) {
      ++asking;
      if (const Recorder* recorder = running.load()) answers += recorder->Stats().memory.rings != 0;
      --asking;
    }
  });
  bool always_answered = true;
  for (int i = 0; always_answered && i < fakes::Scaled(60); ++i) {
    Recorder recorder = Recorder::Start(SmallOptions());
    const uint64_t before = answers;
    running = &recorder;
    std::thread([] { PITOT_INSTANT("another"); }).join();
    always_answered &= fakes::WaitUntil([&] { return answers > before; });
    recorder.Stop();  // while it is asked
    running = nullptr;
    fakes::WaitUntil([&] { return asking == 0; });
  }
  over = true;
  recording.join();
  asker.join();
  CHECK(always_answered);
}

TEST_CASE("Stats add up", "[recorder]") {
  fakes::VirtualClock clock;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.cool_down_ms = 0})).ok());
  for (int i = 0; i < 10; ++i) PITOT_INSTANT("event");
  clock.Advance(2'000'000'000);
  { const pitot::Request abandoned = pitot::Request::Begin("/r"); }
  pitot::Request open = pitot::Request::Begin("/r");
  pitot::Request::Begin("/r").Finish(pitot::Outcome::kFailed);
  REQUIRE(host.Flush());

  const pitot::Stats stats = host.recorder.Stats();

  const pitot::MemorySplit& m = stats.memory;
  CHECK(session_test::SumOf(m) == host.options.memory_budget_bytes);
  CHECK(stats.ring_bytes_used > 0);
  CHECK(stats.ring_bytes_used <= m.rings);
  CHECK(stats.threads_recording == 1);
  CHECK(stats.events_recorded >= 10);
  CHECK(stats.requests_begun == 3);
  CHECK(stats.requests_finished == 2);
  CHECK(stats.requests_abandoned == 1);
  CHECK(stats.requests_open == 1);
  CHECK(stats.requests_begun == stats.requests_finished + stats.requests_open);
  CHECK(stats.triggers_fired == 1);
  CHECK(stats.incidents_written == 1);
  CHECK(stats.incidents_failed == 0);
  CHECK(stats.history_shortest_ms == 2000);
}

TEST_CASE("Stats have the parts of recording and writing in the process's CPU time", "[recorder]") {
  Host host;
  REQUIRE(host.Start());
  for (int i = 0; i < 100'000; ++i) PITOT_INSTANT("event");
  REQUIRE(host.TriggerAndFlush());

  const pitot::Stats stats = host.recorder.Stats();

  CHECK(stats.recording_cpu_percent > 0);
  CHECK(stats.recording_cpu_percent < 100);
  CHECK(stats.own_threads_cpu_percent > 0);
  CHECK(stats.own_threads_cpu_percent < 100);
}

TEST_CASE("losses are counted from this recorder's start", "[recorder]") {
  {
    Host host;
    REQUIRE(host.Start());
    for (int i = 0; i < 17'000; ++i) (void)pitot::Intern(("name " + std::to_string(i)).c_str());
    CHECK(host.recorder.Stats().names_refused > 0);
  }
  Host host;
  REQUIRE(host.Start());

  CHECK(host.recorder.Stats().names_refused == 0);
}

TEST_CASE("a host's signals are not handled on the recorder's threads", "[recorder]") {
  static std::atomic<int> handled{0};
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++handled; };
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  Host host;
  REQUIRE(host.Start());
  // Like servers with one thread waiting for signals: blocked, after the recorder was started.
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, &old);

  kill(getpid(), SIGUSR1);
  const timespec timeout{5, 0};
  const int received = sigtimedwait(&set, nullptr, &timeout);

  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  sigaction(SIGUSR1, &before, nullptr);
  CHECK(received == SIGUSR1);
  CHECK(handled == 0);
}

TEST_CASE("starting does not change the signals of the starting thread", "[recorder]") {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Host host;
  REQUIRE(host.Start());
  pthread_sigmask(SIG_SETMASK, nullptr, &after);

  for (int signal = 1; signal < 32; ++signal) CHECK(sigismember(&before, signal) == sigismember(&after, signal));
}

TEST_CASE("a throwing log harms neither a failing start nor a running recorder", "[recorder]") {
  int calls = 0;
  pitot::Options options;
  options.log_context = &calls;
  options.log = [](void* context, pitot::LogLevel, const char*) {
    ++*static_cast<int*>(context);
    throw std::runtime_error("the host's bug");
  };
  options.worker_cpu_percent = 0;
  CHECK(pitot::Recorder::Start(options).status().code() == pitot::StatusCode::kInvalidArgument);
  CHECK(calls == 1);
  options.worker_cpu_percent = 25;
  auto recorder = pitot::Recorder::Start(options);
  REQUIRE(recorder.status().ok());
  CHECK_FALSE(recorder.Add(std::unique_ptr<pitot::Trigger>()).ok());
  CHECK(calls == 2);
  CHECK(recorder.status().ok());
}

TEST_CASE("the cost of a recorder that does not run is unknown", "[recorder]") {
  pitot::Options wrong;
  wrong.pre_window_ms = 0;
  for (const pitot::Stats& stats : {pitot::Recorder().Stats(), pitot::Recorder::Start(wrong).Stats(), pitot::Stats{}}) {
    CHECK(stats.recording_cpu_percent < 0);
    CHECK(stats.own_threads_cpu_percent < 0);
    CHECK(stats.events_recorded == 0);
  }
}

TEST_CASE("a stopped recorder keeps its counts", "[recorder]") {
  Host host;
  REQUIRE(host.Start());
  PITOT_INSTANT("event");
  pitot::Request::Begin("/r").Finish(pitot::Outcome::kOk);
  REQUIRE(host.recorder.Trigger("on its way").ok());
  host.recorder.Stop();

  const pitot::Stats stats = host.recorder.Stats();

  CHECK(stats.events_recorded >= 3);
  CHECK(stats.requests_finished == 1);
  CHECK(stats.threads_recording >= 1);
  CHECK(stats.incidents_written == 1);
}

TEST_CASE("impossible triggers and serializers are refused, and this is logged", "[recorder]") {
  Host host;
  REQUIRE(host.Start());

  CHECK(host.recorder.Add(pitot::MakeLatencyTrigger({})).code() == StatusCode::kInvalidArgument);
  CHECK(host.recorder.Add(std::unique_ptr<pitot::Trigger>()).code() == StatusCode::kResourceExhausted);
  CHECK(host.recorder.Add(std::unique_ptr<pitot::Serializer>()).code() == StatusCode::kResourceExhausted);
  for (const char* name : {"", ".hidden", "a/b", "..", "white space", "umlaut\xc3\xa4"}) {
    INFO(name);
    const auto status = host.recorder.Add(fakes::MakeCallSerializer(name, nullptr));
    CHECK(status.code() == StatusCode::kInvalidArgument);
  }
  CHECK(host.recorder.Add(fakes::MakeCallSerializer(std::string(101, 'x'), nullptr)).code() ==
        StatusCode::kInvalidArgument);
  for (int i = 0; i < 32; ++i) REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({})).ok());
  CHECK(host.recorder.Add(pitot::MakeFailureTrigger({})).code() == StatusCode::kResourceExhausted);
  CHECK(host.log.Has(pitot::LogLevel::kError, "Serializer::FileName"));
  CHECK(host.log.Has(pitot::LogLevel::kError, "32 triggers"));
}

TEST_CASE("the first request after a rest wakes the threads that rest", "[recorder]") {
  Host host;
  REQUIRE(host.Start());
  std::atomic<int> woken{0};
  pitot::trace::Rest rest([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &woken);
  REQUIRE(fakes::WaitUntil([&] { return rest.May(pitot::trace::MonotonicNs()); }));

  const pitot::Request request = pitot::Request::Begin("/first");

  CHECK(fakes::WaitUntil([&] { return woken != 0; }));
  CHECK_FALSE(rest.May(pitot::trace::MonotonicNs()));
}
