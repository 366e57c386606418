// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/divide.h"

#include <algorithm>

namespace pitot::cuda_events {

void AddDivided(const Span& whole, std::span<const Replayed> scopes, std::vector<const Replayed*>* open,
                History* history) noexcept {
  if (scopes.empty()) return history->Add(whole);
  const int64_t end_ns = whole.begin_ns + whole.duration_ns;
  int64_t at_ns = whole.begin_ns;
  const auto add = [&](uint32_t name, int64_t until_ns) {
    if (until_ns <= at_ns) return;
    Span piece = whole;
    piece.begin_ns = at_ns;
    piece.duration_ns = until_ns - at_ns;
    piece.name = name;
    history->Add(piece);
    at_ns = until_ns;
  };
  const auto add_until = [&](int64_t until_ns) {
    while (!open->empty()) {
      const Replayed& innermost = *open->back();
      add(innermost.name, std::min(innermost.end_ns, until_ns));
      if (innermost.end_ns > until_ns) return;
      open->pop_back();
    }
    add(whole.name, until_ns);
  };
  open->clear();
  for (const Replayed& scope : scopes) {
    add_until(std::min(scope.begin_ns, end_ns));
    open->push_back(&scope);
  }
  add_until(end_ns);
}

}  // namespace pitot::cuda_events
