// SPDX-License-Identifier: Apache-2.0
#include "collect/stacks/traced.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/columns.h"
#include "base/text.h"
#include "collect/stacks/unwinder.h"

namespace pitot::stacks {
namespace {

#if defined(__x86_64__)

constexpr int64_t kCopyingNs = 1'500'000'000;         // then no further thread is begun
constexpr std::chrono::milliseconds kPatience(2000);  // for all of it
constexpr int64_t kStopNs = 100'000'000;              // a thread that runs stops within some us
constexpr size_t kPageBytes = 4 << 10, kPages = 16;
constexpr int kDidNotStop = -1, kIsGone = -2;  // instead of a signal

// Whether a traced thread has stopped: the signal that it must still get, or 0. Its end stays for its parent, which may
// be this process.
int StopOf(pid_t tid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(tid), &info, WSTOPPED | WNOHANG | __WALL | __WNOTHREAD) != 0) return kIsGone;
  if (info.si_pid != tid) return kDidNotStop;
  return info.si_status >> 8 == PTRACE_EVENT_STOP ? 0 : info.si_status & 0xff;
}

int AwaitStop(pid_t tid) {
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + kStopNs;
  for (;;) {
    const int signal = StopOf(tid);
    if (signal != kDidNotStop || base::ClockNs(CLOCK_MONOTONIC) > until_ns) return signal;
    const timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
}

void Detach(pid_t tid, int signal) {
  ptrace(PTRACE_DETACH, tid, nullptr, reinterpret_cast<void*>(static_cast<intptr_t>(signal)));
}

// Threads that did not stop in time. They may stop later, and then must go on at once.
class LateThreads {
 public:
  void Add(pid_t tid) { tids_.push_back(tid); }
  void LetGo() {
    std::erase_if(tids_, [](pid_t tid) {
      const int signal = StopOf(tid);
      if (signal >= 0) Detach(tid, signal);
      return signal != kDidNotStop;
    });
  }

 private:
  std::vector<pid_t> tids_;
};

bool CopyRegisters(pid_t tid, Sample* sample) {
  user_regs_struct has{};
  iovec to{&has, sizeof has};
  if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &to) != 0) return false;
  const uint64_t in_order[] = {has.rax, has.rdx, has.rcx, has.rbx, has.rsi, has.rdi, has.rbp, has.rsp,
                               has.r8,  has.r9,  has.r10, has.r11, has.r12, has.r13, has.r14, has.r15};
  static_assert(std::size(in_order) == Sample::kRegisters);
  std::copy(std::begin(in_order), std::end(in_order), sample->registers);
  sample->instruction = has.rip;
  return true;
}

// By pages: those behind the stack's end are not there.
bool CopyMemory(pid_t tid, Sample* sample) {
  sample->stack.resize(kPages * kPageBytes);
  const uint64_t begin = sample->registers[Sample::kStackPointer];
  const uint64_t first = kPageBytes - begin % kPageBytes;
  iovec from[kPages];
  for (size_t i = 0; i < kPages; ++i) {
    const uint64_t at = i == 0 ? begin : begin + first + (i - 1) * kPageBytes;
    from[i] = {reinterpret_cast<void*>(at), i == 0 ? first : kPageBytes};
  }
  const iovec to{sample->stack.data(), sample->stack.size()};
  const ssize_t copied = process_vm_readv(tid, &to, 1, from, kPages, 0);
  sample->stack.resize(copied > 0 ? static_cast<size_t>(copied) : 0);
  return copied > 0;
}

// Why threads have no stack, and how many.
struct NotCopied {
  size_t not_stopped = 0, unreadable = 0, beyond = 0;
  int error = 0;  // of the first one that could not be traced or read
  std::string Text() const {
    std::string text;
    const auto add = [&text](size_t count, const std::string& why) {
      if (count != 0) text += (text.empty() ? "stacks: " : ", ") + base::Plural(count, "thread") + " " + why;
    };
    if (error == EPERM)
      return "stacks: ptrace is not allowed here, or another tracer has the process (allowed: root, CAP_SYS_PTRACE, "
             "the "
             "parent by `pitot run`)";
    add(not_stopped, "did not stop within 0.1 s");
    add(unreadable, "could not be read: " + base::SystemText(error));
    add(beyond, "beyond 256 or 1.5 s");
    return text;
  }
};

// False: it has no stack.
bool CopyThread(pid_t tid, Sample* sample, LateThreads* late, NotCopied* missing) {
  const auto fail = [missing](int error) {
    if (error == ESRCH) return false;  // it has ended
    ++missing->unreadable;
    if (missing->error == 0) missing->error = error;
    return false;
  };
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return fail(errno);
  const bool is_asked = ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0;
  const int signal = is_asked ? AwaitStop(tid) : kDidNotStop;
  if (signal == kIsGone) return false;
  if (signal == kDidNotStop) {
    ++missing->not_stopped;
    late->Add(tid);  // and the end of the calling thread lets it go
    return false;
  }
  sample->tid = tid;
  const bool is_copied = CopyRegisters(tid, sample) && CopyMemory(tid, sample);
  const int error = errno;
  Detach(tid, signal);
  return is_copied || fail(error);
}

CopiedStacks CopyAll(const std::vector<int64_t>& tids) {
  CopiedStacks stacks;
  NotCopied missing;
  LateThreads late;
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + kCopyingNs;
  for (size_t i = 0; i < tids.size() && missing.error != EPERM; ++i) {
    if (i >= CopiedStacks::kMost || base::ClockNs(CLOCK_MONOTONIC) >= until_ns) {
      missing.beyond = tids.size() - i;
      break;
    }
    Sample sample;
    if (CopyThread(static_cast<pid_t>(tids[i]), &sample, &late, &missing)) stacks.samples.push_back(std::move(sample));
    late.LetGo();
  }
  stacks.problem = missing.Text();
  return stacks;
}

// The asking thread may outlive the question, and this with it.
struct Answer {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_there = false;
  CopiedStacks stacks;
  std::exception_ptr failure;
};

#endif

}  // namespace

#if defined(__x86_64__)

CopiedStacks CopyStacks(std::vector<int64_t> tids) {
  static std::atomic<bool> is_stuck{false};
  if (is_stuck) return {{}, "stacks: an earlier question to the kernel has no answer yet"};
  const auto answer = std::make_shared<Answer>();
  std::thread asking([answer, tids = std::move(tids)] {
    CopiedStacks stacks;
    std::exception_ptr failure;
    try {
      stacks = CopyAll(tids);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(answer->mutex);
    answer->stacks = std::move(stacks);
    answer->failure = failure;
    answer->is_there = true;
    answer->changed.notify_one();
  });
  std::unique_lock lock(answer->mutex);
  if (!answer->changed.wait_for(lock, kPatience, [&answer] { return answer->is_there; })) {
    is_stuck = true;
    asking.detach();
    return {{}, "stacks: the kernel did not answer within 2 s"};
  }
  lock.unlock();
  asking.join();
  if (answer->failure) std::rethrow_exception(answer->failure);
  return std::move(answer->stacks);
}

#else

CopiedStacks CopyStacks(std::vector<int64_t>) { return {{}, "stacks of machine code are read on x86-64 only"}; }

#endif

std::string UnwindStacks(pid_t pid, std::span<const Sample> samples,
                         const std::function<void(int64_t tid, const std::vector<std::string>& frames)>& tell) {
  std::string why_not;
  const std::unique_ptr<Unwinder> unwinder = OpenUnwinderOf(pid, StackDepth::kWhole, &why_not);
  if (unwinder == nullptr) return "stacks: " + why_not;
  for (const Sample& sample : samples) {
    std::vector<std::string> frames;
    for (Frame& frame : unwinder->UnwindSample(sample)) frames.push_back(std::move(frame.text));
    tell(sample.tid, frames);
  }
  return "";
}

}  // namespace pitot::stacks
