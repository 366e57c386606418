// SPDX-License-Identifier: Apache-2.0
//
// Writes Perfetto packets: framing, compression, and one sequence after another. Each sequence has an incremental clock
// and its own interned strings.
#ifndef PITOT_LIB_SERIALIZE_PACKET_WRITER_H_
#define PITOT_LIB_SERIALIZE_PACKET_WRITER_H_

#include <stdint.h>

#include <string_view>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/serialize/perfetto.h"
#include "serialize/perfetto_fields.h"
#include "serialize/wire.h"

namespace pitot::serialize {

// Names of Pitot's own annotations; the host's are strings of the trace.
enum class Word : uint32_t {
  kArg,
  kBatch,
  kBatchId,
  kBeginThread,
  kBeginUnknown,
  kBlock,
  kBytes,
  kCall,
  kCloseReason,
  kCount,
  kDeadlineNs,
  kDetail,
  kDevice,
  kDynamicShared,
  kEndThread,
  kEvents,
  kFirstTokenNs,
  kFromThread,
  kGbPerS,
  kGraph,
  kGrid,
  kHostId,
  kId,
  kKernel,
  kKind,
  kLabels,
  kLaunches,
  kLaunchNs,
  kLeaveNs,
  kLocal,
  kLostFromNs,
  kLostToNs,
  kMaxTokenGapNs,
  kMembers,
  kNode,
  kOccupancy,
  kOutcome,
  kOutputTokens,
  kOwnerRequest,
  kOwnerThread,
  kParent,
  kReason,
  kRecords,
  kRegisters,
  kRequest,
  kResource,
  kScopePath,
  kSizeBucket,
  kSpuriousWakeUps,
  kStaticShared,
  kSubmittedNs,
  kTakenNs,
  kThread,
  kToThread,
  kTraceId,
  kTrueDurationNs,
  kWaitsFor,
  kWork,
  kWordCount
};
const char* WordText(Word word);
// Whether a name given by the host is one of these.
bool IsWord(std::string_view name);

class PacketWriter {
 public:
  // The texts of a table that were interned in a sequence.
  struct Seen {
    std::vector<uint64_t> iids;  // sequence's number << 32 | iid
    uint32_t field;
    uint32_t* next;
  };

  PacketWriter(const model::StringTable& strings, const PerfettoOptions& options, ByteSink* sink);

  bool ok() const { return ok_; }
  // Writes the buffered packets.
  void Flush();

  // A packet other than an event: fill buffer() between these two.
  void BeginPacket() { packet_ = buffer_.Open(perfetto::kTracePacket); }
  WireBuffer& buffer() { return buffer_; }
  void EndPacket() {
    buffer_.Close(packet_);
    if (buffer_.size() >= kFlushBytes) Flush();
  }

  // Begins a sequence. The following events belong to it and come in the order of time. `track` is the default track.
  void BeginSequence(uint32_t id, uint64_t track, int64_t begin_ns);

  // An event: BeginEvent, then any functions up to EndEvent, then EndEvent. Track 0 is the sequence's default.
  void BeginEvent(int64_t at_ns, uint32_t type, uint64_t track) {
    packet_ = buffer_.Open(perfetto::kTracePacket);
    buffer_.Varint(perfetto::packet::kTimestamp, static_cast<uint64_t>(at_ns - last_ns_));
    last_ns_ = at_ns;
    buffer_.Varint(perfetto::packet::kSequenceId, sequence_);
    buffer_.Varint(perfetto::packet::kSequenceFlags, perfetto::packet::kNeedsState);
    event_ = buffer_.Open(perfetto::packet::kTrackEvent);
    buffer_.Varint(perfetto::event::kType, type);
    if (track != 0) buffer_.Varint(perfetto::event::kTrackUuid, track);
  }
  void Name(model::StringId name) { buffer_.Varint(perfetto::event::kNameIid, Intern(&names_, {}, name)); }
  void WaitName(model::StringId resource) {
    buffer_.Varint(perfetto::event::kNameIid, Intern(&wait_names_, "wait ", resource));
  }
  void Name(std::string_view prefix, std::string_view text) {
    buffer_.RawVarint(perfetto::event::kName << 3 | 2);
    buffer_.RawVarint(prefix.size() + text.size());
    buffer_.RawBytes(prefix.data(), prefix.size());
    buffer_.RawBytes(text.data(), text.size());
  }
  // A shorter name for a string of the trace, interned by that string.
  void BriefName(model::StringId of, std::string_view text) {
    buffer_.Varint(perfetto::event::kNameIid, Intern(&brief_names_, {}, of, text));
  }
  void Flow(uint64_t id) { buffer_.Fixed64(perfetto::event::kFlowIds, id); }
  void Correlation(uint32_t request) {
    if (request != model::kNone) buffer_.Varint(perfetto::event::kCorrelationId, uint64_t{request} + 1);
  }
  void Counter(int64_t value) { buffer_.Int(perfetto::event::kCounterValue, value); }
  void Counter(double value) { buffer_.Double(perfetto::event::kDoubleCounterValue, value); }

  void Annotate(Word name, std::string_view value) {
    Annotation(WordIid(name), [&] { buffer_.String(perfetto::annotation::kString, value); });
  }
  void Annotate(Word name, uint64_t value) {
    Annotation(WordIid(name), [&] { buffer_.Varint(perfetto::annotation::kUint, value); });
  }
  void Annotate(Word name, int64_t value) {
    Annotation(WordIid(name), [&] { buffer_.Int(perfetto::annotation::kInt, value); });
  }
  void Annotate(Word name, double value) {
    Annotation(WordIid(name), [&] { buffer_.Double(perfetto::annotation::kDouble, value); });
  }
  void Annotate(Word name, model::StringId) = delete;  // text or number?
  void AnnotateText(Word name, model::StringId value) {
    const uint64_t value_iid = TextIid(value);
    Annotation(WordIid(name), [&] { buffer_.Varint(perfetto::annotation::kStringIid, value_iid); });
  }
  // Texts that repeat in many events. The caller numbers them from 0 to `count` - 1; each is written once a sequence.
  Seen ManyTexts(size_t count) {
    return {std::vector<uint64_t>(count), perfetto::interned::kAnnotationStrings, &next_annotation_string_};
  }
  template <class Text> void Annotate(Word name, Seen* texts, uint32_t number, const Text& text) {
    const bool is_seen = texts->iids[number] >> 32 == generation_;
    const uint64_t value_iid =
        is_seen ? texts->iids[number] & UINT32_MAX : InternNew(texts, {}, number, std::string_view(text()));
    Annotation(WordIid(name), [&] { buffer_.Varint(perfetto::annotation::kStringIid, value_iid); });
  }
  void AnnotateText(model::StringId name, model::StringId value) {
    const uint64_t value_iid = TextIid(value);
    Annotation(NameIid(name), [&] { buffer_.Varint(perfetto::annotation::kStringIid, value_iid); });
  }
  void AnnotateNumber(model::StringId name, double value) {
    Annotation(NameIid(name), [&] { buffer_.Double(perfetto::annotation::kDouble, value); });
  }
  // An argument of an event, encoded by its type.
  void AnnotateArg(model::StringId name, ArgType type, model::ArgValue value);

  void EndEvent() {
    buffer_.Close(event_);
    if (interned_.size() != 0) AddInterned();
    EndPacket();
  }

 private:
  static constexpr size_t kFlushBytes = 256 << 10;
  static constexpr size_t kMaxBundleBytes = 512 << 10;

  uint64_t Intern(Seen* seen, std::string_view prefix, model::StringId id) {
    return Intern(seen, prefix, id, strings_[id]);
  }
  uint64_t Intern(Seen* seen, std::string_view prefix, model::StringId id, std::string_view text) {
    if (id < seen->iids.size() && seen->iids[id] >> 32 == generation_) return seen->iids[id] & UINT32_MAX;
    return InternNew(seen, prefix, id, text);
  }
  [[gnu::noinline]] uint64_t InternNew(Seen* seen, std::string_view prefix, model::StringId id, std::string_view text);
  void AddEntry(uint32_t field, uint64_t iid, std::string_view prefix, std::string_view text);
  void AddInterned();
  uint64_t NameIid(model::StringId name) {
    return strings_[name].empty() ? WordIid(Word::kArg) : Intern(&annotation_names_, {}, name);
  }
  uint64_t TextIid(model::StringId text) { return Intern(&annotation_strings_, {}, text); }
  uint64_t WordIid(Word word);
  template <class Value> void Annotation(uint64_t name_iid, const Value& value) {
    const size_t opened = buffer_.Open(perfetto::event::kDebugAnnotations);
    buffer_.Varint(perfetto::annotation::kNameIid, name_iid);
    value();
    buffer_.Close(opened);
  }

  const model::StringTable& strings_;
  const PerfettoOptions& options_;
  ByteSink* sink_;
  bool ok_ = true;
  WireBuffer buffer_;
  WireBuffer interned_;  // of the current packet
  size_t packet_ = 0;
  size_t event_ = 0;

  uint32_t sequence_ = 0;
  uint64_t generation_ = 0;
  int64_t last_ns_ = 0;
  uint32_t next_name_ = 0, next_annotation_name_ = 0, next_annotation_string_ = 0;
  Seen names_, wait_names_, brief_names_, annotation_names_, annotation_strings_;
  uint64_t word_iids_[static_cast<size_t>(Word::kWordCount)] = {};
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PACKET_WRITER_H_
