// SPDX-License-Identifier: Apache-2.0
//
// Collect: how long GPUs worked for a batch or request, by CUDA events, where CUPTI cannot be had or does not record.
//
//   recorder.Add(pitot::MakeCudaEventCollector());
//   ...
//   { pitot::CudaEventScope scope(stream, "forward"); EnqueueForward(stream); }
//
// A scope is shown on its stream as one span, from what its thread enqueued first to what it enqueued last, with the
// gaps between kernels. It belongs to the request and batch that the thread works for. Where kernels of a batch were
// recorded, too, these are its GPU time and the span adds nothing. docs/guide/gpu.md, "Without CUPTI".
#ifndef PITOT_COLLECT_CUDA_EVENTS_H_
#define PITOT_COLLECT_CUDA_EVENTS_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

struct CudaEventOptions {
  // How many scopes of one CUDA context may be under way at a time, 1 to 4,096: begun, and not yet seen done by the
  // GPU. Each takes two CUDA events, made at the first scope in a context. What finds none is counted and not timed.
  uint32_t pairs_per_context = 256;
  // Host memory for spans that are done, bytes, 64 KiB to 1 GiB, on top of Options::memory_budget_bytes: half holds the
  // newest, 40 bytes each, and half the copy for an incident.
  uint64_t memory_bytes = 1ull << 20;
};

// Works on a thread of its own, "pitot-events", which asks the driver every 5 ms while scopes are under way and sleeps
// otherwise. The driver (libcuda.so.1) is looked for once the process has loaded it: a process that never does records
// no spans. The first scopes in a context are not timed: their pool is being made. What is not timed is counted, and
// incidents say why ("cuda_events.*"). At most 16 contexts. Null if there is no memory.
// Threads: any. One collector in a process at a time.
// Errors: of Recorder::Add kInvalidArgument, which names the option, kAlreadyRunning, and kResourceExhausted: no memory
//   or thread. That there is no driver or no GPU is none: there are no spans then.
// Lifetime: the recorder's. CUDA events are made again by the next collector, or used again where it has as many pairs;
//   a thread that hangs in the driver when the recorder stops is left behind with them.
// Cost: Recorder::Add starts the thread and waits for nothing, Recorder::Stop for the driver's call under way, 2 s at
//   most, and an incident 0.1 s. On the host's threads that of scopes (CudaEventScope).
PITOT_EXPORT std::unique_ptr<Collector> MakeCudaEventCollector(const CudaEventOptions& options = {}) noexcept;

namespace detail {

PITOT_EXPORT extern uint32_t g_cuda_events;  // 1 while a collector runs

// A scope under way; `pair` null: there is none.
struct CudaSpan {
  void* pair = nullptr;
  uint32_t ticket = 0;
};
PITOT_EXPORT CudaSpan BeginCudaSpan(void* stream, const char* name) noexcept;
PITOT_EXPORT CudaSpan BeginCudaSpan(void* stream, Name name) noexcept;
PITOT_EXPORT void EndCudaSpan(CudaSpan span) noexcept;
inline bool HasCudaEvents() { return __builtin_expect(__atomic_load_n(&g_cuda_events, __ATOMIC_RELAXED) != 0, 0); }

}  // namespace detail

// Times what is enqueued on a stream while it lives. `stream` is a CUstream or cudaStream_t of the context that is
// current then, null the legacy default stream; it must live as long as the scope. Does nothing while the stream is
// being captured into a graph, at its beginning or end.
// Threads: any. A scope may end on another thread, where the stream's context must be current, too.
// Errors: counted. Never waits for the GPU, never allocates.
// Cost: without a collector a load and a branch; else two cuEventRecords, some look-ups in the driver, and a record in
// the thread's ring; a text is interned (tens of ns). Wakes the collector's thread where it sleeps.
class CudaEventScope {
 public:
  CudaEventScope(void* stream, const char* name) noexcept {
    if (detail::HasCudaEvents()) span_ = detail::BeginCudaSpan(stream, name);
  }
  CudaEventScope(void* stream, Name name) noexcept {
    if (detail::HasCudaEvents()) span_ = detail::BeginCudaSpan(stream, name);
  }
  ~CudaEventScope() {
    if (__builtin_expect(span_.pair != nullptr, 0)) detail::EndCudaSpan(span_);
  }
  CudaEventScope(const CudaEventScope&) = delete;
  CudaEventScope& operator=(const CudaEventScope&) = delete;

 private:
  detail::CudaSpan span_;
};

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_CUDA_EVENTS_H_
