// SPDX-License-Identifier: Apache-2.0
//
// Encodes OpenTelemetry spans, and writes them in groups so that few are in memory.
#ifndef PITOT_LIB_SERIALIZE_OTLP_SPAN_H_
#define PITOT_LIB_SERIALIZE_OTLP_SPAN_H_

#include <stdint.h>

#include <string_view>
#include <vector>

#include "serialize/wire.h"

namespace pitot::serialize {

// Field numbers of OTLP's protos, because the encoder does not link protobuf. The real reader's test reads what is
// written with them.
namespace otlp {
inline constexpr uint32_t kResourceSpans = 1;
namespace resource_spans {
enum : uint32_t { kResource = 1, kScopeSpans = 2 };
}
namespace resource {
enum : uint32_t { kAttribute = 1 };
}
namespace scope_spans {
enum : uint32_t { kScope = 1, kSpan = 2 };
}
namespace scope {
enum : uint32_t { kName = 1, kVersion = 2 };
}
namespace span {
enum : uint32_t {
  kTraceId = 1,
  kSpanId = 2,
  kParentId = 4,
  kName = 5,
  kKind = 6,
  kBegin = 7,
  kEnd = 8,
  kAttribute = 9,
  kEvent = 11,
  kLink = 13,
  kStatus = 15
};
enum : uint32_t { kInternal = 1, kServer = 2 };  // kinds
}  // namespace span
namespace event {
enum : uint32_t { kTime = 1, kName = 2, kAttribute = 3 };
}
namespace link {
enum : uint32_t { kTraceId = 1, kSpanId = 2 };
}
namespace status {
enum : uint32_t { kMessage = 2, kCode = 3 };
enum : uint32_t { kOk = 1, kError = 2 };
}  // namespace status
namespace attribute {
enum : uint32_t { kKey = 1, kValue = 2 };
}
namespace value {
enum : uint32_t { kText = 1, kInt = 3, kDouble = 4 };
}
}  // namespace otlp

struct OtlpId {
  uint64_t high = 0, low = 0;  // of the trace
  uint64_t span = 0;
};

class OtlpSpans {
 public:
  // `base_ns` is Unix time at the origin of the trace's clock.
  OtlpSpans(int64_t base_ns, ByteSink* sink) : base_ns_(base_ns), sink_(*sink) {}
  bool ok() const { return ok_; }
  uint64_t Unix(int64_t ns) const { return static_cast<uint64_t>(base_ns_) + static_cast<uint64_t>(ns); }

  // Attributes of what all spans come from. They come first.
  void ResourceText(std::string_view key, std::string_view text) {
    Attribute(otlp::resource::kAttribute, key, text, &resource_);
  }
  void ResourceInt(std::string_view key, int64_t value) {
    AttributeInt(otlp::resource::kAttribute, key, value, &resource_);
  }
  void Library(std::string_view name, std::string_view version);

  // A span: Begin, then any of the functions up to End, then End. `parent` 0: none.
  void Begin(const OtlpId& id, uint64_t parent, std::string_view name, uint32_t kind, int64_t begin_ns, int64_t end_ns);
  void Text(std::string_view key, std::string_view text) { Attribute(otlp::span::kAttribute, key, text, &spans_); }
  void Int(std::string_view key, int64_t value) { AttributeInt(otlp::span::kAttribute, key, value, &spans_); }
  void Double(std::string_view key, double value) { AttributeDouble(otlp::span::kAttribute, key, value, &spans_); }
  void Link(const OtlpId& to);
  void Failed(std::string_view message);
  // An event of the span: BeginEvent, its attributes, EndEvent.
  void BeginEvent(std::string_view name, int64_t at_ns);
  void EventText(std::string_view key, std::string_view text) {
    Attribute(otlp::event::kAttribute, key, text, &spans_);
  }
  void EventInt(std::string_view key, int64_t value) { AttributeInt(otlp::event::kAttribute, key, value, &spans_); }
  void EventDouble(std::string_view key, double value) {
    AttributeDouble(otlp::event::kAttribute, key, value, &spans_);
  }
  void EndEvent() { spans_.Close(event_); }
  void End();
  // Writes the last spans.
  void Finish() { Flush(true); }

 private:
  static constexpr size_t kFlushBytes = 256 << 10;

  static void Attribute(uint32_t field, std::string_view key, std::string_view text, WireBuffer* out);
  static void AttributeInt(uint32_t field, std::string_view key, int64_t value, WireBuffer* out);
  static void AttributeDouble(uint32_t field, std::string_view key, double value, WireBuffer* out);
  template <class Write> static void Pair(uint32_t field, std::string_view key, const Write& write, WireBuffer* out);
  static void Id(uint32_t field, uint64_t high, uint64_t low, WireBuffer* out);
  static void Id(uint32_t field, uint64_t id, WireBuffer* out);
  // Writes the spans in memory as a group.
  void Flush(bool is_last);

  const int64_t base_ns_;
  ByteSink& sink_;
  bool ok_ = true;
  WireBuffer resource_, library_;
  WireBuffer spans_;  // not written yet
  size_t span_ = 0, event_ = 0;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_OTLP_SPAN_H_
