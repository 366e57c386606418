// SPDX-License-Identifier: Apache-2.0
#include "read/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pitot::read {
namespace {

class Memory final : public ByteSource {
 public:
  Memory(const void* data, uint64_t size) : data_(static_cast<const char*>(data)), left_(size) {}
  size_t Read(char* out, size_t size) override {
    const size_t got = std::min<uint64_t>(size, left_);
    if (got != 0) memcpy(out, data_, got);
    data_ += got;
    left_ -= got;
    return got;
  }

 private:
  const char* data_;
  uint64_t left_;
};

class File final : public ByteSource {
 public:
  // Non-blocking, so that a pipe without a writer does not block the reader.
  explicit File(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat facts {};
    if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0) {
      status_ = Status(errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError, strerror(errno));
    } else if (!S_ISREG(facts.st_mode)) {
      status_ = Status(StatusCode::kInvalidArgument, "not a regular file");
    }
  }
  ~File() override {
    if (descriptor_ >= 0) close(descriptor_);
  }
  size_t Read(char* out, size_t size) override {
    if (!status_.ok()) return 0;
    ssize_t got;
    do got = ::read(descriptor_, out, size);
    while (got < 0 && errno == EINTR);
    if (got < 0) status_ = Status(StatusCode::kIoError, strerror(errno));
    return got < 0 ? 0 : static_cast<size_t>(got);
  }

 private:
  int descriptor_;
};

// Bytes that were already read from `rest`, then `rest`.
class Rejoined final : public ByteSource {
 public:
  Rejoined(std::string first, std::unique_ptr<ByteSource> rest) : first_(std::move(first)), rest_(std::move(rest)) {}
  size_t Read(char* out, size_t size) override {
    if (given_ < first_.size()) {
      const size_t got = first_.copy(out, size, given_);
      given_ += got;
      return got;
    }
    const size_t got = rest_->Read(out, size);
    status_ = rest_->status();
    return got;
  }

 private:
  std::string first_;
  size_t given_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

class Gzip final : public ByteSource {
 public:
  explicit Gzip(std::unique_ptr<ByteSource> packed) : packed_(std::move(packed)), in_(256 << 10) {
    is_open_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
    if (!is_open_) status_ = Status(StatusCode::kResourceExhausted, "no memory to unpack it");
  }
  ~Gzip() override {
    if (is_open_) inflateEnd(&stream_);
  }
  size_t Read(char* out, size_t size) override {
    size = std::min<size_t>(size, 1 << 30);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(size);
    while (stream_.avail_out == size && status_.ok() && !has_ended_) Inflate();
    return size - stream_.avail_out;
  }

 private:
  void Inflate() {
    if (stream_.avail_in == 0) {
      stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
      stream_.avail_in = static_cast<uInt>(packed_->Read(in_.data(), in_.size()));
      if (stream_.avail_in == 0) return TakeEnd();
    }
    if (is_between_) {
      inflateReset(&stream_);
      is_between_ = false;
      is_first_ = false;
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      is_between_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      // Ignores bytes after a whole member that are not another member, as gunzip does.
      if (!is_first_ && stream_.total_out == 0) return void(has_ended_ = true);
      status_ = Status(StatusCode::kDataLoss, "its compressed data is damaged");
    }
  }
  void TakeEnd() {
    has_ended_ = true;
    if (!packed_->status().ok()) {
      status_ = packed_->status();
    } else if (!is_between_) {
      status_ = Status(StatusCode::kDataLoss, "its compressed data is cut off");
    }
  }

  std::unique_ptr<ByteSource> packed_;
  std::vector<char> in_;
  z_stream stream_ = {};
  bool is_open_ = false;
  bool is_first_ = true;
  bool is_between_ = false;  // after the end of one member, before the begin of the next
  bool has_ended_ = false;
};

// Fewer bytes if the source ends before.
std::string FirstOf(ByteSource* source, size_t size) {
  std::string first(size, '\0');
  size_t have = 0;
  for (size_t got = 1; got != 0 && have < size; have += got) got = source->Read(first.data() + have, size - have);
  first.resize(have);
  return first;
}

}  // namespace

std::unique_ptr<ByteSource> FromMemory(const void* data, uint64_t size) { return std::make_unique<Memory>(data, size); }
std::unique_ptr<ByteSource> FromFile(const std::string& path) { return std::make_unique<File>(path); }

std::unique_ptr<ByteSource> Unpacked(std::unique_ptr<ByteSource> packed, bool* is_gzip) {
  std::string first = FirstOf(packed.get(), 2);
  *is_gzip = first == "\x1f\x8b";
  std::unique_ptr<ByteSource> bytes = std::make_unique<Rejoined>(std::move(first), std::move(packed));
  if (*is_gzip) bytes = std::make_unique<Gzip>(std::move(bytes));
  first = FirstOf(bytes.get(), 3);
  if (first == "\xef\xbb\xbf") first.clear();
  return std::make_unique<Rejoined>(std::move(first), std::move(bytes));
}

}  // namespace pitot::read
