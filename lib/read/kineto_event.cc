// SPDX-License-Identifier: Apache-2.0
#include "read/kineto_event.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>

#include "read/decimal.h"

namespace pitot::read {
namespace {

namespace od = simdjson::ondemand;

// Returns `otherwise` for a value that is not a number.
int64_t Number(od::value value, int64_t otherwise) {
  std::string_view token = value.raw_json_token();
  return ParseDecimal(token, 0).value_or(otherwise);
}
uint32_t Small(int64_t number) {
  return static_cast<uint32_t>(std::clamp<int64_t>(number, 0, std::numeric_limits<uint32_t>::max()));
}
std::string_view Text(od::value value) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) return {};
  return text;
}
bool HasControls(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}
// A text whose backslashes may not be escaped, as in paths of Windows: they then form wrong escapes, or control
// characters, which no name has. Such a text is as written.
std::string_view TextOrPath(od::value value, bool* is_as_written) {
  std::string_view token = value.raw_json_token(), text;
  const bool is_text = !token.empty() && token.front() == '"';
  const bool is_json = value.get_string().get(text) == simdjson::SUCCESS;
  // Without escapes the text ends where the token does.
  if (!is_text || (is_json && token.substr(text.size() + 1, 1) == "\"")) return text;
  if (is_json && !HasControls(text)) return text;
  token = token.substr(1, token.rfind('"') - 1);
  *is_as_written = true;
  return token;
}
KinetoId Id(od::value value) {
  const std::string_view token = value.raw_json_token();
  if (const std::optional<int64_t> number = ParseDecimal(token, 0)) return {*number, {}};
  return {0, Text(value)};
}

void ReadSizes(od::value value, uint32_t (&sizes)[3]) {
  od::array list;
  if (value.get_array().get(list) != simdjson::SUCCESS) return;
  size_t i = 0;
  for (auto element : list) {
    od::value size;
    if (element.get(size) != simdjson::SUCCESS) return;
    if (i < 3) sizes[i++] = Small(Number(size, 0));
  }
}

std::string_view List(od::value value) {
  od::array list;
  std::string_view json;
  if (value.get_array().get(list) != simdjson::SUCCESS || list.raw_json().get(json) != simdjson::SUCCESS) return {};
  return json;
}

void ReadArgument(std::string_view key, od::value value, KinetoEvent* event) {
  // By length first, because most keys are not needed.
  switch (key.size()) {
    case 4:
      if (key == "grid") return event->has_shape = true, ReadSizes(value, event->shape.grid);
      if (key == "name") event->thread_name = Text(value);
      break;
    case 5:
      if (key == "block") return event->has_shape = true, ReadSizes(value, event->shape.block);
      if (key == "bytes" || key == "Bytes") event->bytes = Number(value, 0);
      break;
    case 6:
      if (key == "device") event->device = Number(value, KinetoEvent::kNone);
      if (key == "stream") event->stream = Number(value, KinetoEvent::kNone);
      break;
    case 7:
      if (key == "context") event->context = Number(value, KinetoEvent::kNone);
      break;
    case 8:
      if (key == "graph id") event->graph = Number(value, 0);
      break;
    case 9:
      if (key == "Device Id") event->device_id = Number(value, KinetoEvent::kNone);
      break;
    case 10:
      if (key == "Input Dims" || key == "Input dims") event->dimensions = List(value);
      if (key == "Input type") event->types = List(value);
      if (key == "sycl queue" && event->stream < 0) event->stream = Number(value, KinetoEvent::kNone);
      break;
    case 11:
      if (key == "correlation") event->correlation = Number(value, KinetoEvent::kNone);
      if (key == "External id" || key == "external id") event->external_id = Number(value, KinetoEvent::kNone);
      if (key == "Device Type") event->device_type = Number(value, KinetoEvent::kNone);
      break;
    case 13:
      if (key == "shared memory") event->shape.dynamic_shared_bytes = Small(Number(value, 0));
      if (key == "graph node id") event->node = Number(value, 0);
      break;
    case 14:
      if (key == "Total Reserved") event->total_reserved = Number(value, KinetoEvent::kNone);
      break;
    case 15:
      if (key == "Concrete Inputs") event->inputs = List(value);
      if (key == "Total Allocated") event->total_allocated = Number(value, KinetoEvent::kNone);
      break;
    case 20:
      if (key == "registers per thread") event->shape.registers_per_thread = Small(Number(value, 0));
      break;
    default:
      break;
  }
}

// Throws simdjson's errors.
void ReadEvent(od::document& document, KinetoEvent* event) {
  for (auto field : od::object(document.get_object())) {
    const std::string_view key = field.unescaped_key();
    od::value value = field.value();
    if (key == "ph") {
      event->phase = Text(value);
    } else if (key == "cat") {
      event->category = Text(value);
    } else if (key == "name") {
      event->name = TextOrPath(value, &event->is_as_written);
    } else if (key == "pid") {
      event->pid = Id(value);
    } else if (key == "tid") {
      event->tid = Id(value);
    } else if (key == "ts") {
      event->begin_ns = ParseDecimal(value.raw_json_token(), 3);
    } else if (key == "dur") {
      event->duration_ns = ParseDecimal(value.raw_json_token(), 3);
    } else if (key == "id") {
      event->arrow = Number(value, KinetoEvent::kNone);
    } else if (key == "args" && value.type() == od::json_type::object) {
      for (auto argument : od::object(value.get_object())) {
        const std::string_view argument_key = argument.unescaped_key();
        ReadArgument(argument_key, argument.value(), event);
      }
    }
  }
}

}  // namespace

struct KinetoDecoder::Parser {
  od::parser parser;
};

KinetoDecoder::KinetoDecoder() : parser_(std::make_unique<Parser>()) {}
KinetoDecoder::~KinetoDecoder() = default;

Decoded KinetoDecoder::Event(std::string_view json, size_t capacity, KinetoEvent* event) {
  *event = KinetoEvent();
  try {
    od::document document = parser_->parser.iterate(json.data(), json.size(), capacity);
    ReadEvent(document, event);
    return Decoded::kOk;
  } catch (const simdjson::simdjson_error& error) {
    if (error.error() == simdjson::MEMALLOC) throw std::bad_alloc();
    const bool is_text = error.error() != simdjson::UTF8_ERROR && error.error() != simdjson::UNESCAPED_CHARS &&
                         simdjson::validate_utf8(json.data(), json.size());
    return is_text ? Decoded::kNoJson : Decoded::kNotText;
  }
}

std::vector<KinetoDevice> KinetoDecoder::Devices(std::string_view json, size_t capacity) {
  std::vector<KinetoDevice> devices;
  try {
    od::document document = parser_->parser.iterate(json.data(), json.size(), capacity);
    for (auto element : od::array(document.get_array())) {
      KinetoDevice device;
      for (auto field : od::object(element.get_object())) {
        const std::string_view key = field.unescaped_key();
        od::value value = field.value();
        if (key == "id") device.id = Number(value, 0);
        if (key == "name") device.name = Text(value);
        if (key == "computeMajor") device.compute_major = Number(value, 0);
        if (key == "computeMinor") device.compute_minor = Number(value, 0);
        if (key == "numSms") device.multiprocessors = Number(value, 0);
        // Kineto has used both spellings.
        if (key == "maxThreadsPerMultiprocessor" || key == "maxThreadsPerMultiProcessor")
          device.threads = Number(value, 0);
        if (key == "regsPerMultiprocessor") device.registers = Number(value, 0);
        if (key == "warpSize") device.warp = Number(value, 0);
        if (key == "regsPerBlock") device.block_registers = Number(value, 0);
        // CUDA's and ROCm's.
        if (key == "sharedMemPerMultiprocessor" || key == "maxSharedMemoryPerMultiProcessor")
          device.shared_bytes = Number(value, 0);
        if (key == "maxComputeUnits") device.multiprocessors = Number(value, 0);  // XPU's
      }
      devices.push_back(std::move(device));
    }
  } catch (const simdjson::simdjson_error& error) {
    if (error.error() == simdjson::MEMALLOC) throw std::bad_alloc();
  }
  return devices;
}

std::optional<int64_t> KinetoDecoder::Rank(std::string_view json, size_t capacity) {
  try {
    od::document document = parser_->parser.iterate(json.data(), json.size(), capacity);
    for (auto field : od::object(document.get_object())) {
      const std::string_view key = field.unescaped_key();
      od::value value = field.value();
      if (key == "rank") return ParseDecimal(std::string_view(value.raw_json_token()), 0);
    }
  } catch (const simdjson::simdjson_error& error) {
    if (error.error() == simdjson::MEMALLOC) throw std::bad_alloc();
  }
  return std::nullopt;
}

std::optional<std::string> KinetoDecoder::Scalar(std::string_view json) {
  if (json.empty() || json.front() == '{' || json.front() == '[') return std::nullopt;
  if (json.front() != '"') return std::string(json);
  // In a list, because a document of just a string has no values.
  const std::string list = "[" + std::string(json) + "]";
  try {
    const simdjson::padded_string padded(list);
    od::document document = parser_->parser.iterate(padded);
    for (auto element : od::array(document.get_array())) return std::string(std::string_view(element.get_string()));
  } catch (const simdjson::simdjson_error& error) {
    if (error.error() == simdjson::MEMALLOC) throw std::bad_alloc();
  }
  return std::nullopt;
}

}  // namespace pitot::read
