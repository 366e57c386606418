// SPDX-License-Identifier: Apache-2.0
#include "cli/gzipped.h"

#include <string>
#include <utility>

#include "cli/deflating_sink.h"

namespace pitot::cli {
namespace {

class Gzipped final : public Serializer {
 public:
  explicit Gzipped(std::unique_ptr<Serializer> plain)
      : plain_(std::move(plain)), file_name_(std::string(plain_->FileName()) + ".gz") {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    constexpr int kFast = 1;
    DeflatingSink packed(DeflatingSink::Format::kGzip, kFast, &sink);
    const Status status = plain_->Serialize(trace, packed);
    if (!status.ok() || packed.Finish()) return status;
    return Status(StatusCode::kIoError, "the compressed file could not be written");
  }

 private:
  std::unique_ptr<Serializer> plain_;
  std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakeGzipped(std::unique_ptr<Serializer> plain) {
  return std::make_unique<Gzipped>(std::move(plain));
}

}  // namespace pitot::cli
