// SPDX-License-Identifier: Apache-2.0
//
// Reads the payloads of a dump's chunks into a trace, by the schema of its tables. For dump_reader.cc, which finds the
// chunks.
#ifndef PITOT_LIB_READ_CHUNK_READER_H_
#define PITOT_LIB_READ_CHUNK_READER_H_

#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "model/checks.h"
#include "model/schema.h"
#include "serialize/dump_format.h"
#include "serialize/proto/pitot_dump.pb.h"
#include "serialize/wire.h"

namespace pitot::read {

namespace proto = ::pitot::dump::v1;
using google::protobuf::Message;
using model::kNone;
using model::Trace;
using schema::ChunkType;
using schema::Encoding;

// Finds the trace's row for a row's number in the file. They differ after a missing chunk or a dropped row.
class RowMap {
 public:
  // The next `count` rows in the file are numbered from `first` on, and Add is called for each. False if `first` is not
  // after the rows before.
  bool Begin(uint64_t first, uint64_t count) {
    if (first < next_ || first > kNone || count > kNone - first) return false;
    next_ = static_cast<uint32_t>(first);
    return true;
  }
  // kNone: the row was dropped.
  void Add(uint32_t row) {
    const uint32_t in_file = next_++;
    if (row == kNone) return;
    if (runs_.empty() || in_file - runs_.back().first != runs_.back().count || row != runs_.back().End())
      runs_.push_back({in_file, 0, row});
    ++runs_.back().count;
  }
  // kNone if the row is missing.
  uint32_t operator[](uint64_t in_file) const {
    auto run =
        std::upper_bound(runs_.begin(), runs_.end(), in_file, [](uint64_t row, const Run& r) { return row < r.first; });
    if (run == runs_.begin()) return kNone;
    --run;
    return in_file - run->first < run->count ? run->row + static_cast<uint32_t>(in_file - run->first) : kNone;
  }
  // The same for "row + 1"; 0 is none.
  uint32_t PlusOne(uint64_t in_file) const { return in_file == 0 ? kNone : (*this)[in_file - 1]; }

 private:
  // Rows with consecutive numbers on both sides: all of a whole dump.
  struct Run {
    uint32_t first;  // in the file
    uint32_t count;
    uint32_t row;
    uint32_t End() const { return row + count; }
  };
  std::vector<Run> runs_;
  uint32_t next_ = 0;
};

// The elements of a column of a chunk, one after another. A column that is missing from the message reads as zeros.
template <class T> class Column {
 public:
  void Open(const Message& message, uint32_t field) {
    const auto* const descriptor = message.GetDescriptor()->FindFieldByNumber(static_cast<int>(field));
    if (descriptor == nullptr || !descriptor->is_repeated()) return;
// Deprecated, but its replacement makes a virtual call for each element.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    const auto& elements = message.GetReflection()->GetRepeatedField<T>(message, descriptor);
#pragma GCC diagnostic pop
    next_ = elements.data();
    size_ = static_cast<size_t>(elements.size());
  }
  size_t size() const { return size_; }
  T Next() { return size_ == 0 ? T() : *next_++; }
  // Before the first Next.
  uint64_t Sum() const { return std::accumulate(next_, next_ + size_, uint64_t{0}); }

 private:
  const T* next_ = nullptr;
  size_t size_ = 0;
};

template <class Owner> struct Cursors;

// The position of reading in a column of a table or list.
template <class At, Encoding = At::kEncoding> struct Cursor {
  Column<schema::WireOf<At>> values;
  uint64_t sum = 0;  // of deltas; wraps rather than overflows

  // False unless the message has as many elements as rows. A column may be missing from older dumps.
  bool Open(const Message& message, size_t rows) {
    values.Open(message, At::kField);
    if (At::kColumn.since != 0 && values.size() == 0) return true;
    return values.size() == (At::kEncoding == schema::kTriple ? 3 * rows : rows);
  }
  int64_t NextSum() { return static_cast<int64_t>(sum += static_cast<uint64_t>(values.Next())); }
};
template <class At> struct Cursor<At, schema::kList> {
  Column<uint32_t> counts;
  Cursors<schema::OfList<At>> elements;

  bool Open(const Message& message, size_t rows) {
    counts.Open(message, At::kField);
    return counts.size() == rows && elements.Open(message, counts.Sum());
  }
};
template <class At> struct Cursor<At, schema::kArgs> {
  Column<uint32_t> counts;
  Column<uint64_t> values;

  bool Open(const Message& message, size_t rows) {
    counts.Open(message, At::kField);
    values.Open(message, At::kField + 1);
    return counts.size() == rows && values.size() == counts.Sum();
  }
};
struct NoCursor {
  bool Open(const Message&, size_t) const { return true; }
};
template <class At> struct Cursor<At, schema::kRun> : NoCursor {};
template <class At> struct Cursor<At, schema::kRange> : NoCursor {};

// The cursors of all columns of a table or list.
template <class Owner, class Indices> struct CursorTuple;
template <class Owner, size_t... I> struct CursorTuple<Owner, std::index_sequence<I...>> {
  using Type = std::tuple<Cursor<schema::At<Owner, I>>...>;
};
template <class Owner> struct Cursors {
  typename CursorTuple<Owner, std::make_index_sequence<schema::kColumnCount<Owner>>>::Type all;

  bool Open(const Message& message, size_t rows) {
    return std::apply([&](auto&... cursor) { return (cursor.Open(message, rows) && ...); }, all);
  }
  template <class At> Cursor<At>& Of() { return std::get<At::kIndex>(all); }
};

// The number of rows in a chunk: the size of the first column with one element a row.
template <class Owner> size_t RowsIn(const Message& message) {
  size_t rows = 0;
  bool is_known = false;
  schema::ForEachColumn<Owner>([&](auto at) {
    using At = decltype(at);
    if constexpr (!std::is_base_of_v<NoCursor, Cursor<At>> && At::kEncoding != schema::kTriple) {
      if (is_known) return;
      Column<schema::WireOf<At>> column;
      column.Open(message, At::kField);
      rows = column.size();
      is_known = true;
    }
  });
  return rows;
}

// A field of a chunk that is not a column.
inline uint64_t Scalar(const Message& message, uint32_t field) {
  const auto* const descriptor = message.GetDescriptor()->FindFieldByNumber(static_cast<int>(field));
  const auto* const reflection = message.GetReflection();
  const bool is_32_bits = descriptor->cpp_type() == descriptor->CPPTYPE_UINT32;
  return is_32_bits ? reflection->GetUInt32(message, descriptor) : reflection->GetUInt64(message, descriptor);
}

// Reads payloads of chunks into a trace. The trace is consistent after each chunk, except for the ranges that Finish
// sets.
class ChunkReader {
 public:
  explicit ChunkReader(Trace* trace) : trace_(*trace) {
    trace_.window_end_ns = model::kMaxTimeNs;  // until there is a header: anything may still be open
  }

  // Any kind of data may be missing. The amount is unknown.
  void AddDamage(uint64_t bytes) {
    trace_.losses.push_back({model::kNone, model::LossReason::kDamaged, trace_.window_begin_ns,
                             std::max(trace_.window_begin_ns, trace_.window_end_ns), 0, bytes});
  }

  uint64_t rows_dropped() const { return rows_dropped_; }
  // The rows of each table in the accepted chunks, including the dropped ones.
  const std::array<uint64_t, schema::kTypeCount>& rows() const { return rows_; }

  void Header(const proto::Header& header) {
    has_header_ = true;
    process_name_ = header.process_name();
    trace_.pid = header.pid();
    trace_.window_begin_ns = header.window_begin_ns();
    trace_.window_end_ns = header.window_end_ns();
    trace_.clock.monotonic_ns = header.monotonic_ns();
    trace_.clock.realtime_ns = header.realtime_ns();
    trace_.clock.boottime_ns = header.boottime_ns();
    trace_.clock.cycle_counter = header.cycle_counter();
    trace_.clock.ticks_per_ns = header.ticks_per_ns();
    trace_.clock.pair_width_ns = header.pair_width_ns();
  }

  // Takes the payload of one chunk of a table. False, with nothing changed, if it is not a message of that type, if its
  // columns do not fit together, or if its rows do not come after those before.
  bool Add(ChunkType type, const void* payload, int size) {
    if (type == ChunkType::kStrings) {
      proto::Strings strings;
      return strings.ParseFromArray(payload, size) && AddStrings(strings);
    }
    bool is_good = false;
    schema::ForEachTable([&]<const auto & kTable>() {
      if (type != kTable.type) return;
      Message& message = MessageOf(kTable);
      is_good = message.ParseFromArray(payload, size) && AddRows<kTable>(message);
    });
    return is_good;
  }

  // Sets the values that are derived from rows. To be called once, after the last chunk.
  void Finish() {
    trace_.process_name = Text(process_name_);
    schema::ForEachTable([&]<const auto & kTable>() {
      schema::ForEachColumn<schema::OfTable<kTable>>([&](auto at) {
        if constexpr (at.kEncoding == schema::kRange) SetRanges<at.kColumn.table>(at.kColumn, &(trace_.*kTable.member));
      });
    });
    if (!has_header_) GuessWindow();
  }

 private:
  RowMap& MapOf(ChunkType type) { return maps_[static_cast<size_t>(type)]; }
  const RowMap& MapOf(ChunkType type) const { return maps_[static_cast<size_t>(type)]; }
  model::StringId Text(uint64_t in_file) const {
    const uint32_t id = MapOf(ChunkType::kStrings)[in_file];
    return id == kNone ? 0 : id;
  }
  // A table's message keeps its memory until a chunk of another table comes.
  Message& MessageOf(const schema::About& table) {
    if (message_ == nullptr || message_type_ != table.type) {
      const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
      const auto* const type = pool->FindMessageTypeByName("pitot.dump.v1." + dump_format::MessageName(table.name));
      message_.reset(google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
      message_type_ = table.type;
    }
    return *message_;
  }

  bool AddStrings(const proto::Strings& chunk) {
    RowMap& map = MapOf(ChunkType::kStrings);
    const auto size = static_cast<size_t>(chunk.size_size());
    std::string_view text = chunk.text();
    if (std::accumulate(chunk.size().begin(), chunk.size().end(), uint64_t{0}) != text.size()) return false;
    if (!map.Begin(chunk.first_row(), size)) return false;
    for (const uint32_t bytes : chunk.size()) {
      map.Add(trace_.strings.Add(text.substr(0, bytes)));
      text.remove_prefix(bytes);
    }
    rows_[static_cast<size_t>(ChunkType::kStrings)] += size;
    return true;
  }

  template <const auto& kTable> bool AddRows(const Message& chunk) {
    using Owner = schema::OfTable<kTable>;
    auto& table = trace_.*kTable.member;
    RowMap& map = MapOf(kTable.type);
    const size_t rows = RowsIn<Owner>(chunk);
    Cursors<Owner> cursors;
    if (!cursors.Open(chunk, rows) || !BeginRun<kTable>(chunk)) return false;
    if (kTable.rows == schema::kNumbered && !map.Begin(Scalar(chunk, dump_format::kFirstRow), rows)) return false;
    for (size_t i = 0; i < rows; ++i) {
      const size_t row = schema::SizeOf<Owner>(table);
      const bool fits = ReadRow(&cursors, &table);
      const bool is_good = fits && row < kNone - 1 && !schema::FindProblem<kTable>(trace_, row, row + 1);
      if (!is_good) {
        RemoveLast<Owner>(&table);
        ++rows_dropped_;
      }
      if (kTable.rows == schema::kNumbered) map.Add(is_good ? static_cast<uint32_t>(row) : kNone);
    }
    rows_[static_cast<size_t>(kTable.type)] += rows;
    return true;
  }

  // Reads the row to which all rows of the chunk belong. False if rows of a later one were read before.
  template <const auto& kTable> bool BeginRun(const Message& chunk) {
    bool is_good = true;
    schema::ForEachColumn<schema::OfTable<kTable>>([&](auto at) {
      if constexpr (at.kEncoding == schema::kRun) {
        const auto& runs = (trace_.*kTable.member).*at.kColumn.member;
        run_ = MapOf(at.kColumn.table)[Scalar(chunk, dump_format::kRun)];
        is_good = run_ == kNone || runs.empty() || runs.back() <= run_;
      }
    });
    return is_good;
  }

  // Adds the next row of a table, or element of a list. False if a value does not fit its member.
  template <class Owner, class Rows> bool ReadRow(Cursors<Owner>* cursors, Rows* rows) {
    bool fits = true;
    if constexpr (schema::kIsVector<Rows>) rows->emplace_back();
    schema::ForEachColumn<Owner>([&](auto at) {
      if constexpr (at.kEncoding != schema::kRange) fits = Read(&cursors->template Of<decltype(at)>(), rows) && fits;
    });
    return fits;
  }
  template <class At, class Rows> bool ReadList(Cursor<At>* cursor, Rows* rows) {
    bool fits = true;
    auto& elements = schema::Elements(rows->back(), At::kColumn);
    for (uint32_t count = cursor->counts.Next(); count > 0; --count)
      fits = ReadRow(&cursor->elements, &elements) && fits;
    return fits;
  }

  template <class At, class Rows> bool Read(Cursor<At>* cursor, Rows* rows) {
    constexpr const auto& kColumn = At::kColumn;
    if constexpr (At::kEncoding == schema::kRun) {
      Set(rows, kColumn.member, run_);
    } else if constexpr (At::kEncoding == schema::kList) {
      return ReadList(cursor, rows);
    } else if constexpr (At::kEncoding == schema::kArgs) {
      return ReadArgs(&cursor->counts, &cursor->values);
    } else if constexpr (At::kEncoding == schema::kFlags) {
      const uint32_t flags = cursor->values.Next();
      Set(rows, kColumn.member[0], (flags & 1) != 0);
      Set(rows, kColumn.member[1], (flags & 2) != 0);
    } else if constexpr (At::kEncoding == schema::kTriple) {
      for (uint32_t& value : rows->back().*kColumn.member) value = cursor->values.Next();
    } else if constexpr (At::kEncoding == schema::kString) {
      Set(rows, kColumn.member, Text(cursor->values.Next()));
    } else if constexpr (At::kEncoding == schema::kRow) {
      Set(rows, kColumn.member, MapOf(kColumn.table)[cursor->values.Next()]);
    } else if constexpr (At::kEncoding == schema::kRowOrNone) {
      Set(rows, kColumn.member, MapOf(kColumn.table).PlusOne(cursor->values.Next()));
    } else if constexpr (At::kEncoding == schema::kNearRow) {
      Set(rows, kColumn.member, MapOf(kColumn.table).PlusOne(static_cast<uint64_t>(cursor->NextSum())));
    } else if constexpr (At::kEncoding == schema::kMoment) {
      Set(rows, kColumn.member, cursor->NextSum());
    } else if constexpr (At::kEncoding == schema::kLength) {
      Set(rows, kColumn.member, static_cast<int64_t>(cursor->values.Next() - 1));
    } else if constexpr (At::kEncoding == schema::kUntil) {
      const auto begin = static_cast<uint64_t>(rows->back().*kColumn.begin);
      Set(rows, kColumn.member, static_cast<int64_t>(begin + static_cast<uint64_t>(cursor->values.Next())));
    } else {
      const auto wire = cursor->values.Next();
      const auto value = static_cast<schema::ValueOf<At>>(wire);
      Set(rows, kColumn.member, value);
      return static_cast<decltype(cursor->values.Next())>(value) == wire;
    }
    return true;
  }
  template <class Row, class T> static void Set(std::vector<Row>* rows, T Row::*member, T value) {
    rows->back().*member = value;
  }
  template <class Columns, class T> static void Set(Columns* columns, std::vector<T> Columns::*member, T value) {
    (columns->*member).push_back(value);
  }

  // Reads the arguments of the event whose site was read last. False if their number is not the site's.
  bool ReadArgs(Column<uint32_t>* counts, Column<uint64_t>* values) {
    const uint32_t count = counts->Next(), site = trace_.events.site.back();
    const size_t first = trace_.arg_values.size();
    trace_.events.args.push_back(count == 0 ? kNone : static_cast<uint32_t>(first));
    const bool is_good =
        count == 0 || (site != kNone && count == trace_.sites[site].arg_types.size() && first + count < kNone);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t value = values->Next();
      if (is_good) trace_.arg_values.push_back(Arg(trace_.sites[site].arg_types[i], value));
    }
    return is_good;
  }
  model::ArgValue Arg(ArgType type, uint64_t encoded) const {
    if (type == ArgType::kInt) return static_cast<uint64_t>(serialize::UnZigZag(encoded));
    if (type == ArgType::kDouble) return __builtin_bswap64(encoded);
    return model::IsText(type) ? Text(encoded) : encoded;
  }

  template <class Owner, class Rows> void RemoveLast(Rows* rows) {
    if constexpr (schema::kIsVector<Rows>) {
      rows->pop_back();
    } else {
      schema::ForEachColumn<Owner>([&](auto at) {
        auto& column = rows->*at.kColumn.member;
        if constexpr (at.kEncoding == schema::kArgs)
          if (column.back() != kNone) trace_.arg_values.resize(column.back());
        column.pop_back();
      });
    }
  }

  // Sets the ranges of a table's rows. The other table's rows are sorted by their owners.
  template <ChunkType kType, class Range, class Rows> void SetRanges(const Range& range, Rows* rows) {
    const auto& owned = trace_.*schema::kTableOf<kType>.member;
    for (size_t i = 0; i < schema::RowsOf<kType>(trace_); ++i)
      ++((*rows)[schema::Get(owned, range.owner, i)].*range.count);
    uint32_t first = 0;
    for (auto& row : *rows) {
      row.*range.first = first;
      first += row.*range.count;
    }
  }

  // Without a header, the window is from the begin of the first interval to the end of the last.
  void GuessWindow() {
    int64_t begin_ns = model::kMaxTimeNs, end_ns = 0;
    const auto cover = [&](int64_t from_ns, int64_t duration_ns) {
      begin_ns = std::min(begin_ns, from_ns);
      end_ns = std::max(end_ns, duration_ns == model::kOpen ? from_ns : from_ns + duration_ns);
    };
    schema::ForEachTable([&]<const auto & kTable>() {
      ForEachInterval<schema::OfTable<kTable>>(trace_.*kTable.member, cover);
    });
    trace_.window_begin_ns = std::min(begin_ns, end_ns);
    trace_.window_end_ns = end_ns;
  }
  template <class Owner, class Rows, class F> static void ForEachInterval(const Rows& rows, const F& f) {
    schema::ForEachColumn<Owner>([&](auto at) {
      for (size_t row = 0; row < schema::SizeOf<Owner>(rows); ++row) IntervalsOf<decltype(at)>(rows, row, f);
    });
  }
  template <class At, class Rows, class F> static void IntervalsOf(const Rows& rows, size_t row, const F& f) {
    constexpr const auto& kColumn = At::kColumn;
    if constexpr (At::kEncoding == schema::kLength || At::kEncoding == schema::kDuration) {
      f(schema::Get(rows, kColumn.begin, row), schema::Get(rows, kColumn.member, row));
    } else if constexpr (At::kEncoding == schema::kList) {
      ForEachInterval<schema::OfList<At>>(schema::Elements(rows[row], kColumn), f);
    }
  }

  Trace& trace_;
  bool has_header_ = false;
  uint32_t process_name_ = 0;
  std::unique_ptr<Message> message_;
  ChunkType message_type_{};
  std::array<RowMap, schema::kTypeCount> maps_;  // of numbered tables
  std::array<uint64_t, schema::kTypeCount> rows_{};
  uint32_t run_ = kNone;
  uint64_t rows_dropped_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_CHUNK_READER_H_
