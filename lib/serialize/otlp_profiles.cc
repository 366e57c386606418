// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/otlp_profiles.h"

#include <string>

#include "serialize/otlp_profile_writer.h"
#include "serialize/profile_count.h"

PITOT_NAMESPACE_BEGIN
namespace {

class OtlpProfilesSerializer final : public Serializer {
 public:
  explicit OtlpProfilesSerializer(const char* file_name) : file_name_(file_name) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    serialize::OtlpProfileWriter writer(trace, &sink);
    if (serialize::CountProfile(trace, &writer)) return Status();
    return Status(StatusCode::kIoError, "the profiles could not be written");
  }

 private:
  std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakeOtlpProfilesSerializer(const char* file_name) noexcept try {
  return std::make_unique<OtlpProfilesSerializer>(file_name);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
