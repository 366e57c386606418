// SPDX-License-Identifier: Apache-2.0
#include "read/xspace_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>

#include "base/columns.h"
#include "base/text.h"
#include "read/wire_stream.h"

namespace pitot::read {

using base::TakeVarint;
using base::WireField;
using base::WireReader;
using base::WireType;
namespace {

// Field numbers of xplane.proto.
namespace xplane {
enum : uint32_t { kPlane = 1, kError = 2, kWarning = 3, kHostName = 4 };
enum : uint32_t { kPlaneName = 2, kLine = 3, kEventName = 4, kStatName = 5, kPlaneStat = 6 };
enum : uint32_t { kLineId = 1, kLineName = 2, kLineBegin = 3, kEvent = 4, kDisplayName = 11 };
enum : uint32_t { kEventNameId = 1, kOffset = 2, kDuration = 3, kStat = 4 };
enum : uint32_t { kStatNameId = 1, kDouble = 2, kUint = 3, kInt = 4, kText = 5, kReference = 7 };
enum : uint32_t { kKey = 1, kValue = 2 };                                    // of an entry
enum : uint32_t { kName = 2, kMetadataDisplayName = 4, kMetadataStat = 5 };  // of its value
}  // namespace xplane

constexpr char kCutOff[] = "it is cut off";
constexpr size_t kMostNameBytesOfXSpace = 64 << 10, kMostStats = 64;
constexpr uint64_t kMostKeptBytes = 64 << 20;  // of texts of stats, in a plane

using StatNames = XSpaceTable<std::string>;
using Digits = std::array<char, 32>;

// The value of a stat: a whole number, or a text in `digits` or in its own bytes. False for a kind that is not read,
// and damage.
bool ReadStat(std::string_view message, const StatNames& names, Digits* digits, ChromeValue* stat) {
  WireReader reader(message);
  WireField field;
  uint64_t name = 0;
  bool has_value = false;
  const auto print = [&](const char* format, auto value) {
    const int size = std::snprintf(digits->data(), digits->size(), format, value);
    *stat = {{}, {digits->data(), static_cast<size_t>(size)}};
    has_value = true;
  };
  const auto take_text = [&](std::string_view text) {
    *stat = {{}, text, true};
    has_value = true;
  };
  const auto take_whole = [&](int64_t value) {
    *stat = {{}, {}, false, value};
    has_value = true;
  };
  while (reader.Next(&field)) {
    if (field.Is(xplane::kStatNameId, WireType::kVarint)) {
      name = field.value;
    } else if (field.Is(xplane::kUint, WireType::kVarint) && field.value > INT64_MAX) {
      print("%llu", static_cast<unsigned long long>(field.value));
    } else if (field.Is(xplane::kUint, WireType::kVarint) || field.Is(xplane::kInt, WireType::kVarint)) {
      take_whole(field.Int());
    } else if (field.Is(xplane::kDouble, WireType::kFixed64)) {
      print("%.17g", field.Double());
    } else if (field.Is(xplane::kText, WireType::kBytes)) {
      take_text(field.bytes);
    } else if (field.Is(xplane::kReference, WireType::kVarint)) {
      const std::string* const text = names.Find(field.value);
      if (text == nullptr) return false;
      take_text(*text);
    }
  }
  const std::string* const key = names.Find(name);
  if (reader.is_damaged() || !has_value || key == nullptr) return false;
  stat->key = *key;
  return true;
}

XSpaceStat Kept(const ChromeValue& stat) {
  const std::string text = stat.whole ? std::to_string(*stat.whole) : std::string(stat.text);
  return {std::string(stat.key), text.substr(0, kMostNameBytesOfXSpace), stat.is_text, stat.whole};
}

// An entry of a plane's table: its key, and the fields of its value.
template <class Take> void ReadEntry(std::string_view entry, uint64_t* key, const Take& take) {
  WireReader reader(entry);
  WireField field;
  std::string_view value;
  while (reader.Next(&field)) {
    if (field.Is(xplane::kKey, WireType::kVarint)) *key = field.value;
    if (field.Is(xplane::kValue, WireType::kBytes)) value = field.bytes;
  }
  for (WireReader fields(value); fields.Next(&field);) take(field);
}

// Parts of a plane, until its names of stats are known.
struct RawPlane {
  std::vector<std::pair<uint64_t, std::string>> event_stats;  // by the event's id
  std::vector<std::string> plane_stats;
};

void ReadEventName(std::string_view entry, XSpacePlaneHead* head, RawPlane* raw) {
  uint64_t id = 0;
  std::string name, display_name;
  std::vector<std::string> stats;
  ReadEntry(entry, &id, [&](const WireField& field) {
    if (field.type != WireType::kBytes) return;
    if (field.number == xplane::kName) name = field.bytes.substr(0, kMostNameBytesOfXSpace);
    if (field.number == xplane::kMetadataDisplayName) display_name = field.bytes.substr(0, kMostNameBytesOfXSpace);
    if (field.number == xplane::kMetadataStat && stats.size() < kMostStats &&
        field.bytes.size() < kMostNameBytesOfXSpace)
      stats.emplace_back(field.bytes);
  });
  head->events[id].name = display_name.empty() ? std::move(name) : std::move(display_name);
  for (std::string& stat : stats) raw->event_stats.emplace_back(id, std::move(stat));
}

void ReadLineHead(WireStream* stream, XSpacePlaneHead* head) {
  std::pair<int64_t, std::string> line;
  WireField field;
  while (stream->Next(&field) && field.number != xplane::kEvent) {
    if (field.Is(xplane::kLineId, WireType::kVarint)) line.first = field.Int();
    if (field.Is(xplane::kLineName, WireType::kBytes)) line.second = stream->Take().substr(0, kMostNameBytesOfXSpace);
  }
  head->lines.push_back(std::move(line));
}

void ReadHead(WireStream* stream, XSpacePlaneHead* head) {
  RawPlane raw;
  WireField field;
  while (stream->Next(&field)) {
    if (field.type != WireType::kBytes) continue;
    if (field.number == xplane::kPlaneName) {
      head->name = stream->Take().substr(0, kMostNameBytesOfXSpace);
    } else if (field.number == xplane::kLine) {
      stream->Enter();
      ReadLineHead(stream, head);
      stream->Leave();
    } else if (field.number == xplane::kEventName) {
      ReadEventName(stream->Take(), head, &raw);
    } else if (field.number == xplane::kStatName) {
      uint64_t id = 0;
      std::string name;
      ReadEntry(stream->Take(), &id, [&](const WireField& of) {
        if (of.Is(xplane::kName, WireType::kBytes)) name = of.bytes.substr(0, kMostNameBytesOfXSpace);
      });
      head->stats[id] = std::move(name);
    } else if (field.number == xplane::kPlaneStat && field.value < kMostNameBytesOfXSpace) {
      raw.plane_stats.emplace_back(stream->Take());
    }
  }
  Digits digits;
  ChromeValue stat;
  uint64_t kept_bytes = 0;  // a long text may be referred to often
  for (const auto& [event, message] : raw.event_stats) {
    std::vector<XSpaceStat>& stats = head->events[event].stats;
    if (stats.size() < kMostStats && kept_bytes < kMostKeptBytes && ReadStat(message, head->stats, &digits, &stat)) {
      stats.push_back(Kept(stat));
      kept_bytes += stats.back().text.size();
    }
  }
  for (const std::string& message : raw.plane_stats) {
    if (ReadStat(message, head->stats, &digits, &stat)) head->plane_stats.push_back(Kept(stat));
  }
}

class LineReader {
 public:
  LineReader(const std::vector<XSpacePlaneHead>& planes, XSpaceTarget* target, TraceReport* report)
      : planes_(planes), target_(*target), report_(*report) {}

  void ReadPlane(size_t plane, WireStream* stream) {
    WireField field;
    while (stream->Next(&field)) {
      if (!field.Is(xplane::kLine, WireType::kBytes)) continue;
      stream->Enter();
      ReadLine(plane, stream);
      stream->Leave();
    }
  }

 private:
  void ReadLine(size_t plane, WireStream* stream) {
    int64_t id = 0, begin_ns = 0;
    WireField field;
    while (stream->Next(&field)) {
      if (field.Is(xplane::kLineId, WireType::kVarint)) {
        id = field.Int();
      } else if (field.Is(xplane::kLineBegin, WireType::kVarint)) {
        begin_ns = field.Int();
      } else if (field.Is(xplane::kEvent, WireType::kBytes)) {
        ++report_.events;
        report_.events_bad += !ReadEvent(planes_[plane], plane, id, begin_ns, stream->Take());
      }
    }
  }

  bool ReadEvent(const XSpacePlaneHead& head, size_t plane, int64_t line, int64_t line_begin_ns,
                 std::string_view message) {
    WireReader reader(message);
    WireField field;
    uint64_t name = 0;
    int64_t offset_ps = 0, duration_ps = 0;
    bool has_time = true;
    event_.args.clear();
    while (reader.Next(&field)) {
      if (field.type == WireType::kVarint) {
        if (field.number == xplane::kEventNameId) name = field.value;
        if (field.number == xplane::kOffset) offset_ps = field.Int();
        if (field.number == xplane::kDuration) duration_ps = field.Int();
        if (field.number == kOccurrences) has_time = false;
      } else if (field.Is(xplane::kStat, WireType::kBytes) && event_.args.size() < kMostStats) {
        Digits* const digits = &digits_[event_.args.size()];
        if (!ReadStat(field.bytes, head.stats, digits, &event_.args.emplace_back())) event_.args.pop_back();
      }
    }
    const XSpacePlaneHead::Name* const found = head.events.Find(name);
    if (reader.is_damaged() || found == nullptr) return false;
    if (!has_time) return target_.Skip(), true;
    for (const XSpaceStat& stat : found->stats) event_.args.push_back({stat.key, stat.text, stat.is_text, stat.whole});
    event_.name = found->name;
    // Both ends are rounded down, so that neighbours do not overlap.
    const int64_t offset_ns = offset_ps / 1000;
    const auto end_ps = static_cast<int64_t>(static_cast<uint64_t>(offset_ps) + static_cast<uint64_t>(duration_ps));
    if (__builtin_add_overflow(line_begin_ns, offset_ns, &begin_ns_)) begin_ns_ = -1;  // out of range
    event_.begin_ns = begin_ns_;
    event_.duration_ns = end_ps / 1000 - offset_ns;
    target_.Take(plane, line, event_);
    return true;
  }

  static constexpr uint32_t kOccurrences = 5;

  const std::vector<XSpacePlaneHead>& planes_;
  XSpaceTarget& target_;
  TraceReport& report_;
  ChromeEvent event_;
  int64_t begin_ns_ = 0;
  std::array<Digits, kMostStats> digits_;
};

// Calls `take` for each field of the space.
template <class Take> Status ReadSpace(const Input& input, TraceReport* report, const Take& take) {
  const std::unique_ptr<ByteSource> source = input.Open(&report->is_gzip);
  WireStream stream(source.get());
  WireField field;
  while (stream.Next(&field)) take(field, &stream);
  const StatusCode code = source->status().code();
  if (code != StatusCode::kOk && code != StatusCode::kDataLoss) return source->status();
  std::string loss;
  if (code == StatusCode::kDataLoss) {
    loss = source->status().message();
  } else if (stream.is_damaged()) {
    loss = "it is damaged at byte " + base::Count(stream.at()) + "; what follows was not read";
  } else if (stream.is_cut()) {
    loss = kCutOff;
  } else if (stream.skipped() != 0) {
    loss = base::Plural(stream.skipped(), "part") + " of more than 64 MiB were left out";
  }
  return loss.empty() ? Status() : Status(StatusCode::kDataLoss, loss.c_str());
}

}  // namespace

std::string_view XSpacePlaneHead::StatOf(std::string_view key) const {
  for (const XSpaceStat& stat : plane_stats) {
    if (stat.key == key) return stat.text;
  }
  return {};
}

bool XSpacePlaneHead::HasStat(std::string_view key) const {
  return std::any_of(plane_stats.begin(), plane_stats.end(), [&](const XSpaceStat& stat) { return stat.key == key; });
}

bool IsXSpace(std::string_view bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  uint64_t tag = 0, size = 0;
  // The planes whose beginning is there; the last may be cut.
  while (TakeVarint(&at, end, &tag) && tag == (xplane::kPlane << 3 | 2) && TakeVarint(&at, end, &size)) {
    WireReader plane({at, static_cast<size_t>(std::min<uint64_t>(size, static_cast<size_t>(end - at)))});
    WireField field;
    while (plane.Next(&field) && field.number <= xplane::kPlaneName) {
      if (!field.Is(xplane::kPlaneName, WireType::kBytes)) continue;
      for (const std::string_view known : {"/host:", "/device:", "Task Environment"}) {
        if (field.bytes.substr(0, known.size()) == known) return true;
      }
    }
    if (size > static_cast<size_t>(end - at)) return false;
    at += size;
  }
  return false;
}

Status ReadXSpaceFile(const Input& input, std::vector<XSpacePlaneHead>* planes, XSpaceTarget* target,
                      TraceReport* report) {
  std::string notes;
  bool has_host_name = false;
  const auto read_head = [&](const WireField& field, WireStream* stream) {
    if (field.type != WireType::kBytes) return;
    if (field.number == xplane::kPlane) {
      planes->emplace_back();
      stream->Enter();
      ReadHead(stream, &planes->back());
      stream->Leave();
    } else if ((field.number == xplane::kError || field.number == xplane::kWarning) && notes.size() < 400) {
      notes += (notes.empty() ? "its profiler notes: " : "; ") +
               base::Cut(base::SanitizeText(stream->Take().substr(0, 1000)), 200);
    }
    has_host_name |= field.number == xplane::kHostName;
  };
  Status status = ReadSpace(input, report, read_head);
  if (!status.ok() && status.code() != StatusCode::kDataLoss) return status;
  target->TakeHeads(*planes);
  LineReader lines(*planes, target, report);
  size_t plane = 0;
  const Status of_lines = ReadSpace(input, report, [&](const WireField& field, WireStream* stream) {
    if (!field.Is(xplane::kPlane, WireType::kBytes) || plane == planes->size()) return;
    stream->Enter();
    lines.ReadPlane(plane++, stream);
    stream->Leave();
  });
  if (!of_lines.ok()) status = of_lines;
  if (status.ok() && !has_host_name && target->EndsWithHostName()) status = Status(StatusCode::kDataLoss, kCutOff);
  report->problems = notes;
  if (status.ok() && report->events_bad != 0)
    status = Status(StatusCode::kDataLoss, (base::Plural(report->events_bad, "event") + " of " +
                                            base::Count(report->events) + " could not be read")
                                               .c_str());
  report->complete = status.ok();
  return status;
}

}  // namespace pitot::read
