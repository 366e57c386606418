// SPDX-License-Identifier: Apache-2.0
//
// Keeps the bytes of a serializer.
#ifndef PITOT_TEST_FAKES_STRING_SINK_H_
#define PITOT_TEST_FAKES_STRING_SINK_H_

#include <cstdint>
#include <string>

#include "pitot/extend/serializer.h"

namespace fakes {

// Refuses to grow beyond `limit` bytes, like a full disk.
class StringSink final : public pitot::ByteSink {
 public:
  explicit StringSink(uint64_t limit = UINT64_MAX) : limit_(limit) {}
  bool Write(const void* data, uint64_t size) noexcept override {
    if (bytes.size() + size > limit_) return false;
    bytes.append(static_cast<const char*>(data), size);
    return true;
  }
  std::string bytes;

 private:
  uint64_t limit_;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_STRING_SINK_H_
