// SPDX-License-Identifier: Apache-2.0
//
// What a column of a trace's table is, and how to walk the columns of a table. schema.h has the tables.
//
// A table is a vector of rows (`std::vector<BatchRow>`, whose columns are members of BatchRow) or a struct of columns
// (EventColumns, whose members are vectors). So are the elements of a list within a row. The functions below take
// either.
#ifndef PITOT_LIB_MODEL_COLUMN_H_
#define PITOT_LIB_MODEL_COLUMN_H_

#include <stddef.h>
#include <stdint.h>

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "pitot/model/types.h"

namespace pitot::schema {

// The types of a dump's chunks: one for each table, one for the header and one for the trailer.
enum class ChunkType : uint16_t {
  kHeader = 1,
  kStrings = 2,
  kSites = 3,
  kThreads = 4,
  kRequests = 5,
  kBatches = 6,
  kMembers = 7,
  kHandoffs = 8,
  kAsyncs = 9,
  kTokens = 10,
  kLosses = 11,
  kFirings = 12,
  kAttributes = 13,
  kEvents = 14,
  kTrailer = 15,
  kDevices = 16,
  kStreams = 17,
  kShapes = 18,
  kCalls = 19,
  kGpu = 20,
  kOverheads = 21,
  kDepths = 22,
  kGpuLosses = 23,
  kCounters = 24,
  kSamples = 25,
  kOperatorDepths = 26,
  kNorms = 27,
};

// How a column is written, and with it the values that it may have. "delta": written as the difference to the element
// before it in the chunk.
enum class Encoding : uint8_t {
  kNumber,     // any value that the member's type holds
  kEnum,       // Column::first to Column::last
  kFixed,      // any value, in 8 bytes
  kReal,       // any value, as a double
  kFinite,     // the same, but neither infinite nor NaN
  kString,     // a row of the string table
  kRow,        // a row of Column::table
  kRowOrNone,  // the same, or kNone; written as row + 1
  kNearRow,    // the same; delta of row + 1
  kRun,        // a row of Column::table; written once, for all rows of the chunk
  kTime,       // 0 to kMaxTimeNs
  kMoment,     // the same; delta
  kEnd,        // the same, and not before Column::begin
  kUntil,      // the same; written as the difference to Column::begin
  kDuration,   // ends by kMaxTimeNs if it begins at Column::begin
  kLength,     // the same, or kOpen if Column::begin is in the window or before; written as value + 1
  kFlags,      // one bit for each of Column::member
  kTriple,     // three values a row
  kArgs,       // the arguments of an event: a column of their numbers and one of their values
  kList,       // a column of the numbers of elements, and the elements' columns
  kRange,      // the rows of another table that belong to the row; derived, not written
};
using enum Encoding;

struct Nothing {};

template <Encoding kItsEncoding, class Member, class Begin = Nothing> struct Column {
  static constexpr Encoding kEncoding = kItsEncoding;

  const char* name;
  Member member;
  Begin begin{};                // spans: the member where they begin
  ChunkType table{};            // rows: of which table
  uint8_t first = 0, last = 0;  // enums: the range
  const char* note = "";        // for the documents
  uint32_t since = 0;           // minor version that added it to its table; columns of older dumps are empty
  bool is_key = false;          // rows are sorted by their keys

  constexpr Column Note(const char* text) const {
    Column copy = *this;
    copy.note = text;
    return copy;
  }
  constexpr Column Since(uint32_t minor) const {
    Column copy = *this;
    copy.since = minor;
    return copy;
  }
  constexpr Column Key() const {
    Column copy = *this;
    copy.is_key = true;
    return copy;
  }
};

template <Encoding kEncoding, class Member> constexpr auto Value(const char* name, Member member) {
  return Column<kEncoding, Member>{name, member};
}
template <class Member, class Kind> constexpr auto Enum(const char* name, Member member, Kind first, Kind last) {
  return Column<kEnum, Member>{name, member, {}, {}, static_cast<uint8_t>(first), static_cast<uint8_t>(last)};
}
template <Encoding kEncoding, class Member> constexpr auto Row(const char* name, Member member, ChunkType table) {
  return Column<kEncoding, Member>{name, member, {}, table};
}
template <Encoding kEncoding, class Member>
constexpr auto Span(const char* name, Member member, std::type_identity_t<Member> begin) {
  return Column<kEncoding, Member, Member>{name, member, begin};
}
template <class Struct> constexpr auto Flags(const char* name, bool Struct::*first, bool Struct::*second) {
  return Column<kFlags, std::array<bool Struct::*, 2>>{name, {first, second}};
}

// `member` is a vector of elements. Nothing: the columns of the elements are vectors in the row itself.
template <class Member, class... Columns> struct ListOf {
  static constexpr Encoding kEncoding = kList;
  static constexpr uint32_t since = 0;
  static constexpr bool is_key = false;

  const char* name;
  Member member;
  std::tuple<Columns...> columns;
};
template <class Member, class... Columns>
constexpr auto List(const char* name, Member member, std::tuple<Columns...> columns) {
  return ListOf<Member, Columns...>{name, member, columns};
}

// Rows `first` to `first + count` of `table` are those whose member `owner` is this row. The ranges of all rows follow
// one another without gaps. `first` has no meaning where `count` is 0.
template <class Member, class Owner> struct RangeOf {
  static constexpr Encoding kEncoding = kRange;
  static constexpr uint32_t since = 0;
  static constexpr bool is_key = false;

  const char* name;
  Member first;
  Member count;
  ChunkType table;
  Owner owner;
};
template <class Member, class Owner>
constexpr auto Range(const char* name, Member first, Member count, ChunkType table, Owner owner) {
  return RangeOf<Member, Owner>{name, first, count, table, owner};
}

// Other tables refer to rows of a numbered table: each of its chunks has the number of its first row.
enum class Rows : uint8_t { kNumbered, kNotNumbered };
using enum Rows;
struct About {
  ChunkType type;
  const char* name;
  Rows rows;
  uint32_t since = 0;  // minor version that added the table
  const char* note = "";
};
template <class Member, class... Columns> struct Table : About {
  Member member;
  std::tuple<Columns...> columns;
};
template <class Member, class... Columns> Table(About, Member, std::tuple<Columns...>) -> Table<Member, Columns...>;

// A column as a type: the I-th of an owner, which is OfTable or OfList.
template <class Owner, size_t I> struct At {
  static constexpr size_t kIndex = I;
  static constexpr auto kColumn = std::get<I>(Owner::kColumns);
  static constexpr Encoding kEncoding = std::remove_cvref_t<decltype(kColumn)>::kEncoding;
  static constexpr uint32_t kField = Owner::template FieldOf<I>();  // its number in a chunk
};
template <class At> struct OfList;

// How many fields of a chunk a column takes.
template <class At> constexpr uint32_t FieldsOf() {
  if constexpr (At::kEncoding == kList) {
    return 1 + std::tuple_size_v<decltype(At::kColumn.columns)>;
  } else {
    return At::kEncoding == kRange ? 0 : At::kEncoding == kArgs ? 2 : 1;
  }
}
template <class Owner, uint32_t kFirstField> struct OwnerOf {
  template <size_t I> static constexpr uint32_t FieldOf() {
    if constexpr (I == 0) {
      return kFirstField;
    } else {
      return At<Owner, I - 1>::kField + FieldsOf<At<Owner, I - 1>>();
    }
  }
};
template <const auto& kTable> struct OfTable : OwnerOf<OfTable<kTable>, kTable.rows == kNumbered ? 2 : 1> {
  static constexpr const auto& kColumns = kTable.columns;
};
template <class At> struct OfList : OwnerOf<OfList<At>, At::kField + 1> {
  static constexpr const auto& kColumns = At::kColumn.columns;
};

template <class Owner> inline constexpr size_t kColumnCount =
    std::tuple_size_v<std::remove_cvref_t<decltype(Owner::kColumns)>>;

// Calls f(At<Owner, I>()) for each column.
template <class Owner, class F> constexpr void ForEachColumn(F&& f) {
  const auto call = [&]<size_t... I>(std::index_sequence<I...>) { (f(At<Owner, I>()), ...); };
  call(std::make_index_sequence<kColumnCount<Owner>>());
}

// Beyond an owner's last field.
template <class Owner> inline constexpr uint32_t kEndField = [] {
  uint32_t end = 0;
  ForEachColumn<Owner>([&](auto at) { end = at.kField + FieldsOf<decltype(at)>(); });
  return end;
}();

template <class At> inline constexpr bool kIsTime = (At::kEncoding >= kTime) && (At::kEncoding <= kLength);
// Whether the values of a column are rows of another table.
template <class At> inline constexpr bool kRefers =
    At::kEncoding == kRow || At::kEncoding == kRowOrNone || At::kEncoding == kNearRow || At::kEncoding == kRun;

// A value of a row.
template <class Row, class T> const T& Get(const std::vector<Row>& rows, T Row::*member, size_t row) {
  return rows[row].*member;
}
template <class Columns, class T> const T& Get(const Columns& columns, std::vector<T> Columns::*member, size_t row) {
  return (columns.*member)[row];
}
// The elements of a list of a row.
template <class Row, class List> auto& Elements(Row& row, const List& list) {
  if constexpr (std::is_same_v<decltype(list.member), Nothing>) {
    return row;
  } else {
    return row.*list.member;
  }
}

template <class Row> constexpr bool kIsVector = false;
template <class Row> constexpr bool kIsVector<std::vector<Row>> = true;

// How many rows a table has, or elements a list.
template <class Owner, class Rows> size_t SizeOf(const Rows& rows) {
  if constexpr (kIsVector<Rows>) {
    return rows.size();
  } else {
    return (rows.*At<Owner, 0>::kColumn.member).size();
  }
}

// Whether the columns are of the same length.
template <class Owner, class Rows> bool HasEqualColumns(const Rows& rows) {
  bool is_equal = true;
  if constexpr (!kIsVector<Rows>) {
    ForEachColumn<Owner>([&](auto at) {
      if ((rows.*at.kColumn.member).size() != SizeOf<Owner>(rows)) is_equal = false;
    });
  }
  return is_equal;
}

// The type of a column's values.
template <class Member> struct ValueOfMember;
template <class Struct, class T> struct ValueOfMember<T Struct::*> { using Type = T; };
template <class Struct, class T> struct ValueOfMember<std::vector<T> Struct::*> { using Type = T; };
template <class At> using ValueOf = typename ValueOfMember<std::remove_const_t<decltype(At::kColumn.member)>>::Type;

// The type of a column's elements in a chunk.
template <class At> constexpr auto WireValue() {
  if constexpr (At::kEncoding == kFixed || At::kEncoding == kLength) {
    return uint64_t{};
  } else if constexpr (At::kEncoding == kReal || At::kEncoding == kFinite) {
    return double{};
  } else if constexpr (kIsTime<At> || At::kEncoding == kNearRow) {
    return int64_t{};
  } else if constexpr (At::kEncoding == kNumber) {
    using Value = ValueOf<At>;
    return std::conditional_t < std::is_same_v<Value, bool> || sizeof(Value) >= sizeof(uint32_t), Value, uint32_t > {};
  } else {
    return uint32_t{};
  }
}
template <class At> using WireOf = decltype(WireValue<At>());

}  // namespace pitot::schema

#endif  // PITOT_LIB_MODEL_COLUMN_H_
