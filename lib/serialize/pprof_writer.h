// SPDX-License-Identifier: Apache-2.0
//
// Writes a profile for pprof.
#ifndef PITOT_LIB_SERIALIZE_PPROF_WRITER_H_
#define PITOT_LIB_SERIALIZE_PPROF_WRITER_H_

#include <string_view>
#include <vector>

#include "serialize/profile_writer.h"
#include "serialize/wire.h"

namespace pitot::serialize {

class PprofWriter final : public ProfileWriter {
 public:
  PprofWriter(const model::Trace& trace, ByteSink* sink);

  bool ok() const override { return ok_; }

 private:
  static constexpr size_t kFlushBytes = 64 << 10;

  void WriteText(std::string_view text) override;
  void WriteFrame(Frame frame, const FrameText& text) override;
  void WriteLabel(ProfileLabel label, std::string_view text, WireBuffer* out) override;
  void WriteSamples(const std::vector<Sample>& samples) override;
  void WriteEnd() override { Flush(); }
  void WriteHead();
  void WriteSample(const Sample& sample);
  void Flush();

  ByteSink& sink_;
  bool ok_ = true;
  WireBuffer buffer_;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PPROF_WRITER_H_
