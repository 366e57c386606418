// SPDX-License-Identifier: Apache-2.0
#include "collect/stacks/sampler.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace pitot::stacks {

namespace {

class LinuxKernel final : public Kernel {
 public:
  bool IsFiltered() override {
    const int mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    return mode > 0 || (mode < 0 && errno != EINVAL);  // EINVAL: a kernel without filters
  }
  int Open(const perf_event_attr& attributes, int64_t tid) override {
    constexpr int kAnyCpu = -1, kNoGroup = -1;
    const long file = syscall(SYS_perf_event_open, &attributes, tid, kAnyCpu, kNoGroup, PERF_FLAG_FD_CLOEXEC);
    return file >= 0 ? static_cast<int>(file) : -errno;
  }
  int Map(int file, size_t bytes, void** ring) override {
    pid_ = getpid();
    *ring = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return *ring != MAP_FAILED ? 0 : -errno;
  }
  // The kernel gives such a mapping to no child: there this address may be another's.
  void Unmap(void* ring, size_t bytes) override {
    if (getpid() == pid_) munmap(ring, bytes);
  }
  void Close(int file) override { close(file); }

 private:
  pid_t pid_ = 0;  // of the process that mapped last
};

// The kernel writes `data_head` after the records before it; we `data_tail`, after we have read them.
uint64_t Acquire(const void* ring) {
  return __atomic_load_n(&static_cast<const perf_event_mmap_page*>(ring)->data_head, __ATOMIC_ACQUIRE);
}
void Release(void* ring, uint64_t tail) {
  __atomic_store_n(&static_cast<perf_event_mmap_page*>(ring)->data_tail, tail, __ATOMIC_RELEASE);
}

}  // namespace

std::unique_ptr<Kernel> SystemKernel() { return std::make_unique<LinuxKernel>(); }

Sampler::Begun Sampler::Refuse(std::string why_not) {
  why_not_ = std::move(why_not);
  return Begun::kRefused;
}

Sampler::Begun Sampler::Begin(int64_t tid) {
  if (!why_not_.empty()) return Begun::kRefused;
  if (rings_.count(tid) != 0) return Begun::kYes;
  if (rings_.size() >= kMostThreads) return Begun::kNoRoom;
  if (allowed_ != RunningThreads::kAlways && kernel_->IsFiltered())
    return Refuse("a seccomp filter is in force, and may end the process at perf_event_open");
  const int file = kernel_->Open(SampleAttributes(), tid);
  if (file == -ESRCH) return Begun::kHasEnded;
  if (file == -EMFILE || file == -ENFILE || file == -ENOMEM) return Begun::kNoRoom;
  if (file < 0) return Refuse(std::string("perf_event_open: ") + strerror(-file));
  void* ring = nullptr;
  const int error = kernel_->Map(file, kRingBytes, &ring);
  kernel_->Close(file);
  if (error != 0) return Begun::kNoRoom;
  try {
    rings_.emplace(tid, ring);
  } catch (...) {
    kernel_->Unmap(ring, kRingBytes);
    throw;
  }
  return Begun::kYes;
}

// After a thread the others have their turn: its ring may be full again at once.
bool Sampler::Take(Sample* sample) {
  auto at = rings_.upper_bound(last_tid_);
  for (size_t i = 0; i < rings_.size(); ++i, ++at) {
    if (at == rings_.end()) at = rings_.begin();
    void* const ring = at->second;
    last_tid_ = at->first;
    const RecordRing records{static_cast<const uint8_t*>(ring) + kHeadBytes, kDataBytes};
    uint64_t tail = static_cast<const perf_event_mmap_page*>(ring)->data_tail;
    const uint64_t head = Acquire(ring);
    if (tail == head) continue;
    const bool is_taken = NextSample(records, head, &tail, sample);
    Release(ring, tail);
    if (is_taken) return true;
  }
  return false;
}

void Sampler::EndAllBut(const int64_t* tids, uint32_t count) {
  for (auto at = rings_.begin(); at != rings_.end();) {
    if (std::find(tids, tids + count, at->first) != tids + count) {
      ++at;
      continue;
    }
    kernel_->Unmap(at->second, kRingBytes);
    at = rings_.erase(at);
  }
}

std::string WhyNoSamples(std::unique_ptr<Kernel> kernel) {
  Sampler sampler(std::move(kernel), RunningThreads::kUnlessFiltered);
  switch (sampler.Begin(gettid())) {
    case Sampler::Begun::kYes:
    case Sampler::Begun::kHasEnded:
      return "";
    case Sampler::Begun::kNoRoom:
      return "too few file descriptors (RLIMIT_NOFILE) or too little locked memory (kernel.perf_event_mlock_kb)";
    case Sampler::Begun::kRefused:
      break;
  }
  return sampler.why_not();
}

}  // namespace pitot::stacks
