// SPDX-License-Identifier: Apache-2.0
//
// Divides the span of a graph's launch by the scopes in the graph.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_DIVIDE_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_DIVIDE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "collect/cuda_events/history.h"

namespace pitot::cuda_events {

// A replay of a scope in a graph.
struct Replayed {
  int64_t begin_ns, end_ns;
  uint32_t name;  // index of a Name
};

// Adds `whole` to `history` in pieces that follow each other. A moment belongs to the scope that began last and has not
// ended, and outside of all scopes to the whole, whose name it keeps. `scopes` are sorted by their begin. Changes no
// memory but that of `open`, if it has room for all scopes.
void AddDivided(const Span& whole, std::span<const Replayed> scopes, std::vector<const Replayed*>* open,
                History* history) noexcept;

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_DIVIDE_H_
