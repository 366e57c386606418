// SPDX-License-Identifier: Apache-2.0
//
// The collector of stacks over files written by a test, with an unwinder and a clock of its own.
#include "collect/stacks/collector.h"

#include <errno.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collect/nvml/counter_trace.h"
#include "collect/stacks/fake_kernel.h"
#include "fakes/recording.h"
#include "fakes/step_timer.h"
#include "fakes/temp_directory.h"
#include "fakes/trace_text.h"

using fakes::kMs;
using pitot::StatusCode;
using pitot::stacks::Frame;
using pitot::stacks::Sampler;
using pitot::stacks::Unwinder;

namespace {

constexpr const char* kInRecv = "45 0x3 0x7f35 0x1 0x0 0x0 0x0 0x1000 0x2000\n";

constexpr int64_t kStartNs = 1000 * fakes::kSecond;  // of the timer

// What the fakes share with the test.
struct Play {
  static inline std::atomic<uint32_t> late{0};  // threads 1 to `late`
  static inline std::atomic<int64_t> cpu_ns{0};
  std::atomic<int64_t> cpu_of_unwinding_ns{0};
  std::atomic<int> unwound{0}, samples{0}, resets{0};
  std::atomic<uint64_t> stack{0}, instruction{0};  // of the last one
  std::function<void()> while_unwinding = [] {};
  std::vector<Frame> frames = {{"recv (libc.so.6)", true}, {"Get (server)", false}, {"Serve (server)", false}};
  std::vector<Frame> frames_on_cpu = {
      {"Tokenize (server)", false}, {"Encode (server)", false}, {"Serve (server)", false}};
};

class FakeUnwinder final : public Unwinder {
 public:
  explicit FakeUnwinder(Play* play) : play_(*play) {}
  std::vector<Frame> Unwind(uint64_t stack, uint64_t instruction) override {
    play_.stack = stack;
    play_.instruction = instruction;
    ++play_.unwound;
    play_.while_unwinding();
    Play::cpu_ns += play_.cpu_of_unwinding_ns;
    return play_.frames;
  }
  std::vector<Frame> UnwindSample(const pitot::stacks::Sample& sample) override {
    ++play_.samples;
    return sample.stack.empty() ? std::vector<Frame>() : play_.frames_on_cpu;
  }
  void Reset() override { ++play_.resets; }

 private:
  Play& play_;
};

struct Rig {
  Rig() {
    Play::late = 0;
    Play::cpu_ns = 0;
  }
  ~Rig() {
    if (collector != nullptr) collector->Stop();
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  pitot::Status Start() {
    pitot::stacks::Environment environment;
    environment.root = directory.path();
    environment.timer = timer;
    if (why_not.empty()) environment.unwinder = std::make_unique<FakeUnwinder>(&play);
    environment.why_not = why_not;
    if (has_sampler)
      environment.sampler =
          std::make_unique<Sampler>(std::make_unique<fakes::FakeKernel>(kernel), options.running_threads);
    environment.find_late = [](int64_t* tids, uint32_t most) noexcept -> uint32_t {
      for (uint32_t i = 0; i < std::min<uint32_t>(most, Play::late); ++i) tids[i] = i + 1;
      return Play::late;
    };
    environment.cpu_ns = []() noexcept -> int64_t { return Play::cpu_ns; };
    collector = pitot::stacks::MakeCollector(options, std::move(environment));
    return collector->Start();
  }
  std::string FolderOf(int64_t tid) const { return directory.path() + "/proc/self/task/" + std::to_string(tid); }
  void Write(int64_t tid, const std::string& call, const std::string& schedstat = "100 0 7\n") {
    std::filesystem::create_directories(FolderOf(tid));
    std::ofstream(FolderOf(tid) + "/syscall") << call;
    std::ofstream(FolderOf(tid) + "/schedstat") << schedstat;
  }
  // Lets requests be late for one look and `ns` more, with `threads` at work.
  void BeLate(uint32_t threads, int64_t ns = 0) {
    REQUIRE(timer->AwaitIdle());
    Play::late = threads;
    REQUIRE(timer->Pass(50 * kMs + ns));
    Play::late = 0;
    REQUIRE(timer->Pass(60 * kMs));
  }
  std::vector<fakes::EventText> Stacks() const { return fakes::EventsNamed(recording.Trace(), "stack"); }
  std::string Attribute(const std::string& key) {
    fakes::Trace trace;
    collector->Keep(0, pitot::KeepFor::kIncident);
    collector->AddTo(trace);
    return trace.attributes.count(key) != 0 ? trace.attributes[key] : "";
  }

  fakes::TempDirectory directory;
  std::shared_ptr<fakes::StepTimer> timer = std::make_shared<fakes::StepTimer>();
  fakes::Recording recording;
  Play play;
  std::shared_ptr<fakes::KernelPlay> kernel = std::make_shared<fakes::KernelPlay>();
  bool has_sampler = false;
  std::string why_not;
  pitot::StackOptions options;
  std::unique_ptr<pitot::Collector> collector;
};

std::string Arg(const fakes::EventText& event, const std::string& name) {
  for (const auto& [key, value] : event.args) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace

TEST_CASE("a thread that sleeps while a request is late has its stack recorded", "[stacks]") {
  Rig rig;
  rig.Write(1, kInRecv);
  REQUIRE(rig.Start().ok());

  rig.BeLate(1, 45 * kMs);

  const auto stacks = rig.Stacks();
  REQUIRE(stacks.size() >= 4);
  CHECK(Arg(stacks[0], "tid") == "1");
  CHECK(Arg(stacks[0], "call") == "recv");
  CHECK(Arg(stacks[0], "own") == std::to_string(0x100 | 1));
  CHECK(Arg(stacks[0], "frame") == "recv (libc.so.6)");
  CHECK(Arg(stacks[0], "caller") == "Get (server)");
  CHECK(Arg(stacks[0], "its_caller") == "Serve (server)");
  CHECK(rig.play.stack == 0x1000);
  CHECK(rig.play.instruction == 0x2000);
  CHECK(rig.play.unwound == 1);  // it has not run since
  CHECK(rig.play.resets == 2);   // before the first look, and at the end
  CHECK(rig.Attribute("stacks.left_out").empty());
}

TEST_CASE("nothing is read while no request is late", "[stacks]") {
  Rig rig;
  rig.Write(1, kInRecv);
  REQUIRE(rig.Start().ok());

  rig.BeLate(0, 500 * kMs);

  CHECK(rig.play.unwound == 0);
  CHECK(rig.Stacks().empty());
}

TEST_CASE("a thread that ran since is read again", "[stacks]") {
  Rig rig;
  rig.Write(1, kInRecv);
  REQUIRE(rig.Start().ok());
  rig.BeLate(1);
  const int before = rig.play.unwound;
  rig.Write(1, kInRecv, "200 0 8\n");
  rig.BeLate(1);
  CHECK(rig.play.unwound == before + 1);
}

TEST_CASE("modules are looked at again where requests are late for long", "[stacks]") {
  Rig rig;
  rig.Write(1, kInRecv);
  REQUIRE(rig.Start().ok());
  rig.BeLate(1, 35'000 * kMs);
  CHECK(rig.play.resets == 5);  // before the first look, every 10 s, and at the end
  CHECK(rig.play.unwound == 4);
}

TEST_CASE("threads that run, go on, or have ended have no stack, and each that is missing is counted", "[stacks]") {
  Rig rig;
  rig.Write(1, "running\n");
  rig.Write(2, kInRecv);
  rig.play.while_unwinding = [&] { rig.Write(2, kInRecv, std::to_string(rig.play.unwound) + " 0 9\n"); };
  REQUIRE(rig.Start().ok());

  rig.BeLate(3);

  const auto stacks = rig.Stacks();
  REQUIRE(stacks.size() == 1);  // no stack, but the number of those missed
  CHECK(Arg(stacks[0], "tid") == "0");
  const std::string count = std::to_string(rig.play.unwound);
  CHECK(Arg(stacks[0], "missed") == count);
  CHECK(rig.Attribute("stacks.left_out") == count + " threads ran, " + count + " threads went on meanwhile");
}

TEST_CASE("a stack that cannot be unwound is counted", "[stacks]") {
  Rig rig;
  rig.Write(1, kInRecv);
  rig.play.frames.clear();
  REQUIRE(rig.Start().ok());
  rig.BeLate(1);
  CHECK(rig.Attribute("stacks.left_out").find("stacks could not be unwound") != std::string::npos);
}

TEST_CASE("stacks are bounded in number, threads and CPU time", "[stacks]") {
  Rig rig;
  const std::string what = GENERATE("stacks", "threads", "CPU time");
  INFO(what);
  for (int64_t tid = 1; tid <= 4; ++tid) rig.Write(tid, kInRecv);
  if (what == "stacks") rig.options.most_stacks = 3;
  if (what == "threads") rig.options.most_threads = 3;
  if (what == "CPU time") rig.play.cpu_of_unwinding_ns = 20 * kMs;
  REQUIRE(rig.Start().ok());

  rig.BeLate(4);

  uint32_t taken = 0;
  for (const auto& stack : rig.Stacks()) taken += Arg(stack, "tid") != "0";
  CHECK(taken == 3);
  CHECK(rig.Attribute("stacks.left_out") == "1 stacks were beyond the budget");
}

TEST_CASE("without permission or a library there are no stacks, and the incident says why", "[stacks]") {
  Rig rig;
  if (GENERATE(true, false)) {
    std::filesystem::create_directories(rig.FolderOf(1) + "/syscall");  // reading a folder fails
    REQUIRE(rig.Start().ok());
    rig.BeLate(1);
    CHECK(rig.Attribute("stacks.not_recorded") == "cannot read /proc/self/task/*/syscall: Is a directory");
  } else {
    rig.why_not = "cannot load libdw";
    REQUIRE(rig.Start().ok());
    CHECK(rig.Attribute("stacks.not_recorded") == "cannot load libdw");
  }
  CHECK(rig.Stacks().empty());
}

TEST_CASE("a thread that runs while a request is late has samples of its stack recorded", "[stacks]") {
  Rig rig;
  rig.has_sampler = true;
  rig.Write(1, "running\n");
  const std::vector<uint64_t> stack(100, 7);
  rig.kernel->first = {fakes::SampleRecord(1, kStartNs + 50 * kMs, stack, 800),
                       fakes::SampleRecord(1, kStartNs + 50 * kMs, stack, 0)};
  REQUIRE(rig.Start().ok());

  rig.BeLate(1, 15 * kMs);

  const auto stacks = rig.Stacks();
  REQUIRE(stacks.size() == 2);
  CHECK(Arg(stacks[0], "tid") == "1");
  CHECK(Arg(stacks[0], "call").empty());
  CHECK(Arg(stacks[0], "own") == std::to_string(0x300));
  CHECK(Arg(stacks[0], "frame") == "Tokenize (server)");
  CHECK(Arg(stacks[0], "caller") == "Encode (server)");
  CHECK(Arg(stacks[0], "its_caller") == "Serve (server)");
  CHECK(Arg(stacks[1], "missed") == "1");  // at the end: the one that could not be unwound
  CHECK(rig.Attribute("stacks.left_out") == "1 stacks could not be unwound");
  CHECK(rig.kernel->opened == 1);
  CHECK(rig.kernel->Sampled() == 0);  // nothing is late any more
}

TEST_CASE("samples that come at the end of the lateness are recorded, old ones are counted", "[stacks]") {
  Rig rig;
  rig.has_sampler = true;
  rig.Write(1, "running\n");
  const std::vector<uint64_t> stack(100, 7);
  rig.kernel->first = {fakes::SampleRecord(1, kStartNs + 50 * kMs, stack, 800),
                       fakes::SampleRecord(1, kStartNs - 200 * kMs, stack, 800)};
  REQUIRE(rig.Start().ok());

  rig.BeLate(1);

  CHECK(rig.play.samples == 1);
  CHECK(rig.Attribute("stacks.left_out") == "1 stacks came too late");
}

TEST_CASE("samples end with the thread's work, the budget and the collector", "[stacks]") {
  Rig rig;
  rig.has_sampler = true;
  const std::string how = GENERATE("work", "budget", "collector");
  INFO(how);
  if (how == "budget") rig.options.most_stacks = 1;
  rig.Write(1, "running\n");
  rig.Write(2, how == "budget" ? kInRecv : "running\n");
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->AwaitIdle());
  Play::late = how == "budget" ? 1 : 2;
  REQUIRE(rig.timer->Pass(50 * kMs));
  REQUIRE(rig.kernel->Sampled() == Play::late);

  if (how == "collector") {
    rig.collector->Stop();
    CHECK(rig.kernel->Sampled() == 0);
    return;
  }
  Play::late = how == "budget" ? 2 : 1;
  REQUIRE(rig.timer->Pass(50 * kMs));
  CHECK(rig.kernel->Sampled() == (how == "budget" ? 0 : 1));
}

TEST_CASE("a system that refuses samples is asked once, and the incident says so", "[stacks]") {
  Rig rig;
  rig.has_sampler = true;
  const bool is_filtered = GENERATE(false, true);
  if (is_filtered)
    rig.kernel->is_filtered = true;
  else
    rig.kernel->open_error = EACCES;
  rig.Write(1, "running\n");
  rig.Write(2, kInRecv);
  REQUIRE(rig.Start().ok());

  rig.BeLate(2, 100 * kMs);

  CHECK(rig.kernel->opened == (is_filtered ? 0 : 1));
  CHECK(rig.Attribute("stacks.not_recorded") ==
        (is_filtered ? "of running threads: a seccomp filter is in force, and may end the process at perf_event_open"
                     : "of running threads: perf_event_open: Permission denied"));
  CHECK(rig.Attribute("stacks.left_out").find(" threads ran") != std::string::npos);
  CHECK(!rig.Stacks().empty());  // of the thread that sleeps
}

TEST_CASE("running threads without room are counted, and tried again", "[stacks]") {
  Rig rig;
  rig.has_sampler = true;
  rig.kernel->open_error = EMFILE;
  rig.Write(1, "running\n");
  REQUIRE(rig.Start().ok());

  rig.BeLate(1, 45 * kMs);

  CHECK(rig.kernel->opened > 1);
  CHECK(rig.Attribute("stacks.left_out") ==
        std::to_string(rig.kernel->opened) +
            " running threads were beyond the limit of descriptors, locked memory or 16");
  CHECK(rig.Attribute("stacks.not_recorded").empty());
}

TEST_CASE("wrong options and a second collector are refused", "[stacks]") {
  Rig rig, wrong, second;
  REQUIRE(rig.Start().ok());
  CHECK(second.Start().code() == StatusCode::kAlreadyRunning);
  wrong.options.most_stacks = 0;
  CHECK(wrong.Start().message() == std::string("StackOptions::most_stacks is 0; it must be 1 to 1024"));
  wrong.options = {};
  wrong.options.most_threads = 65;
  CHECK(wrong.Start().code() == StatusCode::kInvalidArgument);
  wrong.options = {};
  wrong.options.running_threads = static_cast<pitot::RunningThreads>(3);
  CHECK(wrong.Start().message() == std::string("StackOptions::running_threads is 3; it must be 0 to 2"));
}
