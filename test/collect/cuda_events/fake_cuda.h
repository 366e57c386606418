// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so for tests with a GPU that works in real time: work on a stream takes its stated time, one after the
// other. The library is built from fake_cuda.cc; tests reach it through the one function it exports in addition to
// CUDA's.
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
  // Restores the state after loading.
  virtual void Reset() = 0;

  // A new context, current on the calling thread alone; it may have the address of a destroyed one. Its default stream
  // is null.
  virtual void* MakeContext() = 0;
  virtual void DestroyContext(void* context) = 0;
  virtual void MakeCurrent(void* context) = 0;  // null: none
  // For the current context, like the following.
  virtual void* MakeStream() = 0;
  virtual void Enqueue(void* stream, int64_t duration_ns) = 0;
  virtual void SetCapturing(void* stream, bool is_capturing) = 0;
  // Captures the work enqueued on a stream, and returns it as a graph.
  virtual void BeginCapture(void* stream) = 0;
  virtual void* EndCapture(void* stream) = 0;
  virtual void Replay(void* graph, void* stream) = 0;
  virtual void DestroyGraph(void* graph) = 0;
  virtual bool IsIdle(void* stream) = 0;

  // The GPU does nothing while it is held.
  virtual void Hold() = 0;
  virtual void Release() = 0;

  // Lets the call with this number from now on, from 1, fail; 0: none.
  virtual void FailAt(uint64_t call, int result) = 0;
  // Lets calls of this function fail with `result`, except the first `but` from now on; "": none.
  virtual void FailIn(const std::string& function, int result, uint64_t but) = 0;
  // Keeps calls of this function from returning until another is set.
  virtual void HangIn(const std::string& function) = 0;

  // The answer of cuEventElapsedTime for the next two events.
  virtual void SayElapsed(float ms) = 0;

  // Observations.
  virtual uint64_t calls() = 0;
  virtual uint64_t CallsOf(const std::string& function) = 0;
  // When the GPU came to the events recorded by the host's threads on a stream, CLOCK_MONOTONIC, ns, in order.
  virtual std::vector<int64_t> StampsOn(void* stream) = 0;
  virtual size_t events() = 0;  // not destroyed yet
  virtual size_t streams() = 0;
  virtual size_t allocations() = 0;  // not freed yet
  // Actions against CUDA's rules, or the collector's.
  virtual std::string broken_rules() = 0;

 protected:
  ~FakeCuda() = default;
};

// The control of the library at `path`, loaded if it is not. Lives as long as the process. Throws std::runtime_error.
FakeCuda* LoadFakeCuda(const std::string& path);

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUDA_EVENTS_FAKE_CUDA_H_
