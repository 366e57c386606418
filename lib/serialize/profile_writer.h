// SPDX-License-Identifier: Apache-2.0
//
// Numbers the texts, frames and stacks of a profile, and adds up its samples by stack and owner. A sample that does not
// stay in memory is written; readers add up what has one stack. The formats of profiles derive from it.
#ifndef PITOT_LIB_SERIALIZE_PROFILE_WRITER_H_
#define PITOT_LIB_SERIALIZE_PROFILE_WRITER_H_

#include <stdint.h>

#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"
#include "serialize/wire.h"

namespace pitot::serialize {

// The values of a sample, in ns.
enum class ProfileValue : uint32_t { kHost, kWait, kGpu, kRequestGpu };
inline constexpr const char* kProfileValues[] = {"host", "wait", "gpu", "request_gpu"};

// Whose time it is: rows of the trace's tables, or kNone.
struct ProfileOwner {
  uint32_t thread = model::kNone, request = model::kNone, batch = model::kNone, stream = model::kNone;
  bool operator==(const ProfileOwner& other) const {
    return thread == other.thread && request == other.request && batch == other.batch && stream == other.stream;
  }
};

enum class ProfileLabel : uint32_t { kRequest, kTraceId, kRoute, kBatch, kExecutor, kThread, kDevice, kStream };
inline constexpr size_t kProfileLabels = 8;

enum class ProfilePlace : uint8_t { kHost, kGpu };

class ProfileWriter {
 public:
  using Frame = uint64_t;
  using Stack = uint32_t;
  static constexpr Stack kNoStack = 0;

  explicit ProfileWriter(const model::Trace& trace);
  virtual ~ProfileWriter() = default;

  virtual bool ok() const = 0;
  // The frame of this name, from 1 on. The first call also says where it is.
  Frame FrameOf(std::string_view name, ProfilePlace place = ProfilePlace::kHost, std::string_view compiled = {},
                std::string_view file = {}, uint32_t line = 0);
  // The stack with a frame called by the innermost one of `outer`.
  Stack Call(Stack outer, Frame frame);
  size_t stacks() const { return entries_.size(); }
  void Add(Stack stack, const ProfileOwner& owner, ProfileValue value, int64_t ns);
  // Writes the rest.
  void Finish();

 protected:
  struct Key {
    Stack stack;
    ProfileOwner owner;
    bool operator==(const Key& other) const { return stack == other.stack && owner == other.owner; }
  };
  struct Sample {
    Key key;
    std::array<int64_t, std::size(kProfileValues)> ns;
  };
  struct FrameText {
    ProfilePlace place;
    uint64_t name, compiled, file;  // texts
    uint32_t line;
  };

  // When the trace began in Unix time, or 0.
  uint64_t UnixBegin() const;
  // The number of a text, from 0 on.
  uint64_t Text(std::string_view text);
  template <class Visit> void VisitFrames(Stack stack, const Visit& visit) const {  // the innermost one first
    for (; stack != kNoStack; stack = entries_[stack].outer) visit(entries_[stack].frame);
  }

  // The owner's labels as WriteLabel writes them.
  std::string Labels(const ProfileOwner& owner);

  // Texts and frames come once each, in the order of their numbers.
  virtual void WriteText(std::string_view text) = 0;
  virtual void WriteFrame(Frame frame, const FrameText& text) = 0;
  virtual void WriteLabel(ProfileLabel label, std::string_view text, WireBuffer* out) = 0;
  virtual void WriteSamples(const std::vector<Sample>& samples) = 0;
  virtual void WriteEnd() = 0;

  const model::Trace& trace_;

 private:
  static constexpr size_t kMostSamples = 32 << 10;

  struct Entry {
    Stack outer;
    Frame frame;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };

  void PassSamples();
  // The labels of a row, made once.
  template <class Write> const std::string& Labels(std::vector<std::string>* of_rows, uint32_t row, const Write& write);
  void Label(ProfileLabel label, std::string_view text) {
    if (!text.empty()) WriteLabel(label, text, &labels_);
  }

  std::unordered_map<std::string, uint64_t> texts_, frames_;
  std::vector<Entry> entries_{{}};  // by stack
  std::unordered_map<uint64_t, Stack> stacks_;
  std::vector<Sample> samples_;
  std::unordered_map<Key, uint32_t, Hash> rows_;  // of samples_
  WireBuffer labels_;
  std::vector<std::string> of_requests_, of_batches_, of_threads_, of_streams_;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PROFILE_WRITER_H_
