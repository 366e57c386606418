// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/pprof.h"

#include <string>

#include "serialize/pprof_writer.h"
#include "serialize/profile_count.h"

PITOT_NAMESPACE_BEGIN
namespace {

class PprofSerializer final : public Serializer {
 public:
  explicit PprofSerializer(const char* file_name) : file_name_(file_name) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    serialize::PprofWriter writer(trace, &sink);
    if (serialize::CountProfile(trace, &writer)) return Status();
    return Status(StatusCode::kIoError, "the profile could not be written");
  }

 private:
  std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakePprofSerializer(const char* file_name) noexcept try {
  return std::make_unique<PprofSerializer>(file_name);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
