// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so of tests whose GPU works in real time: what is enqueued on a stream takes as long as it says, one after
// the other. The library is built from fake_cuda.cc; tests get at it through the one function it exports beside CUDA's.
#ifndef PITOT_TEST_COLLECT_CUDA_EVENTS_FAKE_CUDA_H_
#define PITOT_TEST_COLLECT_CUDA_EVENTS_FAKE_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fakes {

// Threads: any.
class FakeCuda {
 public:
  // As it is when loaded.
  virtual void Reset() = 0;

  // A new context, current on the calling thread alone; may have the address of one that was destroyed. Its default
  // stream is null.
  virtual void* MakeContext() = 0;
  virtual void DestroyContext(void* context) = 0;
  virtual void MakeCurrent(void* context) = 0;  // null: none
  // Of the context that is current, as what follows.
  virtual void* MakeStream() = 0;
  virtual void Enqueue(void* stream, int64_t duration_ns) = 0;
  virtual void SetCapturing(void* stream, bool is_capturing) = 0;

  // While it is held the GPU does nothing.
  virtual void Hold() = 0;
  virtual void Release() = 0;

  // The call with this number from now on, from 1, fails; 0: none.
  virtual void FailAt(uint64_t call, int result) = 0;
  // Calls of this function fail with `result`, but for the first `but` from now on; "": none.
  virtual void FailIn(const std::string& function, int result, uint64_t but) = 0;
  // Calls of this function do not return until it is another.
  virtual void HangIn(const std::string& function) = 0;

  // What cuEventElapsedTime says of the next two events.
  virtual void SayElapsed(float ms) = 0;

  // What was seen.
  virtual uint64_t calls() = 0;
  virtual uint64_t CallsOf(const std::string& function) = 0;
  // When the GPU came to the events that the host's threads recorded on a stream, CLOCK_MONOTONIC, ns, in order.
  virtual std::vector<int64_t> StampsOn(void* stream) = 0;
  virtual size_t events() = 0;  // that are not destroyed
  virtual size_t streams() = 0;
  virtual size_t allocations() = 0;  // that are not freed
  // What was done that CUDA does not permit, or the collector must not.
  virtual std::string broken_rules() = 0;

 protected:
  ~FakeCuda() = default;
};

// The control of the library at `path`, loaded if it is not. Lives as long as the process. Throws std::runtime_error.
FakeCuda* LoadFakeCuda(const std::string& path);

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUDA_EVENTS_FAKE_CUDA_H_
