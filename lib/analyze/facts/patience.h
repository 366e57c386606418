// SPDX-License-Identifier: Apache-2.0
//
// Work that somebody may end, by BlameOptions::is_over or Analysis::IsOver. It asks them now and then.
#ifndef PITOT_LIB_ANALYZE_FACTS_PATIENCE_H_
#define PITOT_LIB_ANALYZE_FACTS_PATIENCE_H_

#include <cstddef>
#include <cstdint>

#include "pitot/extend/analyzer.h"

namespace pitot::facts {

// Thrown when the time is over; caught by the functions of why.h and by Analyze.
struct Over {};

class Patience {
 public:
  // `is_over` (null: never) answers for `context` whether the time is up.
  Patience(bool (*is_over)(void*), void* context) : is_over_(is_over), context_(context) {}

  // Counts finished steps. Throws Over.
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

// For an analyzer's loop: asks at the beginning, and then once in some thousands of steps, which take a millisecond or
// less.
class NowAndThen {
 public:
  explicit NowAndThen(Analysis& analysis) : analysis_(analysis) {}
  // Throws Over.
  void Count() {
    if (steps_++ % kEvery == 0 && analysis_.IsOver()) throw Over{};
  }
  static constexpr uint32_t kEvery = 8192;

 private:
  Analysis& analysis_;
  uint32_t steps_ = 0;
};

// The numbers of `count` rows, in order, for such a loop over them. Throws Over.
class EachOf {
 public:
  EachOf(Analysis& analysis, size_t count) : analysis_(analysis), count_(static_cast<uint32_t>(count)) {}
  class Iterator {
   public:
    Iterator(Analysis& analysis, uint32_t row) : analysis_(analysis), row_(row) {}
    uint32_t operator*() const {
      if (row_ % NowAndThen::kEvery == 0 && analysis_.IsOver()) throw Over{};
      return row_;
    }
    Iterator& operator++() {
      ++row_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return row_ != other.row_; }

   private:
    Analysis& analysis_;
    uint32_t row_;
  };
  Iterator begin() const { return {analysis_, 0}; }
  Iterator end() const { return {analysis_, count_}; }

 private:
  Analysis& analysis_;
  const uint32_t count_;
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_PATIENCE_H_
