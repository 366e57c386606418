// SPDX-License-Identifier: Apache-2.0
//
// A protobuf message read from a source, for files that do not fit in memory. Messages inside are entered, or taken
// whole.
#ifndef PITOT_LIB_READ_WIRE_STREAM_H_
#define PITOT_LIB_READ_WIRE_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/wire_reader.h"
#include "read/byte_source.h"

namespace pitot::read {

class WireStream {
 public:
  static constexpr uint64_t kMostBytes = 64 << 20;  // of a field that is taken whole

  explicit WireStream(ByteSource* source) : source_(*source), ends_{UINT64_MAX} {}

  // The next field of the innermost open message. False at its end; or, as has_ended says, where nothing
  // more can be read. The next call skips a field of kBytes that was neither taken nor entered.
  bool Next(base::WireField* field);
  // The content of the field, valid until the next call; of a field beyond kMostBytes nothing.
  std::string_view Take();
  void Enter();
  // Skips the rest of the message that was entered last.
  void Leave();

  // The file ends here, or is damaged here.
  bool has_ended() const { return has_ended_; }
  bool is_cut() const { return is_cut_; }          // in the middle of a field
  bool is_damaged() const { return is_damaged_; }  // not the wire format
  uint64_t skipped() const { return skipped_; }    // fields beyond kMostBytes, not taken
  uint64_t at() const { return base_ + at_; }      // bytes before the next

 private:
  // Makes `count` bytes from at_ on available, or as many as there are. Returns their number.
  size_t Fill(size_t count) { return have_ - at_ >= count ? count : ReadMore(count); }
  size_t ReadMore(size_t count);
  bool Varint(uint64_t* value);
  void Skip(uint64_t count);
  bool Fail(bool is_cut);

  ByteSource& source_;
  std::string buffer_;
  size_t at_ = 0, have_ = 0;    // in the buffer
  uint64_t base_ = 0;           // of the buffer in the message
  uint64_t pending_ = 0;        // bytes of the last field
  std::vector<uint64_t> ends_;  // of the messages that were entered
  bool has_ended_ = false, is_cut_ = false, is_damaged_ = false;
  uint64_t skipped_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_WIRE_STREAM_H_
