// SPDX-License-Identifier: Apache-2.0
//
// Writes a profile for pprof: texts, frames, and samples added up by stack and labels. A sample that does not stay in
// memory is written; readers add up what has one stack.
#ifndef PITOT_LIB_SERIALIZE_PPROF_WRITER_H_
#define PITOT_LIB_SERIALIZE_PPROF_WRITER_H_

#include <stdint.h>

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"
#include "serialize/wire.h"

namespace pitot::serialize {

// The values of a sample, in ns.
enum class PprofValue : uint32_t { kHost, kWait, kGpu, kRequestGpu };
inline constexpr size_t kPprofValues = 4;

// Whose time it is: rows of the trace's tables, or kNone.
struct PprofOwner {
  uint32_t thread = model::kNone, request = model::kNone, batch = model::kNone, stream = model::kNone;
  bool operator==(const PprofOwner& other) const {
    return thread == other.thread && request == other.request && batch == other.batch && stream == other.stream;
  }
};

class PprofWriter {
 public:
  using Frame = uint64_t;
  using Stack = uint32_t;
  static constexpr Stack kNoStack = 0;

  PprofWriter(const model::Trace& trace, ByteSink* sink);

  bool ok() const { return ok_; }
  // The frame of this name. The first call also says where it is.
  Frame FrameOf(std::string_view name, std::string_view compiled = {}, std::string_view file = {}, uint32_t line = 0);
  // The stack with a frame called by the innermost one of `outer`.
  Stack Call(Stack outer, Frame frame);
  size_t stacks() const { return entries_.size(); }
  void Add(Stack stack, const PprofOwner& owner, PprofValue value, int64_t ns);
  // Writes the rest.
  void Finish();

 private:
  static constexpr size_t kFlushBytes = 64 << 10;
  static constexpr size_t kMostSamples = 32 << 10;

  struct Entry {
    Stack outer;
    Frame frame;
  };
  struct Key {
    Stack stack;
    PprofOwner owner;
    bool operator==(const Key& other) const { return stack == other.stack && owner == other.owner; }
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  struct Sample {
    Key key;
    std::array<int64_t, kPprofValues> ns;
  };

  uint64_t Text(std::string_view text);
  void WriteHead();
  void WriteSamples();
  void WriteSample(const Sample& sample);
  // The labels of a row, as they are written; made once.
  template <class Write> const std::string& Labels(std::vector<std::string>* of_rows, uint32_t row, const Write& write);
  void Label(const char* key, std::string_view text);
  void Flush();

  const model::Trace& trace_;
  ByteSink& sink_;
  bool ok_ = true;
  WireBuffer buffer_, labels_;
  std::unordered_map<std::string, uint64_t> texts_, frames_;
  std::vector<Entry> entries_{{}};  // by stack
  std::unordered_map<uint64_t, Stack> stacks_;
  std::vector<Sample> samples_;
  std::unordered_map<Key, uint32_t, Hash> rows_;  // of samples_
  std::vector<std::string> of_requests_, of_batches_, of_threads_, of_streams_;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PPROF_WRITER_H_
