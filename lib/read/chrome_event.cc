// SPDX-License-Identifier: Apache-2.0
#include "read/chrome_event.h"

#include <simdjson.h>

#include <algorithm>
#include <new>

#include "pitot/model/trace.h"
#include "read/decimal.h"
#include "read/event_splitter.h"
#include "read/repaired.h"

namespace pitot::read {
namespace {

namespace od = simdjson::ondemand;

std::string_view Trimmed(std::string_view token) { return token.substr(0, token.find_last_not_of(" \t\r\n") + 1); }

// Throws simdjson's errors.
ChromeValue ValueOf(od::value value) {
  ChromeValue made;
  switch (value.type()) {
    case od::json_type::string:
      made.text = value.get_string();
      made.is_text = true;
      break;
    case od::json_type::object:
      made.text = od::object(value.get_object()).raw_json();
      break;
    case od::json_type::array:
      made.text = od::array(value.get_array()).raw_json();
      break;
    default:
      made.text = Trimmed(value.raw_json_token());
  }
  return made;
}

std::vector<ChromeValue> ValuesOf(od::object object) {
  std::vector<ChromeValue> values;
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    values.push_back(ValueOf(field.value()));
    values.back().key = key;
  }
  return values;
}

// "id2" of the newer form: {"local": "0x1"} or {"global": "0x1"}.
void TakeId(od::value value, ChromeEvent* event) {
  if (value.type() != od::json_type::object) {
    event->id = ValueOf(value);
    return;
  }
  for (const ChromeValue& one : ValuesOf(value.get_object())) {
    event->id = one;
    event->is_local_id = one.key == "local";
  }
}

void ReadChromeEvent(od::document& document, ChromeEvent* event) {
  for (auto field : od::object(document.get_object())) {
    const std::string_view key = field.unescaped_key();
    od::value value = field.value();
    if (key == "ph") {
      event->phase = ValueOf(value).text;
    } else if (key == "cat") {
      event->category = ValueOf(value).text;
    } else if (key == "name") {
      event->name = ValueOf(value).text;
    } else if (key == "pid") {
      event->pid = ValueOf(value);
    } else if (key == "tid") {
      event->tid = ValueOf(value);
    } else if (key == "ts") {
      event->begin_ns = ParseDecimal(value.raw_json_token(), 3);
    } else if (key == "dur") {
      event->has_duration = true;
      event->duration_ns = ParseDecimal(value.raw_json_token(), 3);
      if (event->duration_ns == model::kOpen) --*event->duration_ns;  // any negative one will do
    } else if (key == "id" || key == "id2") {
      TakeId(value, event);
    } else if (key == "scope") {
      event->scope = ValueOf(value);
    } else if (key == "args" && value.type() == od::json_type::object) {
      event->args = ValuesOf(value.get_object());
    }
  }
}

}  // namespace

std::optional<int64_t> ChromeValue::Number() const { return whole || text.empty() ? whole : ParseDecimal(text, 0); }

const ChromeValue* ChromeEvent::Find(std::string_view key) const {
  const auto found = std::find_if(args.begin(), args.end(), [&](const ChromeValue& arg) { return arg.key == key; });
  return found == args.end() ? nullptr : &*found;
}
std::string_view ChromeEvent::Text(std::string_view key) const {
  const ChromeValue* const found = Find(key);
  return found == nullptr ? std::string_view() : found->text;
}
int64_t ChromeEvent::Number(std::string_view key, int64_t otherwise) const {
  const ChromeValue* const found = Find(key);
  return found == nullptr ? otherwise : found->Number().value_or(otherwise);
}

struct ChromeDecoder::Parser {
  od::parser events, objects;
};

ChromeDecoder::ChromeDecoder() : parser_(std::make_unique<Parser>()) {}
ChromeDecoder::~ChromeDecoder() = default;

bool ChromeDecoder::Event(std::string_view json, size_t capacity, ChromeEvent* event) {
  for (bool is_repaired = false;; is_repaired = true) {
    *event = ChromeEvent();
    try {
      od::document document = parser_->events.iterate(json.data(), json.size(), capacity);
      ReadChromeEvent(document, event);
      repaired_count_ += is_repaired;
      return true;
    } catch (const simdjson::simdjson_error& error) {
      if (error.error() == simdjson::MEMALLOC) throw std::bad_alloc();
      const bool is_text = error.error() != simdjson::UTF8_ERROR && error.error() != simdjson::UNESCAPED_CHARS &&
                           simdjson::validate_utf8(json.data(), json.size());
      if (is_text || is_repaired) return false;
    }
    repaired_ = Repaired(json);
    const size_t size = repaired_.size();
    repaired_.append(EventSplitter::kPaddingBytes, '\0');
    json = {repaired_.data(), size};
    capacity = repaired_.size();
  }
}

std::vector<ChromeValue> ChromeDecoder::Object(std::string_view json) {
  object_.assign(json);
  const size_t size = object_.size();
  object_.append(EventSplitter::kPaddingBytes, '\0');
  try {
    od::document document = parser_->objects.iterate(object_.data(), size, object_.size());
    return ValuesOf(document.get_object());
  } catch (const simdjson::simdjson_error& error) {
    if (error.error() == simdjson::MEMALLOC) throw std::bad_alloc();
    return {};
  }
}

}  // namespace pitot::read
