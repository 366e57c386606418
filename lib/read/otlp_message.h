// SPDX-License-Identifier: Apache-2.0
//
// A span of OpenTelemetry as its two encodings have it, JSON and protobuf.
#ifndef PITOT_LIB_READ_OTLP_MESSAGE_H_
#define PITOT_LIB_READ_OTLP_MESSAGE_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace pitot::read {

struct OtlpAttribute {
  enum class Kind : uint8_t { kText, kBool, kInt, kDouble, kOther };
  std::string_view key, text;
  Kind kind = Kind::kOther;
  int64_t integer = 0;  // also of a bool
  double real = 0;
};
using OtlpAttributes = std::vector<OtlpAttribute>;

struct OtlpSpanId {
  uint64_t high = 0, low = 0;  // of the trace
  uint64_t span = 0;
};

struct OtlpEvent {
  uint64_t at_ns = 0;
  std::string_view name;
  OtlpAttributes attributes;
};

struct OtlpSpan {
  static constexpr int64_t kServer = 2, kConsumer = 5;  // kinds
  static constexpr int64_t kError = 2;                  // status

  OtlpSpanId id;
  uint64_t parent = 0;
  std::string_view name;
  int64_t kind = 0;
  uint64_t begin_ns = 0, end_ns = 0;  // Unix time; 0: not set
  int64_t status = 0;
  std::string_view message;  // of the status
  OtlpAttributes attributes;
  std::vector<OtlpEvent> events;
  std::vector<OtlpSpanId> links;
};

// Takes what a decoder finds. Texts live for the call.
class OtlpTarget {
 public:
  // What the next spans come from: a process, and then a library in it.
  virtual void TakeResource(const OtlpAttributes& attributes) = 0;
  virtual void TakeLibrary(std::string_view name) = 0;
  virtual void TakeSpan(const OtlpSpan& span) = 0;
  virtual void TakeBad() = 0;

 protected:
  ~OtlpTarget() = default;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_OTLP_MESSAGE_H_
