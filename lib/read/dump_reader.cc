// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "model/checks.h"
#include "model/schema.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "serialize/proto/pitot_dump.pb.h"
#include "serialize/wire.h"

PITOT_NAMESPACE_BEGIN
namespace {

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
    if (!runs_.empty() && first < runs_.back().first + runs_.back().count) return false;
    if (first > kNone || count > kNone - first) return false;
    runs_.push_back({first, count, rows_.size()});
    return true;
  }
  void Add(uint32_t row) { rows_.push_back(row); }
  // kNone if the row is missing.
  uint32_t operator[](uint64_t in_file) const {
    auto run =
        std::upper_bound(runs_.begin(), runs_.end(), in_file, [](uint64_t row, const Run& r) { return row < r.first; });
    if (run == runs_.begin()) return kNone;
    --run;
    return in_file - run->first < run->count ? rows_[run->at + (in_file - run->first)] : kNone;
  }
  // The same for "row + 1"; 0 is none.
  uint32_t PlusOne(uint64_t in_file) const { return in_file == 0 ? kNone : (*this)[in_file - 1]; }

 private:
  struct Run {
    uint64_t first;
    uint64_t count;
    size_t at;
  };
  std::vector<Run> runs_;
  std::vector<uint32_t> rows_;
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

uint32_t Scalar32(const Message& message, uint32_t field) {
  return message.GetReflection()->GetUInt32(message,
                                            message.GetDescriptor()->FindFieldByNumber(static_cast<int>(field)));
}
uint64_t Scalar64(const Message& message, uint32_t field) {
  return message.GetReflection()->GetUInt64(message,
                                            message.GetDescriptor()->FindFieldByNumber(static_cast<int>(field)));
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

  // Both take the payload of one chunk. False, with nothing changed, if its columns do not fit together or its rows do
  // not come after those before.
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
    if (kTable.rows == schema::kNumbered && !map.Begin(Scalar64(chunk, dump_format::kFirstRow), rows)) return false;
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

  // Reads the row to which all rows of the chunk belong. False if rows of a later one were read before.
  template <const auto& kTable> bool BeginRun(const Message& chunk) {
    bool is_good = true;
    schema::ForEachColumn<schema::OfTable<kTable>>([&](auto at) {
      if constexpr (at.kEncoding == schema::kRun) {
        const auto& runs = (trace_.*kTable.member).*at.kColumn.member;
        run_ = MapOf(at.kColumn.table)[Scalar32(chunk, dump_format::kRun)];
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
  std::array<RowMap, schema::kTypeCount> maps_;  // of numbered tables
  std::array<uint64_t, schema::kTypeCount> rows_{};
  uint32_t run_ = kNone;
  uint64_t rows_dropped_ = 0;
};

constexpr uint8_t kMagicBytes[] = {dump_format::kMagic & 255, dump_format::kMagic >> 8 & 255,
                                   dump_format::kMagic >> 16 & 255, dump_format::kMagic >> 24};

constexpr const char* kNoChunk = "not a pitot dump: no whole chunk in it";

bool MakesSense(const proto::Header& header) {
  using schema::IsTime;
  return IsTime(header.window_begin_ns()) && IsTime(header.window_end_ns()) && IsTime(header.monotonic_ns()) &&
         IsTime(header.realtime_ns()) && IsTime(header.boottime_ns()) &&
         header.window_begin_ns() <= header.window_end_ns();
}

// Finds the chunks of a file and gives their payloads to a ChunkReader.
class DumpParser {
 public:
  DumpParser(const void* data, uint64_t size, Trace* trace, DumpReport* report)
      : data_(static_cast<const uint8_t*>(data)), size_(size), reader_(trace), report_(*report) {}

  Status Parse() {
    uint64_t at = 0;
    while (at < size_ && !has_trailer_) {
      if (!FindChunk(&at)) break;
      if (Status status = Take(at); !status.ok()) return status;
      at += dump_format::kChunkHeaderBytes + payload_size_;
    }
    if (!IsDump()) return Status(StatusCode::kInvalidArgument, kNoChunk);
    report_.bytes_skipped += size_ - std::min(at, size_);
    reader_.Finish();
    report_.rows_dropped = reader_.rows_dropped();
    report_.complete = has_trailer_ && trailer_agrees_;
    if (report_.complete && report_.chunks_bad == 0 && report_.rows_dropped == 0) return Status();
    reader_.AddDamage(report_.bytes_skipped);
    return Status(StatusCode::kDataLoss, !has_trailer_             ? "the dump is truncated"
                                         : report_.chunks_bad != 0 ? "the dump has bad chunks"
                                                                   : "the dump is incomplete");
  }

 private:
  uint32_t Load(uint64_t at, uint32_t bytes) const {
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; ++i) value |= uint32_t{data_[at + i]} << (8 * i);
    return value;
  }
  // A file that ends within its first chunk may be the beginning of a dump.
  bool IsDump() const {
    if (report_.chunks + report_.chunks_unknown != 0) return true;
    return size_ == 0 || memcmp(data_, kMagicBytes, std::min<uint64_t>(size_, sizeof kMagicBytes)) == 0;
  }

  // True if a chunk with a right CRC begins at `at`; reads its header.
  bool IsChunk(uint64_t at) {
    if (size_ - at < dump_format::kChunkHeaderBytes || Load(at, 4) != dump_format::kMagic) return false;
    type_ = Load(at + 4, 2);
    flags_ = Load(at + 6, 2);
    payload_size_ = Load(at + 8, 4);
    sequence_ = Load(at + 12, 4);
    if (payload_size_ > size_ - at - dump_format::kChunkHeaderBytes) return false;
    const bool is_strings = type_ == static_cast<uint32_t>(ChunkType::kStrings);
    if (payload_size_ > (is_strings ? uint64_t{INT_MAX} : dump_format::kPayloadMaxBytes)) return false;
    // A file of many magics, each claiming a long chunk, would take too long if all were tried.
    bytes_tried_ += payload_size_;
    if (bytes_tried_ > kMaxTries * size_) return false;
    const uint32_t crc = serialize::ExtendCrc32c(serialize::ExtendCrc32c(0, data_ + at, 16),
                                                 data_ + at + dump_format::kChunkHeaderBytes, payload_size_);
    return crc == Load(at + 16, 4);
  }

  // Moves `at` to the next whole chunk with a new sequence number. False if there is none.
  bool FindChunk(uint64_t* at) {
    const uint64_t begin = *at;
    for (uint64_t next = begin; next < size_;) {
      if (IsChunk(next) && sequence_ >= next_sequence_) {
        *at = next;
        if (next != begin || sequence_ != next_sequence_) {
          // The sequence numbers tell how many are missing, up to the number that fits into the gap.
          report_.chunks_bad +=
              std::min<uint64_t>(sequence_ - next_sequence_, (next - begin) / dump_format::kChunkHeaderBytes + 1);
        }
        report_.bytes_skipped += next - begin;
        next_sequence_ = uint64_t{sequence_} + 1;
        return true;
      }
      const void* found = memchr(data_ + next + 1, dump_format::kMagic & 255, size_ - next - 1);
      next = found == nullptr ? size_ : static_cast<uint64_t>(static_cast<const uint8_t*>(found) - data_);
    }
    // The rest is a whole but bad chunk, or the beginning of a chunk.
    if (size_ - begin >= dump_format::kChunkHeaderBytes &&
        Load(begin + 8, 4) <= size_ - begin - dump_format::kChunkHeaderBytes) {
      ++report_.chunks_bad;
    }
    return false;
  }

  // Reads the chunk at `at` after its header. An error ends reading.
  Status Take(uint64_t at) {
    payload_ = data_ + at + dump_format::kChunkHeaderBytes;
    const ChunkType type = static_cast<ChunkType>(type_);
    if (flags_ != 0 || type_ == 0 || type_ >= schema::kTypeCount) {
      ++report_.chunks_unknown;
      return Status();
    }
    bool is_good = (type == ChunkType::kHeader) == (sequence_ == 0);
    if (is_good && type == ChunkType::kHeader) {
      proto::Header header;
      is_good = Parse(&header);
      if (is_good) {
        report_.version_major = header.version_major();
        report_.version_minor = header.version_minor();
        if (header.version_major() != dump_format::kVersionMajor) {
          const std::string message = "a dump of version " + std::to_string(header.version_major()) +
                                      "; this reader knows " + std::to_string(dump_format::kVersionMajor);
          return Status(StatusCode::kInvalidArgument, message.c_str());
        }
        is_good = MakesSense(header);
        if (is_good) reader_.Header(header);
      }
    } else if (is_good && type == ChunkType::kTrailer) {
      proto::Trailer trailer;
      is_good = Parse(&trailer);
      if (is_good) TakeTrailer(trailer);
    } else if (is_good) {
      is_good = TakeTable(type);
    }
    ++(is_good ? report_.chunks : report_.chunks_bad);
    return Status();
  }

  bool TakeTable(ChunkType type) {
    if (type == ChunkType::kStrings) {
      proto::Strings strings;
      return Parse(&strings) && reader_.AddStrings(strings);
    }
    bool is_good = false;
    schema::ForEachTable([&]<const auto & kTable>() {
      if (type == kTable.type) is_good = Parse(MessageOf(kTable)) && reader_.AddRows<kTable>(*message_);
    });
    return is_good;
  }
  // A table's message keeps its memory until a chunk of another table comes.
  Message* MessageOf(const schema::About& table) {
    if (message_ == nullptr || message_type_ != table.type) {
      const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
      const auto* const type = pool->FindMessageTypeByName("pitot.dump.v1." + dump_format::MessageName(table.name));
      message_.reset(google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
      message_type_ = table.type;
    }
    return message_.get();
  }
  bool Parse(Message* message) const { return message->ParseFromArray(payload_, static_cast<int>(payload_size_)); }

  void TakeTrailer(const proto::Trailer& trailer) {
    has_trailer_ = true;
    trailer_agrees_ = trailer.chunks() == report_.chunks + report_.chunks_unknown;
    const int tables = std::min(trailer.rows_size(), static_cast<int>(schema::kTypeCount));
    for (int i = 0; i < tables; ++i) {
      if (trailer.rows(i) != reader_.rows()[static_cast<size_t>(i)]) trailer_agrees_ = false;
    }
  }

  static constexpr uint64_t kMaxTries = 8;

  const uint8_t* data_;
  uint64_t size_;
  ChunkReader reader_;
  DumpReport& report_;
  std::unique_ptr<Message> message_;
  ChunkType message_type_{};
  uint64_t bytes_tried_ = 0;
  uint64_t next_sequence_ = 0;
  bool has_trailer_ = false;
  bool trailer_agrees_ = false;
  // Of the current chunk.
  uint32_t type_ = 0;
  uint32_t flags_ = 0;
  uint32_t sequence_ = 0;
  uint64_t payload_size_ = 0;
  const uint8_t* payload_ = nullptr;
};

class File {
 public:
  // Non-blocking, so that a pipe without a writer does not block the reader.
  explicit File(const char* path) : descriptor_(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Status FileError(const std::string& path, int error) {
  const StatusCode code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError;
  return Status(code, (path + ": " + strerror(error)).c_str());
}

// If a dump's first chunk is damaged, its second one begins within these bytes.
constexpr size_t kFirstBytes = 2 * (dump_format::kPayloadMaxBytes + dump_format::kChunkHeaderBytes);

// Does not map the file: a mapped file that shrinks kills its reader. Stops early if the file cannot be a dump.
Status ReadAll(const std::string& path, std::string* contents) {
  const File file(path.c_str());
  struct stat facts {};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &facts) != 0) return FileError(path, errno);
  if (!S_ISREG(facts.st_mode)) return Status(StatusCode::kInvalidArgument, (path + ": not a regular file").c_str());
  const auto size = static_cast<size_t>(facts.st_size);
  contents->resize(std::min(size, kFirstBytes));
  size_t have = 0;
  while (have < size) {
    if (have == kFirstBytes) {
      if (memmem(contents->data(), have, kMagicBytes, sizeof kMagicBytes) == nullptr)
        return Status(StatusCode::kInvalidArgument, kNoChunk);
      contents->resize(size);
    }
    const ssize_t got = read(file.descriptor(), contents->data() + have, contents->size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  contents->resize(have);
  return Status();
}

}  // namespace

Status ParseDump(const void* data, uint64_t size, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  Status status = DumpParser(data, size, trace, report).Parse();
  if (!status.ok() && status.code() != StatusCode::kDataLoss) {
    *trace = Trace();
    return status;
  }
  if (const std::string wrong = model::FindInconsistency(*trace); !wrong.empty()) {
    *trace = Trace();
    return Status(StatusCode::kInternal, ("the reader made an inconsistent trace: " + wrong).c_str());
  }
  return status;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

Status ReadDump(const std::string& path, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  std::string contents;
  if (Status status = ReadAll(path, &contents); !status.ok()) return status;
  return ParseDump(contents.data(), contents.size(), trace, report);
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

PITOT_NAMESPACE_END
