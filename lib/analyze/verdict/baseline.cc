// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/baseline.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/quantile.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

namespace {

constexpr uint32_t kStaysPerCell = 64;
constexpr uint32_t kLeastOfNorm = 8;
constexpr uint32_t kMuchBits = model::NormRow::kMuchBits, kDepthBits = 2;

}  // namespace

const char* LevelName(Baseline::Level level) noexcept {
  switch (level) {
    case Baseline::Level::kCell:
      return "same route and size";
    case Baseline::Level::kRoute:
      return "same route, any size";
    case Baseline::Level::kProcess:
      return "any route";
    case Baseline::Level::kNone:
      break;
  }
  return "none";
}

void Baseline::Limit(uint32_t most_cells, uint32_t most_kinds) noexcept {
  options_.most_cells = std::min(options_.most_cells, most_cells);
  most_kinds_ = std::min(most_kinds_, most_kinds);
  if (cells_.size() > options_.most_cells) cells_.resize(options_.most_cells);
  if (stays_.size() > most_kinds_) stays_.resize(most_kinds_);
}

Baseline::Packed Baseline::Pack(const BaselineRow& row) {
  Packed packed;
  packed.at_ns = row.at_ns;
  packed.work = row.work;
  if (!std::isfinite(packed.work.size)) packed.work.size = 0;
  const int64_t most = *std::max_element(row.blame.ns, row.blame.ns + kBlames);
  while ((most >> packed.shift) > INT32_MAX) ++packed.shift;
  for (uint32_t k = 0; k < kBlames; ++k)
    packed.parts[k] = static_cast<int32_t>(std::max<int64_t>(row.blame.ns[k], 0) >> packed.shift);
  return packed;
}

BaselineRow Baseline::Unpack(const Packed& packed) {
  BaselineRow row;
  row.at_ns = packed.at_ns;
  row.work = packed.work;
  for (uint32_t k = 0; k < kBlames; ++k) row.blame.ns[k] = static_cast<int64_t>(packed.parts[k]) << packed.shift;
  return row;
}

// Epochs are counted from 0 of the clock: a row is fresh in its own and in the next one.
bool Baseline::IsFresh(const Packed& row, int64_t now_ns) const { return Epoch(now_ns) - Epoch(row.at_ns) <= 1; }

// A cell without a fresh row makes room for a new one.
template <class MayGo> Baseline::Cell* Baseline::FindCell(std::string_view route, uint32_t size_bucket, int64_t now_ns,
                                                          uint32_t most, const MayGo& may_go,
                                                          std::vector<Cell>* cells) const {
  for (Cell& cell : *cells) {
    if (cell.size_bucket == size_bucket && cell.route == route) return &cell;
  }
  if (cells->size() < most) {
    cells->push_back({std::string(route), size_bucket, 0, {}});
    return &cells->back();
  }
  for (Cell& cell : *cells) {
    const auto is_fresh = [&](const Packed& row) { return IsFresh(row, now_ns); };
    if (!may_go(cell) || std::any_of(cell.ring.begin(), cell.ring.end(), is_fresh)) continue;
    cell = {std::string(route), size_bucket, 0, {}};
    return &cell;
  }
  return nullptr;
}

void Baseline::Keep(const BaselineRow& row, uint32_t most, Cell* cell) {
  ++added_;
  if (cell->ring.size() < most) {
    cell->ring.push_back(Pack(row));
    return;
  }
  cell->ring[cell->next] = Pack(row);
  cell->next = (cell->next + 1) % static_cast<uint32_t>(cell->ring.size());
}

Status Baseline::Add(std::string_view route, uint32_t size_bucket, const BaselineRow& row) noexcept {
  try {
    const auto may_go = [](const Cell&) { return true; };
    Cell* const cell = FindCell(route, size_bucket, row.at_ns, options_.most_cells, may_go, &cells_);
    if (cell == nullptr || options_.requests_per_cell == 0)
      ++refused_;
    else
      Keep(row, options_.requests_per_cell, cell);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for a baseline's cell");
  }
}

// ---- Stays

uint32_t Baseline::Number(const StayKey& key) {
  const uint32_t of = static_cast<uint32_t>(key.kind) << kDepthBits | static_cast<uint32_t>(key.depth);
  return of << kMuchBits | std::min(key.much, (uint32_t{1} << kMuchBits) - 1);
}
Baseline::StayKey Baseline::KeyOf(uint32_t number) {
  return {static_cast<model::NormKind>(number >> (kMuchBits + kDepthBits)),
          static_cast<Depth>(number >> kMuchBits & ((1u << kDepthBits) - 1)), number & ((1u << kMuchBits) - 1)};
}

// Scopes, tokens and kernels are many, and must leave room for the others: they have a fourth, sixth and eighth of all.
uint32_t Baseline::PartOf(model::NormKind kind) {
  if (kind == model::NormKind::kScope) return 4;
  if (kind == model::NormKind::kGpuWork) return 8;
  return model::IsOfTokens(kind) ? 6 : 1;
}
// Kinds with one part share it.
bool Baseline::IsLike(const Cell& cell, model::NormKind kind) {
  return PartOf(KeyOf(cell.size_bucket).kind) == PartOf(kind);
}

Status Baseline::AddStay(std::string_view name, const StayKey& key, const BaselineRow& row) noexcept {
  try {
    const auto is_like = [&](const Cell& cell) { return IsLike(cell, key.kind); };
    const bool has_room = std::count_if(stays_.begin(), stays_.end(), is_like) < most_kinds_ / PartOf(key.kind);
    const auto may_go = [&](const Cell& cell) { return has_room || is_like(cell); };
    Cell* const cell = FindCell(name, Number(key), row.at_ns, has_room ? most_kinds_ : 0, may_go, &stays_);
    if (cell == nullptr)
      ++refused_;
    else
      Keep(row, kStaysPerCell, cell);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for a baseline's cell");
  }
}

// The medians of the cell's fresh rows; of requests, of those at the key's depth.
void Baseline::AddNorm(std::string_view name, const StayKey& key, const Cell& cell, int64_t now_ns,
                       model::Trace* trace) const {
  std::vector<BlameVector> rows;
  for (const Packed& row : cell.ring) {
    const bool is_like = key.kind != model::NormKind::kRequest || row.work.depth == key.depth;
    if (is_like && IsFresh(row, now_ns)) rows.push_back(Unpack(row).blame);
  }
  if (rows.size() < kLeastOfNorm) return;
  model::NormRow norm;
  norm.kind = key.kind;
  norm.depth = key.depth;
  norm.name = trace->strings.Add(name);
  norm.much = key.much;
  norm.count = static_cast<uint32_t>(rows.size());
  std::vector<int64_t> lengths;
  for (const BlameVector& row : rows) lengths.push_back(row.Total());
  norm.total_ns = base::Median(lengths);
  for (uint32_t k = 0; model::HasParts(key.kind) && k < kBlames; ++k) {
    for (size_t i = 0; i < rows.size(); ++i) lengths[i] = rows[i].ns[k];
    if (const int64_t ns = base::Median(lengths); ns != 0) norm.parts.push_back({k, ns});
  }
  trace->norms.push_back(std::move(norm));
}

// The oldest come first.
void Baseline::AddTokens(const Cell& cell, int64_t now_ns, model::Trace* trace) const {
  const StayKey key = KeyOf(cell.size_bucket);
  const model::StringId route = trace->strings.Add(cell.route);
  for (size_t i = 0; i < cell.ring.size(); ++i) {
    const Packed& packed = cell.ring[(cell.next + i) % cell.ring.size()];
    if (!IsFresh(packed, now_ns)) continue;
    const BaselineRow row = Unpack(packed);
    model::NormRow norm{key.kind, key.depth, route, key.much, 1, row.blame.Total(), {}, row.work.size};
    for (uint32_t k = 0; k < kBlames; ++k) {
      if (row.blame.ns[k] != 0) norm.parts.push_back({k, row.blame.ns[k]});
    }
    trace->norms.push_back(std::move(norm));
  }
}

Status Baseline::AddNorms(int64_t now_ns, model::Trace* trace) const noexcept {
  trace->norms.clear();
  try {
    for (const Cell& cell : stays_) {
      const StayKey key = KeyOf(cell.size_bucket);
      model::IsOfTokens(key.kind) ? AddTokens(cell, now_ns, trace) : AddNorm(cell.route, key, cell, now_ns, trace);
    }
    for (const Cell& cell : cells_) {
      for (const Depth depth : {Depth::kScopes, Depth::kGraphs, Depth::kKernels, Depth::kOps})
        AddNorm(cell.route, {model::NormKind::kRequest, depth, cell.size_bucket}, cell, now_ns, trace);
    }
    return Status();
  } catch (const std::bad_alloc&) {
    trace->norms.clear();
    return Status(StatusCode::kResourceExhausted, "no memory for what is usual");
  }
}

Baseline::Level Baseline::Find(std::string_view route, uint32_t size_bucket, int64_t now_ns, uint32_t least,
                               std::vector<BaselineRow>* rows) const {
  for (const Level level : {Level::kCell, Level::kRoute, Level::kProcess}) {
    rows->clear();
    for (const Cell& cell : cells_) {
      if (level != Level::kProcess && cell.route != route) continue;
      if (level == Level::kCell && cell.size_bucket != size_bucket) continue;
      for (size_t i = 0; i < cell.ring.size(); ++i) {
        const Packed& row = cell.ring[(cell.next + i) % cell.ring.size()];
        if (IsFresh(row, now_ns)) rows->push_back(Unpack(row));
      }
    }
    if (rows->size() >= least && !rows->empty()) return level;
  }
  rows->clear();
  return Level::kNone;
}

uint64_t Baseline::size() const {
  uint64_t size = 0;
  for (const Cell& cell : cells_) size += cell.ring.size();
  return size;
}

size_t Baseline::memory_bytes() const {
  size_t bytes = 0;
  for (const std::vector<Cell>* cells : {&cells_, &stays_}) {
    bytes += cells->capacity() * sizeof(Cell);
    for (const Cell& cell : *cells) bytes += cell.ring.capacity() * sizeof(Packed) + cell.route.capacity();
  }
  for (const ScopeTimes::Cell& cell : scopes_.cells_)
    bytes += sizeof cell + cell.route.capacity() + cell.scope.capacity();
  return bytes;
}

// ---- As bytes: docs/reference/formats/baseline.md

namespace {

constexpr uint32_t kMagic = 0x42544950, kVersion = 6;
constexpr uint32_t kNotRecorded = UINT32_MAX;

uint64_t Checksum(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

template <class T> void Put(uint64_t value, std::string* to) {
  for (size_t i = 0; i < sizeof(T); ++i) to->push_back(static_cast<char>(value >> (8 * i)));
}
void PutText(std::string_view text, std::string* to) {
  Put<uint32_t>(text.size(), to);
  to->append(text);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T> T Take() {
    uint64_t value = 0;
    if (bytes_.size() < sizeof(T)) {
      is_whole_ = false;
      return T{};
    }
    for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[i])) << (8 * i);
    bytes_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }
  std::string TakeText() {
    const size_t size = Take<uint32_t>();
    is_whole_ = is_whole_ && size <= bytes_.size();
    const std::string_view text = is_whole_ ? bytes_.substr(0, size) : std::string_view();
    bytes_.remove_prefix(text.size());
    return std::string(text);
  }
  bool is_whole() const { return is_whole_; }
  size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  bool is_whole_ = true;
};

}  // namespace

void Baseline::SaveCells(const std::vector<Cell>& cells, std::string* out) {
  Put<uint32_t>(cells.size(), out);
  for (const Cell& cell : cells) {
    PutText(cell.route, out);
    Put<uint32_t>(cell.size_bucket, out);
    Put<uint32_t>(cell.ring.size(), out);
    for (size_t i = 0; i < cell.ring.size(); ++i) {
      const Packed& row = cell.ring[(cell.next + i) % cell.ring.size()];
      Put<uint8_t>(row.shift, out);
      for (const int32_t part : row.parts) Put<uint32_t>(static_cast<uint32_t>(part), out);
      uint64_t size = 0;
      static_assert(sizeof size == sizeof row.work.size);
      __builtin_memcpy(&size, &row.work.size, sizeof size);
      Put<uint64_t>(size, out);
      for (const uint32_t count : {row.work.launches, row.work.steps, row.work.tokens}) Put<uint32_t>(count, out);
      Put<uint8_t>(static_cast<uint8_t>(row.work.depth), out);
      Put<uint32_t>(row.work.waits.value_or(kNotRecorded), out);
    }
  }
}

Status Baseline::Save(std::string* bytes) const noexcept {
  try {
    std::string out;
    Put<uint32_t>(kMagic, &out);
    Put<uint32_t>(kVersion, &out);
    SaveCells(cells_, &out);
    Put<uint32_t>(scopes_.cells_.size(), &out);
    for (const ScopeTimes::Cell& cell : scopes_.cells_) {
      PutText(cell.route, &out);
      PutText(cell.scope, &out);
      const auto& counts = cell.sketch.counts_;
      Put<uint32_t>(std::size(counts) - static_cast<size_t>(std::count(std::begin(counts), std::end(counts), 0)), &out);
      for (size_t bucket = 0; bucket < std::size(counts); ++bucket) {
        if (counts[bucket] == 0) continue;
        Put<uint16_t>(bucket, &out);
        Put<uint16_t>(counts[bucket], &out);
      }
    }
    SaveCells(stays_, &out);
    Put<uint64_t>(Checksum(out), &out);
    *bytes = std::move(out);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to save the baseline");
  }
}

// Reads the parts of a saved baseline. Each function returns false if the bytes are damaged.
struct Baseline::Loader {
  Reader reader;
  const uint32_t version;
  const int64_t at_ns;  // loaded rows count as of then
  std::vector<Cell> cells, stays;
  ScopeTimes scopes;

  bool TakeRow(Packed* row) {
    row->at_ns = at_ns;
    row->shift = std::min<uint8_t>(reader.Take<uint8_t>(), 31);
    for (int32_t& part : row->parts)
      part = static_cast<int32_t>(std::min<uint32_t>(reader.Take<uint32_t>(), INT32_MAX));
    const uint64_t size = reader.Take<uint64_t>();
    __builtin_memcpy(&row->work.size, &size, sizeof size);
    if (!std::isfinite(row->work.size)) row->work.size = 0;
    row->work.launches = reader.Take<uint32_t>();
    row->work.steps = reader.Take<uint32_t>();
    row->work.tokens = reader.Take<uint32_t>();
    const uint32_t depth = version >= 2              ? reader.Take<uint8_t>()
                           : row->work.launches != 0 ? static_cast<uint32_t>(Depth::kKernels)
                                                     : static_cast<uint32_t>(Depth::kScopes);
    row->work.depth = static_cast<Depth>(std::min(depth, static_cast<uint32_t>(Depth::kOps)));
    const uint32_t waits = version >= 4 ? reader.Take<uint32_t>() : kNotRecorded;
    if (waits != kNotRecorded) row->work.waits = waits;
    int64_t left_ns = model::kMaxTimeNs;  // of a latency small enough for Unpack to add up
    for (const int32_t part : row->parts) {
      const int64_t part_ns = static_cast<int64_t>(part) << row->shift;
      if (part_ns > left_ns) return false;
      left_ns -= part_ns;
    }
    return true;
  }

  bool TakeCells(uint32_t most_rows, uint32_t most, std::vector<Cell>* to) {
    constexpr size_t kRowBytes = 1 + 4 * kBlames + 8 + 12;
    for (uint32_t left = reader.Take<uint32_t>(); left > 0 && reader.is_whole(); --left) {
      Cell cell;
      cell.route = reader.TakeText();
      cell.size_bucket = reader.Take<uint32_t>();
      const uint32_t rows = reader.Take<uint32_t>();
      if (!reader.is_whole() || rows > reader.left() / kRowBytes) return false;
      for (uint32_t i = 0; i < rows; ++i) {
        Packed row;
        if (!TakeRow(&row)) return false;
        // A baseline saved with larger rings: the newest are kept.
        if (rows - i <= most_rows) cell.ring.push_back(row);
      }
      if (to->size() < most) to->push_back(std::move(cell));
    }
    return true;
  }

  bool TakeScopes() {
    for (uint32_t left = version >= 3 ? reader.Take<uint32_t>() : 0; left > 0 && reader.is_whole(); --left) {
      ScopeTimes::Cell cell{reader.TakeText(), reader.TakeText(), {}};
      for (uint32_t buckets = reader.Take<uint32_t>(); buckets > 0 && reader.is_whole(); --buckets) {
        const auto bucket = reader.Take<uint16_t>(), count = reader.Take<uint16_t>();
        if (bucket >= std::size(cell.sketch.counts_) || cell.sketch.counts_[bucket] != 0) return false;
        cell.sketch.counts_[bucket] = count;
        cell.sketch.size_ += count;
      }
      if (cell.sketch.size_ > DurationSketch::kMost) return false;
      if (scopes.cells_.size() < ScopeTimes::kMostScopes) scopes.cells_.push_back(std::move(cell));
    }
    return true;
  }

  bool TakeStays() {
    if (version < 5) return true;
    if (!TakeCells(kStaysPerCell, kMostKinds, &stays)) return false;
    return std::all_of(stays.begin(), stays.end(), [](const Cell& cell) {
      const model::NormKind kind = KeyOf(cell.size_bucket).kind;
      return kind >= model::NormKind::kBatchOfWork && kind <= model::kLastNormKind;
    });
  }
};

Status Baseline::Load(std::string_view bytes, int64_t now_ns) noexcept {
  constexpr size_t kChecksumBytes = 8;
  const Status damaged(StatusCode::kDataLoss, "not a baseline, or not a whole one");
  if (bytes.size() < kChecksumBytes) return damaged;
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (Reader(bytes.substr(body.size())).Take<uint64_t>() != Checksum(body)) return damaged;
  Reader reader(body);
  if (reader.Take<uint32_t>() != kMagic) return damaged;
  const uint32_t version = reader.Take<uint32_t>();
  if (version == 0 || version > kVersion) return damaged;
  // Loaded rows count as of the previous epoch.
  const int64_t epoch_ns = std::max<int64_t>(options_.epoch_ns, 1), at_ns = std::max<int64_t>(now_ns - epoch_ns, 0);
  try {
    Loader loader = {reader, version, at_ns, {}, {}, {}};
    if (!loader.TakeCells(options_.requests_per_cell, options_.most_cells, &loader.cells)) return damaged;
    if (!loader.TakeScopes() || !loader.TakeStays()) return damaged;
    if (!loader.reader.is_whole() || loader.reader.left() != 0) return damaged;
    ++added_;
    cells_ = std::move(loader.cells);
    stays_ = std::move(loader.stays);
    scopes_ = std::move(loader.scopes);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to load the baseline");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
