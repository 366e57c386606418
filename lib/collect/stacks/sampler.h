// SPDX-License-Identifier: Apache-2.0
//
// Samples of running threads, by the kernel's software clock (perf_event_open(2)). No signal is sent and no thread
// waits: the kernel's timer copies registers and a part of the stack into a ring. The ring has room for one sample, so
// there is one for each look. Its mapping keeps the event: no file descriptor stays open, and the child of a fork has
// neither.
#ifndef PITOT_LIB_COLLECT_STACKS_SAMPLER_H_
#define PITOT_LIB_COLLECT_STACKS_SAMPLER_H_

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "collect/stacks/perf_records.h"
#include "pitot/collect/stacks.h"

namespace pitot::stacks {

// The seam to the kernel. Errors are negative numbers of errno.h.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Whether calls of this thread are filtered (seccomp). A filter may end the process at a call that it forbids.
  virtual bool IsFiltered() = 0;
  virtual int Open(const perf_event_attr& attributes, int64_t tid) = 0;
  virtual int Map(int file, size_t bytes, void** ring) = 0;
  virtual void Unmap(void* ring, size_t bytes) = 0;
  virtual void Close(int file) = 0;
};
std::unique_ptr<Kernel> SystemKernel();

// Used by one thread.
class Sampler {
 public:
  static constexpr size_t kMostThreads = 16;
  static constexpr size_t kHeadBytes = 4 << 10, kDataBytes = 16 << 10;
  static constexpr size_t kRingBytes = kHeadBytes + kDataBytes;

  // kNever counts as kUnlessFiltered.
  Sampler(std::unique_ptr<Kernel> kernel, RunningThreads allowed) : kernel_(std::move(kernel)), allowed_(allowed) {}
  ~Sampler() { EndAllBut(nullptr, 0); }
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  enum class Begun : uint8_t {
    kYes,       // or it had been before
    kHasEnded,  // the thread
    kNoRoom,    // there are kMostThreads, or too few descriptors or too little locked memory
    kRefused,   // not allowed here: why_not
  };
  // Samples a thread from now on. Throws bad_alloc.
  Begun Begin(int64_t tid);
  // Takes a sample; false: there is none. Threads take turns. Throws bad_alloc.
  bool Take(Sample* sample);
  void EndAllBut(const int64_t* tids, uint32_t count);
  const std::string& why_not() const { return why_not_; }

 private:
  Begun Refuse(std::string why_not);

  const std::unique_ptr<Kernel> kernel_;
  const RunningThreads allowed_;
  std::map<int64_t, void*> rings_;  // by thread
  int64_t last_tid_ = 0;            // that Take looked at
  std::string why_not_;
};

// Why running threads cannot be sampled; "": they can. Samples the calling thread for a moment.
std::string WhyNoSamples(std::unique_ptr<Kernel> kernel);

}  // namespace pitot::stacks

#endif  // PITOT_LIB_COLLECT_STACKS_SAMPLER_H_
