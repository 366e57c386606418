// SPDX-License-Identifier: Apache-2.0
//
// The newest rows of collectors, in the black box: work on GPUs, values of counters, and depths. What collectors keep
// for incidents is in memory of their own, and ends with the process.
#ifndef PITOT_LIB_TRACE_LAST_ROWS_H_
#define PITOT_LIB_TRACE_LAST_ROWS_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "trace/box.h"

namespace pitot::trace {

// As GpuActivity. Texts are numbers of LastText.
struct LastWork {
  int64_t begin_ns;  // CLOCK_MONOTONIC
  int64_t duration_ns;
  uint64_t bytes;
  uint32_t device, context, stream, correlation, name;
  uint32_t kind;  // GpuKind
};
// The value of a counter from a moment on.
struct LastValue {
  int64_t at_ns;  // CLOCK_MONOTONIC
  double value;
  uint32_t name, unit;
};
// How deep a framework's operators were recorded, from a moment on.
struct LastDepth {
  int64_t at_ns;   // CLOCK_MONOTONIC
  uint64_t depth;  // Depth
};
// A row's place in the file: the one of row `number` (from 1) is that of `number` - 1, modulo their count.
template <class Row> struct LastSlot {
  std::atomic<uint64_t> number;  // 0: none, or being written
  Row row;
};

// Has them kept in this black box, in so many bytes. False: that is no room. Null: ends it. Threads: one at a time.
bool WriteLastRowsTo(Box* box, uint64_t bytes) noexcept;
// Whether there is a black box for them.
bool AreLastRowsKept() noexcept;
// Keeps a text; callers keep its number. 0: there is no room, or no black box. Threads: any.
uint32_t LastText(std::string_view text) noexcept;
// Threads: Pitot's own. Without a black box, nothing is done. Cost: 9 ns a row, 13 if alone.
void AddLast(std::span<const LastWork> rows) noexcept;
void AddLast(const LastValue& value) noexcept;
void AddLast(const LastDepth& depth) noexcept;

// Adds rows of what no thread of its own samples.
class LastSampler {
 public:
  // On the watcher, some times a second while there is a black box. Cost: should be some us.
  virtual void SampleLast(int64_t now_ns) noexcept = 0;

 protected:
  ~LastSampler() = default;
};
// There is one. Null: none, and no call runs any more. Threads: any.
void SetLastSampler(LastSampler* sampler) noexcept;
// The watcher's.
void SampleLast(int64_t now_ns) noexcept;

// A counter of a collector. Its values are kept once a second at most. Threads: one at a time.
class LastCounter {
 public:
  // `name` gives the counter's name, once. If it throws, the value is not kept.
  template <class Name> void Note(int64_t at_ns, double value, const Name& name, const char* unit) noexcept {
    if (!AreLastRowsKept() || (at_ns_ != 0 && at_ns - at_ns_ < kEveryNs)) return;
    try {
      if (at_ns_ == 0) name_ = LastText(name()), unit_ = LastText(unit);
    } catch (...) {
      return;
    }
    at_ns_ = at_ns;
    AddLast(LastValue{at_ns, value, name_, unit_});
  }

 private:
  static constexpr int64_t kEveryNs = 1'000'000'000;
  int64_t at_ns_ = 0;  // of the last one
  uint32_t name_ = 0, unit_ = 0;
};

void ResetLastRowsAfterFork() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_LAST_ROWS_H_
