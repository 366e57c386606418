// SPDX-License-Identifier: Apache-2.0
//
// The two encodings of OTLP's TracesData. Both are read piece by piece; a piece of more than 64 MiB is not read.
#ifndef PITOT_LIB_READ_OTLP_DECODERS_H_
#define PITOT_LIB_READ_OTLP_DECODERS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "read/byte_source.h"
#include "read/otlp_message.h"

namespace pitot::read {

inline constexpr size_t kMostOtlpBytes = 64 << 20;  // of a piece

// Documents, one after the other: a file of a collector has one in each line. Returns "" or why it ended early.
std::string ReadOtlpJson(ByteSource* source, OtlpTarget* target);
bool IsOtlpJson(std::string_view head);

// Groups of spans (ResourceSpans), one after the other.
std::string ReadOtlpWire(ByteSource* source, OtlpTarget* target);
bool IsOtlpWire(std::string_view head);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_OTLP_DECODERS_H_
