// SPDX-License-Identifier: Apache-2.0
//
// Black boxes: what a process recorded is found when it is gone, whichever way it went; and nobody else writes there.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fakes/log.h"
#include "fakes/not_run.h"
#include "fakes/own_mounts.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/model/trace.h"
#include "pitot/pitot.h"
#include "session/box_room.h"
#include "session/boxes.h"
#include "session/health.h"
#include "session/host.h"
#include "session/post_mortem.h"
#include "session/process_facts.h"
#include "trace/box.h"
#include "trace/bus_guard.h"
#include "trace/clock.h"
#include "trace/last_rows.h"
#include "trace/rings.h"

namespace {

using pitot::Recorder;
using pitot::Request;
using pitot::model::Trace;
using pitot::session::BoxesIn;
using pitot::session::FoundBox;
using session_test::Boxes;
using session_test::Die;

constexpr uint64_t kMostWords = 64 << 20, kMostRowBytes = uint64_t{1} << 30;

// In a process with a black box: waits until the watcher has seen all sites so far: its last look for them was
// at most 50 ms before it told the time.
void AwaitLooks(const std::string& path) {
  // Never closed: that would release the lock on the file.
  static const int file = [&] {
    for (const std::string& name : fakes::NamesIn(path)) {
      if (name.find(std::to_string(getpid()) + "-") == 0) return open((path + "/" + name).c_str(), O_RDONLY);
    }
    return -1;
  }();
  const int64_t since_ns = pitot::trace::MonotonicNs();
  fakes::WaitUntil([&] {
    pitot::trace::BoxHeader header{};
    if (pread(file, static_cast<void*>(&header), sizeof header, 0) != sizeof header) return false;
    return std::any_of(std::begin(header.pulse), std::end(header.pulse), [&](const pitot::trace::BoxPulse& pulse) {
      return static_cast<int64_t>(pulse.monotonic_ns.load()) > since_ns + 60'000'000;
    });
  });
}

void Work(int number) { PITOT_SCOPE("work", number); }
void Mark(int number) { PITOT_INSTANT("numbered", number); }

Trace TraceOfOnly(const std::string& path, uint64_t most_row_bytes = kMostRowBytes) {
  const std::vector<std::string> paths = BoxesIn(path);
  REQUIRE(paths.size() == 1);
  FoundBox box(paths[0]);
  const FoundBox::Life life = box.Look();
  INFO(box.why());
  REQUIRE(life == FoundBox::Life::kDead);
  Trace trace = pitot::session::TraceOf(&box.reader(), {}, kMostWords, most_row_bytes);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  return trace;
}

uint64_t CountNamed(const Trace& trace, std::string_view name) {
  uint64_t count = 0;
  for (uint32_t event = 0; event < trace.events.size(); ++event)
    count += trace.strings[trace.sites[trace.events.site[event]].name] == name ? 1 : 0;
  return count;
}

TEST_CASE("what a killed process did last is in its black box", "[black_box]") {
  Boxes boxes;
  const int status = Die(&boxes, [&] {
    for (int i = 0; i < 100; ++i) Work(i);
    pitot::SetThreadName("server");
    AwaitLooks(boxes.path);
    PITOT_SCOPE("outer");
    Request request = Request::Begin("/classify");
    request.Stage("decoded");
    AwaitLooks(boxes.path);
    Work(100);
    PITOT_INSTANT("new");
    kill(getpid(), SIGKILL);
  });
  CHECK(WTERMSIG(status) == SIGKILL);
  const Trace trace = TraceOfOnly(boxes.path);
  CHECK(CountNamed(trace, "work") == 101);
  CHECK(CountNamed(trace, "outer") == 1);
  CHECK(CountNamed(trace, "new") == 1);
  CHECK(std::any_of(trace.threads.begin(), trace.threads.end(),
                    [&](const auto& thread) { return trace.strings[thread.name] == "server"; }));
  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.strings[trace.requests[0].route] == "/classify");
  CHECK_FALSE(trace.requests[0].end_known);
  CHECK(trace.strings[trace.firings.at(0).cause] == "previous_life");
  CHECK(trace.pid != getpid());
  CHECK(trace.window_end_ns - trace.window_begin_ns < 120'000'000'000);  // no longer than it lived
  const std::string detail(trace.strings[trace.firings[0].detail]);
  CHECK(detail.find("1 open request") != std::string::npos);
}

TEST_CASE("a place first used right before a kill is named, with its arguments", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [] {
    PITOT_SCOPE("first and last", 1);
    Mark(77);
    kill(getpid(), SIGKILL);
  });
  const Trace trace = TraceOfOnly(boxes.path);
  CHECK(CountNamed(trace, "first and last") == 1);
  REQUIRE(CountNamed(trace, "numbered") == 1);
  CHECK(std::find(trace.arg_values.begin(), trace.arg_values.end(), 77) != trace.arg_values.end());
  CHECK(CountNamed(trace, "(not named before the process ended)") == 0);
}

TEST_CASE("with crashes handled, the black box says how the process ended", "[black_box]") {
  Boxes boxes;
  boxes.ends = pitot::Ends::kCrash;
  const int status = Die(&boxes, [] {
    rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    pthread_setname_np(pthread_self(), "worker");
    Request request = Request::Begin("/crashes");
    raise(SIGILL);
  });
  CHECK(WTERMSIG(status) == SIGILL);
  const Trace trace = TraceOfOnly(boxes.path);
  const std::string detail(trace.strings[trace.firings.at(0).detail]);
  CHECK(detail.find(" ended by SIGILL raised by itself on thread worker at ") != std::string::npos);
  const auto stack = std::find_if(trace.attributes.begin(), trace.attributes.end(), [&](const auto& attribute) {
    return trace.strings[attribute.key] == "post_mortem.stack";
  });
  REQUIRE(stack != trace.attributes.end());
  CHECK(std::string(trace.strings[stack->value]).find("black_box_test+0x") != std::string::npos);
}

TEST_CASE("the report of a crash has its address, its thread by the name that the process gave it, and its place",
          "[black_box]") {
  Boxes boxes;
  boxes.ends = pitot::Ends::kCrash;
  Die(&boxes, [] {
    rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    pthread_setname_np(pthread_self(), "python3");
    pitot::SetThreadName("the engine's scheduler");
    PITOT_INSTANT("recorded");
    *reinterpret_cast<volatile int*>(0x1230) = 1;
  });
  const Trace trace = TraceOfOnly(boxes.path);
  const std::string detail(trace.strings[trace.firings.at(0).detail]);
  INFO(detail);
  CHECK(detail.find(" ended by SIGSEGV at address 0x1230 (not mapped) on thread the engine's scheduler at ") !=
        std::string::npos);
  const std::string thread(trace.AttributeOf("incident.thread"));
  INFO(thread);
  CHECK(thread.find("the engine's scheduler (" + std::to_string(trace.pid) + ") at black_box_test+0x") == 0);
}

TEST_CASE("the end of a child whose recorder has no black box is not its parent's", "[black_box]") {
  Boxes boxes;
  boxes.ends = pitot::Ends::kAll;
  Die(&boxes, [&] {
    const pid_t child = fork();
    if (child == 0) {
      pitot::Options options = boxes.Options();
      options.black_box_directory = nullptr;
      signal(SIGTERM, SIG_DFL);  // not the test framework's
      const Recorder recorder = Recorder::Start(options);
      if (!recorder.status().ok()) _exit(3);
      kill(getpid(), SIGTERM);
      for (;;) pause();
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status)) _exit(4);
  });
  const Trace trace = TraceOfOnly(boxes.path);
  const std::string detail(trace.strings[trace.firings.at(0).detail]);
  CHECK(detail.find(" ended without a word") != std::string::npos);
}

TEST_CASE("the very last event before a kill is there", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] {
    for (int i = 0; i < 20; ++i) Mark(i);
    AwaitLooks(boxes.path);
    for (int i = 20; i < 5000; ++i) Mark(i);
  });
  const Trace trace = TraceOfOnly(boxes.path);
  REQUIRE(!trace.arg_values.empty());
  uint64_t last = 0;
  for (const auto& value : trace.arg_values) last = std::max(last, value);
  CHECK(last == 4999);
}

TEST_CASE("a scope and a request begun right before a kill are open, and in the window", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] {
    Work(1);
    AwaitLooks(boxes.path);
    Request request = Request::Begin("/last");
    request.Stage("only");
    PITOT_SCOPE("innermost");
    kill(getpid(), SIGKILL);
  });
  const Trace trace = TraceOfOnly(boxes.path);
  const std::vector<int64_t>& lengths = trace.events.duration_ns;
  CHECK(std::count(lengths.begin(), lengths.end(), pitot::model::kOpen) == 1);
  REQUIRE(trace.requests.size() == 1);
  REQUIRE(trace.requests[0].stages.size() == 1);
  CHECK(trace.requests[0].stages[0].begin_ns <= trace.window_end_ns);
}

// The last value of a counter; 0: it has none.
double LastOf(const Trace& trace, std::string_view counter) {
  double value = 0;
  for (uint32_t i = 0; i < trace.samples.counter.size(); ++i) {
    if (trace.strings[trace.counters[trace.samples.counter[i]].name] == counter) value = trace.samples.value[i];
  }
  return value;
}

void AddKernel(uint32_t name, int64_t begin_ns) {
  const pitot::trace::LastWork row{begin_ns, 2000, 0, 1, 2, 7, 0, name, static_cast<uint32_t>(pitot::GpuKind::kKernel)};
  pitot::trace::AddLast({&row, 1});
}

TEST_CASE("the last GPU work and the last values of counters are in a black box", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] {
    const uint32_t gemm = pitot::trace::LastText("gemm"), norm = pitot::trace::LastText("norm");
    const int64_t now_ns = pitot::trace::MonotonicNs();
    AddKernel(gemm, now_ns - 20'000);
    AddKernel(norm, now_ns - 10'000);
    pitot::trace::LastCounter memory;
    const auto name = [] { return std::string("GPU 1: memory"); };
    memory.Note(now_ns - 5000, 4096, name, "bytes");
    memory.Note(now_ns, 8192, name, "bytes");  // within the same second
    memory.Note(now_ns + 1'000'000'000, 16384, name, "bytes");
  });
  const Trace trace = TraceOfOnly(boxes.path);
  REQUIRE(trace.gpu.size() == 2);
  CHECK(trace.strings[trace.gpu.name[0]] == "gemm");
  CHECK(trace.strings[trace.gpu.name[1]] == "norm");
  CHECK(trace.gpu.duration_ns[1] == 2000);
  CHECK(trace.streams[trace.gpu.stream[1]].stream == 7);
  CHECK(trace.devices[trace.streams[trace.gpu.stream[1]].device].ordinal == 1);
  CHECK(trace.gpu_losses.empty());
  REQUIRE(trace.samples.counter.size() == 2);
  CHECK(trace.samples.value[0] == 4096);
  CHECK(LastOf(trace, "GPU 1: memory") == 16384);
}

TEST_CASE("what only the watcher samples is in a black box, and how deep operators were recorded", "[black_box]") {
  struct Sampler final : pitot::trace::LastSampler {
    void SampleLast(int64_t now_ns) noexcept override {
      memory.Note(
          now_ns, 4096, [] { return std::string("memory"); }, "bytes");
      is_called.store(true);
    }
    pitot::trace::LastCounter memory;
    std::atomic<bool> is_called{false};
  };
  Boxes boxes;
  Die(&boxes, [&] {
    const int64_t now_ns = pitot::trace::MonotonicNs();
    pitot::trace::AddLast(pitot::trace::LastDepth{now_ns, static_cast<uint64_t>(pitot::Depth::kOps)});
    pitot::trace::AddLast(pitot::trace::LastDepth{now_ns + 5000, static_cast<uint64_t>(pitot::Depth::kScopes)});
    Sampler sampler;
    pitot::trace::SetLastSampler(&sampler);
    if (!fakes::WaitUntil([&] { return sampler.is_called.load(); })) _exit(4);
    pitot::trace::SetLastSampler(nullptr);
    AwaitLooks(boxes.path);
  });
  const Trace trace = TraceOfOnly(boxes.path);
  CHECK(LastOf(trace, "memory") == 4096);
  REQUIRE(trace.operator_depths.size() == 2);
  CHECK(trace.operator_depths[0].depth == pitot::Depth::kOps);
  CHECK(trace.operator_depths[0].end_ns - trace.operator_depths[0].begin_ns == 5000);
  CHECK(trace.operator_depths[1].depth == pitot::Depth::kScopes);
  CHECK(trace.operator_depths[1].end_ns == trace.window_end_ns);
}

TEST_CASE("of more GPU work than has room the newest stays, and the rest is counted", "[black_box]") {
  constexpr uint32_t kMany = 100'000;
  Boxes boxes;
  Die(&boxes, [&] {
    const uint32_t gemm = pitot::trace::LastText("gemm");
    for (uint32_t i = 1; i <= kMany; ++i) AddKernel(gemm, int64_t{i} * 10'000);
  });
  const Trace trace = TraceOfOnly(boxes.path);
  REQUIRE(trace.gpu.size() > 1000);
  CHECK(trace.gpu.begin_ns.back() == int64_t{kMany} * 10'000);
  for (uint32_t i = 1; i < trace.gpu.size(); ++i) REQUIRE(trace.gpu.begin_ns[i] == trace.gpu.begin_ns[i - 1] + 10'000);
  REQUIRE(trace.gpu_losses.size() == 1);
  CHECK(trace.gpu_losses[0].records + trace.gpu.size() == kMany);
}

TEST_CASE("where rows have little room, counters of a black box stay, and the newest GPU work", "[black_box]") {
  constexpr uint32_t kMany = 100'000;
  Boxes boxes;
  Die(&boxes, [&] {
    const uint32_t gemm = pitot::trace::LastText("gemm");
    for (uint32_t i = 1; i <= kMany; ++i) AddKernel(gemm, int64_t{i} * 10'000);
    pitot::trace::LastCounter memory;
    memory.Note(
        int64_t{kMany} * 10'000, 4096, [] { return std::string("memory"); }, "bytes");
  });
  const Trace trace = TraceOfOnly(boxes.path, 256 << 10);
  CHECK(LastOf(trace, "memory") == 4096);
  REQUIRE(trace.gpu.size() > 100);
  CHECK(trace.gpu.size() < 1000);
  CHECK(trace.gpu.begin_ns.back() == int64_t{kMany} * 10'000);
  REQUIRE(trace.gpu_losses.size() == 1);
  CHECK(trace.gpu_losses[0].records + trace.gpu.size() == kMany);
}

TEST_CASE("a false number of GPU work in a black box is survived", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] { AddKernel(pitot::trace::LastText("gemm"), pitot::trace::MonotonicNs()); });
  const std::string path = BoxesIn(boxes.path).at(0);
  const int fd = open(path.c_str(), O_RDWR);
  const uint64_t most = ~uint64_t{0};
  const auto at =
      static_cast<off_t>(offsetof(pitot::trace::BoxHeader, last_work) + offsetof(pitot::trace::BoxRowsPart, written));
  REQUIRE(pwrite(fd, &most, sizeof most, at) == sizeof most);
  close(fd);
  CHECK(TraceOfOnly(boxes.path).gpu.size() == 0);
}

TEST_CASE("GPU work torn by the end is left out of a black box", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] {
    const uint32_t gemm = pitot::trace::LastText("gemm");
    for (int i = 1; i <= 3; ++i) AddKernel(gemm, pitot::trace::MonotonicNs());
  });
  const std::string path = BoxesIn(boxes.path).at(0);
  const int fd = open(path.c_str(), O_RDWR);
  pitot::trace::BoxHeader header{};
  REQUIRE(pread(fd, static_cast<void*>(&header), sizeof header, 0) == sizeof header);
  using Slot = pitot::trace::LastSlot<pitot::trace::LastWork>;
  const uint64_t none = 0;
  const auto at = static_cast<off_t>(header.last_work.room.offset + sizeof(Slot) + offsetof(Slot, number));
  REQUIRE(pwrite(fd, &none, sizeof none, at) == sizeof none);
  close(fd);
  CHECK(TraceOfOnly(boxes.path).gpu.size() == 2);
}

// Names of the thread's events, in the order of the trace.
std::vector<std::string> NamesOn(const Trace& trace, uint32_t thread) {
  std::vector<std::string> names;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.thread[event] == thread)
      names.emplace_back(trace.strings[trace.sites[trace.events.site[event]].name]);
  }
  return names;
}

TEST_CASE("threads that had one ring in turn are in the black box each with its name and its events", "[black_box]") {
  Boxes boxes;
  const int status = Die(&boxes, [&] {
    const auto in_thread = [](const char* name, const auto& work) {
      std::thread([&] {
        pitot::SetThreadName(name);
        work();
      }).join();
    };
    in_thread("first", [] { PITOT_INSTANT("of the first"); });
    in_thread("second", [] {
      PITOT_SCOPE("of the second");
      PITOT_INSTANT("inside");
    });
    in_thread("third", [] { PITOT_INSTANT("of the third"); });
    if (pitot::trace::CountRings().retired != 1) _exit(5);
    AwaitLooks(boxes.path);
  });
  CHECK(WTERMSIG(status) == SIGKILL);

  const Trace trace = TraceOfOnly(boxes.path);

  CHECK(trace.losses.empty());
  REQUIRE(trace.threads.size() == 3);
  const char* const names[] = {"first", "second", "third"};
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK(trace.threads[i].number == i + 1);
    CHECK(trace.strings[trace.threads[i].name] == names[i]);
    CHECK(trace.threads[i].exited);
  }
  CHECK(NamesOn(trace, 0) == std::vector<std::string>{"of the first"});
  CHECK(NamesOn(trace, 1) == std::vector<std::string>{"of the second", "inside"});
  CHECK(NamesOn(trace, 2) == std::vector<std::string>{"of the third"});
}

TEST_CASE("a recorder that was stopped leaves no black box, nor does a process that exits", "[black_box]") {
  Boxes boxes;
  {
    Recorder recorder = Recorder::Start(boxes.Options());
    REQUIRE(recorder.status().ok());
    PITOT_INSTANT("something");
    CHECK(fakes::NamesIn(boxes.path).size() == 1);
  }
  CHECK(fakes::NamesIn(boxes.path).empty());
  const pid_t child = fork();
  if (child == 0) {
    static const auto* const never_destroyed = new Recorder(Recorder::Start(boxes.Options()));
    static_cast<void>(never_destroyed);
    PITOT_INSTANT("something");
    exit(fakes::NamesIn(boxes.path).size() == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(fakes::NamesIn(boxes.path).empty());
}

TEST_CASE("exit() leaves the black box if what fired is not yet written, and its incident says so", "[black_box]") {
  Boxes boxes;
  boxes.incidents = boxes.directory.path() + "/incidents";
  const bool is_written = GENERATE(false, true);
  const pid_t child = fork();
  if (child == 0) {
    pitot::Options options = boxes.Options();
    options.post_window_ms = is_written ? 0 : 60'000;
    Recorder& recorder = *new Recorder(Recorder::Start(options));
    Work(1);
    recorder.Trigger("before the end");
    if (is_written && !recorder.Flush(60'000).ok()) _exit(4);
    exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WEXITSTATUS(status) == 3);

  if (is_written) {
    CHECK(BoxesIn(boxes.path).empty());
    return;
  }
  const Trace trace = TraceOfOnly(boxes.path);
  CHECK(CountNamed(trace, "work") == 1);
  CHECK(std::string(trace.strings[trace.firings.at(0).detail]).find(" ended by exit(3) at ") != std::string::npos);
}

TEST_CASE("exit() removes the black box once all is written, also if an earlier recorder had none and handled ends",
          "[black_box]") {
  Boxes boxes;
  boxes.incidents = boxes.directory.path() + "/incidents";
  boxes.ends = pitot::Ends::kShutdown;
  const pid_t child = fork();
  if (child == 0) {
    pitot::Options options = boxes.Options();
    options.post_window_ms = 60'000;
    options.black_box_directory = nullptr;
    if (!Recorder::Start(options).status().ok()) _exit(4);
    options.black_box_directory = boxes.path.c_str();
    Recorder& recorder = *new Recorder(Recorder::Start(options));
    recorder.Trigger("before the end");
    exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(fakes::NamesIn(boxes.incidents).size() == 1);
  CHECK(BoxesIn(boxes.path).empty());
}

TEST_CASE("SIGTERM leaves the black box only if it cuts requests off", "[black_box]") {
  Boxes boxes;
  boxes.ends = pitot::Ends::kShutdown;
  for (const bool is_open : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGTERM, SIG_DFL);  // not the test framework's
      const Recorder& recorder = *new Recorder(Recorder::Start(boxes.Options()));
      if (!recorder.status().ok()) _exit(3);
      Request request = Request::Begin("/r");
      if (!is_open) request.Finish(pitot::Outcome::kOk);
      kill(getpid(), SIGTERM);
      for (;;) pause();
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WTERMSIG(status) == SIGTERM);
    CHECK(BoxesIn(boxes.path).size() == (is_open ? 1 : 0));
  }
  const Trace trace = TraceOfOnly(boxes.path);
  CHECK(std::string(trace.strings[trace.firings.at(0).detail]).find(" ended by SIGTERM raised by itself at ") !=
        std::string::npos);
}

TEST_CASE("the file takes no more than rings, requests and names may", "[black_box]") {
  Boxes boxes;
  Recorder recorder = Recorder::Start(boxes.Options());
  REQUIRE(recorder.status().ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([i] {
      pitot::Intern(("name " + std::to_string(i)).c_str());
      for (int k = 0; k < 10'000; ++k) Mark(k);
    });
  }
  for (std::thread& thread : threads) thread.join();

  const pitot::Stats stats = recorder.Stats();
  struct stat info {};
  const std::vector<std::string> names = fakes::NamesIn(boxes.path);
  REQUIRE(names.size() == 1);
  REQUIRE(stat((boxes.path + "/" + names[0]).c_str(), &info) == 0);
  const uint64_t allocated = static_cast<uint64_t>(info.st_blocks) * 512;
  CHECK(allocated > stats.ring_bytes_used);
  CHECK(allocated <= stats.memory.rings + stats.memory.requests_and_names);
  CHECK(session_test::SumOf(stats.memory) == boxes.Options().memory_budget_bytes);
}

TEST_CASE("a living process's black box is not taken for a dead one", "[black_box]") {
  Boxes boxes;
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_fds[0]);
    Recorder recorder = Recorder::Start(boxes.Options());
    PITOT_INSTANT("alive");
    // Its own child inherits the descriptor, and no lock.
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      for (;;) pause();
    }
    if (write(pipe_fds[1], &grandchild, sizeof grandchild) != sizeof grandchild) _exit(1);
    for (;;) pause();
  }
  close(pipe_fds[1]);
  pid_t grandchild = 0;
  REQUIRE(read(pipe_fds[0], &grandchild, sizeof grandchild) == sizeof grandchild);
  close(pipe_fds[0]);
  const std::vector<std::string> paths = BoxesIn(boxes.path);
  REQUIRE(paths.size() == 1);
  CHECK(FoundBox(paths[0]).Look() == FoundBox::Life::kAlive);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(FoundBox(paths[0]).Look() == FoundBox::Life::kDead);
  kill(grandchild, SIGKILL);
}

TEST_CASE("the black box of a dead process is found before its parent has waited for it", "[black_box]") {
  Boxes boxes;
  const pid_t child = fork();
  if (child == 0) {
    Recorder recorder = Recorder::Start(boxes.Options());
    Work(1);
    kill(getpid(), SIGKILL);
  }
  siginfo_t end{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) == 0);

  FoundBox box(BoxesIn(boxes.path).at(0));
  CHECK(box.Look() == FoundBox::Life::kDead);

  waitpid(child, nullptr, 0);
}

TEST_CASE("a process whose first thread has ended is alive", "[black_box]") {
  Boxes boxes;
  int go[2];
  REQUIRE(pipe(go) == 0);
  const pid_t child = fork();
  if (child == 0) {
    static Recorder& recorder = *new Recorder(Recorder::Start(boxes.Options()));
    static_cast<void>(recorder);
    std::thread([] { pause(); }).detach();
    static_cast<void>(!write(go[1], "x", 1));
    syscall(SYS_exit, 0);  // this thread alone, without unwinding
  }
  char byte = 0;
  REQUIRE(read(go[0], &byte, 1) == 1);
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  CHECK(fakes::WaitUntil([&] { return fakes::ReadFile(stat).find(") Z ") != std::string::npos; }));
  CHECK_FALSE(pitot::session::IsZombie(child));
  {
    FoundBox box(BoxesIn(boxes.path).at(0));
    CHECK(box.Look() == FoundBox::Life::kAlive);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(go[0]);
  close(go[1]);
}

// Children of every kind record, close their parent's scopes and name things; the parent's file has none of it.
TEST_CASE("no child writes into its parent's black box", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] {
    AwaitLooks(boxes.path);
    const auto fork_raw = [] { return static_cast<pid_t>(syscall(SYS_fork)); };
    for (const bool is_raw : {false, true}) {
      Request open = Request::Begin("/parents");
      pid_t child = 0;
      {
        PITOT_SCOPE("both");
        child = is_raw ? fork_raw() : fork();
        if (child == 0) {
          for (int i = 0; i < 10'000; ++i) {
            PITOT_SCOPE("childs", i);
          }
        }
      }
      if (child == 0) {
        pitot::Intern("a name of the child");
        open.Stage("childs");
        open.Finish(pitot::Outcome::kOk);
        Request own = Request::Begin("/childs");
        PITOT_INSTANT("childs", 1);
        std::thread([] { PITOT_INSTANT("childs", 2); }).join();
        _exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (status != 0) _exit(4);
      PITOT_INSTANT("parents");
      AwaitLooks(boxes.path);
    }
  });
  const Trace trace = TraceOfOnly(boxes.path);
  CHECK(CountNamed(trace, "childs") == 0);
  CHECK(CountNamed(trace, "both") == 2);
  CHECK(CountNamed(trace, "parents") == 2);
  CHECK(trace.requests.size() == 2);
  for (const auto& request : trace.requests) CHECK(trace.strings[request.route] == "/parents");
}

TEST_CASE("a thread of its parent's that ends in a raw child leaves the parent's black box alone", "[black_box]") {
  Boxes boxes;
  const int status = Die(&boxes, [&] {
    pid_t child = 0;
    std::thread([&] {
      pitot::SetThreadName("parents");
      Mark(1);
      child = static_cast<pid_t>(syscall(SYS_fork));
      if (child == 0) return;  // the child has this thread only
      int end = 0;
      waitpid(child, &end, 0);
      if (end != 0) _exit(4);
      Mark(2);
      kill(getpid(), SIGKILL);
    }).join();
  });
  CHECK(WTERMSIG(status) == SIGKILL);

  const Trace trace = TraceOfOnly(boxes.path);

  REQUIRE(trace.threads.size() == 1);
  CHECK_FALSE(trace.threads[0].exited);
  CHECK(trace.events.size() == 2);
}

TEST_CASE("a truncated black box does not kill its process", "[black_box]") {
  Boxes boxes;
  const auto recorder = std::make_unique<Recorder>(Recorder::Start(boxes.Options()));
  REQUIRE(recorder->status().ok());
  PITOT_INSTANT("before");
  const uint64_t lost_before = pitot::trace::PagesLost();
  for (const std::string& name : fakes::NamesIn(boxes.path))
    REQUIRE(truncate((boxes.path + "/" + name).c_str(), 0) == 0);
  for (int i = 0; i < 10'000; ++i) {
    PITOT_SCOPE("after", i);
  }
  // What this ring was offered is lost. Each thread takes its offer when another ring has grown.
  std::thread([] {
    PITOT_INSTANT("first");
    const uint64_t first_mask = pitot::detail::t_ring->mask;
    CHECK(fakes::WaitUntil([first_mask] {
      for (int i = 0; i < 1000; ++i) PITOT_INSTANT("until it grows");
      return pitot::detail::t_ring->mask > first_mask;
    }));
  }).join();
  for (int i = 0; i < 10'000; ++i) PITOT_INSTANT("after the offer");
  Request request = Request::Begin("/after");
  pitot::Intern("a name after it");
  std::thread([] { PITOT_INSTANT("on a new thread"); }).join();
  request.Finish(pitot::Outcome::kOk);
  CHECK(pitot::trace::PagesLost() > lost_before);
  CHECK(recorder->Stats().events_recorded >= 10'000);
}

TEST_CASE("faults elsewhere still end the process as they did", "[black_box]") {
  Boxes boxes;
  const int status = Die(&boxes, [&] {
    rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    const std::string path = boxes.directory.path() + "/hosts";
    const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, 4096) != 0) _exit(5);
    auto* const page = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
    if (ftruncate(fd, 0) != 0) _exit(5);
    static_cast<void>(page[0]);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

TEST_CASE("without room for a black box a recorder runs without, and says so", "[black_box]") {
  Boxes boxes;
  const std::string file = boxes.directory.path() + "/file";
  close(open(file.c_str(), O_CREAT | O_WRONLY, 0600));
  boxes.path = file + "/below";
  Recorder recorder = Recorder::Start(boxes.Options());
  CHECK(recorder.status().ok());
  PITOT_INSTANT("recorded");
  CHECK(recorder.Stats().events_recorded == 1);
  CHECK(boxes.log.Has(pitot::LogLevel::kWarning, "no black box"));
}

TEST_CASE("a folder to which others may write is not used for a black box", "[black_box]") {
  Boxes boxes;
  REQUIRE(mkdir(boxes.path.c_str(), 0700) == 0);
  REQUIRE(chmod(boxes.path.c_str(), 0777) == 0);
  Recorder recorder = Recorder::Start(boxes.Options());
  CHECK(recorder.status().ok());
  CHECK(fakes::NamesIn(boxes.path).empty());
  CHECK(boxes.log.Has(pitot::LogLevel::kWarning, "every user may write to it"));
}

TEST_CASE("a black box that somebody removes under its process is logged once", "[black_box]") {
  Boxes boxes;
  Recorder recorder = Recorder::Start(boxes.Options());
  const std::string path = boxes.path + "/" + fakes::NamesIn(boxes.path).at(0), message = path + " was removed";
  REQUIRE(unlink(path.c_str()) == 0);
  CHECK(fakes::WaitUntil([&] { return boxes.log.Has(pitot::LogLevel::kWarning, message); }));
  recorder.Stop();  // looks again
  const std::vector<fakes::LogLine> lines = boxes.log.lines();
  CHECK(std::count_if(lines.begin(), lines.end(),
                      [&](const fakes::LogLine& line) { return line.text.find(message) != std::string::npos; }) == 1);
}

// Room for the header and the names, and none for the sites.
TEST_CASE("a black box without room for all of its parts is given up whole", "[black_box]") {
  Boxes boxes;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{100 << 10, 100 << 10};
    setrlimit(RLIMIT_FSIZE, &small);
    Recorder recorder = Recorder::Start(boxes.Options());
    // They would go to the names' part.
    for (int i = 0; i < 1000; ++i) pitot::Intern(("a new name " + std::to_string(i)).c_str());
    Work(1);
    const bool is_recorded = recorder.status().ok() && recorder.Stats().events_recorded == 1;
    _exit(is_recorded && fakes::NamesIn(boxes.path).empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a small tmpfs is left to others, and a full one costs rings their place only", "[black_box][platform]") {
  fakes::InOwnMounts([] {
    Boxes boxes;
    const std::string small = boxes.directory / "small", full = boxes.directory / "full";
    if (mkdir(small.c_str(), 0700) != 0 || mkdir(full.c_str(), 0700) != 0) return 1;
    if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=4m") != 0) return 2;
    if (mount("tmpfs", full.c_str(), "tmpfs", 0, "size=32m,mode=0700") != 0) return 2;
    boxes.path = small + "/boxes";
    {
      const Recorder recorder = Recorder::Start(boxes.Options());
      if (!recorder.status().ok() || !boxes.log.Has(pitot::LogLevel::kWarning, "a half stays for others")) return 3;
    }
    boxes.path = full + "/boxes";
    Recorder recorder = Recorder::Start(boxes.Options());
    if (fakes::NamesIn(boxes.path).size() != 1) return 4;
    const int filler = open((full + "/filler").c_str(), O_RDWR | O_CREAT, 0600);
    while (fallocate(filler, 0, lseek(filler, 0, SEEK_END), 4096) == 0) {}
    for (int i = 0; i < 8; ++i)
      std::thread([] {
        for (int n = 0; n < 1000; ++n) Work(n);
      }).join();
    if (recorder.Stats().events_recorded != 8000) return 5;
    return pitot::trace::CountRings().outside_box != 0 ? 0 : 6;
  });
}

TEST_CASE("black boxes that nobody reads make room, the oldest first, but for the newest and the living",
          "[black_box][platform]") {
  fakes::InOwnMounts([] {
    Boxes boxes;
    const std::string folder = boxes.directory / "memory";
    if (mkdir(folder.c_str(), 0700) != 0 || mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64m,mode=0700") != 0)
      return 1;
    boxes.path = folder + "/boxes";
    std::vector<std::string> dead;  // oldest first
    for (int i = 0; i < 3; ++i) {
      if (!WIFSIGNALED(Die(&boxes, [] { Work(1); }))) return 2;
      for (const std::string& path : BoxesIn(boxes.path)) {
        if (std::find(dead.begin(), dead.end(), path) == dead.end()) dead.push_back(path);
      }
    }
    const Recorder living = Recorder::Start(boxes.Options());
    if (!living.status().ok() || fakes::NamesIn(boxes.path).size() != 4) return 3;  // there is room for all
    struct statfs system {};
    struct stat oldest {};
    if (statfs(folder.c_str(), &system) != 0 || stat(dead[0].c_str(), &oldest) != 0) return 4;
    const uint64_t free = static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_bsize);
    const uint64_t half_a_box = static_cast<uint64_t>(oldest.st_blocks) * 512 / 2;

    const std::vector<std::string> removed = pitot::session::MakeBoxRoom(boxes.path, (free + half_a_box) / 2);

    if (removed.size() != 1 || removed[0].find(dead[0]) == std::string::npos) return 5;
    if (BoxesIn(boxes.path) != std::vector<std::string>{std::min(dead[1], dead[2]), std::max(dead[1], dead[2])})
      return 6;
    if (pitot::session::MakeBoxRoom(boxes.path, uint64_t{1} << 40).size() != 1) return 7;
    if (BoxesIn(boxes.path) != std::vector<std::string>{dead[2]}) return 8;
    return fakes::NamesIn(boxes.path).size() == 2 ? 0 : 9;  // and the living one's
  });
}

TEST_CASE("files that cannot be read make room after an hour, but not one of a living process", "[black_box]") {
  Boxes boxes;
  REQUIRE(mkdir(boxes.path.c_str(), 0700) == 0);
  const auto make = [&](const std::string& name, time_t age_s) {
    const std::string path = boxes.path + "/" + name;
    const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    CHECK(write(fd, "of another version", 18) == 18);
    const timespec times[2] = {{time(nullptr) - age_s, 0}, {time(nullptr) - age_s, 0}};
    CHECK(futimens(fd, times) == 0);
    return fd;
  };
  std::vector<std::string> stay;
  for (size_t i = 0; i < pitot::session::kMostDeadBoxes; ++i) {
    close(make("old" + std::to_string(i) + ".box", 8000));
    stay.push_back("old" + std::to_string(i) + ".box");
  }
  close(make("older.box", 9000));
  close(make("oldest.box", 9001));
  close(make("new.box", 60));
  stay.push_back("new.box");
  // Another process has the lock on the oldest of all.
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t living = fork();
  if (living == 0) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    if (fcntl(make("living.box", 99'999), F_SETLK, &lock) != 0 || write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  stay.push_back("living.box");

  const std::vector<std::string> removed = pitot::session::MakeBoxRoom(boxes.path, 0);

  kill(living, SIGKILL);
  waitpid(living, nullptr, 0);
  REQUIRE(removed.size() == 2);
  CHECK(removed[0].find("oldest.box") != std::string::npos);
  CHECK(removed[1].find("older.box") != std::string::npos);
  std::vector<std::string> names = fakes::NamesIn(boxes.path);
  std::sort(names.begin(), names.end());
  std::sort(stay.begin(), stay.end());
  CHECK(names == stay);
}

TEST_CASE("a black box belongs to its user alone, and another version's is refused", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [] { Work(1); });
  const std::string path = BoxesIn(boxes.path).at(0);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  const int fd = open(path.c_str(), O_RDWR);
  const uint32_t later = pitot::trace::kBoxVersion + 1;
  REQUIRE(pwrite(fd, &later, sizeof later, offsetof(pitot::trace::BoxHeader, version)) == sizeof later);
  close(fd);
  FoundBox box(path);
  CHECK(box.Look() == FoundBox::Life::kBroken);
  CHECK(box.why().find("version") != std::string::npos);
}

TEST_CASE("a limit on the size of files is not overstepped", "[black_box]") {
  Boxes boxes;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &small);
    Recorder recorder = Recorder::Start(boxes.Options());
    for (int i = 0; i < 100'000; ++i) PITOT_INSTANT("event", i);
    _exit(recorder.status().ok() && recorder.Stats().events_recorded == 100'000 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

// A container's server always has the same number.
TEST_CASE("the black box of an earlier process with this one's number is found", "[black_box]") {
  Boxes boxes;
  REQUIRE(mkdir(boxes.path.c_str(), 0700) == 0);
  const std::string earlier = boxes.path + "/" + std::to_string(getpid()) + "-1.box";
  close(open(earlier.c_str(), O_CREAT | O_WRONLY, 0600));
  const Recorder recorder = Recorder::Start(boxes.Options());
  CHECK(fakes::NamesIn(boxes.path).size() == 2);
  CHECK(BoxesIn(boxes.path) == std::vector<std::string>{earlier});
}

TEST_CASE("a second recorder of the process has a black box of its own", "[black_box]") {
  Boxes boxes;
  for (int i = 0; i < 3; ++i) {
    Recorder recorder = Recorder::Start(boxes.Options());
    REQUIRE(recorder.status().ok());
    Request request = Request::Begin("/again");
    PITOT_SCOPE("again");
    CHECK(recorder.Stats().requests_open == 1);
    request.Finish(pitot::Outcome::kOk);
    CHECK(recorder.Stats().requests_finished == 1);
    CHECK(fakes::NamesIn(boxes.path).size() == 1);
    CHECK(BoxesIn(boxes.path).empty());  // its own is not looked at
  }
}

TEST_CASE("the next recorder of the same incidents makes an incident of a dead one's black box", "[black_box]") {
  Boxes boxes;
  const std::string incidents = boxes.directory.path() + "/incidents", others = boxes.directory.path() + "/others";
  const auto die_in = [&](const std::string& directory) {
    boxes.incidents = directory;
    Die(&boxes, [&] {
      for (int i = 0; i < 10; ++i) Work(i);
      AwaitLooks(boxes.path);
    });
  };
  die_in(others);
  die_in(incidents);
  Recorder recorder = Recorder::Start(boxes.Options());
  REQUIRE(recorder.status().ok());
  const auto previous = [&] {
    const std::vector<std::string> names = fakes::NamesIn(incidents);
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return name.find("-previous_life") != std::string::npos; });
  };
  CHECK(fakes::WaitUntil(previous));
  CHECK(fakes::WaitUntil([&] { return boxes.log.Has(pitot::LogLevel::kWarning, "ended without a word"); }));
  CHECK(BoxesIn(boxes.path).size() == 1);  // of the other server
  CHECK(fakes::NamesIn(others).empty());
  recorder.Stop();
  Recorder again = Recorder::Start(boxes.Options());
  again.Stop();
  CHECK(fakes::NamesIn(incidents).size() == 1);
}

TEST_CASE("the next recorder makes no incident of another user's black box", "[black_box][platform]") {
  if (geteuid() != 0) {
    NOT_RUN("only root can make a file of another user");
    return;
  }
  Boxes boxes;
  boxes.incidents = boxes.directory.path() + "/incidents";
  Die(&boxes, [&] { AwaitLooks(boxes.path); });
  const std::string path = BoxesIn(boxes.path).at(0);
  constexpr uid_t kNobody = 65534;
  REQUIRE(chown(path.c_str(), kNobody, kNobody) == 0);
  Recorder recorder = Recorder::Start(boxes.Options());
  CHECK(recorder.Trigger("an incident that is judged after it has looked for others").ok());
  CHECK(recorder.Flush(60'000).ok());
  CHECK(fakes::NamesIn(boxes.incidents).size() == 1);
  CHECK(BoxesIn(boxes.path) == std::vector<std::string>{path});
}

TEST_CASE("incidents of dead processes are within the quota of their directory", "[black_box]") {
  Boxes boxes;
  boxes.incidents = boxes.directory.path() + "/incidents";
  for (int i = 0; i < 4; ++i) Die(&boxes, [&] { AwaitLooks(boxes.path); });
  pitot::Options options = boxes.Options();
  options.max_incidents_kept = 2;
  Recorder recorder = Recorder::Start(options);
  REQUIRE(recorder.status().ok());
  CHECK(fakes::WaitUntil([&] { return BoxesIn(boxes.path).empty(); }));
  recorder.Stop();
  CHECK(fakes::NamesIn(boxes.incidents).size() == 2);
}

TEST_CASE("a black box knows the directory of its incidents wherever its finder works", "[black_box]") {
  Boxes boxes;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(boxes.directory.path());
  boxes.incidents = "incidents";
  Die(&boxes, [&] { AwaitLooks(boxes.path); });
  std::filesystem::current_path(before);
  boxes.incidents = boxes.directory.path() + "/incidents";
  Recorder recorder = Recorder::Start(boxes.Options());
  REQUIRE(recorder.status().ok());
  CHECK(fakes::WaitUntil([&] { return BoxesIn(boxes.path).empty(); }));
  recorder.Stop();
  CHECK(fakes::NamesIn(boxes.incidents).size() == 1);
  boxes.incidents = boxes.directory.path() + std::string(1024, '/') + "incidents";
  const Recorder without = Recorder::Start(boxes.Options());
  REQUIRE(without.status().ok());
  CHECK(boxes.log.Has(pitot::LogLevel::kWarning, "no black box: the path of Options::incident_directory"));
}

// After a loss of power pages may be missing that were never written back.
TEST_CASE("a ring whose page is missing costs no other ring its events", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] {
    std::atomic<int> marked{0};
    for (int i = 0; i < 3; ++i) {
      // It stays, so that no ring is handed on.
      std::thread([i, &marked] {
        Mark(i);
        ++marked;
        for (;;) pause();
      }).detach();
    }
    fakes::WaitUntil([&] { return marked == 3; });
    AwaitLooks(boxes.path);
    kill(getpid(), SIGKILL);  // they refer to this stack
  });
  const std::string path = BoxesIn(boxes.path).at(0);
  const auto count = [&](uint32_t* damaged) {
    FoundBox box(path);
    REQUIRE(box.Look() == FoundBox::Life::kDead);
    const Trace trace = pitot::session::TraceOf(&box.reader(), {}, kMostWords, kMostRowBytes);
    *damaged = box.reader().rings_damaged();
    return CountNamed(trace, "numbered");
  };
  uint32_t damaged = 0;
  const uint64_t all = count(&damaged);
  REQUIRE(all == 3);
  REQUIRE(damaged == 0);
  const int fd = open(path.c_str(), O_RDWR);
  pitot::trace::BoxHeader header{};
  REQUIRE(pread(fd, static_cast<void*>(&header), sizeof header, 0) == sizeof header);
  const std::string zeros(pitot::trace::kBoxPage, '\0');
  const auto newest = static_cast<off_t>(header.newest_ring.load());
  REQUIRE(pwrite(fd, zeros.data(), zeros.size(), newest) == static_cast<ssize_t>(zeros.size()));
  close(fd);

  CHECK(count(&damaged) >= 2);
  CHECK(damaged == 1);
}

TEST_CASE("the next recorder removes a black box whose process or machine ended before it had a header",
          "[black_box]") {
  Boxes boxes;
  boxes.incidents = boxes.directory.path() + "/incidents";
  REQUIRE(mkdir(boxes.path.c_str(), 0700) == 0);
  const auto put = [&](const std::string& name, const std::string& bytes) {
    const int fd = open((boxes.path + "/" + name).c_str(), O_CREAT | O_WRONLY, 0600);
    REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(fd);
  };
  const std::string zeros(16384, '\0'), boot = pitot::session::BootId().substr(0, 8);
  const std::string earlier = boot == "01234567" ? "76543210" : "01234567";
  const std::string space = std::to_string(pitot::session::ProcessSpace());
  const std::string parent =
      std::to_string(getppid()) + "-" + std::to_string(pitot::session::ProcessStart(getppid())) + "-" + space;
  put(parent + "-" + earlier + ".box", zeros);
  put("1-1-1-" + earlier + ".box", "");
  put(std::to_string(getppid()) + "-1-" + space + "-" + boot + ".box", zeros);
  std::string begun = zeros;  // its process was killed in Start
  begun[200] = 'x';
  put("3-3-3-" + earlier + ".box", begun);
  const std::vector<std::string> others = {"1-1-1-" + boot + ".box", "another.box", parent + "-" + boot + ".box"};
  for (const std::string& name : others) put(name, zeros);  // it may live, or is not Pitot's
  put("2-2-2-" + earlier + ".box", std::string(16384, 'x'));

  Recorder recorder = Recorder::Start(boxes.Options());
  REQUIRE(recorder.Trigger("after it has looked").ok());
  REQUIRE(recorder.Flush(60'000).ok());

  std::vector<std::string> left;
  for (const std::string& path : BoxesIn(boxes.path)) left.push_back(path.substr(path.rfind('/') + 1));
  CHECK(left.size() == 4);
  for (const std::string& name : others) CHECK(std::count(left.begin(), left.end(), name) == 1);
  CHECK(std::count(left.begin(), left.end(), "2-2-2-" + earlier + ".box") == 1);
  CHECK(boxes.log.Has(pitot::LogLevel::kWarning, "nothing was written to it"));
}

// The black box of a process with one thread, which has gone round its ring, in a file that has outlived its machine,
// or not.
class OfOtherBoot {
 public:
  explicit OfOtherBoot(bool has_outlived = true) {
    Die(&boxes_, [&] {
      for (int i = 0; i < 20'000; ++i) Mark(i);
      AwaitLooks(boxes_.path);
    });
    fd_ = open(BoxesIn(boxes_.path).at(0).c_str(), O_RDWR);
    REQUIRE(pread(fd_, static_cast<void*>(&header_), sizeof header_, 0) == sizeof header_);
    if (has_outlived) header_.boot_id[0] = header_.boot_id[0] == '0' ? '1' : '0';
    REQUIRE(pwrite(fd_, static_cast<const void*>(&header_), sizeof header_, 0) == sizeof header_);
    ring_ = static_cast<off_t>(header_.newest_ring.load());
    REQUIRE(pread(fd_, &head_, sizeof head_, ring_ + kHead) == sizeof head_);
  }
  ~OfOtherBoot() { close(fd_); }

  bool IsInMemory() const {
    pitot::snapshot::BoxReader reader;
    REQUIRE(std::string(reader.Open(fd_)) == "");
    return reader.IsInMemory();
  }
  // The page of words that is `back` pages before the head's.
  std::string ReadPage(uint64_t back) const {
    std::string page(pitot::trace::kBoxPage, '\0');
    REQUIRE(pread(fd_, page.data(), page.size(), At(back)) == static_cast<ssize_t>(page.size()));
    return page;
  }
  void WritePage(uint64_t back, const std::string& page) const {
    REQUIRE(pwrite(fd_, page.data(), page.size(), At(back)) == static_cast<ssize_t>(page.size()));
  }
  // As if the ring's own page were of an earlier moment than its words.
  void TurnBack(uint64_t words) const {
    const uint64_t earlier = head_ - words;
    REQUIRE(pwrite(fd_, &earlier, sizeof earlier, ring_ + kHead) == sizeof earlier);
  }
  // The numbers of its events, the smallest first.
  std::vector<uint64_t> Numbers() const {
    const Trace trace = TraceOfOnly(boxes_.path);
    std::vector<uint64_t> numbers;
    for (uint32_t event = 0; event < trace.events.size(); ++event) {
      if (trace.strings[trace.sites[trace.events.site[event]].name] == "numbered")
        numbers.push_back(trace.arg_values[trace.events.args[event]]);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

 private:
  // A ring's page begins with its head; what is before that lies in the process.
  static constexpr off_t kHead = 0;
  off_t At(uint64_t back) const {
    constexpr uint64_t kRingPages = (1 << 16) / pitot::trace::kBoxPage, kPageWords = pitot::trace::kBoxPage / 8;
    return ring_ + static_cast<off_t>((1 + (head_ / kPageWords - back) % kRingPages) * pitot::trace::kBoxPage);
  }

  Boxes boxes_;
  pitot::trace::BoxHeader header_{};
  int fd_ = -1;
  off_t ring_ = 0;
  uint64_t head_ = 0;
};

// Each once.
bool HasNoHole(const std::vector<uint64_t>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != numbers.front() + i) return false;
  }
  return true;
}

TEST_CASE("if the newest page of a ring is missing after a loss of power, the events before it are read",
          "[black_box]") {
  const OfOtherBoot box;
  const std::vector<uint64_t> whole = box.Numbers();
  REQUIRE(whole.back() == 19'999);
  REQUIRE(whole.size() > 2000);
  for (uint64_t back = 0; back < 3; ++back) box.WritePage(back, std::string(pitot::trace::kBoxPage, '\0'));

  const std::vector<uint64_t> numbers = box.Numbers();
  REQUIRE(numbers.size() > 1500);
  CHECK(HasNoHole(numbers));
  CHECK(numbers.front() < whole.front() + 200);  // the head's page also held the oldest ones
  CHECK(numbers.back() > 19'000);
}

TEST_CASE("a page of an earlier turn of a ring is not taken for what came after it", "[black_box]") {
  const OfOtherBoot box;
  const std::vector<uint64_t> whole = box.Numbers();
  REQUIRE(HasNoHole(whole));
  box.WritePage(5, box.ReadPage(11));  // records lie in both alike: each has three words

  const std::vector<uint64_t> numbers = box.Numbers();
  REQUIRE(numbers.size() > 500);
  CHECK(numbers.back() == 19'999);
  CHECK(HasNoHole(numbers));
}

// A disk refused the page, and read it back as it was.
TEST_CASE("a page of an earlier turn is left out in a black box on a disk, also of the same boot", "[black_box]") {
  const OfOtherBoot box(false);
  if (box.IsInMemory()) {
    WARN("not checked: the folder for temporary files lies in memory");
    return;
  }
  const std::vector<uint64_t> whole = box.Numbers();
  REQUIRE(whole.back() == 19'999);
  REQUIRE(whole.size() > 2000);
  box.WritePage(5, box.ReadPage(11));

  const std::vector<uint64_t> numbers = box.Numbers();
  REQUIRE(numbers.size() > 500);
  CHECK(numbers.back() == 19'999);
  CHECK(HasNoHole(numbers));
}

TEST_CASE("if the newest page of a ring is of an earlier turn, the events before it are read", "[black_box]") {
  const OfOtherBoot box;
  box.WritePage(0, box.ReadPage(11));

  const std::vector<uint64_t> numbers = box.Numbers();
  REQUIRE(numbers.size() > 1500);
  CHECK(HasNoHole(numbers));
  CHECK(numbers.back() > 19'600);
}

TEST_CASE("a page of an earlier turn is left out also if the page before it is missing", "[black_box]") {
  const OfOtherBoot box;
  box.WritePage(5, box.ReadPage(11));
  box.WritePage(6, std::string(pitot::trace::kBoxPage, '\0'));

  const std::vector<uint64_t> numbers = box.Numbers();
  REQUIRE(numbers.size() > 500);
  CHECK(numbers.back() == 19'999);
  CHECK(HasNoHole(numbers));
}

TEST_CASE("the oldest record of a torn ring is left out if a later turn may have begun to overwrite it",
          "[black_box]") {
  const OfOtherBoot box;
  for (uint64_t words = 60; words < 84; ++words) {
    box.TurnBack(words);

    const std::vector<uint64_t> numbers = box.Numbers();
    REQUIRE(numbers.size() > 1000);
    REQUIRE(HasNoHole(numbers));
  }
}

TEST_CASE("what a ring got after its own page was written back is not taken for its oldest events", "[black_box]") {
  const OfOtherBoot box;
  box.TurnBack(3 * pitot::trace::kBoxPage / 8);

  const std::vector<uint64_t> numbers = box.Numbers();
  REQUIRE(numbers.size() > 1000);
  CHECK(numbers.back() < 19'999);
  CHECK(HasNoHole(numbers));
}

// Machines that start the same way each time give a service the number and the start that it had before.
TEST_CASE("a black box of an earlier boot is found though its process had this one's number and start", "[black_box]") {
  Boxes boxes;
  boxes.incidents = boxes.directory.path() + "/incidents";
  REQUIRE(mkdir(boxes.path.c_str(), 0700) == 0);
  const std::string boot = pitot::session::BootId().substr(0, 8);
  const std::string own = pitot::session::OwnBoxName();
  REQUIRE(own.find("-" + boot + ".box") != own.npos);
  const std::string earlier = own.substr(0, own.size() - 12) + (boot == "01234567" ? "76543210" : "01234567") + ".box";
  Die(&boxes, [&] { Work(1); });
  REQUIRE(rename(BoxesIn(boxes.path).at(0).c_str(), (boxes.path + "/" + earlier).c_str()) == 0);

  const Recorder recorder = Recorder::Start(boxes.Options());
  REQUIRE(recorder.status().ok());
  CHECK(fakes::WaitUntil([&] { return boxes.log.Has(pitot::LogLevel::kWarning, "ended without a word"); }));
}

TEST_CASE("any bytes in a black box are survived", "[black_box]") {
  Boxes boxes;
  Die(&boxes, [&] {
    for (int i = 0; i < 5000; ++i) {
      PITOT_SCOPE("work", i);
    }
    Request request = Request::Begin("/r");
    AwaitLooks(boxes.path);
    kill(getpid(), SIGKILL);
  });
  const std::string path = BoxesIn(boxes.path).at(0);
  const int fd = open(path.c_str(), O_RDWR);
  struct stat info {};
  fstat(fd, &info);
  std::string whole(static_cast<size_t>(info.st_size), '\0');
  REQUIRE(pread(fd, whole.data(), whole.size(), 0) == info.st_size);
  uint64_t seed = 12345, reached = 0;
  const auto next = [&seed] { return seed = seed * 6364136223846793005 + 1442695040888963407; };
  for (int round = 0; round < 300; ++round) {
    // Half of the time it has outlived its machine.
    whole[offsetof(pitot::trace::BoxHeader, boot_id)] ^= 1;
    REQUIRE(pwrite(fd, whole.data(), whole.size(), 0) == info.st_size);
    // In the header or anywhere.
    for (int word = 0; word < 4; ++word) {
      const uint64_t value = next() >> (next() >> 58);
      const uint64_t most = word == 0 ? 4096 : static_cast<uint64_t>(info.st_size);
      const auto at = static_cast<off_t>((next() >> 20) % (most / 8) * 8);
      if (at >= 16) REQUIRE(pwrite(fd, &value, sizeof value, at) == sizeof value);
    }
    FoundBox box(path);
    if (box.Look() != FoundBox::Life::kDead) continue;
    pitot::session::TraceOf(&box.reader(), {}, 1 << 20, 64 << 20);
    pitot::session::HealthIn(&box.reader(), {}, 0);
    ++reached;
  }
  CHECK(reached > 225);
  close(fd);
}

}  // namespace
