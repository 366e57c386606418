// SPDX-License-Identifier: Apache-2.0
#include "read/sglang_result.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "read/python_text.h"

namespace pitot::read {

void SglangResult::Set(std::string_view key, double value) {
  if (!std::isfinite(value) || value < 0) return;
  if (key == "request_received_ts") received_s = value;
  if (key == "e2e_latency") end_to_end_s = value;
  if (key == "queue_time") queue_s = value;
  if (key == "first_token_latency") first_token_s = value;
  if (key == "prefill_finished_ts" || key == "prefill_finished_time") first_token_at_s = value;
  if (key == "prompt_tokens") prompt_tokens = value;
  if (key == "completion_tokens") completion_tokens = value;
  if (key == "cached_tokens") cached_tokens = value;
}

void SglangResult::SetPrinted(std::string_view key, std::string_view value) {
  double number;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size()) Set(key, number);
}

SglangResult ResultOf(const simdjson::dom::object& meta_info) {
  SglangResult result;
  for (const auto [key, value] : meta_info) {
    double number;
    std::string_view text;
    simdjson::dom::object finish;
    if (value.get(number) == simdjson::SUCCESS) result.Set(key, number);
    if (key == "id" && value.get(text) == simdjson::SUCCESS) result.id = text;
    if (key != "finish_reason") continue;
    if (value.get(text) == simdjson::SUCCESS) result.finish = text;
    if (value.get(finish) != simdjson::SUCCESS) continue;
    if (finish["type"].get(text) == simdjson::SUCCESS) result.finish = text;
    if (finish["message"].get(text) == simdjson::SUCCESS) result.reason = text;
  }
  return result;
}

SglangResult ResultOf(std::string_view printed) {
  SglangResult result;
  PythonFields fields(WithinBrackets(printed), ": ");
  while (fields.Next()) {
    const std::string_view value = fields.value();
    result.SetPrinted(fields.key(), value);
    if (fields.key() == "id") result.id = Unquoted(value);
    if (fields.key() != "finish_reason") continue;
    result.finish = Unquoted(value);
    PythonFields finish(value.starts_with('{') ? WithinBrackets(value) : std::string_view(), ": ");
    while (finish.Next()) {
      if (finish.key() == "type") result.finish = Unquoted(finish.value());
      if (finish.key() == "message") result.reason = Unquoted(finish.value());
    }
  }
  return result;
}

}  // namespace pitot::read
