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
#include <exception>
#include <iterator>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "collect/stacks/perf_records.h"
#include "collect/stacks/unwinder.h"

namespace pitot::stacks {
namespace {

constexpr size_t kMostTraced = 256;
constexpr int64_t kMostTracingNs = 2'000'000'000;
constexpr int64_t kStopNs = 20'000'000;  // a thread that runs stops within some us
constexpr size_t kPageBytes = 4 << 10, kPages = 16;

#if defined(__x86_64__)

// Waits until a traced thread has stopped. Returns the signal that it must still get, or 0; -1: it does not stop.
int AwaitStop(pid_t tid) {
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + kStopNs;
  for (;;) {
    int status = 0;
    const pid_t stopped = waitpid(tid, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (stopped == tid && WIFSTOPPED(status)) return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    if (stopped != 0 || base::ClockNs(CLOCK_MONOTONIC) > until_ns) return -1;
    const timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
}

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
void CopyStack(pid_t tid, Sample* sample) {
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
}

// Returns 0, or errno.
int CopyThread(pid_t tid, Sample* sample) {
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return errno;
  const bool is_asked = ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0;
  const int signal = is_asked ? AwaitStop(tid) : -1;
  if (signal < 0) return EBUSY;  // the end of the calling thread lets it go
  sample->tid = tid;
  if (CopyRegisters(tid, sample)) CopyStack(tid, sample);
  ptrace(PTRACE_DETACH, tid, nullptr, reinterpret_cast<void*>(static_cast<intptr_t>(signal)));
  return sample->stack.empty() ? EFAULT : 0;
}

std::string ProblemOf(int error) {
  if (error == EPERM)
    return "stacks: ptrace is not allowed here (run as root, with CAP_SYS_PTRACE, or the server by `pitot run`)";
  return std::string("stacks: ") + std::generic_category().message(error);
}

void Read(pid_t pid, std::span<const int64_t> tids, TracedStacks* stacks) {
  const std::unique_ptr<Unwinder> unwinder = OpenUnwinderOf(pid, StackDepth::kWhole, &stacks->problem);
  if (unwinder == nullptr) return;
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + kMostTracingNs;
  size_t done = 0;
  for (; done < std::min(tids.size(), kMostTraced) && base::ClockNs(CLOCK_MONOTONIC) < until_ns; ++done) {
    Sample sample;
    const int error = CopyThread(static_cast<pid_t>(tids[done]), &sample);
    if (error == ESRCH) continue;  // it has ended
    if (error != 0) stacks->problem = ProblemOf(error);
    if (error == EPERM) return;
    if (error != 0) continue;
    std::vector<std::string>& frames = stacks->frames[tids[done]];
    for (Frame& frame : unwinder->UnwindSample(sample)) frames.push_back(std::move(frame.text));
  }
  if (done < tids.size())
    stacks->problem = "stacks of " + std::to_string(tids.size() - done) + " threads: they are beyond 2 s or 256";
}

#else

void Read(pid_t pid, std::span<const int64_t>, TracedStacks* stacks) {
  OpenUnwinderOf(pid, StackDepth::kWhole, &stacks->problem);
}

#endif

}  // namespace

TracedStacks ReadStacks(pid_t pid, std::span<const int64_t> tids) {
  TracedStacks stacks;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      Read(pid, tids, &stacks);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return stacks;
}

}  // namespace pitot::stacks
