// SPDX-License-Identifier: Apache-2.0
#include "serialize/packet_writer.h"

#include <algorithm>
#include <iterator>

namespace pitot::serialize {

namespace {

struct WordName {
  Word word;
  const char* text;
};
// In the order of Word.
constexpr WordName kWordNames[] = {
    {Word::kArg, "arg"},
    {Word::kBatch, "batch"},
    {Word::kBatchId, "batch_id"},
    {Word::kBeginThread, "begin_thread"},
    {Word::kBeginUnknown, "begin_unknown"},
    {Word::kBlock, "block"},
    {Word::kBytes, "bytes"},
    {Word::kCall, "call"},
    {Word::kCloseReason, "close_reason"},
    {Word::kCount, "count"},
    {Word::kDeadlineNs, "deadline_ns"},
    {Word::kDetail, "detail"},
    {Word::kDevice, "device"},
    {Word::kDynamicShared, "dynamic_shared_bytes"},
    {Word::kEndThread, "end_thread"},
    {Word::kEvents, "events"},
    {Word::kFirstTokenNs, "first_token_after_ns"},
    {Word::kFromThread, "from_thread"},
    {Word::kGbPerS, "gb_per_s"},
    {Word::kGraph, "graph"},
    {Word::kGrid, "grid"},
    {Word::kHostId, "host_id"},
    {Word::kId, "id"},
    {Word::kKernel, "kernel"},
    {Word::kKind, "kind"},
    {Word::kLabels, "labels"},
    {Word::kLaunches, "launches"},
    {Word::kLaunchNs, "launch_ns"},
    {Word::kLeaveNs, "left_ns"},
    {Word::kLocal, "local_bytes_per_thread"},
    {Word::kLostFromNs, "lost_from_ns"},
    {Word::kLostToNs, "lost_to_ns"},
    {Word::kMaxTokenGapNs, "max_token_gap_ns"},
    {Word::kMembers, "members"},
    {Word::kNode, "node"},
    {Word::kOccupancy, "estimated_occupancy_percent"},
    {Word::kOutcome, "outcome"},
    {Word::kOutputTokens, "output_tokens"},
    {Word::kOwnerRequest, "owner_request"},
    {Word::kOwnerThread, "owner_thread"},
    {Word::kParent, "parent"},
    {Word::kReason, "reason"},
    {Word::kRecords, "records"},
    {Word::kRegisters, "registers_per_thread"},
    {Word::kRequest, "request"},
    {Word::kResource, "resource"},
    {Word::kScopePath, "scope_path"},
    {Word::kSizeBucket, "size_bucket"},
    {Word::kSpuriousWakeUps, "spurious_wake_ups"},
    {Word::kStaticShared, "static_shared_bytes"},
    {Word::kSubmittedNs, "submitted_after_ns"},
    {Word::kTakenNs, "taken_ns"},
    {Word::kThread, "thread"},
    {Word::kToThread, "to_thread"},
    {Word::kTraceId, "trace_id"},
    {Word::kTrueDurationNs, "true_duration_ns"},
    {Word::kWaitsFor, "waits_for"},
    {Word::kWork, "work"},
};

constexpr bool AreInOrder() {
  for (size_t i = 0; i < std::size(kWordNames); ++i) {
    if (kWordNames[i].word != static_cast<Word>(i)) return false;
  }
  return std::size(kWordNames) == static_cast<size_t>(Word::kWordCount);
}
static_assert(AreInOrder());

}  // namespace

const char* WordText(Word word) { return kWordNames[static_cast<size_t>(word)].text; }

bool IsWord(std::string_view name) {
  return std::any_of(std::begin(kWordNames), std::end(kWordNames),
                     [&](const WordName& word) { return name == word.text; });
}

PacketWriter::PacketWriter(const model::StringTable& strings, const PerfettoOptions& options, ByteSink* sink)
    : strings_(strings),
      options_(options),
      sink_(sink),
      names_{std::vector<uint64_t>(strings.size()), perfetto::interned::kEventNames, &next_name_},
      wait_names_{std::vector<uint64_t>(strings.size()), perfetto::interned::kEventNames, &next_name_},
      brief_names_{std::vector<uint64_t>(strings.size()), perfetto::interned::kEventNames, &next_name_},
      annotation_names_{std::vector<uint64_t>(strings.size()), perfetto::interned::kAnnotationNames,
                        &next_annotation_name_},
      annotation_strings_{std::vector<uint64_t>(strings.size()), perfetto::interned::kAnnotationStrings,
                          &next_annotation_string_} {}

void PacketWriter::Flush() {
  if (options_.compress != nullptr && buffer_.size() != 0 && buffer_.size() <= kMaxBundleBytes) {
    // Compressed bytes are used only if they are fewer.
    std::vector<uint8_t> out(buffer_.size());
    const uint64_t size =
        options_.compress(options_.compress_context, buffer_.data(), buffer_.size(), out.data(), out.size());
    if (size != 0 && size <= out.size()) {
      buffer_.Clear();
      BeginPacket();
      buffer_.Bytes(perfetto::packet::kCompressedPackets, out.data(), static_cast<size_t>(size));
      buffer_.Close(packet_);
    }
  }
  ok_ = ok_ && (buffer_.size() == 0 || sink_->Write(buffer_.data(), buffer_.size()));
  buffer_.Clear();
}

void PacketWriter::BeginSequence(uint32_t id, uint64_t track, int64_t begin_ns) {
  namespace clock = perfetto::clock_snapshot;
  sequence_ = id;
  ++generation_;
  last_ns_ = begin_ns;
  next_name_ = next_annotation_name_ = next_annotation_string_ = 0;
  BeginPacket();
  buffer_.Varint(perfetto::packet::kSequenceId, id);
  buffer_.Varint(perfetto::packet::kSequenceFlags, perfetto::packet::kStateCleared);
  buffer_.Varint(perfetto::packet::kFirstOnSequence, 1);
  // From here on, timestamps of the sequence are differences.
  const size_t snapshot = buffer_.Open(perfetto::packet::kClockSnapshot);
  size_t entry = buffer_.Open(clock::kClocks);
  buffer_.Varint(clock::kClockId, clock::kSequenceClock);
  buffer_.Int(clock::kTimestamp, begin_ns);
  buffer_.Varint(clock::kIsIncremental, 1);
  buffer_.Close(entry);
  entry = buffer_.Open(clock::kClocks);
  buffer_.Varint(clock::kClockId, clock::kMonotonic);
  buffer_.Int(clock::kTimestamp, begin_ns);
  buffer_.Close(entry);
  buffer_.Varint(clock::kPrimaryTraceClock, clock::kMonotonic);
  buffer_.Close(snapshot);
  const size_t defaults = buffer_.Open(perfetto::packet::kDefaults);
  buffer_.Varint(perfetto::defaults::kTimestampClockId, clock::kSequenceClock);
  const size_t event_defaults = buffer_.Open(perfetto::defaults::kTrackEventDefaults);
  buffer_.Varint(perfetto::defaults::kTrackUuid, track);
  buffer_.Close(event_defaults);
  buffer_.Close(defaults);
  EndPacket();
}

void PacketWriter::AnnotateArg(model::StringId name, ArgType type, model::ArgValue value) {
  namespace field = perfetto::annotation;
  if (model::IsText(type)) return AnnotateText(name, static_cast<model::StringId>(value));
  Annotation(NameIid(name), [&] {
    switch (type) {
      case ArgType::kBool:
        buffer_.Varint(field::kBool, value != 0);
        break;
      case ArgType::kUint:
        buffer_.Varint(field::kUint, value);
        break;
      case ArgType::kDouble: {
        double number;
        memcpy(&number, &value, sizeof number);
        buffer_.Double(field::kDouble, number);
        break;
      }
      default:
        buffer_.Varint(field::kInt, value);
        break;
    }
  });
}

uint64_t PacketWriter::InternNew(Seen* seen, std::string_view prefix, model::StringId id, std::string_view text) {
  const uint64_t iid = ++*seen->next;
  AddEntry(seen->field, iid, prefix, text);
  if (id < seen->iids.size()) seen->iids[id] = generation_ << 32 | iid;
  return iid;
}

uint64_t PacketWriter::WordIid(Word word) {
  uint64_t& known = word_iids_[static_cast<size_t>(word)];
  if (known >> 32 != generation_) {
    known = generation_ << 32 | ++next_annotation_name_;
    AddEntry(perfetto::interned::kAnnotationNames, known & UINT32_MAX, {}, WordText(word));
  }
  return known & UINT32_MAX;
}

void PacketWriter::AddEntry(uint32_t field, uint64_t iid, std::string_view prefix, std::string_view text) {
  const size_t entry = interned_.Open(field);
  interned_.Varint(perfetto::interned::kIid, iid);
  interned_.RawVarint(perfetto::interned::kText << 3 | 2);
  interned_.RawVarint(prefix.size() + text.size());
  interned_.RawBytes(prefix.data(), prefix.size());
  interned_.RawBytes(text.data(), text.size());
  interned_.Close(entry);
}

void PacketWriter::AddInterned() {
  buffer_.Bytes(perfetto::packet::kInternedData, interned_.data(), interned_.size());
  interned_.Clear();
}

}  // namespace pitot::serialize
