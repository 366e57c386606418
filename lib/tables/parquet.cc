// SPDX-License-Identifier: Apache-2.0
#include "tables/parquet.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/version.h"
#include "serialize/wire.h"
#include "tables/thrift.h"

namespace pitot::tables {
namespace {

using serialize::WireBuffer;

constexpr std::string_view kMagic = "PAR1";

// Numbers of parquet.thrift.
enum PhysicalType { kBoolean = 0, kInt64 = 2, kDouble = 5, kByteArray = 6 };
enum Encoding { kPlain = 0, kRle = 3, kRleDictionary = 8 };
enum Codec { kUncompressed = 0, kGzip = 2 };
enum PageType { kDataPage = 0, kDictionaryPage = 2 };
enum Repetition { kRequired = 0, kOptional = 1 };
constexpr int kUtf8 = 0, kTimestampMicros = 10;  // ConvertedType, for old readers

PhysicalType PhysicalOf(Type type) {
  switch (type) {
    case Type::kReal:
      return kDouble;
    case Type::kBool:
      return kBoolean;
    case Type::kText:
      return kByteArray;
    default:
      return kInt64;
  }
}
bool HasDictionary(Type type) { return type == Type::kText || type == Type::kRow; }
bool HasRange(Type type) { return PhysicalOf(type) == kInt64; }

int WidthOf(uint32_t largest) {
  int width = 1;
  while (largest >> width != 0) ++width;
  return width;
}

// Writes numbers of `width` bits in the hybrid of runs and packed bits.
class Hybrid {
 public:
  Hybrid(int width, WireBuffer* out) : width_(width), out_(*out) {}

  template <class Numbers> void Write(const Numbers& numbers) {
    const size_t count = numbers.size();
    for (size_t at = 0; at < count;) {
      size_t run = RunAt(numbers, at, count);
      if (run >= kLeastRun || at + run == count) {
        out_.RawVarint(uint64_t{run} << 1);
        uint64_t value = numbers[at];
        for (int bits = 0; bits < width_; bits += 8, value >>= 8) PutByte(static_cast<uint8_t>(value));
        at += run;
        continue;
      }
      size_t end = at;
      while (end < count && RunAt(numbers, end, std::min(count, end + kLeastRun)) < kLeastRun) end += kPack;
      out_.RawVarint(uint64_t{(end - at) / kPack} << 1 | 1);
      for (; at < end; at += kPack) Pack(numbers, at, std::min(count, at + kPack));
      at = std::min(at, count);
    }
  }

 private:
  static constexpr size_t kPack = 8, kLeastRun = 16;

  // The number of equal ones from `at` on.
  template <class Numbers> static size_t RunAt(const Numbers& numbers, size_t at, size_t end) {
    size_t last = at + 1;
    while (last < end && numbers[last] == numbers[at]) ++last;
    return last - at;
  }
  // Eight of them, with zeros for those that are missing.
  template <class Numbers> void Pack(const Numbers& numbers, size_t first, size_t last) {
    uint64_t bits = 0;
    int filled = 0;
    for (size_t at = first; at < first + kPack; ++at) {
      bits |= (at < last ? uint64_t{numbers[at]} : 0) << filled;
      for (filled += width_; filled >= 8; filled -= 8, bits >>= 8) PutByte(static_cast<uint8_t>(bits));
    }
  }
  void PutByte(uint8_t byte) { out_.RawBytes(&byte, 1); }

  const int width_;
  WireBuffer& out_;
};

// The metadata of a column in a row group.
struct Chunk {
  int64_t dictionary_offset = -1, data_offset = 0;
  int64_t plain_bytes = 0, bytes = 0;  // with the headers of pages
  int64_t values = 0, nulls = 0;
  bool has_range = false;
  int64_t least = 0, most = 0;
};
struct Group {
  int64_t rows = 0;
  std::vector<Chunk> chunks;
};

class FileWriter {
 public:
  FileWriter(const Table& table, const ParquetOptions& options, ByteSink* sink)
      : table_(table), options_(options), rows_(table.Rows()), sink_(*sink) {}

  Status Write() {
    Put(kMagic.data(), kMagic.size());
    for (uint64_t row = 0; row < rows_ && status_.ok(); row += options_.group_rows)
      WriteGroup(row, std::min(rows_, row + options_.group_rows));
    WriteFooter();
    return status_;
  }

 private:
  void WriteGroup(uint64_t first, uint64_t last) {
    groups_.push_back({static_cast<int64_t>(last - first), {}});
    for (const Column& column : table_.columns) {
      values_.is_there.clear();
      values_.bits.clear();
      column.fill(first, last, &values_);
      groups_.back().chunks.push_back(WriteChunk(column, last - first));
      if (!status_.ok()) return;
    }
  }

  Chunk WriteChunk(const Column& column, uint64_t rows) {
    Chunk chunk;
    chunk.values = static_cast<int64_t>(rows);
    chunk.nulls = static_cast<int64_t>(rows - values_.bits.size());
    if (HasRange(column.type) && !values_.bits.empty()) {
      const auto [least, most] =
          std::minmax_element(values_.bits.begin(), values_.bits.end(),
                              [](uint64_t a, uint64_t b) { return static_cast<int64_t>(a) < static_cast<int64_t>(b); });
      chunk.has_range = true;
      chunk.least = static_cast<int64_t>(*least);
      chunk.most = static_cast<int64_t>(*most);
    }
    if (HasDictionary(column.type)) WriteDictionary(column, &chunk);
    chunk.data_offset = offset_;
    page_.Clear();
    if (column.may_be_null) PutLevels();
    if (HasDictionary(column.type)) {
      const int width = WidthOf(distinct_ == 0 ? 0 : distinct_ - 1);
      PutByte(&page_, static_cast<uint8_t>(width));
      Hybrid(width, &page_).Write(places_);
    } else {
      PutPlain(column.type);
    }
    WritePage(kDataPage, rows, HasDictionary(column.type) ? kRleDictionary : kPlain, column, &chunk);
    return chunk;
  }

  // Which rows have a value.
  void PutLevels() {
    levels_.Clear();
    Hybrid(1, &levels_).Write(values_.is_there);
    page_.RawFixed32(static_cast<uint32_t>(levels_.size()));
    page_.RawBytes(levels_.data(), levels_.size());
  }

  void PutPlain(Type type) {
    if (type != Type::kBool) {
      for (const uint64_t bits : values_.bits) page_.RawFixed64(bits);
      return;
    }
    for (size_t at = 0; at < values_.bits.size(); at += 8) {
      uint8_t byte = 0;
      for (size_t bit = 0; bit < 8 && at + bit < values_.bits.size(); ++bit)
        byte = static_cast<uint8_t>(byte | values_.bits[at + bit] << bit);
      PutByte(&page_, byte);
    }
  }

  // Writes each distinct value once, and fills `places_`.
  void WriteDictionary(const Column& column, Chunk* chunk) {
    place_of_.clear();
    places_.clear();
    page_.Clear();
    for (const uint64_t bits : values_.bits) {
      // Rows of a kind come together.
      if (!places_.empty() && bits == last_bits_) {
        places_.push_back(places_.back());
        continue;
      }
      const auto [found, is_new] = place_of_.try_emplace(bits, static_cast<uint32_t>(place_of_.size()));
      if (is_new) PutEntry(column, bits);
      places_.push_back(found->second);
      last_bits_ = bits;
    }
    distinct_ = static_cast<uint32_t>(place_of_.size());
    chunk->dictionary_offset = offset_;
    WritePage(kDictionaryPage, distinct_, kPlain, column, chunk);
  }
  void PutEntry(const Column& column, uint64_t bits) {
    if (column.type != Type::kText) return page_.RawFixed64(bits);
    const std::string_view text = column.text(bits, &room_);
    page_.RawFixed32(static_cast<uint32_t>(text.size()));
    page_.RawBytes(text.data(), text.size());
  }

  void WritePage(PageType type, uint64_t values, Encoding encoding, const Column& column, Chunk* chunk) {
    if (page_.size() > kMostPageBytes) {
      status_ = Status(StatusCode::kResourceExhausted, (table_.name + "." + column.name + " is too large").c_str());
      return;
    }
    const WireBuffer& written = options_.is_compressed ? Compress() : page_;
    head_.Clear();
    Thrift thrift(&head_);
    thrift.I32(1, type);
    thrift.I32(2, static_cast<int64_t>(page_.size()));
    thrift.I32(3, static_cast<int64_t>(written.size()));
    thrift.Begin(type == kDataPage ? 5 : 7);
    thrift.I32(1, static_cast<int64_t>(values));
    thrift.I32(2, encoding);
    if (type == kDataPage) {
      thrift.I32(3, kRle);
      thrift.I32(4, kRle);
    }
    thrift.End();
    thrift.End();
    chunk->plain_bytes += static_cast<int64_t>(head_.size() + page_.size());
    chunk->bytes += static_cast<int64_t>(head_.size() + written.size());
    Put(head_.data(), head_.size());
    Put(written.data(), written.size());
  }

  const WireBuffer& Compress() {
    constexpr int kGzipFormat = 16, kWindowBits = 15, kMemoryLevel = 8;
    packed_.Clear();
    z_stream stream = {};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kWindowBits + kGzipFormat, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
        Z_OK)
      throw std::bad_alloc();
    stream.next_in = const_cast<Bytef*>(page_.data());  // zlib does not write to it
    stream.avail_in = static_cast<uInt>(page_.size());
    int result = Z_OK;
    while (result == Z_OK) {
      Bytef out[16 << 10];
      stream.next_out = out;
      stream.avail_out = sizeof out;
      result = deflate(&stream, Z_FINISH);
      packed_.RawBytes(out, sizeof out - stream.avail_out);
    }
    deflateEnd(&stream);
    return packed_;
  }

  void WriteFooter() {
    head_.Clear();
    Thrift thrift(&head_);
    thrift.I32(1, 2);  // the version
    thrift.List(2, Thrift::kStruct, table_.columns.size() + 1);
    thrift.BeginElement();
    thrift.Binary(4, table_.name);
    thrift.I32(5, static_cast<int64_t>(table_.columns.size()));
    thrift.End();
    for (const Column& column : table_.columns) PutSchema(column, &thrift);
    thrift.I64(3, static_cast<int64_t>(rows_));
    thrift.List(4, Thrift::kStruct, groups_.size());
    for (const Group& group : groups_) PutGroup(group, &thrift);
    thrift.Binary(6, "pitot " PITOT_VERSION_STRING);
    thrift.List(7, Thrift::kStruct, table_.columns.size());  // values compare as their types do
    for (size_t i = 0; i < table_.columns.size(); ++i) {
      thrift.BeginElement();
      thrift.Empty(1);
      thrift.End();
    }
    thrift.End();
    head_.RawFixed32(static_cast<uint32_t>(head_.size()));
    head_.RawBytes(kMagic.data(), kMagic.size());
    Put(head_.data(), head_.size());
  }

  static void PutSchema(const Column& column, Thrift* thrift) {
    thrift->BeginElement();
    thrift->I32(1, PhysicalOf(column.type));
    thrift->I32(3, column.may_be_null ? kOptional : kRequired);
    thrift->Binary(4, column.name);
    if (column.type == Type::kText) {
      thrift->I32(6, kUtf8);
      thrift->Begin(10);
      thrift->Empty(1);  // STRING
      thrift->End();
    } else if (column.type == Type::kUtc) {
      thrift->I32(6, kTimestampMicros);
      thrift->Begin(10);
      thrift->Begin(8);  // TIMESTAMP
      thrift->Bool(1, true);
      thrift->Begin(2);
      thrift->Empty(2);  // MICROS
      thrift->End();
      thrift->End();
      thrift->End();
    }
    thrift->End();
  }

  void PutGroup(const Group& group, Thrift* thrift) {
    int64_t plain_bytes = 0;
    thrift->BeginElement();
    thrift->List(1, Thrift::kStruct, group.chunks.size());
    for (size_t i = 0; i < group.chunks.size(); ++i) {
      PutChunk(table_.columns[i], group.chunks[i], thrift);
      plain_bytes += group.chunks[i].plain_bytes;
    }
    thrift->I64(2, plain_bytes);
    thrift->I64(3, group.rows);
    thrift->End();
  }

  void PutChunk(const Column& column, const Chunk& chunk, Thrift* thrift) {
    const bool has_dictionary = chunk.dictionary_offset >= 0;
    thrift->BeginElement();
    thrift->I64(2, 0);
    thrift->Begin(3);
    thrift->I32(1, PhysicalOf(column.type));
    thrift->List(2, Thrift::kI32, 2);
    thrift->RawI32(kRle);  // of which rows have a value
    thrift->RawI32(has_dictionary ? kRleDictionary : kPlain);
    thrift->List(3, Thrift::kBinary, 1);
    thrift->RawBinary(column.name);
    thrift->I32(4, options_.is_compressed ? kGzip : kUncompressed);
    thrift->I64(5, chunk.values);
    thrift->I64(6, chunk.plain_bytes);
    thrift->I64(7, chunk.bytes);
    thrift->I64(9, chunk.data_offset);
    if (has_dictionary) thrift->I64(11, chunk.dictionary_offset);
    thrift->Begin(12);
    thrift->I64(3, chunk.nulls);
    if (chunk.has_range) {
      PutLimit(5, chunk.most, thrift);
      PutLimit(6, chunk.least, thrift);
    }
    thrift->End();
    thrift->End();
    thrift->End();
  }
  static void PutLimit(int field, int64_t value, Thrift* thrift) {
    WireBuffer bytes;
    bytes.RawFixed64(static_cast<uint64_t>(value));
    thrift->Binary(field, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  static void PutByte(WireBuffer* out, uint8_t byte) { out->RawBytes(&byte, 1); }
  void Put(const void* data, uint64_t size) {
    if (!status_.ok()) return;
    if (!sink_.Write(data, size)) status_ = Status(StatusCode::kIoError, "the Parquet file could not be written");
    offset_ += static_cast<int64_t>(size);
  }

  static constexpr size_t kMostPageBytes = std::numeric_limits<int32_t>::max();

  const Table& table_;
  const ParquetOptions& options_;
  const uint64_t rows_;
  ByteSink& sink_;
  Status status_;
  int64_t offset_ = 0;
  std::vector<Group> groups_;
  // The present column.
  Values values_;
  std::unordered_map<uint64_t, uint32_t> place_of_;  // in the dictionary
  std::vector<uint32_t> places_;
  uint64_t last_bits_ = 0;
  uint32_t distinct_ = 0;
  std::string room_;
  WireBuffer page_, levels_, packed_, head_;
};

class Parquet final : public Serializer {
 public:
  Parquet(Table table, const ParquetOptions& options)
      : table_(std::move(table)), options_(options), file_name_(table_.name + ".parquet") {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const model::Trace&, ByteSink& sink) override { return FileWriter(table_, options_, &sink).Write(); }

 private:
  const Table table_;
  const ParquetOptions options_;
  const std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakeParquet(Table table, const ParquetOptions& options) {
  return std::make_unique<Parquet>(std::move(table), options);
}

}  // namespace pitot::tables
