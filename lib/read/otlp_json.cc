// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <string>

#include "read/otlp_decoders.h"
#include "read/repaired.h"

namespace pitot::read {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

struct JsonDocument {
  std::string_view text;  // with room for simdjson behind it
  bool is_rest = false;   // it begins within a damaged one
};

// Cuts a text into its outermost values. It knows just enough JSON for that: strings, escapes and brackets. A damaged
// quote or bracket hides the end of a value. So it also ends where a line begins the next one.
class JsonDocuments {
 public:
  explicit JsonDocuments(ByteSource* source) : source_(*source) {}

  // The next one, which may be damaged. False: there is none, or `problem` says why.
  bool Next(JsonDocument* document) {
    size_t at = next_, begin = std::string::npos, depth = 0;
    bool is_text = false, is_rest = false;
    for (;; ++at) {
      if (at == text_.size() && !ReadMore(&at, &begin)) break;
      const char c = text_[at];
      if (begin == std::string::npos) {
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
        begin = at;
        is_rest = c != '{';
      }
      if (c == '\n' && IsNextAhead(&at, &begin)) break;
      if (at - begin > kMostOtlpBytes) return problem_ = "an object has more than 64 MiB", false;
      if (is_rest) continue;
      if (is_text) {
        if (c == '\\' && ++at == text_.size() && !ReadMore(&at, &begin)) break;
        is_text = c != '"';
        continue;
      }
      is_text = c == '"';
      depth += c == '{' || c == '[';
      depth -= c == '}' || c == ']';
      if (depth == 0) break;
    }
    if (begin == std::string::npos) return false;
    const bool is_over = at >= text_.size();
    if (is_over && !is_rest) problem_ = "it ends within an object";
    next_ = is_over ? text_.size() : at + 1;
    text_.reserve(text_.size() + simdjson::SIMDJSON_PADDING);
    *document = {std::string_view(text_).substr(begin, next_ - begin), is_rest};
    return true;
  }
  const char* problem() const { return problem_; }

 private:
  static constexpr size_t kAhead = 64;

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
  // Whether the next one begins behind this place.
  bool IsNextAhead(size_t* at, size_t* begin) {
    while (text_.size() - *at < kAhead && ReadMore(at, begin)) {}
    return IsOtlpJson(std::string_view(text_).substr(*at + 1, kAhead));
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
// The bytes of an id in hexadecimal digits, perhaps in `room`. Protobuf's own JSON has base64 in their place: 12
// characters for 8 bytes, 24 for 16.
std::string_view HexDigits(std::string_view text, std::string* room) {
  constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() != 12 && text.size() != 24) return text;
  std::string& digits = *room;
  digits.clear();
  uint32_t bits = 0, count = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const size_t six = kBase64.find(c);
    if (six == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<uint32_t>(six);
    for (count += 6; count >= 4; count -= 4) digits += "0123456789abcdef"[(bits >> (count - 4)) & 15];
  }
  digits.resize(digits.size() & ~size_t{1});  // bits that fill up the last character
  return digits;
}
uint64_t SpanIdOf(std::string_view text) {
  std::string room;
  const std::string_view digits = HexDigits(text, &room);
  return digits.size() == 16 ? HexOf(digits) : 0;
}
OtlpSpanId IdOf(const object& from) {
  std::string room;
  const std::string_view trace = HexDigits(TextOf(from, "traceId"), &room);
  OtlpSpanId id;
  if (trace.size() == 32) id.high = HexOf(trace.substr(0, 16)), id.low = HexOf(trace.substr(16));
  id.span = SpanIdOf(TextOf(from, "spanId"));
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
  span.parent = SpanIdOf(TextOf(from, "parentSpanId"));
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

// Whether it has a resource.
bool DecodeDocument(const object& document, OtlpTarget* target) {
  bool has_resource = false;
  ForEachObject(document, "resourceSpans", [&](const object& group) {
    DecodeGroup(group, target);
    has_resource = true;
  });
  return has_resource;
}

// Takes what is whole of a damaged document: resources, scopes and spans, each parsed by itself. After a damaged span
// it looks for the next that begins with its trace's id, as those of all known exporters do.
class DamagedDocument {
 public:
  // With room for simdjson behind the text. `has_resource`: its first spans are of the resource taken last.
  DamagedDocument(std::string_view text, bool has_resource, simdjson::dom::parser* parser, OtlpTarget* target)
      : text_(text),
        has_resource_(has_resource),
        left_(8 * text.size() + kMostLooks),
        parser_(*parser),
        target_(*target) {}

  // Whether it has a resource.
  bool Take() {
    while (FindMark()) {}
    return has_resource_;
  }

 private:
  // Damaged quotes hide the ends of objects: an object has so many bytes, and so many are looked at in all.
  static constexpr size_t kMostBytes = 1 << 20, kMostLooks = 64 << 20;

  // Takes what is at the next mark; false if there is none.
  bool FindMark() {
    at_ = text_.find('"', at_);
    if (at_ == std::string_view::npos) return false;
    const size_t mark = at_++;
    if (mark != 0 && text_[mark - 1] == '\\') return true;  // within a text
    object one;
    if (Is(mark, "\"resource\"", '{')) {
      TakeResource(Parse(&one) ? AttributesOf(one) : OtlpAttributes());
    } else if (Is(mark, "\"scope\"", '{')) {
      target_.TakeLibrary(Parse(&one) ? TextOf(one, "name") : "");
    } else if (Is(mark, "\"spans\"", '[')) {
      ++at_;
      TakeSpans();
    } else if (Is(mark, "\"traceId\"", '"')) {
      at_ = text_.find_last_not_of(kBlanks, mark - 1);
      if (text_[at_] != '{' || at_ == bad_at_ || !TakeSpan(IsSpan(mark))) {
        at_ = mark + 1;
      } else {
        TakeSpans();
      }
    }
    return true;
  }

  // The rest of a list.
  void TakeSpans() {
    for (;;) {
      at_ = std::min(text_.find_first_not_of(" \t\r\n,", at_), text_.size());
      if (at_ == text_.size() || text_[at_] != '{') return;
      if (!TakeSpan(true)) return void(++at_);
    }
  }

  void TakeResource(const OtlpAttributes& attributes) {
    target_.TakeResource(attributes);
    has_resource_ = true;
  }

  // Takes the object at this place. False if it is damaged, or a link.
  bool TakeSpan(bool is_span) {
    object span;
    bad_at_ = at_;
    const bool is_whole = is_span && Parse(&span);
    if (is_whole && !has_resource_) TakeResource({});
    if (is_whole) target_.TakeSpan(SpanOf(span));
    if (is_span && !is_whole) target_.TakeBad();
    return is_whole;
  }

  // Whether an object with this trace id is a span: a link has no time.
  bool IsSpan(size_t mark) const {
    const size_t next = text_.find("\"traceId\"", mark + 1);
    return text_.substr(mark, next - mark).find("\"startTimeUnixNano\"") != std::string_view::npos;
  }

  // Whether the member has this name and a value that begins so. Goes to the value.
  bool Is(size_t mark, std::string_view name, char first) {
    if (text_.substr(mark, name.size()) != name) return false;
    size_t at = text_.find_first_not_of(kBlanks, mark + name.size());
    if (at == std::string_view::npos || text_[at] != ':') return false;
    at = text_.find_first_not_of(kBlanks, at + 1);
    if (at == std::string_view::npos || text_[at] != first) return false;
    at_ = at;
    return true;
  }

  // Parses the object at this place, and goes behind it. False, and stays, if it is damaged.
  bool Parse(object* out) {
    size_t end = at_, depth = 0;
    for (bool is_text = false; end < text_.size(); ++end) {
      if (left_ == 0 || end - at_ == kMostBytes) return false;
      --left_;
      const char c = text_[end];
      if (is_text && c == '\\') {
        ++end;
      } else if (c == '"') {
        is_text = !is_text;
      } else if (!is_text) {
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth == 0) break;
      }
    }
    if (end >= text_.size()) return false;
    const simdjson::error_code error = parser_.parse(text_.data() + at_, end + 1 - at_, false).get(*out);
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    if (error != simdjson::SUCCESS) return false;
    at_ = end + 1;
    return true;
  }

  static constexpr std::string_view kBlanks = " \t\r\n";
  std::string_view text_;
  size_t at_ = 0;
  bool has_resource_;
  size_t left_;                             // bytes to look at
  size_t bad_at_ = std::string_view::npos;  // the last span
  simdjson::dom::parser& parser_;
  OtlpTarget& target_;
};

}  // namespace

std::string ReadOtlpJson(ByteSource* source, OtlpTarget* target) {
  JsonDocuments documents(source);
  simdjson::dom::parser parser;
  bool has_resource = false, is_damaged = false;
  const auto decode = [&](std::string_view json) {
    object document;
    const simdjson::error_code error = parser.parse(json.data(), json.size(), false).get(document);
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    if (error == simdjson::SUCCESS) has_resource |= DecodeDocument(document, target);
    return error == simdjson::SUCCESS;
  };
  for (JsonDocument document; documents.Next(&document);) {
    if (!document.is_rest && decode(document.text)) continue;
    std::string repaired = Repaired(document.text);
    repaired.reserve(repaired.size() + simdjson::SIMDJSON_PADDING);
    if (!document.is_rest && decode(repaired)) continue;
    is_damaged = true;
    has_resource |= DamagedDocument(repaired, document.is_rest && has_resource, &parser, target).Take();
  }
  return *documents.problem() == 0 && is_damaged ? "a part of it is not JSON" : documents.problem();
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
