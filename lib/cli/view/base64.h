// SPDX-License-Identifier: Apache-2.0
//
// Bytes as text, for a page.
#ifndef PITOT_LIB_CLI_VIEW_BASE64_H_
#define PITOT_LIB_CLI_VIEW_BASE64_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "pitot/extend/serializer.h"

namespace pitot::cli::view {

std::string Base64(std::string_view bytes);

// Encodes what is written to it, piece by piece, and passes it on.
class Base64Sink final : public ByteSink {
 public:
  explicit Base64Sink(ByteSink* text) : text_(*text) {}
  bool Write(const void* data, uint64_t size) noexcept override;
  // Call it at the end. Whether all was taken.
  bool Finish();

 private:
  ByteSink& text_;
  std::string rest_;  // fewer than three bytes, between calls
};

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_BASE64_H_
