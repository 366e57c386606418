// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/dump.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "model/schema.h"
#include "pitot/model/trace.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "serialize/wire.h"

PITOT_NAMESPACE_BEGIN
namespace {

using schema::ChunkType;
using serialize::WireBuffer;
using serialize::ZigZag;

uint64_t EncodeArg(ArgType type, model::ArgValue value) {
  if (type == ArgType::kInt) return ZigZag(static_cast<int64_t>(value));
  if (type == ArgType::kDouble) return __builtin_bswap64(value);
  return value;
}

// Frames payloads as chunks.
class ChunkWriter {
 public:
  explicit ChunkWriter(ByteSink* sink) : sink_(sink) {}
  bool ok() const { return ok_; }
  uint32_t chunks() const { return chunks_; }

  void Write(ChunkType type, const WireBuffer& payload) {
    head_.Clear();
    head_.RawFixed32(dump_format::kMagic);
    head_.RawFixed32(static_cast<uint32_t>(type));  // and flags of 0 in the upper half
    head_.RawFixed32(static_cast<uint32_t>(payload.size()));
    head_.RawFixed32(chunks_++);
    const uint32_t crc = serialize::ExtendCrc32c(0, head_.data(), head_.size());
    head_.RawFixed32(serialize::ExtendCrc32c(crc, payload.data(), payload.size()));
    ok_ = ok_ && sink_->Write(head_.data(), head_.size()) && sink_->Write(payload.data(), payload.size());
  }

 private:
  ByteSink* sink_;
  WireBuffer head_;
  uint32_t chunks_ = 0;
  bool ok_ = true;
};

// Writes the rows of a table as chunks. Columns are filled side by side, then written one after another as packed
// fields.
template <const auto& kTable> class TableWriter {
  using Owner = schema::OfTable<kTable>;

 public:
  TableWriter(const model::Trace& trace, ChunkWriter* out) : trace_(trace), rows_(trace.*kTable.member), out_(out) {}

  // Returns the number of rows.
  uint64_t Write() {
    const size_t size = schema::SizeOf<Owner>(rows_);
    for (size_t row = 0; row < size && out_->ok();) {
      const size_t end = EndOfBlock(row, size);
      PutRows<Owner>(rows_, row, end);
      rows_in_chunk_ += end - row;
      row = end;
      if (rows_in_chunk_ % kRowsPerCheck == 0 && Bytes() >= kGoalBytes) Flush();
    }
    Flush();
    return first_row_;
  }

 private:
  // Rows with lists may be large: fewer of them go into a chunk.
  static constexpr bool kHasLists = [] {
    bool has_lists = false;
    schema::ForEachColumn<Owner>([&](auto at) { has_lists = has_lists || at.kEncoding == schema::kList; });
    return has_lists;
  }();
  static constexpr uint32_t kRowsPerCheck = kHasLists ? 1 : 64;
  static constexpr size_t kGoalBytes = kHasLists ? dump_format::kBigRowsGoalBytes : dump_format::kPayloadGoalBytes;

  // The end of the rows from `row` on that go into one chunk, at most up to the next check of its size.
  size_t EndOfBlock(size_t row, size_t size) {
    size_t end = std::min(size, row + kRowsPerCheck - rows_in_chunk_ % kRowsPerCheck);
    schema::ForEachColumn<Owner>([&](auto at) {
      if constexpr (at.kEncoding == schema::kRun) {
        const auto& runs = rows_.*at.kColumn.member;
        if (runs[row] != run_) {
          Flush();
          end = std::min(size, row + kRowsPerCheck);
        }
        run_ = runs[row];
        end = static_cast<size_t>(
            std::find_if(runs.begin() + row, runs.begin() + end, [&](uint32_t run) { return run != run_; }) -
            runs.begin());
      }
    });
    return end;
  }

  template <class OwnerOfThem, class Rows> void PutRows(const Rows& rows, size_t first, size_t last) {
    schema::ForEachColumn<OwnerOfThem>([&](auto at) {
      for (size_t row = first; row < last; ++row) Put<decltype(at)>(rows, row);
    });
  }
  template <class At, class Rows> void Put(const Rows& rows, size_t row) {
    constexpr const auto& kColumn = At::kColumn;
    WireBuffer& out = columns_[At::kField];
    if constexpr (At::kEncoding == schema::kList) {
      const auto& elements = schema::Elements(rows[row], kColumn);
      const size_t count = schema::SizeOf<schema::OfList<At>>(elements);
      out.RawVarint(count);
      PutRows<schema::OfList<At>>(elements, 0, count);
    } else if constexpr (At::kEncoding == schema::kArgs) {
      PutArgs(row, &out, &columns_[At::kField + 1]);
    } else if constexpr (At::kEncoding == schema::kFlags) {
      out.RawVarint((rows[row].*kColumn.member[0] ? 1 : 0) | (rows[row].*kColumn.member[1] ? 2 : 0));
    } else if constexpr (At::kEncoding == schema::kTriple) {
      for (const uint32_t value : schema::Get(rows, kColumn.member, row)) out.RawVarint(value);
    } else if constexpr (At::kEncoding != schema::kRun && At::kEncoding != schema::kRange) {
      PutNumber<At>(rows, row, &out);
    }
  }
  template <class At, class Rows> void PutNumber(const Rows& rows, size_t row, WireBuffer* out) {
    const auto value = schema::Get(rows, At::kColumn.member, row);
    if constexpr (At::kEncoding == schema::kFixed) {
      out->RawFixed64(value);
    } else if constexpr (At::kEncoding == schema::kReal || At::kEncoding == schema::kFinite) {
      out->RawDouble(value);
    } else if constexpr (At::kEncoding == schema::kMoment) {
      out->RawZigZag(Delta<At>(value));
    } else if constexpr (At::kEncoding == schema::kNearRow) {
      out->RawZigZag(Delta<At>(RowPlusOne(value)));
    } else if constexpr (At::kEncoding == schema::kRowOrNone) {
      out->RawVarint(RowPlusOne(value));
    } else if constexpr (At::kEncoding == schema::kUntil) {
      out->RawVarint(static_cast<uint64_t>(value - schema::Get(rows, At::kColumn.begin, row)));
    } else {
      out->RawVarint(static_cast<uint64_t>(value) + (At::kEncoding == schema::kLength ? 1 : 0));
    }
  }
  void PutArgs(size_t event, WireBuffer* counts, WireBuffer* values) {
    const uint32_t first = trace_.events.args[event];
    if (first == model::kNone) return counts->RawVarint(0);
    const std::vector<ArgType>& types = trace_.sites[trace_.events.site[event]].arg_types;
    counts->RawVarint(types.size());
    for (size_t i = 0; i < types.size(); ++i) values->RawVarint(EncodeArg(types[i], trace_.arg_values[first + i]));
  }

  template <class At> int64_t Delta(int64_t value) {
    const int64_t delta = value - last_[At::kField];
    last_[At::kField] = value;
    return delta;
  }
  // Row + 1, so that none is 0.
  static uint32_t RowPlusOne(uint32_t row) { return row + 1; }

  size_t Bytes() const {
    size_t bytes = 0;
    for (const WireBuffer& column : columns_) bytes += column.size();
    return bytes;
  }
  void Flush() {
    if (rows_in_chunk_ == 0) return;
    payload_.Clear();
    if (kTable.rows == schema::kNumbered) payload_.Varint(dump_format::kFirstRow, first_row_);
    if (run_ != model::kNone) payload_.Varint(dump_format::kRun, run_);
    for (uint32_t field = 0; field < columns_.size(); ++field) {
      if (columns_[field].size() != 0) payload_.Bytes(field, columns_[field].data(), columns_[field].size());
      columns_[field].Clear();
    }
    out_->Write(kTable.type, payload_);
    first_row_ += rows_in_chunk_;
    rows_in_chunk_ = 0;
    last_ = {};
  }

  const model::Trace& trace_;
  const schema::DataOf<kTable>& rows_;
  ChunkWriter* out_;
  std::array<WireBuffer, schema::kEndField<Owner>> columns_;  // by field
  std::array<int64_t, schema::kEndField<Owner>> last_{};      // of columns of deltas
  WireBuffer payload_;
  uint32_t run_ = model::kNone;
  uint64_t first_row_ = 0;  // of the chunk
  uint64_t rows_in_chunk_ = 0;
};

void WriteHeader(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::header;
  WireBuffer payload;
  payload.Varint(field::kVersionMajor, dump_format::kVersionMajor);
  payload.Varint(field::kVersionMinor, dump_format::kVersionMinor);
  payload.Int(field::kPid, trace.pid);
  payload.Varint(field::kProcessName, trace.process_name);
  payload.Int(field::kWindowBegin, trace.window_begin_ns);
  payload.Int(field::kWindowEnd, trace.window_end_ns);
  payload.Int(field::kMonotonic, trace.clock.monotonic_ns);
  payload.Int(field::kRealtime, trace.clock.realtime_ns);
  payload.Int(field::kBoottime, trace.clock.boottime_ns);
  payload.Varint(field::kCycleCounter, trace.clock.cycle_counter);
  payload.Double(field::kTicksPerNs, trace.clock.ticks_per_ns);
  payload.Int(field::kPairWidth, trace.clock.pair_width_ns);
  out->Write(ChunkType::kHeader, payload);
}

uint64_t WriteStrings(const model::Trace& trace, ChunkWriter* out) {
  WireBuffer sizes, text, payload;
  uint32_t first = 0;
  const uint32_t count = trace.strings.size();
  for (uint32_t id = 0; id < count; ++id) {
    sizes.RawVarint(trace.strings[id].size());
    text.RawBytes(trace.strings[id].data(), trace.strings[id].size());
    if (id + 1 < count && sizes.size() + text.size() < dump_format::kPayloadGoalBytes) continue;
    payload.Clear();
    payload.Varint(dump_format::kFirstRow, first);
    payload.Bytes(dump_format::strings::kSize, sizes.data(), sizes.size());
    payload.Bytes(dump_format::strings::kText, text.data(), text.size());
    out->Write(ChunkType::kStrings, payload);
    sizes.Clear();
    text.Clear();
    first = id + 1;
  }
  return count;
}

class DumpSerializer final : public Serializer {
 public:
  explicit DumpSerializer(const char* file_name) : file_name_(file_name) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }

  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    ChunkWriter out(&sink);
    std::array<uint64_t, schema::kTypeCount> rows{};
    WriteHeader(trace, &out);
    rows[static_cast<size_t>(ChunkType::kStrings)] = WriteStrings(trace, &out);
    schema::ForEachTable([&]<const auto & kTable>() {
      rows[static_cast<size_t>(kTable.type)] = TableWriter<kTable>(trace, &out).Write();
    });

    WireBuffer counts, trailer;
    for (const uint64_t count : rows) counts.RawVarint(count);
    trailer.Varint(dump_format::trailer::kChunks, out.chunks());
    trailer.Bytes(dump_format::trailer::kRows, counts.data(), counts.size());
    out.Write(ChunkType::kTrailer, trailer);
    return out.ok() ? Status() : Status(StatusCode::kIoError, "the dump could not be written");
  }

 private:
  std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakeDumpSerializer(const char* file_name) noexcept try {
  return std::make_unique<DumpSerializer>(file_name);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
