// SPDX-License-Identifier: Apache-2.0
//
// A CUPTI without a GPU: a shared library with CUPTI's functions, and a program that "runs CUDA" on the calling thread.
// It fills buffers like a library of its generation, and checks that its client keeps CUPTI's rules.
#ifndef PITOT_TEST_COLLECT_CUPTI_FAKE_CUPTI_H_
#define PITOT_TEST_COLLECT_CUPTI_FAKE_CUPTI_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collect/cupti/fake_records.h"

namespace fakes {

// A call of the runtime's or driver's API with work for a stream.
struct FakeWork {
  const char* name = "kernel";  // of the kernel
  const char* api = "cudaLaunchKernel";
  int64_t begin_ns = 0;        // of CLOCK_REALTIME; 0: now
  int64_t duration_ns = 1000;  // negative: the end is before the beginning
  uint32_t stream = 7, device = 0, context = 1;
  bool is_running = false;       // ends after the next flush: its buffer is withheld until then
  bool is_stuck = false;         // likewise, after FakeCupti::Unstick
  bool has_driver_call = false;  // the runtime's call has one of the driver's inside
  bool is_of_driver = false;     // the kernel's record has the correlation of the driver's call
  uint64_t copy_bytes = 0;       // a copy rather than a kernel
};

// A wait for a stream by its handle: FakeStream(its number), or one of CUDA's own (0: the default one).
inline uintptr_t FakeStream(uint32_t number) { return 0x1000 + number; }
struct FakeSync {
  uintptr_t handle = 0;
  const char* api = "cudaStreamSynchronize_v3020";
  uint32_t context = 1;
  int result = 0;  // of the call
};

class FakeCupti {
 public:
  // Restores the state after loading, with this generation. Buffers from clients are forgotten, not freed.
  virtual void Reset(const Generation& generation) = 0;

  // The process's CUDA. Returns the correlation.
  virtual uint32_t Run(const FakeWork& work) = 0;
  virtual void Unstick() = 0;
  virtual void Synchronize() = 0;  // cudaDeviceSynchronize
  virtual void SynchronizeStream(const FakeSync& sync) = 0;
  // Destroys the stream, or its context. A stream made then has the same handle, and this number.
  virtual void Remake(uintptr_t handle, uint32_t number) = 0;
  virtual void RemakeContext(uintptr_t handle, uint32_t number) = 0;
  // A call with an end chosen by the test, or none. Returns the correlation.
  virtual uint32_t Begin(const char* api) = 0;
  virtual void End(const char* api, uint32_t correlation) = 0;
  // Nodes 1 and on of the next graph: a kernel, or a copy or a set by its kind.
  virtual void CaptureNode(uint32_t node, uint32_t kind = cupti::kConcurrentKernel) = 0;
  virtual uint32_t Instantiate(uint32_t nodes) = 0;  // an executable graph
  virtual uint32_t Replay(uint32_t graph, const char* name) = 0;
  virtual void FailFatally() = 0;  // by a callback of CB_DOMAIN_STATE
  // Other users of CUPTI.
  virtual void SubscribeOther(const char* name) = 0;
  virtual void UnsubscribeOther() = 0;
  virtual void DisableAll() = 0;               // kinds, as Kineto does at its end
  virtual void RegisterOther() = 0;            // takes the buffers, like Kineto, and records of single calls with them
  virtual void GiveForeign(size_t valid) = 0;  // completes a buffer never given by the client

  // Lets the `call`th call of the library from now on (1: the next) fail with `result`.
  virtual void FailAt(int call, int result) = 0;
  virtual int calls() const = 0;                                // since Reset or FailAt
  virtual int calls_of(const std::string& function) const = 0;  // since Reset
  // Lets calls of this function fail until another is set.
  virtual void Refuse(const std::string& function) = 0;
  // Keeps calls of this function from returning until another is set.
  virtual void HangIn(const std::string& function) = 0;
  virtual bool is_hanging() const = 0;  // a call does
  // Does this once, on the next thread that calls this function, before the call does anything. With kCallback: after
  // the library has seen that a call's callback is on, and before the callback.
  static constexpr char kCallback[] = "a callback";
  virtual void OnNext(const std::string& function, std::function<void()> what) = 0;
  virtual void Drop(uint64_t records) = 0;  // reports this many lost records
  virtual void SetCorrelation(uint32_t next) = 0;

  virtual bool IsEnabled(uint32_t kind) const = 0;
  virtual size_t kinds_enabled() const = 0;
  virtual bool HasSubscriber() const = 0;  // the client
  virtual size_t callbacks_enabled() const = 0;
  virtual uint64_t buffers_out() const = 0;
  // Violations of CUPTI's rules by the client; "": none.
  virtual std::string broken_rules() const = 0;
  // Replays that took as long as with recorded nodes, although none were.
  virtual uint64_t dear_replays() const = 0;

 protected:
  ~FakeCupti() = default;
};

// The control of the library at `path`, loaded if it is not. Lives as long as the process.
FakeCupti* LoadFakeCupti(const std::string& path);

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUPTI_FAKE_CUPTI_H_
