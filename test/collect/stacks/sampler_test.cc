// SPDX-License-Identifier: Apache-2.0
//
// Samples of running threads: with a kernel of the test, and with the system's on real threads.
#include "collect/stacks/sampler.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collect/stacks/collector.h"
#include "collect/stacks/fake_kernel.h"
#include "collect/stacks/unwinder.h"
#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"

using pitot::RunningThreads;
using pitot::stacks::Frame;
using pitot::stacks::NextSample;
using pitot::stacks::Sample;
using pitot::stacks::Sampler;

namespace busy {

std::atomic<bool> g_stop{false};

// Most of its time is its own. Work after the calls keeps these frames on the stack.
[[gnu::noinline]] uint64_t Tokenize(uint64_t seed) {
  while (!g_stop.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 10'000; ++i) seed = seed * 6364136223846793005u + 1442695040888963407u;
  }
  return seed;
}
[[gnu::noinline]] uint64_t Encode(uint64_t seed) { return Tokenize(seed) + 1; }
[[gnu::noinline]] uint64_t HandleRequest() { return Encode(7) + 1; }

}  // namespace busy

namespace {

// A thread at work until the end of this object.
class Worker {
 public:
  Worker()
      : thread_([this] {
          tid_ = gettid();
          busy::HandleRequest();
        }) {
    while (tid_ == 0) std::this_thread::yield();
  }
  ~Worker() { End(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void End() {
    busy::g_stop = true;
    if (thread_.joinable()) thread_.join();
    busy::g_stop = false;
  }
  int64_t tid() const { return tid_; }

 private:
  std::atomic<int64_t> tid_{0};
  std::thread thread_;
};

// Whether the system samples threads; says why if not.
bool IsAllowed() {
  const std::string why_not = pitot::stacks::WhyNoSamples(pitot::stacks::SystemKernel());
  if (!why_not.empty()) WARN("left out: " << why_not);
  return why_not.empty();
}

Sampler SystemSampler() { return {pitot::stacks::SystemKernel(), RunningThreads::kUnlessFiltered}; }

size_t FilesOpen() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Mappings of rings in this process.
size_t RingsMapped() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("[perf_event]") != std::string::npos;
  return count;
}

// A filter that kills the process at perf_event_open, as some service managers set it. False: it cannot be set.
bool KillAtPerfEventOpen() {
  sock_filter instructions[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, instructions};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct FakeRig {
  std::shared_ptr<fakes::KernelPlay> play = std::make_shared<fakes::KernelPlay>();
  Sampler sampler{std::make_unique<fakes::FakeKernel>(play), RunningThreads::kUnlessFiltered};
};

constexpr int64_t kThread = 5;
const std::vector<uint64_t> kStack = {11, 12, 13, 14};

}  // namespace

TEST_CASE("a sample has the thread's registers, its time and the valid part of its stack", "[stacks]") {
  FakeRig rig;
  REQUIRE(rig.sampler.Begin(kThread) == Sampler::Begun::kYes);
  REQUIRE(rig.play->Add(kThread, fakes::SampleRecord(kThread, 99, kStack, 24)));

  Sample sample;
  REQUIRE(rig.sampler.Take(&sample));

  CHECK(sample.tid == kThread);
  CHECK(sample.at_ns == 99);
  CHECK(sample.instruction == 108);
  CHECK(sample.registers[Sample::kStackPointer] == 107);
  const uint64_t by_dwarf[] = {100, 103, 102, 101, 104, 105, 106, 107, 109, 110, 111, 112, 113, 114, 115, 116};
  for (uint32_t i = 0; i < Sample::kRegisters; ++i) CHECK(sample.registers[i] == by_dwarf[i]);
  REQUIRE(sample.stack.size() == 24);
  CHECK(sample.stack[8] == 12);
  CHECK(!rig.sampler.Take(&sample));
}

TEST_CASE("threads take turns, though one has its next sample at once", "[stacks]") {
  FakeRig rig;
  std::vector<int64_t> taken;
  for (const int64_t tid : {5, 6, 7}) {
    REQUIRE(rig.sampler.Begin(tid) == Sampler::Begun::kYes);
    REQUIRE(rig.play->Add(tid, fakes::SampleRecord(static_cast<uint32_t>(tid), 99, kStack, 24)));
  }
  for (int i = 0; i < 3; ++i) {
    Sample sample;
    REQUIRE(rig.sampler.Take(&sample));
    taken.push_back(sample.tid);
    REQUIRE(rig.play->Add(sample.tid, fakes::SampleRecord(static_cast<uint32_t>(sample.tid), 99, kStack, 24)));
  }
  CHECK(taken == std::vector<int64_t>{5, 6, 7});
}

TEST_CASE("samples go on over the end of the ring", "[stacks]") {
  FakeRig rig;
  REQUIRE(rig.sampler.Begin(kThread) == Sampler::Begun::kYes);
  const std::vector<uint64_t> stack(700, 21);
  for (int64_t i = 1; i <= 20; ++i) {
    REQUIRE(rig.play->Add(kThread, fakes::SampleRecord(kThread, i, stack, 5600)));
    Sample sample;
    REQUIRE(rig.sampler.Take(&sample));
    CHECK(sample.at_ns == i);
    REQUIRE(sample.stack.size() == 5600);
    CHECK(sample.stack[5592] == 21);
  }
}

TEST_CASE("other records are stepped over, and samples without a stack keep their thread", "[stacks]") {
  FakeRig rig;
  REQUIRE(rig.sampler.Begin(kThread) == Sampler::Begun::kYes);
  REQUIRE(rig.play->Add(kThread, fakes::RecordBytes(PERF_RECORD_LOST).Put(uint64_t{1}).Put(uint64_t{7})));
  REQUIRE(rig.play->Add(kThread, fakes::SampleRecord(kThread, 1, {}, 0)));
  fakes::RecordBytes without_registers(PERF_RECORD_SAMPLE);
  without_registers.Put(uint32_t{1}).Put(uint32_t{kThread}).Put(int64_t{2}).Put(uint64_t{PERF_SAMPLE_REGS_ABI_NONE});
  REQUIRE(rig.play->Add(kThread, without_registers.Put(uint64_t{0})));

  Sample sample;
  for (int64_t i = 1; i <= 2; ++i) {
    REQUIRE(rig.sampler.Take(&sample));
    CHECK(sample.tid == kThread);
    CHECK(sample.at_ns == i);
    CHECK(sample.stack.empty());
  }
  CHECK(!rig.sampler.Take(&sample));
}

TEST_CASE("a record that is cut off or impossible ends the search", "[stacks]") {
  std::vector<uint8_t> ring(64);
  const auto read = [&](perf_event_header header, uint64_t head) {
    memcpy(ring.data(), &header, sizeof header);
    uint64_t tail = 0;
    Sample sample;
    CHECK(!NextSample({ring.data(), ring.size()}, head, &tail, &sample));
    CHECK(tail == head);
  };
  read({PERF_RECORD_SAMPLE, 0, 0}, 16);    // its size is less than its header
  read({PERF_RECORD_SAMPLE, 0, 32}, 16);   // it goes on beyond the head
  read({PERF_RECORD_SAMPLE, 0, 16}, 4);    // not even a header
  read({PERF_RECORD_SAMPLE, 0, 16}, 128);  // more than the ring holds
}

TEST_CASE("refusals of the kernel are final, and limits are not", "[stacks]") {
  FakeRig rig;
  const int error = GENERATE(EACCES, EPERM, ENOSYS, EINVAL);
  rig.play->open_error = EMFILE;
  CHECK(rig.sampler.Begin(1) == Sampler::Begun::kNoRoom);
  rig.play->open_error = ESRCH;
  CHECK(rig.sampler.Begin(1) == Sampler::Begun::kHasEnded);
  rig.play->open_error = 0;
  rig.play->map_error = EPERM;
  CHECK(rig.sampler.Begin(1) == Sampler::Begun::kNoRoom);
  CHECK(rig.play->files.empty());
  rig.play->map_error = 0;
  CHECK(rig.sampler.Begin(1) == Sampler::Begun::kYes);
  CHECK(rig.sampler.why_not().empty());
  rig.play->open_error = error;
  CHECK(rig.sampler.Begin(2) == Sampler::Begun::kRefused);
  CHECK(rig.sampler.why_not() == std::string("perf_event_open: ") + strerror(error));
  const int opened = rig.play->opened;
  CHECK(rig.sampler.Begin(3) == Sampler::Begun::kRefused);
  CHECK(rig.play->opened == opened);
}

TEST_CASE("under a seccomp filter the kernel is asked only if the host says so", "[stacks]") {
  FakeRig rig;
  rig.play->is_filtered = true;
  Sampler always(std::make_unique<fakes::FakeKernel>(rig.play), RunningThreads::kAlways);

  CHECK(rig.sampler.Begin(1) == Sampler::Begun::kRefused);
  CHECK(rig.play->opened == 0);
  CHECK(rig.sampler.why_not().find("seccomp") != std::string::npos);
  CHECK(always.Begin(1) == Sampler::Begun::kYes);
}

TEST_CASE("a filter that kills at the call does not kill a server that did not ask for it", "[stacks]") {
  const RunningThreads allowed = GENERATE(RunningThreads::kUnlessFiltered, RunningThreads::kAlways);
  const pid_t child = fork();
  if (child == 0) {
    if (!KillAtPerfEventOpen()) _exit(2);
    Sampler sampler(pitot::stacks::SystemKernel(), allowed);
    _exit(sampler.Begin(gettid()) == Sampler::Begun::kRefused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    WARN("left out: no seccomp filter can be set here");
    return;
  }

  if (allowed == RunningThreads::kAlways) {
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGSYS);
  } else {
    CHECK(status == 0);
  }
}

TEST_CASE("threads are bounded, opened once, and ended by name", "[stacks]") {
  FakeRig rig;
  for (int64_t tid = 1; tid <= static_cast<int64_t>(Sampler::kMostThreads); ++tid)
    REQUIRE(rig.sampler.Begin(tid) == Sampler::Begun::kYes);
  CHECK(rig.sampler.Begin(1) == Sampler::Begun::kYes);
  CHECK(rig.sampler.Begin(100) == Sampler::Begun::kNoRoom);
  CHECK(rig.play->opened == static_cast<int>(Sampler::kMostThreads));
  CHECK(rig.play->files.empty());

  const int64_t keep[] = {3, 5, 100};
  rig.sampler.EndAllBut(keep, 3);
  CHECK(rig.play->Sampled() == 2);
  CHECK(rig.sampler.Begin(100) == Sampler::Begun::kYes);
  rig.sampler.EndAllBut(nullptr, 0);
  CHECK(rig.play->Sampled() == 0);
}

TEST_CASE("the kernel samples a running thread in its own function", "[stacks]") {
  if (!IsAllowed()) return;
  std::string why_not;
  const auto unwinder = pitot::stacks::OpenUnwinder(&why_not);
  Worker worker;
  Sampler sampler = SystemSampler();
  const size_t files = FilesOpen();
  REQUIRE(sampler.Begin(worker.tid()) == Sampler::Begun::kYes);
  CHECK(FilesOpen() == files);

  for (int i = 0; i < 3; ++i) {
    const int64_t from_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
    Sample sample;
    const auto is_within = [&] {
      const std::vector<Frame> frames = unwinder->UnwindSample(sample);
      return frames.size() == 3 && frames[0].text == "busy::Tokenize (stacks_test)" &&
             frames[1].text == "busy::Encode (stacks_test)" && frames[2].text == "busy::HandleRequest (stacks_test)";
    };
    REQUIRE(fakes::WaitUntil(
        [&] { return sampler.Take(&sample) && sample.at_ns >= from_ns && (unwinder == nullptr || is_within()); }));
    CHECK(sample.tid == worker.tid());
    CHECK(sample.at_ns <= pitot::base::ClockNs(CLOCK_MONOTONIC));
  }
}

TEST_CASE("a thread that ends while it is sampled leaves its samples and harms nothing", "[stacks]") {
  if (!IsAllowed()) return;
  Worker worker;
  Sampler sampler = SystemSampler();
  REQUIRE(sampler.Begin(worker.tid()) == Sampler::Begun::kYes);
  Sample sample;
  REQUIRE(fakes::WaitUntil([&] { return sampler.Take(&sample); }));
  worker.End();

  while (sampler.Take(&sample)) CHECK(sample.tid == worker.tid());
  sampler.EndAllBut(nullptr, 0);

  CHECK(RingsMapped() == 0);
  CHECK(sampler.Begin(worker.tid()) == Sampler::Begun::kHasEnded);
}

TEST_CASE("the child of a fork has no ring and no descriptor, and its end leaves the parent's", "[stacks]") {
  if (!IsAllowed()) return;
  Worker worker;
  const size_t files = FilesOpen();
  auto sampler = std::make_unique<Sampler>(pitot::stacks::SystemKernel(), RunningThreads::kUnlessFiltered);
  REQUIRE(sampler->Begin(worker.tid()) == Sampler::Begun::kYes);
  CHECK(RingsMapped() == 1);

  const pid_t child = fork();
  if (child == 0) {
    const bool is_clean = RingsMapped() == 0 && FilesOpen() == files;
    sampler.reset();
    _exit(is_clean ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);

  CHECK(status == 0);
  Sample sample;
  CHECK(fakes::WaitUntil([&] { return sampler->Take(&sample); }));
  sampler.reset();
  CHECK(RingsMapped() == 0);
}

TEST_CASE("a collector on the system names the function of a busy thread, and its Stop leaves nothing", "[stacks]") {
  std::string why_not;
  if (!IsAllowed() || pitot::stacks::OpenUnwinder(&why_not) == nullptr) return;
  Worker worker;
  static std::atomic<int64_t> late_tid{0};
  late_tid = worker.tid();
  fakes::Recording recording;
  pitot::stacks::Environment environment = pitot::stacks::SystemEnvironment(RunningThreads::kUnlessFiltered);
  environment.find_late = [](int64_t* tids, uint32_t /*most*/) noexcept -> uint32_t {
    tids[0] = late_tid;
    return 1;
  };
  const auto collector = pitot::stacks::MakeCollector({}, std::move(environment));
  REQUIRE(collector->Start().ok());

  CHECK(fakes::WaitUntil([&] {
    for (const auto& stack : fakes::EventsNamed(recording.Trace(), "stack")) {
      for (const auto& [name, value] : stack.args) {
        if (name == "frame" && value == "busy::Tokenize (stacks_test)") return true;
      }
    }
    return false;
  }));
  CHECK(RingsMapped() == 1);
  collector->Stop();
  CHECK(RingsMapped() == 0);
}
