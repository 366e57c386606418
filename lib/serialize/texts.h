// SPDX-License-Identifier: Apache-2.0
//
// Small texts that several formats share.
#ifndef PITOT_LIB_SERIALIZE_TEXTS_H_
#define PITOT_LIB_SERIALIZE_TEXTS_H_

#include <stdint.h>

#include <string>
#include <string_view>

#include "base/columns.h"
#include "base/mix.h"
#include "pitot/model/trace.h"

namespace pitot::serialize {

using base::Mix;

inline std::string Hex(uint64_t value, uint32_t digits) {
  std::string text(digits, '0');
  for (uint32_t i = digits; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

inline std::string_view OrElse(std::string_view text, std::string_view other) { return text.empty() ? other : text; }

inline std::string ThreadName(const model::Trace& trace, uint32_t row) {
  const model::ThreadRow& thread = trace.threads[row];
  return thread.name != 0 ? std::string(trace.strings[thread.name]) : "thread " + std::to_string(thread.number);
}

// "2 of events, 1 of GPU records", or "": for people.
inline std::string LossesInWords(const model::Trace& trace) {
  if (trace.losses.empty() && trace.gpu_losses.empty()) return {};
  return base::Count(trace.losses.size()) + " of events, " + base::Count(trace.gpu_losses.size()) + " of GPU records";
}

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_TEXTS_H_
