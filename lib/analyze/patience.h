// SPDX-License-Identifier: Apache-2.0
//
// Work that somebody may end: BlameOptions::is_over, asked now and then.
#ifndef PITOT_LIB_ANALYZE_PATIENCE_H_
#define PITOT_LIB_ANALYZE_PATIENCE_H_

#include <cstdint>

#include "pitot/analyze/why.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Thrown where the answer was that it is over; caught by the functions of why.h.
struct Over {};

class Patience {
 public:
  explicit Patience(const BlameOptions& options) : is_over_(options.is_over), context_(options.is_over_context) {}

  // So much was done. Throws Over.
  void Count(uint64_t steps = 1) {
    if (is_over_ == nullptr) return;
    steps_ += steps;
    if (steps_ < kEvery) return;
    steps_ %= kEvery;
    if (is_over_(context_)) throw Over{};
  }

 private:
  static constexpr uint64_t kEvery = 1024;
  bool (*is_over_)(void*);
  void* context_;
  uint64_t steps_ = 0;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_PATIENCE_H_
