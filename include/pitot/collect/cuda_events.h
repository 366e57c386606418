// SPDX-License-Identifier: Apache-2.0
//
// Collect: measures with CUDA events how long GPUs worked for each batch and its layers (its named scopes), or for each
// request outside of batches. It needs no CUPTI.
//
//   recorder.Add(pitot::MakeCudaEventCollector());
//
// That is all if the collector of CUDA calls (pitot/collect/cuda_calls.h) sees the calls: it knows the stream of each
// thread. Otherwise say it for each batch, or place a scope by hand:
//
//   pitot::SetWorkStream(stream);
//   { pitot::CudaEventScope scope(stream, "forward"); EnqueueForward(stream); }
//
// A layer appears on its stream as one span, from the first to the last work its thread enqueued, including gaps
// between kernels. It belongs to the request and batch of that thread. If kernels of a batch were recorded, too, these
// are its GPU time and the span adds nothing. See docs/guide/gpu.md, "Layers".
#ifndef PITOT_COLLECT_CUDA_EVENTS_H_
#define PITOT_COLLECT_CUDA_EVENTS_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

struct CudaEventOptions {
  // How many scopes of one CUDA context can be in flight at a time, 1 to 4,096: begun, and not yet seen done by the
  // GPU. Each takes two CUDA events, which the first scope in a context creates. Scopes beyond this number are counted,
  // not timed.
  uint32_t pairs_per_context = 256;
  // Host memory for finished spans, bytes, 64 KiB to 1 GiB, part of Options::memory_budget_bytes. Half holds the
  // newest, 40 bytes each; half holds the copy for an incident.
  uint64_t memory_bytes = 1ull << 20;
  // Whether scopes of batches and requests are timed without CudaEventScope.
  bool layers = true;
  // The most that timing of layers may take of a batch's time, percent, above 0 to 100. The depth of the timed scopes
  // follows from it, their number and their cost. A batch as a whole is always timed.
  double layer_cost_percent = 0.4;
  // How many CudaEventScopes may divide graphs of one CUDA context, 0 to `pairs_per_context`. Each adds two nodes to
  // the graph in whose capture it lies, and holds one of the pairs until the graph is gone. Further ones are counted,
  // not timed. Each makes a replay some 7 us longer, its reading before the next launch included
  // (docs/lab/gpu_default.md). 0: graphs stay as they are. Needs a driver of CUDA 11.3 or later.
  uint32_t graph_scopes = 0;
};

// Works on its own thread, "pitot-events". It polls the driver every 5 ms while scopes are in flight, and sleeps
// otherwise. It looks for the driver (libcuda.so.1) once the process has loaded it; without it there are no spans. The
// first scopes in a context are not timed, because their pool is still being made. Untimed scopes are counted, and
// incidents say why ("cuda_events.*"). At most 16 contexts. Null if there is no memory.
// Threads: any. One collector in a process at a time.
// Errors: from Recorder::Add kInvalidArgument, which names the option, kAlreadyRunning, and kResourceExhausted: no
//   memory or thread. A missing driver or GPU is not an error: there are no spans then.
// Lifetime: the recorder's. The next collector reuses the CUDA events if it has as many pairs, otherwise it makes new
//   ones. A thread that hangs in the driver when the recorder stops is left behind with them.
// Cost: Recorder::Add starts the thread and returns. Recorder::Stop waits for the current driver call, 2 s at most; an
//   incident waits 0.1 s. On the host's threads the cost is that of scopes (CudaEventScope).
PITOT_EXPORT std::unique_ptr<Collector> MakeCudaEventCollector(const CudaEventOptions& options = {}) noexcept;

// Says on which stream the calling thread enqueues the work of its batch (outside of batches: of its request), until it
// ends. `stream` is a CUstream or cudaStream_t of the current context and must live so long; null is the legacy default
// stream. Not needed where the collector of CUDA calls sees the thread's launches.
// Threads: any. Does nothing without a batch, a request or a collector.
// Cost: two cuEventRecords.
PITOT_EXPORT void SetWorkStream(void* stream) noexcept;

namespace detail {

PITOT_EXPORT extern uint32_t g_cuda_events;  // 1 while a collector runs

// A scope in flight; null `pair`: none.
struct CudaSpan {
  void* pair = nullptr;
  uint32_t ticket = 0;
};
PITOT_EXPORT CudaSpan BeginCudaSpan(void* stream, const char* name) noexcept;
PITOT_EXPORT CudaSpan BeginCudaSpan(void* stream, Name name) noexcept;
PITOT_EXPORT void EndCudaSpan(CudaSpan span) noexcept;
inline bool HasCudaEvents() { return __builtin_expect(__atomic_load_n(&g_cuda_events, __ATOMIC_RELAXED) != 0, 0); }

}  // namespace detail

// Times the work enqueued on a stream while the object lives. `stream` is a CUstream or cudaStream_t of the context
// current at that time; null is the legacy default stream. It must live as long as the scope.
// While the stream is captured into a graph, the scope does nothing, unless CudaEventOptions::graph_scopes is set. Then
// nodes of the graph record its events at each replay, and these divide the replay's span. The events keep the newest
// replay only: parts of one that is still running at the next launch are counted ("cuda_events.replays_missed").
// Threads: any. A scope may end on another thread; the stream's context must be current there, too.
// Errors: counted. Never waits for the GPU. Never allocates, except for the names of scopes in a capture. With
// graph_scopes the process's first scopes wait up to 0.1 s in all until the collector has made their events.
// Cost: without a collector, a load and a branch. Otherwise two cuEventRecords, some look-ups in the driver, and a
//   record in the thread's ring; a text is interned (tens of ns). Wakes the collector's thread if it sleeps.
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
