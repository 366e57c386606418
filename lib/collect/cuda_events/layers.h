// SPDX-License-Identifier: Apache-2.0
//
// Times the GPU's part of a thread's work (a batch, or a request outside of batches) without help of the host: spans
// follow each other on the stream of the thread, named after the innermost timed scope.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_LAYERS_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_LAYERS_H_

#include <cstdint>

#include "collect/cuda_events/pools.h"

namespace pitot::cuda_events {

// Reasons for untimed layers.
struct LayerCounts {
  std::atomic<uint64_t> stream_unsure{0};    // their stream may have been destroyed when they ended
  std::atomic<uint64_t> ended_elsewhere{0};  // their batch ended on another thread
  std::atomic<uint64_t> streams{0};          // on a further stream of the same work
  std::atomic<uint64_t> after_waits{0};      // after one of many waits in their work: they would cost too much
  std::atomic<uint64_t> too_costly{0};       // pieces of work with scopes deeper than was cheap enough
  std::atomic<double> last_cost_share{0};    // of the last such work's time, for one level more
};
extern LayerCounts g_layer_counts;

// From now on. `pools` must live as long as the process.
void BeginLayers(Pools* pools, double most_cost_percent) noexcept;
// Spans that are open are given up, at the latest when their thread works for something else or ends.
void EndLayers() noexcept;

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_LAYERS_H_
