// SPDX-License-Identifier: Apache-2.0
//
// Reads back what lib/tables writes, by the specification of Parquet; it shares no code with the writer.
#ifndef PITOT_TEST_TABLES_PARQUET_FILE_H_
#define PITOT_TEST_TABLES_PARQUET_FILE_H_

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace parquet_file {

// Bytes that are taken from the front; throws where they end.
class Bytes {
 public:
  Bytes(const std::string& bytes, size_t at, size_t size) : at_(bytes.data() + at), end_(at_ + size) {
    if (at + size > bytes.size()) throw std::out_of_range("outside of the file");
  }
  explicit Bytes(const std::string& bytes) : Bytes(bytes, 0, bytes.size()) {}
  bool IsEmpty() const { return at_ == end_; }
  const char* Take(size_t size) {
    if (static_cast<size_t>(end_ - at_) < size) throw std::out_of_range("too short");
    return std::exchange(at_, at_ + size);
  }
  std::string Text(size_t size) { return {Take(size), size}; }
  uint8_t Byte() { return static_cast<uint8_t>(*Take(1)); }
  uint64_t Fixed(size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, Take(size), size);
    return value;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  int64_t ZigZag() {
    const uint64_t value = Varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }

 private:
  const char *at_, *end_;
};

// A value of Thrift's compact protocol.
struct Thrift {
  int64_t number = 0;
  std::string text;
  std::vector<Thrift> list;
  std::map<int, Thrift> fields;
  const Thrift& operator[](int field) const { return fields.at(field); }
  bool Has(int field) const { return fields.count(field) != 0; }
};

inline Thrift ReadThrift(Bytes& in, int type) {
  Thrift value;
  switch (type) {
    case 1:
    case 2:
      value.number = type == 1;
      break;
    case 5:
    case 6:
      value.number = in.ZigZag();
      break;
    case 8:
      value.text = in.Text(in.Varint());
      break;
    case 9: {
      const uint8_t head = in.Byte();
      const uint64_t size = head >> 4 == 15 ? in.Varint() : head >> 4;
      for (uint64_t i = 0; i < size; ++i) value.list.push_back(ReadThrift(in, head & 15));
      break;
    }
    case 12:
      for (int field = 0;;) {
        const uint8_t head = in.Byte();
        if (head == 0) break;
        field += head >> 4;
        value.fields[field] = ReadThrift(in, head & 15);
      }
      break;
    default:
      throw std::runtime_error("unknown type of Thrift");
  }
  return value;
}

inline std::vector<uint32_t> ReadHybrid(Bytes in, int width, size_t count) {
  std::vector<uint32_t> values;
  while (values.size() < count) {
    const uint64_t head = in.Varint();
    if ((head & 1) == 0) {
      values.insert(values.end(), head >> 1, static_cast<uint32_t>(in.Fixed(static_cast<size_t>((width + 7) / 8))));
      continue;
    }
    for (uint64_t pack = 0; pack < head >> 1; ++pack) {
      const std::string bits = in.Text(static_cast<size_t>(width));
      for (int bit = 0; bit < 8 * width; bit += width) {
        uint32_t value = 0;
        for (int i = 0; i < width; ++i)
          value |= uint32_t{static_cast<uint8_t>(bits[static_cast<size_t>(bit + i) / 8]) >> ((bit + i) % 8) & 1u} << i;
        values.push_back(value);
      }
    }
  }
  values.resize(count);  // the last pack has zeros at its end
  return values;
}

inline std::string Inflated(const std::string& packed, size_t size) {
  std::string text(size, '\0');
  z_stream stream = {};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(size);
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::runtime_error("zlib");
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_out != 0) throw std::runtime_error("not gzip, or of another size");
  return text;
}

inline const std::string kNull = "null";

class File {
 public:
  explicit File(const std::string& bytes) : bytes_(bytes) {
    if (bytes.substr(0, 4) != "PAR1" || bytes.substr(bytes.size() - 4) != "PAR1") throw std::runtime_error("magic");
    const size_t size = Bytes(bytes, bytes.size() - 8, 4).Fixed(4);
    Bytes footer(bytes, bytes.size() - 8 - size, size);
    head_ = ReadThrift(footer, 12);
    if (!footer.IsEmpty()) throw std::runtime_error("the footer has another size");
  }
  const Thrift& head() const { return head_; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (size_t i = 1; i < head_[2].list.size(); ++i) names.push_back(head_[2].list[i][4].text);
    return names;
  }
  // The values of a column: texts, or numbers as their bits.
  std::vector<std::string> Column(size_t column) const {
    std::vector<std::string> values;
    for (const Thrift& group : head_[4].list) {
      const std::vector<std::string> more = Chunk(column, group[1].list.at(column)[3]);
      if (static_cast<int64_t>(more.size()) != group[3].number) throw std::runtime_error("rows of a group");
      values.insert(values.end(), more.begin(), more.end());
    }
    return values;
  }

 private:
  struct Page {
    Thrift head;
    std::string bytes;
  };
  Page PageAt(int64_t offset, bool is_packed) const {
    Page page;
    Bytes in(bytes_, static_cast<size_t>(offset), bytes_.size() - static_cast<size_t>(offset));
    page.head = ReadThrift(in, 12);
    page.bytes = in.Text(static_cast<size_t>(page.head[3].number));
    const auto size = static_cast<size_t>(page.head[2].number);
    if (is_packed) page.bytes = Inflated(page.bytes, size);
    if (page.bytes.size() != size) throw std::runtime_error("the size of a page");
    return page;
  }
  static std::string Plain(Bytes& in, int64_t type) {
    return type == 6 ? in.Text(in.Fixed(4)) : std::to_string(in.Fixed(8));
  }

  std::vector<std::string> Chunk(size_t column, const Thrift& chunk) const {
    const bool is_packed = chunk[4].number == 2;
    const int64_t type = chunk[1].number;
    std::vector<std::string> dictionary;
    if (chunk.Has(11)) {
      const Page page = PageAt(chunk[11].number, is_packed);
      Bytes in(page.bytes);
      for (int64_t i = 0; i < page.head[7][1].number; ++i) dictionary.push_back(Plain(in, type));
      if (!in.IsEmpty()) throw std::runtime_error("the size of a dictionary");
    }
    const Page page = PageAt(chunk[9].number, is_packed);
    const auto rows = static_cast<size_t>(page.head[5][1].number);
    Bytes in(page.bytes);
    std::vector<uint32_t> is_there(rows, 1);
    if (head_[2].list[column + 1][3].number == 1) {
      const std::string levels = in.Text(in.Fixed(4));
      is_there = ReadHybrid(Bytes(levels), 1, rows);
    }
    size_t count = 0;
    for (const uint32_t one : is_there) count += one;
    if (static_cast<int64_t>(rows - count) != chunk[12][3].number) throw std::runtime_error("nulls");
    const std::vector<std::string> found = ValuesOf(in, type, count, page.head[5][2].number, dictionary);
    std::vector<std::string> values;
    size_t next = 0;
    for (const uint32_t one : is_there) values.push_back(one != 0 ? found.at(next++) : kNull);
    return values;
  }
  static std::vector<std::string> ValuesOf(Bytes in, int64_t type, size_t count, int64_t encoding,
                                           const std::vector<std::string>& dictionary) {
    std::vector<std::string> values;
    if (encoding == 8) {
      const int width = in.Byte();
      for (const uint32_t place : ReadHybrid(in, width, count)) values.push_back(dictionary.at(place));
    } else if (type == 0) {
      for (size_t i = 0; i < count;) {
        const uint8_t byte = in.Byte();
        for (int bit = 0; bit < 8 && i < count; ++bit, ++i) values.push_back(std::to_string(byte >> bit & 1));
      }
    } else {
      for (size_t i = 0; i < count; ++i) values.push_back(Plain(in, type));
    }
    return values;
  }

  std::string bytes_;
  Thrift head_;
};

}  // namespace parquet_file

#endif  // PITOT_TEST_TABLES_PARQUET_FILE_H_
