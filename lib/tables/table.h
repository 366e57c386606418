// SPDX-License-Identifier: Apache-2.0
//
// A table for readers by others: names and types of columns, and functions that fill them block by block. No
// table is ever in memory as a whole.
#ifndef PITOT_LIB_TABLES_TABLE_H_
#define PITOT_LIB_TABLES_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::tables {

enum class Type : uint8_t {
  kInteger,  // 64 bits
  kRow,      // an integer with few distinct values, such as the id of a row
  kReal,
  kBool,
  kText,
  kUtc,  // microseconds since 1970
};

// Values of some rows, as bits. `is_there` has an element for each row, if the column may have nulls. `bits` has the
// others. A text is a key for Column::text.
struct Values {
  std::vector<bool> is_there;
  std::vector<uint64_t> bits;
};

struct Column {
  std::string name;
  Type type = Type::kInteger;
  bool may_be_null = false;
  std::function<void(uint64_t first, uint64_t last, Values* values)> fill;  // the rows first to last - 1
  // The text of a key, in `room` if it has no other place.
  std::function<std::string_view(uint64_t key, std::string* room)> text;
  std::string note;  // for the documents
};

struct Table {
  std::string name, note;
  uint64_t rows = 0;
  std::vector<Column> columns;
  std::function<uint64_t()> count = nullptr;  // in place of `rows`, where counting is work
  uint64_t Rows() const { return count == nullptr ? rows : count(); }
};

inline uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }
inline uint64_t Bits(uint64_t value) { return value; }
inline uint64_t Bits(uint32_t value) { return value; }
inline uint64_t Bits(bool value) { return value; }
inline uint64_t Bits(double value) {
  uint64_t bits;
  static_assert(sizeof bits == sizeof value);
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A column of value(row). If that is a std::optional, the column may have nulls.
template <class Value> Column Make(Type type, std::string name, Value value, std::string note = "") {
  using Result = std::invoke_result_t<Value, uint64_t>;
  constexpr bool kIsNumber = std::is_arithmetic_v<Result>;
  Column column;
  column.name = std::move(name);
  column.type = type;
  column.may_be_null = !kIsNumber;
  column.fill = [value = std::move(value)](uint64_t first, uint64_t last, Values* values) {
    for (uint64_t row = first; row < last; ++row) {
      const Result result = value(row);
      if constexpr (kIsNumber) {
        values->bits.push_back(Bits(result));
      } else {
        values->is_there.push_back(result.has_value());
        if (result.has_value()) values->bits.push_back(Bits(*result));
      }
    }
  };
  column.note = std::move(note);
  return column;
}
template <class Value> Column Integer(std::string name, Value value, std::string note = "") {
  return Make(Type::kInteger, std::move(name), std::move(value), std::move(note));
}
template <class Value> Column Real(std::string name, Value value, std::string note = "") {
  return Make(Type::kReal, std::move(name), std::move(value), std::move(note));
}
template <class Value> Column Bool(std::string name, Value value, std::string note = "") {
  return Make(Type::kBool, std::move(name), std::move(value), std::move(note));
}
// The row's own number, to which other tables refer.
inline Column Id(std::string name) {
  return Integer(std::move(name), [](uint64_t row) { return row; });
}
// A row of another table; kNone is null.
template <class Value> Column RowOf(std::string name, Value value, std::string note = "") {
  const auto row_or_null = [value = std::move(value)](uint64_t row) -> std::optional<uint32_t> {
    const uint32_t other = value(row);
    return other == model::kNone ? std::nullopt : std::optional(other);
  };
  return Make(Type::kRow, std::move(name), row_or_null, std::move(note));
}
// A duration; kOpen is null.
template <class Value> Column Duration(std::string name, Value value, std::string note = "null: still open") {
  const auto ns_or_null = [value = std::move(value)](uint64_t row) -> std::optional<int64_t> {
    const int64_t ns = value(row);
    return ns == model::kOpen ? std::nullopt : std::optional(ns);
  };
  return Integer(std::move(name), ns_or_null, std::move(note));
}
// A number; 0 is null.
template <class Value> Column NotZero(std::string name, Value value, std::string note = "") {
  const auto number_or_null = [value = std::move(value)](uint64_t row) {
    const auto number = value(row);
    return number == 0 ? std::nullopt : std::optional(number);
  };
  return Integer(std::move(name), number_or_null, std::move(note));
}

// The text of the key value(row).
template <class Value, class Text> Column TextOf(std::string name, Value value, Text text, std::string note = "") {
  Column column = Make(Type::kText, std::move(name), std::move(value), std::move(note));
  column.text = std::move(text);
  return column;
}
// A string of the trace; "" is null.
template <class Value> Column Text(const model::Trace& trace, std::string name, Value value, std::string note = "") {
  const auto id_or_null = [value = std::move(value)](uint64_t row) -> std::optional<uint32_t> {
    const model::StringId id = value(row);
    return id == 0 ? std::nullopt : std::optional(id);
  };
  return TextOf(
      std::move(name), id_or_null,
      [&trace](uint64_t id, std::string*) { return trace.strings[static_cast<model::StringId>(id)]; }, std::move(note));
}
// The name of an enumerator.
template <class Value, class NameOf> Column Name(std::string name, Value value, NameOf name_of, std::string note = "") {
  using Enumerator = std::invoke_result_t<Value, uint64_t>;
  return TextOf(
      std::move(name), [value = std::move(value)](uint64_t row) { return static_cast<uint32_t>(value(row)); },
      [name_of](uint64_t key, std::string*) { return std::string_view(name_of(static_cast<Enumerator>(key))); },
      std::move(note));
}
// An id of 64 bits as in Pitot's other output: "0000000000008f0c"; 0 is null.
template <class Value> Column HexId(std::string name, Value value, std::string note = "") {
  const auto id_or_null = [value = std::move(value)](uint64_t row) -> std::optional<uint64_t> {
    const uint64_t id = value(row);
    return id == 0 ? std::nullopt : std::optional(id);
  };
  const auto hex = [](uint64_t id, std::string* room) {
    room->clear();
    for (int shift = 60; shift >= 0; shift -= 4) room->push_back("0123456789abcdef"[id >> shift & 15]);
    return std::string_view(*room);
  };
  return TextOf(std::move(name), id_or_null, hex, std::move(note));
}

// A moment as two columns, NAME_ns on the trace's clock and NAME_utc. 0 is null if `may_be_unset`.
template <class Value> void AddMoment(const model::Trace& trace, const std::string& name, Value value, Table* table,
                                      bool may_be_unset = false) {
  constexpr const char* kNoDate = "null: the trace has no date";
  const auto utc = [&trace, value, may_be_unset](uint64_t row) -> std::optional<int64_t> {
    const int64_t ns = value(row);
    if (trace.clock.realtime_ns == 0 || (may_be_unset && ns == 0)) return std::nullopt;
    // A file may have any clocks.
    return static_cast<int64_t>(Bits(ns) - Bits(trace.clock.monotonic_ns) + Bits(trace.clock.realtime_ns)) / 1000;
  };
  if (may_be_unset) {
    table->columns.push_back(NotZero(name + "_ns", value));
  } else {
    table->columns.push_back(Integer(name + "_ns", value));
  }
  table->columns.push_back(Make(Type::kUtc, name + "_utc", utc, kNoDate));
}

// Adds several columns.
template <class... Columns> void Add(Table* table, Columns... columns) {
  (table->columns.push_back(std::move(columns)), ...);
}

// Data for several columns, made once one of them is filled. Copies share it.
template <class Made> class Lazy {
 public:
  explicit Lazy(std::function<Made()> make) : shared_(std::make_shared<Shared>(Shared{std::move(make), {}})) {}
  Made& operator*() const {
    if (!shared_->made.has_value()) shared_->made.emplace(shared_->make());
    return *shared_->made;
  }
  Made* operator->() const { return &**this; }

 private:
  struct Shared {
    std::function<Made()> make;
    std::optional<Made> made;
  };
  std::shared_ptr<Shared> shared_;
};

// The elements of lists of rows: their rows and places.
struct Element {
  uint32_t row, place;
};
template <class Rows, class Count> std::shared_ptr<std::vector<Element>> Elements(const Rows& rows, Count count) {
  auto elements = std::make_shared<std::vector<Element>>();
  for (uint32_t row = 0; row < rows.size(); ++row) {
    for (uint32_t place = 0; place < count(row); ++place) elements->push_back({row, place});
  }
  return elements;
}

}  // namespace pitot::tables

#endif  // PITOT_LIB_TABLES_TABLE_H_
