// SPDX-License-Identifier: Apache-2.0
#include "cli/gzipped.h"

#include <zlib.h>

#include <string>
#include <utility>

namespace pitot::cli {
namespace {

constexpr int kGzip = 16, kWindowBits = 15, kMemoryLevel = 8, kFast = 1;

class GzipSink final : public ByteSink {
 public:
  explicit GzipSink(ByteSink* packed) : packed_(*packed) {
    is_ok_ = deflateInit2(&stream_, kFast, Z_DEFLATED, kWindowBits + kGzip, kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~GzipSink() { deflateEnd(&stream_); }
  bool Write(const void* data, uint64_t size) noexcept override {
    constexpr uint64_t kMost = 1 << 30;  // zlib counts in 32 bits
    const auto* from = static_cast<const Bytef*>(data);
    for (; size > kMost && is_ok_; size -= kMost, from += kMost) Deflate(from, kMost, Z_NO_FLUSH);
    Deflate(from, size, Z_NO_FLUSH);
    return is_ok_;
  }
  bool Finish() {
    Deflate(nullptr, 0, Z_FINISH);
    return is_ok_;
  }

 private:
  void Deflate(const Bytef* from, uint64_t size, int flush) noexcept {
    stream_.next_in = const_cast<Bytef*>(from);  // zlib does not write to it
    stream_.avail_in = static_cast<uInt>(size);
    do {
      stream_.next_out = out_;
      stream_.avail_out = sizeof out_;
      if (!is_ok_) return;
      is_ok_ = deflate(&stream_, flush) >= Z_OK || stream_.avail_out == sizeof out_;
      is_ok_ = is_ok_ && packed_.Write(out_, sizeof out_ - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  ByteSink& packed_;
  z_stream stream_ = {};
  bool is_ok_;
  Bytef out_[64 << 10];
};

class Gzipped final : public Serializer {
 public:
  explicit Gzipped(std::unique_ptr<Serializer> plain)
      : plain_(std::move(plain)), file_name_(std::string(plain_->FileName()) + ".gz") {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    GzipSink packed(&sink);
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
