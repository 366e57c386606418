// SPDX-License-Identifier: Apache-2.0
//
// What SGLang says of a request that ended ("meta_info"), in JSON or as Python prints it.
#ifndef PITOT_LIB_READ_SGLANG_RESULT_H_
#define PITOT_LIB_READ_SGLANG_RESULT_H_

#include <optional>
#include <string_view>

#include <simdjson.h>

namespace pitot::read {

struct SglangResult {
  std::string_view id, finish, reason;
  // Unix time and durations, in s.
  std::optional<double> received_s, end_to_end_s, queue_s, first_token_s, first_token_at_s;
  std::optional<double> prompt_tokens, completion_tokens, cached_tokens;

  void Set(std::string_view key, double value);
  // The same for a value as Python prints it. Nothing for one that is not a number.
  void SetPrinted(std::string_view key, std::string_view value);
};

SglangResult ResultOf(const simdjson::dom::object& meta_info);
// `printed` begins with "{".
SglangResult ResultOf(std::string_view printed);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SGLANG_RESULT_H_
