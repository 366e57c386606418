// SPDX-License-Identifier: Apache-2.0
//
// Writes profiles of OTLP: one for each kind of time. What samples share is in a dictionary at the end of the file.
#ifndef PITOT_LIB_SERIALIZE_OTLP_PROFILE_WRITER_H_
#define PITOT_LIB_SERIALIZE_OTLP_PROFILE_WRITER_H_

#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serialize/profile_writer.h"
#include "serialize/wire.h"

namespace pitot::serialize {

class OtlpProfileWriter final : public ProfileWriter {
 public:
  OtlpProfileWriter(const model::Trace& trace, ByteSink* sink);

  bool ok() const override { return ok_; }

 private:
  void WriteText(std::string_view text) override;
  void WriteFrame(Frame frame, const FrameText& text) override;
  void WriteLabel(ProfileLabel label, std::string_view text, WireBuffer* out) override;
  void WriteSamples(const std::vector<Sample>& samples) override;
  void WriteEnd() override;
  void WriteResource();
  void ResourceText(std::string_view key, std::string_view text);
  // Writes the samples' time of one kind, if there is any.
  void WriteProfile(const std::vector<Sample>& samples, ProfileValue value, WireBuffer* out);

  // Rows of the dictionary, made once.
  uint32_t Attribute(std::string_view key, std::string_view text);
  uint32_t StackRow(Stack stack);
  uint32_t Link(uint32_t request);

  ByteSink& sink_;
  bool ok_ = true;
  WireBuffer dictionary_, resource_, library_, profile_attributes_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> attributes_;  // by texts
  std::unordered_map<Stack, uint32_t> stacks_;
  std::unordered_map<uint32_t, uint32_t> links_;  // by request
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_OTLP_PROFILE_WRITER_H_
