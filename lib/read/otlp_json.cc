// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <string>

#include "read/otlp_decoders.h"

namespace pitot::read {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// Cuts a text into its outermost values. It knows just enough JSON for that: strings, escapes and brackets.
class JsonDocuments {
 public:
  explicit JsonDocuments(ByteSource* source) : source_(*source) {}

  // The next one, with room for simdjson behind it. False: there is none, or `problem` says why.
  bool Next(std::string_view* document) {
    size_t at = next_, begin = std::string::npos, depth = 0;
    bool is_text = false;
    for (;; ++at) {
      if (at == text_.size() && !ReadMore(&at, &begin)) break;
      const char c = text_[at];
      if (is_text) {
        if (c == '\\' && ++at == text_.size() && !ReadMore(&at, &begin)) break;
        is_text = c != '"';
        continue;
      }
      if (begin == std::string::npos) {
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
        if (c != '{') return problem_ = "what follows is not an object of JSON", false;
        begin = at;
      }
      is_text = c == '"';
      depth += c == '{' || c == '[';
      depth -= c == '}' || c == ']';
      if (depth == 0) break;
      if (at - begin > kMostOtlpBytes) return problem_ = "an object has more than 64 MiB", false;
    }
    if (begin == std::string::npos) return false;
    if (at >= text_.size()) return problem_ = "it ends within an object", false;
    next_ = at + 1;
    text_.reserve(text_.size() + simdjson::SIMDJSON_PADDING);
    *document = std::string_view(text_).substr(begin, next_ - begin);
    return true;
  }
  const char* problem() const { return problem_; }

 private:
  // Forgets what is before `begin`, and moves both places.
  bool ReadMore(size_t* at, size_t* begin) {
    constexpr size_t kBytes = 256 << 10;
    const size_t over = std::min(*at, *begin);
    text_.erase(0, over);
    *at -= over;
    if (*begin != std::string::npos) *begin -= over;
    const size_t size = text_.size();
    text_.resize(size + kBytes);
    const size_t got = source_.Read(text_.data() + size, kBytes);
    text_.resize(size + got);
    next_ = 0;
    return got != 0;
  }

  ByteSource& source_;
  std::string text_;
  size_t next_ = 0;  // behind the last one
  const char* problem_ = "";
};

// Missing members and wrong types give the value of nothing.
std::string_view TextOf(const object& from, const char* key) {
  std::string_view text;
  return from[key].get(text) == simdjson::SUCCESS ? text : std::string_view();
}
template <class F> void ForEachObject(const object& from, const char* key, const F& f) {
  array list;
  object one;
  if (from[key].get(list) != simdjson::SUCCESS) return;
  for (const element it : list) {
    if (it.get(one) == simdjson::SUCCESS) f(one);
  }
}
// 64-bit numbers are texts in OTLP's JSON, but not every writer does so.
uint64_t NumberOf(const simdjson::simdjson_result<element>& from) {
  uint64_t number;
  int64_t negative;
  std::string_view text;
  if (from.get(number) == simdjson::SUCCESS) return number;
  if (from.get(negative) == simdjson::SUCCESS) return static_cast<uint64_t>(negative);
  if (from.get(text) != simdjson::SUCCESS || text.empty() || text.size() > 20) return 0;
  const std::string digits(text);
  return digits[0] == '-' ? static_cast<uint64_t>(strtoll(digits.c_str(), nullptr, 10))
                          : strtoull(digits.c_str(), nullptr, 10);
}
int64_t EnumOf(const object& from, const char* key, std::initializer_list<const char*> names) {
  const std::string_view text = TextOf(from, key);
  const auto found = std::find(names.begin(), names.end(), text);
  return found != names.end() ? found - names.begin() : static_cast<int64_t>(NumberOf(from[key]));
}

// Hexadecimal. Another size is no id.
uint64_t HexOf(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    if (digit < 0) return 0;
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  return value;
}
OtlpSpanId IdOf(const object& from) {
  const std::string_view trace = TextOf(from, "traceId"), span = TextOf(from, "spanId");
  OtlpSpanId id;
  if (trace.size() == 32) id.high = HexOf(trace.substr(0, 16)), id.low = HexOf(trace.substr(16));
  if (span.size() == 16) id.span = HexOf(span);
  return id;
}

OtlpAttribute AttributeOf(const object& pair) {
  using Kind = OtlpAttribute::Kind;
  OtlpAttribute attribute;
  attribute.key = TextOf(pair, "key");
  object value;
  bool flag;
  if (pair["value"].get(value) != simdjson::SUCCESS) return attribute;
  if (value["stringValue"].get(attribute.text) == simdjson::SUCCESS) {
    attribute.kind = Kind::kText;
  } else if (value["boolValue"].get(flag) == simdjson::SUCCESS) {
    attribute.kind = Kind::kBool, attribute.integer = flag;
  } else if (value["intValue"].error() == simdjson::SUCCESS) {
    attribute.kind = Kind::kInt, attribute.integer = static_cast<int64_t>(NumberOf(value["intValue"]));
  } else if (value["doubleValue"].get(attribute.real) == simdjson::SUCCESS) {
    attribute.kind = Kind::kDouble;
  }
  return attribute;
}
OtlpAttributes AttributesOf(const object& from) {
  OtlpAttributes attributes;
  ForEachObject(from, "attributes", [&](const object& pair) { attributes.push_back(AttributeOf(pair)); });
  return attributes;
}

OtlpSpan SpanOf(const object& from) {
  OtlpSpan span;
  span.id = IdOf(from);
  const std::string_view parent = TextOf(from, "parentSpanId");
  if (parent.size() == 16) span.parent = HexOf(parent);
  span.name = TextOf(from, "name");
  span.kind = EnumOf(from, "kind",
                     {"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT",
                      "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"});
  span.begin_ns = NumberOf(from["startTimeUnixNano"]);
  span.end_ns = NumberOf(from["endTimeUnixNano"]);
  span.attributes = AttributesOf(from);
  object status;
  if (from["status"].get(status) == simdjson::SUCCESS) {
    span.status = EnumOf(status, "code", {"STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"});
    span.message = TextOf(status, "message");
  }
  ForEachObject(from, "events", [&](const object& event) {
    span.events.push_back({NumberOf(event["timeUnixNano"]), TextOf(event, "name"), AttributesOf(event)});
  });
  ForEachObject(from, "links", [&](const object& link) { span.links.push_back(IdOf(link)); });
  return span;
}

void DecodeScope(const object& scope, OtlpTarget* target) {
  object library;
  target->TakeLibrary(scope["scope"].get(library) == simdjson::SUCCESS ? TextOf(library, "name") : "");
  ForEachObject(scope, "spans", [&](const object& span) { target->TakeSpan(SpanOf(span)); });
}

void DecodeGroup(const object& group, OtlpTarget* target) {
  object resource;
  const bool has_resource = group["resource"].get(resource) == simdjson::SUCCESS;
  target->TakeResource(has_resource ? AttributesOf(resource) : OtlpAttributes());
  ForEachObject(group, "scopeSpans", [&](const object& scope) { DecodeScope(scope, target); });
}

}  // namespace

std::string ReadOtlpJson(ByteSource* source, OtlpTarget* target) {
  JsonDocuments documents(source);
  simdjson::dom::parser parser;
  std::string_view text;
  while (documents.Next(&text)) {
    object document;
    const simdjson::error_code error = parser.parse(text.data(), text.size(), false).get(document);
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    if (error != simdjson::SUCCESS) target->TakeBad();
    if (error == simdjson::SUCCESS)
      ForEachObject(document, "resourceSpans", [&](const object& group) { DecodeGroup(group, target); });
  }
  return documents.problem();
}

// By its first member.
bool IsOtlpJson(std::string_view head) {
  const auto skip = [&] {
    while (!head.empty() &&
           (head.front() == ' ' || head.front() == '\n' || head.front() == '\r' || head.front() == '\t'))
      head.remove_prefix(1);
  };
  skip();
  if (head.empty() || head.front() != '{') return false;
  head.remove_prefix(1);
  skip();
  return head.substr(0, 15) == "\"resourceSpans\"";
}

}  // namespace pitot::read
