// SPDX-License-Identifier: Apache-2.0
//
// A file as a text, for those who change it before it is written.
#ifndef PITOT_LIB_SESSION_TEXT_SINK_H_
#define PITOT_LIB_SESSION_TEXT_SINK_H_

#include <cstdint>
#include <new>
#include <string>

#include "pitot/extend/serializer.h"

namespace pitot::session {

class TextSink final : public ByteSink {
 public:
  bool Write(const void* data, uint64_t size) noexcept override {
    try {
      text.append(static_cast<const char*>(data), size);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  std::string text;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_TEXT_SINK_H_
