// SPDX-License-Identifier: Apache-2.0
//
// Between the structs and statuses of pitot/c.h and those of C++.
#ifndef PITOT_BINDINGS_C_CONVERT_H_
#define PITOT_BINDINGS_C_CONVERT_H_

#include <algorithm>
#include <cstring>

#include "pitot/c.h"
#include "pitot/status.h"

namespace pitot::c {

// What no header will reach: a size beyond it was never set.
inline constexpr size_t kLargestStruct = 4096;

// Writes the message of a status and returns its code.
inline pitot_status Say(const Status& status, char* message, size_t message_size) noexcept {
  if (message != nullptr && message_size != 0) {
    const size_t kept = std::min(std::strlen(status.message()), message_size - 1);
    std::memcpy(message, status.message(), kept);
    message[kept] = '\0';
  }
  return static_cast<pitot_status>(status.code());
}

// Gives a caller, whose struct may be older or newer, `values`.
template <class Struct> void Give(Struct values, void* out, size_t size) noexcept {
  if (out == nullptr || size < sizeof values.size || size > kLargestStruct) return;
  values.size = static_cast<uint32_t>(size);
  std::memset(out, 0, size);
  std::memcpy(out, &values, std::min(size, sizeof values));
}

// Lays what a caller gave over `*values`, the defaults. Of a newer header's struct only zeros may be unknown.
template <class Struct> Status Take(const Struct* given, Struct* values) noexcept {
  if (given == nullptr) return {};
  const size_t size = given->size;
  if (size <= sizeof given->size || size > kLargestStruct)
    return Status(StatusCode::kInvalidArgument, "size is not that of the struct: call its pitot_..._init first");
  const char* const bytes = reinterpret_cast<const char*>(given);
  const auto is_set = [](char byte) { return byte != 0; };
  if (size > sizeof *given && std::any_of(bytes + sizeof *given, bytes + size, is_set))
    return Status(StatusCode::kInvalidArgument, "a field is set that only a newer libpitot_c knows");
  std::memcpy(static_cast<void*>(values), bytes, std::min(size, sizeof *given));
  return {};
}

}  // namespace pitot::c

#endif  // PITOT_BINDINGS_C_CONVERT_H_
