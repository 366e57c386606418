// SPDX-License-Identifier: Apache-2.0
#include "read/perfetto_packets.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "read/other_protobufs.h"

namespace pitot::read {

using base::TakeVarint;
using base::WireField;
using base::WireReader;
using base::WireType;
namespace {

// Field numbers, by message.
namespace packet {
enum : uint32_t {
  kFtrace = 1,
  kProcessTree = 2,
  kClockSnapshot = 6,
  kTimestamp = 8,
  kSequence = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kFlags = 13,
  kSynchronization = 36,
  kTraceConfig = 33,
  kOldCleared = 41,
  kDropped = 42,
  kCompressed = 50,
  kGpuCounters = 52,
  kGpuStage = 53,
  kClock = 58,
  kDefaults = 59,
  kTrackDescriptor = 60,
  kUuid = 89,
  kAttributes = 126,
};
}  // namespace packet

constexpr uint64_t kStateCleared = 1, kNeedsState = 2;
constexpr uint64_t kRealtimeClock = 1, kMonotonicClock = 3, kBoottimeClock = 6, kFirstOwnClock = 64,
                   kLastOwnClock = 127;
constexpr size_t kMostUnpackedBytes = 64 << 20, kMostArgs = 64;
// As the model keeps them; longer texts are cut.
constexpr size_t kMostKeyBytes = 1 << 10, kMostValueBytes = 16 << 10;
constexpr uint64_t kMostUnpackedPart = 64;  // bytes for each packed one of a file, beyond the first 64 MiB
constexpr int kMostDepth = 8;

std::string_view NameOf(const std::unordered_map<uint64_t, std::string>& names, uint64_t id) {
  const auto found = names.find(id);
  return found == names.end() ? std::string_view() : std::string_view(found->second);
}
void TakeDimensions(std::string_view message, uint32_t (&axes)[3]) {
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    if (field.type == WireType::kVarint && field.number <= 3)
      axes[field.number - 1] = static_cast<uint32_t>(std::min<uint64_t>(field.value, UINT32_MAX));
  }
}

}  // namespace

bool IsPerfetto(std::string_view bytes) {
  constexpr int kPackets = 16;
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  uint64_t tag = 0, size = 0;
  bool is_known = false;
  if (!OtherProtobuf(bytes).empty()) return false;
  for (int i = 0; i < kPackets && at != end; ++i) {
    if (!TakeVarint(&at, end, &tag) || tag != (1 << 3 | 2) || !TakeVarint(&at, end, &size)) return is_known && i > 0;
    const bool is_whole = size <= static_cast<size_t>(end - at);
    WireReader reader({at, static_cast<size_t>(std::min<uint64_t>(size, static_cast<size_t>(end - at)))});
    WireField field;
    bool is_of_packet = false;
    while (reader.Next(&field)) {
      switch (field.number) {
        case packet::kTimestamp:
        case packet::kSequence:
          if (field.type != WireType::kVarint) return false;
          is_of_packet = true;
          break;
        case packet::kClockSnapshot:
        case packet::kTrackEvent:
        case packet::kTraceConfig:
        case packet::kSynchronization:
        case packet::kCompressed:
        case packet::kTrackDescriptor:
        case packet::kUuid:
          if (field.type != WireType::kBytes) return false;
          is_of_packet = true;
          break;
        default:
          break;
      }
    }
    if (is_whole && reader.is_damaged()) return is_known;
    is_known |= is_of_packet;
    if (!is_whole) break;
    at += size;
  }
  return is_known;
}

void PerfettoPackets::Names::Add(uint64_t id, std::string_view text) {
  if (id == from_1_.size() + 1 && others_.empty()) {
    from_1_.emplace_back(text);
  } else if (id > from_1_.size()) {
    others_.try_emplace(id, text);
  }
}

std::string_view PerfettoPackets::Names::operator[](uint64_t id) const {
  return id - 1 < from_1_.size() ? std::string_view(from_1_[id - 1]) : NameOf(others_, id);
}

// A message of an id and a text.
void PerfettoPackets::Intern(std::string_view message, Names* names) {
  WireReader reader(message);
  WireField field;
  uint64_t id = 0;
  std::string_view text;
  while (reader.Next(&field)) {
    if (field.Is(1, WireType::kVarint)) id = field.value;
    if (field.Is(2, WireType::kBytes)) text = field.bytes;
  }
  if (id != 0) names->Add(id, text);
}

PerfettoPackets::Sequence& PerfettoPackets::SequenceOf(uint32_t id) {
  if (last_sequence_ == nullptr || last_sequence_id_ != id) last_sequence_ = &sequences_[id];
  last_sequence_id_ = id;
  return *last_sequence_;
}

bool PerfettoPackets::Take(std::string_view message, bool is_packed) {
  WireReader reader(message);
  WireField field;
  std::string_view body, interned, defaults;
  uint32_t kind = 0, sequence_id = 0;
  uint64_t timestamp = 0, clock = 0, flags = 0;
  bool has_timestamp = false;
  while (reader.Next(&field)) {
    switch (field.number) {
      case packet::kTimestamp:
        timestamp = field.value;
        has_timestamp = true;
        break;
      case packet::kSequence:
        sequence_id = static_cast<uint32_t>(field.value);
        break;
      case packet::kClock:
        clock = field.value;
        break;
      case packet::kFlags:
        flags = field.value;
        break;
      case packet::kOldCleared:
        if (field.value != 0) flags |= kStateCleared;
        break;
      case packet::kDropped:
        if (field.value != 0) ++lost_, SequenceOf(sequence_id).has_state = false;
        break;
      case packet::kInternedData:
        interned = field.bytes;
        break;
      case packet::kDefaults:
        defaults = field.bytes;
        break;
      case packet::kFtrace:
      case packet::kProcessTree:
      case packet::kClockSnapshot:
      case packet::kTrackEvent:
      case packet::kCompressed:
      case packet::kGpuCounters:
      case packet::kGpuStage:
      case packet::kTrackDescriptor:
      case packet::kAttributes:
        if (field.type != WireType::kBytes) return false;
        kind = field.number;
        body = field.bytes;
        break;
      default:
        break;
    }
  }
  if (reader.is_damaged()) return false;
  Sequence& sequence = SequenceOf(sequence_id);
  if ((flags & kStateCleared) != 0) {
    sequence = Sequence();
    sequence.has_state = true;
  }
  if (sequence.has_state) {
    if (!defaults.empty()) TakeDefaults(defaults, &sequence);
    if (!interned.empty()) TakeInterned(interned, &sequence);
  }
  if ((flags & kNeedsState) != 0 && !sequence.has_state) return ++without_state_, true;
  switch (kind) {
    case packet::kCompressed:
      return !is_packed && TakePacked(body);
    case packet::kClockSnapshot:
      return TakeSnapshot(body, sequence_id);
    case packet::kTrackDescriptor:
      return TakeTrack(body);
    case packet::kFtrace:
      return TakeFtrace(body);
    case packet::kAttributes:
      return TakeAttributes(body), true;
    case packet::kProcessTree:
      return TakeProcessTree(body), true;
    case packet::kTrackEvent:
    case packet::kGpuCounters:
    case packet::kGpuStage:
      break;
    default:
      return target_.Skip(), true;
  }
  ++report_.events;
  int64_t at_ns = 0;
  if (clock == 0) clock = sequence.default_clock;
  if (!has_timestamp || !TimeOf(timestamp, clock, sequence_id, &at_ns)) return false;
  if (kind == packet::kTrackEvent) return TakeEvent(body, at_ns, sequence);
  if (kind == packet::kGpuStage) return TakeStage(body, at_ns, sequence);
  return TakeCounters(body, at_ns, sequence);
}

bool PerfettoPackets::TakePacked(std::string_view packed) {
  packed_bytes_ += packed.size();
  if (unpacked_bytes_ > kMostUnpackedBytes + kMostUnpackedPart * packed_bytes_) return false;
  std::string bytes(std::min(kMostUnpackedBytes, packed.size() * 4 + 64), '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return false;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int result = Z_OK;
  while (result == Z_OK) {
    if (stream.total_out == bytes.size()) {
      if (bytes.size() == kMostUnpackedBytes) break;
      bytes.resize(std::min(kMostUnpackedBytes, bytes.size() * 2));
    }
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + stream.total_out);
    stream.avail_out = static_cast<uInt>(bytes.size() - stream.total_out);
    result = inflate(&stream, Z_NO_FLUSH);
  }
  bytes.resize(stream.total_out);
  unpacked_bytes_ += bytes.size();
  inflateEnd(&stream);
  bool is_good = result == Z_STREAM_END;
  WireReader reader(bytes);
  WireField field;
  while (reader.Next(&field)) {
    if (field.Is(1, WireType::kBytes)) is_good &= Take(field.bytes, true);
  }
  return is_good && !reader.is_damaged();
}

bool PerfettoPackets::TakeSnapshot(std::string_view message, uint32_t sequence_id) {
  struct Entry {
    uint64_t id = 0;
    Clock clock;
  };
  std::vector<Entry> entries;
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    if (field.Is(2, WireType::kVarint)) trace_clock_ = field.value;
    if (!field.Is(1, WireType::kBytes)) continue;
    Entry entry;
    WireReader of(field.bytes);
    for (WireField part; of.Next(&part);) {
      if (part.type != WireType::kVarint) continue;
      if (part.number == 1) entry.id = part.value;
      if (part.number == 2) entry.clock.at = part.Int();
      if (part.number == 3) entry.clock.is_incremental = part.value != 0;
      if (part.number == 4) entry.clock.multiplier = std::max<int64_t>(1, part.Int());
    }
    if (of.is_damaged()) return false;
    entries.push_back(entry);
  }
  // The time of the snapshot: by the trace's clock, or by one that an earlier snapshot tied to it.
  int64_t trace_ns = 0;
  bool is_known = false;
  for (const Entry& entry : entries) {
    if (entry.id != trace_clock_) continue;
    trace_ns = entry.clock.at;
    is_known = true;
  }
  for (const Entry& entry : entries) {
    const auto found = clock_of_.find({0, entry.id});
    if (is_known || found == clock_of_.end() || found->second.multiplier != 1) continue;
    is_known = !__builtin_add_overflow(found->second.trace_ns, entry.clock.at - found->second.at, &trace_ns);
  }
  if (!is_known && !entries.empty()) trace_ns = entries[0].clock.at;
  const bool has_date =
      std::any_of(entries.begin(), entries.end(), [](const Entry& entry) { return entry.id == kRealtimeClock; });
  if (has_date) clocks_.trace_ns = trace_ns;
  for (Entry& entry : entries) {
    if (has_date && entry.id == kRealtimeClock) clocks_.realtime_ns = entry.clock.at;
    if (has_date && entry.id == kMonotonicClock) clocks_.monotonic_ns = entry.clock.at;
    if (has_date && entry.id == kBoottimeClock) clocks_.boottime_ns = entry.clock.at;
    entry.clock.trace_ns = trace_ns;
    const bool is_own = entry.id >= kFirstOwnClock && entry.id <= kLastOwnClock;
    clock_of_[{is_own ? sequence_id : 0, entry.id}] = entry.clock;
  }
  return !reader.is_damaged();
}

bool PerfettoPackets::TimeOf(uint64_t timestamp, uint64_t id, uint32_t sequence, int64_t* at_ns) {
  if (id == 0) id = trace_clock_;
  *at_ns = static_cast<int64_t>(timestamp);
  const bool is_own = id >= kFirstOwnClock && id <= kLastOwnClock;
  if (id == trace_clock_) return true;
  const auto found = clock_of_.find({is_own ? sequence : 0, id});
  // In a file without any snapshot, times are as they are.
  if (found == clock_of_.end()) {
    if (!clock_of_.empty() || is_own) return false;
    ++untied_;
    return true;
  }
  Clock& clock = found->second;
  int64_t ticks = 0, ns = 0;
  if (clock.is_incremental) {
    if (__builtin_mul_overflow(*at_ns, clock.multiplier, &ns)) return false;
    if (__builtin_add_overflow(clock.trace_ns, ns, at_ns)) return false;
    clock.trace_ns = *at_ns;
    return true;
  }
  return !__builtin_sub_overflow(*at_ns, clock.at, &ticks) && !__builtin_mul_overflow(ticks, clock.multiplier, &ns) &&
         !__builtin_add_overflow(clock.trace_ns, ns, at_ns);
}

void PerfettoPackets::TakeDefaults(std::string_view message, Sequence* sequence) {
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    if (field.Is(58, WireType::kVarint)) sequence->default_clock = field.value;
    if (!field.Is(11, WireType::kBytes)) continue;
    WireReader event(field.bytes);
    for (WireField part; event.Next(&part);) {
      if (part.type != WireType::kVarint) continue;
      if (part.number == 11) sequence->default_track = part.value;
      if (part.number == 31) sequence->extra_tracks.push_back(part.value);
      if (part.number == 45) sequence->extra_double_tracks.push_back(part.value);
    }
  }
}

void PerfettoPackets::TakeInterned(std::string_view message, Sequence* sequence) {
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    if (field.type != WireType::kBytes) continue;
    switch (field.number) {
      case 2:
        Intern(field.bytes, &sequence->event_names);
        break;
      case 3:
        Intern(field.bytes, &sequence->annotation_names);
        break;
      case 24:
        Intern(field.bytes, &sequence->specifications);
        break;
      case 29:
        Intern(field.bytes, &sequence->texts);
        break;
      case 47:
        Intern(field.bytes, &sequence->gpu_counters);
        break;
      case 1000: {
        uint64_t iid = 0;
        std::string_view second, third;
        std::vector<std::string> args;
        WireReader of(field.bytes);
        for (WireField part; of.Next(&part);) {
          if (part.Is(1, WireType::kVarint)) iid = part.value;
          if (part.Is(2, WireType::kBytes)) second = part.bytes;
          if (part.Is(3, WireType::kBytes)) third = part.bytes;
          if (part.Is(5, WireType::kBytes) && args.size() < kMostArgs) args.emplace_back(part.bytes);
        }
        sequence->kernels[iid] = {std::string(second), std::string(third), std::move(args)};
        break;
      }
      case 1001:
        Intern(field.bytes, &sequence->argument_names);
        break;
      default:
        break;
    }
  }
}

bool PerfettoPackets::TakeTrack(std::string_view message) {
  PerfettoTrack track;
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    if (field.Is(1, WireType::kVarint)) track.uuid = field.value;
    if (field.Is(5, WireType::kVarint)) track.parent = field.value;
    if (field.type != WireType::kBytes) continue;
    if (field.number == 2 || field.number == 10 || field.number == 13) track.name = field.bytes;
    if (field.number != 3 && field.number != 4 && field.number != 8) continue;
    (field.number == 3 ? track.has_process : field.number == 4 ? track.has_thread : track.is_counter) = true;
    WireReader of(field.bytes);
    for (WireField part; of.Next(&part);) {
      if (field.number == 3) {
        if (part.Is(1, WireType::kVarint)) track.pid = static_cast<int32_t>(part.value);
        if (part.Is(6, WireType::kBytes)) track.process_name = part.bytes;
      } else if (field.number == 4) {
        if (part.Is(1, WireType::kVarint)) track.pid = static_cast<int32_t>(part.value);
        if (part.Is(2, WireType::kVarint)) track.tid = part.Int();
        if (part.Is(3, WireType::kVarint)) track.sort_index = part.Int();
        if (part.Is(5, WireType::kBytes)) track.thread_name = part.bytes;
      } else {
        constexpr std::string_view kUnits[] = {"", "ns", "", "bytes"};
        if (part.Is(3, WireType::kVarint) && part.value < 4) track.unit = kUnits[part.value];
        if (part.Is(4, WireType::kVarint) && part.value != 0) track.multiplier = static_cast<double>(part.Int());
        if (part.Is(5, WireType::kVarint)) track.is_incremental = part.value != 0;
        if (part.Is(6, WireType::kBytes)) track.unit = part.bytes;
      }
    }
    if (of.is_damaged()) return false;
  }
  if (reader.is_damaged()) return false;
  target_.TakeTrack(track);
  return true;
}

// The shortest that is read as the same number.
template <class T> std::string_view PerfettoPackets::Digits(T value) {
  char digits[32];
  std::string& text = made_.emplace_back(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  // A number with a fraction stays one.
  if (std::is_floating_point_v<T> && text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}
std::string_view PerfettoPackets::Pointer(uint64_t value) {
  char digits[20] = "0x";
  return made_.emplace_back(digits, std::to_chars(digits + 2, digits + sizeof digits, value, 16).ptr);
}

// Members of a dictionary or list become arguments "name.member" and "name.0".
void PerfettoPackets::TakeAnnotation(std::string_view message, const std::string& prefix, int depth,
                                     const Sequence& sequence) {
  WireReader reader(message);
  WireField field;
  ChromeValue arg;
  std::string_view name;
  bool has_value = false;
  std::vector<std::string_view> dictionary, list;
  const auto set = [&](std::string_view text, bool is_text) {
    arg.text = text.substr(0, kMostValueBytes);
    arg.is_text = is_text;
    has_value = true;
  };
  while (reader.Next(&field)) {
    switch (field.number) {
      case 1:
        name = sequence.annotation_names[field.value];
        break;
      case 10:
        name = field.bytes;
        break;
      case 2:
        set(field.value != 0 ? "true" : "false", false);
        break;
      case 3:
        set(Digits(field.value), false);
        break;
      case 4:
        set(Digits(field.Int()), false);
        break;
      case 5:
        set(Digits(field.Double()), false);
        break;
      case 6:
      case 9:
        set(field.bytes, true);
        break;
      case 7:
        set(Pointer(field.value), true);
        break;
      case 17:
        set(sequence.texts[field.value], true);
        break;
      case 11:
        dictionary.push_back(field.bytes);
        break;
      case 12:
        list.push_back(field.bytes);
        break;
      default:
        break;
    }
  }
  arg.key = name.substr(0, kMostKeyBytes);
  if (!prefix.empty()) arg.key = made_.emplace_back(prefix + (name.empty() ? "" : ".") + std::string(arg.key));
  if (event_.args.size() >= kMostArgs) return;
  if (has_value) event_.args.push_back(arg);
  if ((dictionary.empty() && list.empty()) || depth == kMostDepth || arg.key.size() > kMostKeyBytes) return;
  const std::string path(arg.key);
  for (const std::string_view member : dictionary) TakeAnnotation(member, path, depth + 1, sequence);
  for (size_t i = 0; i < std::min(list.size(), kMostArgs); ++i)
    TakeAnnotation(list[i], path + "." + std::to_string(i), depth + 1, sequence);
}

void PerfettoPackets::AddExtra(const Extra& extra, const std::vector<uint64_t>& default_tracks) {
  const std::vector<uint64_t>& of = extra.tracks.empty() ? default_tracks : extra.tracks;
  for (size_t i = 0; i < std::min(extra.values.size(), of.size()); ++i)
    event_.extra.push_back({of[i], extra.values[i]});
}

bool PerfettoPackets::TakeEvent(std::string_view message, int64_t at_ns, const Sequence& sequence) {
  PerfettoEvent& event = event_;
  if (!made_.empty()) made_.clear();
  event.default_track = event.track = sequence.default_track;
  event.at_ns = at_ns;
  event.type = PerfettoEvent::kUnspecified;
  event.name = {};
  event.args.clear();
  event.flows.clear();
  event.submitted.clear();
  event.correlation = 0;
  event.value = 0;
  event.extra.clear();
  for (Extra* extra : {&extra_, &extra_double_}) {
    extra->values.clear();
    extra->tracks.clear();
  }
  bool has_value = false;
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 4:
        if (field.type == WireType::kBytes) TakeAnnotation(field.bytes, {}, 0, sequence);
        break;
      case 9:
        event.type = field.value;
        break;
      case 10:
        event.name = sequence.event_names[field.value];
        break;
      case 11:
        event.track = field.value;
        break;
      case 12:
        extra_.values.push_back(static_cast<double>(field.Int()));
        break;
      case 23:
        event.name = field.bytes;
        break;
      case 30:
        event.value = static_cast<double>(field.Int());
        has_value = true;
        break;
      case 31:
        extra_.tracks.push_back(field.value);
        break;
      case 44:
        event.value = field.Double();
        has_value = true;
        break;
      case 45:
        extra_double_.tracks.push_back(field.value);
        break;
      case 46:
        extra_double_.values.push_back(field.Double());
        break;
      case 36:
      case 42:
      case 47:
      case 48:
        event.flows.push_back(field.value);
        break;
      case 52:
        event.correlation = field.value;
        break;
      case 3000: {
        WireReader of(field.bytes);
        for (WireField part; of.Next(&part);) {
          if (part.Is(1, WireType::kVarint)) event.submitted.push_back(part.value);
        }
        break;
      }
      default:
        break;
    }
  }
  if (reader.is_damaged()) return false;
  if (event.type == PerfettoEvent::kCounter && !has_value) return false;
  if (!extra_.values.empty()) AddExtra(extra_, sequence.extra_tracks);
  if (!extra_double_.values.empty()) AddExtra(extra_double_, sequence.extra_double_tracks);
  return target_.TakeEvent(event);
}

bool PerfettoPackets::TakeFtrace(std::string_view message) {
  WireReader reader(message);
  WireField field;
  uint32_t cpu = 0;
  while (reader.Next(&field)) {
    if (field.Is(1, WireType::kVarint)) cpu = static_cast<uint32_t>(field.value);
    if (!field.Is(2, WireType::kBytes)) continue;
    ++report_.events;
    PerfettoSwitch change;
    bool is_switch = false;
    WireReader event(field.bytes);
    for (WireField part; event.Next(&part);) {
      if (part.Is(1, WireType::kVarint)) change.at_ns = part.Int();
      if (!part.Is(4, WireType::kBytes)) continue;
      is_switch = true;
      WireReader of(part.bytes);
      for (WireField member; of.Next(&member);) {
        if (member.Is(5, WireType::kBytes)) change.next_name = member.bytes;
        if (member.Is(6, WireType::kVarint)) change.next_tid = member.Int();
      }
    }
    if (event.is_damaged()) {
      ++report_.events_bad;
    } else if (is_switch) {
      change.cpu = cpu;
      // ftrace's default clock is BOOTTIME.
      if (TimeOf(static_cast<uint64_t>(change.at_ns), kBoottimeClock, 0, &change.at_ns)) target_.TakeSwitch(change);
    } else {
      target_.Skip();
    }
  }
  return !reader.is_damaged();
}

// A fact of a kernel or of its launch.
ChromeValue PerfettoPackets::Argument(std::string_view message, const Sequence& sequence) {
  ChromeValue arg;
  WireReader reader(message);
  for (WireField part; reader.Next(&part);) {
    if (part.Is(1, WireType::kVarint)) arg.key = sequence.argument_names[part.value];
    if (part.Is(2, WireType::kBytes)) arg.key = part.bytes;
    if (part.Is(3, WireType::kVarint)) arg.text = Digits(part.Int());
    if (part.Is(4, WireType::kVarint)) arg.text = Digits(part.value);
  }
  return arg;
}

bool PerfettoPackets::TakeStage(std::string_view message, int64_t at_ns, const Sequence& sequence) {
  made_.clear();
  PerfettoStage stage;
  stage.begin_ns = at_ns;
  uint64_t duration = 0;
  std::string_view of_stage, of_kernel;
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 1:
        stage.event_id = field.value;
        break;
      case 2:
        duration = field.value;
        break;
      case 5:
        stage.context = field.value;
        break;
      case 6: {
        ChromeValue extra;
        extra.is_text = true;
        WireReader of(field.bytes);
        for (WireField part; of.Next(&part);) {
          if (part.Is(1, WireType::kBytes)) extra.key = part.bytes;
          if (part.Is(2, WireType::kBytes)) extra.text = part.bytes;
        }
        if (stage.extra.size() < kMostArgs) stage.extra.push_back(extra);
        break;
      }
      case 11:
        stage.gpu = field.value;
        break;
      case 13:
        stage.queue = sequence.specifications[field.value];
        break;
      case 14:
        of_stage = sequence.specifications[field.value];
        break;
      case 17:
        stage.name = field.bytes;
        break;
      case 20:
        stage.name = sequence.event_names[field.value];
        break;
      case 19: {
        const auto found = sequence.kernels.find(field.value);
        if (found == sequence.kernels.end()) break;
        of_kernel = found->second.demangled.empty() ? found->second.name : found->second.demangled;
        for (const std::string& arg : found->second.args) {
          if (stage.extra.size() < kMostArgs) stage.extra.push_back(Argument(arg, sequence));
        }
        break;
      }
      case 21: {
        WireReader of(field.bytes);
        for (WireField part; of.Next(&part);) {
          if (part.type != WireType::kBytes) continue;
          if (part.number == 1) TakeDimensions(part.bytes, stage.grid);
          if (part.number == 2) TakeDimensions(part.bytes, stage.block);
          stage.has_launch |= part.number <= 2;
          if (part.number == 3 && stage.extra.size() < kMostArgs) stage.extra.push_back(Argument(part.bytes, sequence));
        }
        break;
      }
      default:
        break;
    }
  }
  if (reader.is_damaged() || duration > INT64_MAX) return false;
  stage.duration_ns = static_cast<int64_t>(duration);
  if (!of_kernel.empty()) stage.name = of_kernel;
  if (stage.name.empty()) stage.name = of_stage;
  target_.TakeStage(stage);
  return true;
}

bool PerfettoPackets::TakeCounters(std::string_view message, int64_t at_ns, const Sequence& sequence) {
  WireReader reader(message);
  WireField field;
  uint64_t gpu = 0;
  std::unordered_map<uint64_t, std::string> own;
  std::unordered_map<uint64_t, std::string>* names = &gpu_counters_;
  std::vector<std::string_view> samples;
  const auto describe = [&](std::string_view descriptor) {
    WireReader specs(descriptor);
    for (WireField spec; specs.Next(&spec);) {
      if (spec.Is(1, WireType::kBytes)) {
        uint64_t id = 0;
        std::string_view name;
        WireReader of(spec.bytes);
        for (WireField part; of.Next(&part);) {
          if (part.Is(1, WireType::kVarint)) id = part.value;
          if (part.Is(2, WireType::kBytes)) name = part.bytes;
        }
        (*names)[id] = name;
      }
    }
  };
  while (reader.Next(&field)) {
    if (field.Is(1, WireType::kBytes)) describe(field.bytes);
    if (field.Is(2, WireType::kBytes)) samples.push_back(field.bytes);
    if (field.Is(3, WireType::kVarint)) gpu = field.value;
    if (field.Is(4, WireType::kVarint)) {
      names = &own;
      describe(sequence.gpu_counters[field.value]);
    }
  }
  for (const std::string_view sample : samples) {
    PerfettoSample of = {gpu, {}, at_ns, 0};
    WireReader parts(sample);
    for (WireField part; parts.Next(&part);) {
      if (part.Is(1, WireType::kVarint)) of.counter = NameOf(*names, part.value);
      if (part.Is(2, WireType::kVarint)) of.value = static_cast<double>(part.Int());
      if (part.Is(3, WireType::kFixed64)) of.value = part.Double();
    }
    if (of.counter.empty() || parts.is_damaged()) return false;
    target_.TakeSample(of);
  }
  return !reader.is_damaged();
}

void PerfettoPackets::TakeAttributes(std::string_view message) {
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    if (!field.Is(1, WireType::kBytes)) continue;
    std::string_view key, text;
    int64_t number = 0;
    WireReader of(field.bytes);
    for (WireField part; of.Next(&part);) {
      if (part.Is(1, WireType::kBytes)) key = part.bytes;
      if (part.Is(2, WireType::kVarint)) number = part.Int();
      if (part.Is(3, WireType::kBytes)) text = part.bytes;
    }
    target_.TakeAttribute(key, text, number);
  }
}

void PerfettoPackets::TakeProcessTree(std::string_view message) {
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    if (field.type != WireType::kBytes || (field.number != 1 && field.number != 2)) continue;
    int64_t first = 0, third = 0;
    std::string_view second;
    WireReader of(field.bytes);
    for (WireField part; of.Next(&part);) {
      if (part.Is(1, WireType::kVarint)) first = part.Int();
      if (part.Is(3, WireType::kVarint)) third = part.Int();
      if ((field.number == 1 ? part.number == 3 : part.number == 2) && part.type == WireType::kBytes && second.empty())
        second = part.bytes;
    }
    if (field.number == 1) target_.NameProcess(first, second);
    if (field.number == 2) target_.NameThread(third, first, second);
  }
}

}  // namespace pitot::read
