// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's records as they are kept: 48 bytes each, and tables for repeated values.
#ifndef PITOT_LIB_COLLECT_CUPTI_RECORDS_H_
#define PITOT_LIB_COLLECT_CUPTI_RECORDS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pitot::cupti {

enum class Activity : uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kGraph,  // a whole graph, one record
  kOverhead,
  kJit,
  kCall,  // of the driver's or runtime's API, if callbacks do not record it
};

struct GpuRecord {
  int64_t begin_ns;  // CLOCK_MONOTONIC
  int64_t duration_ns;
  uint64_t value;        // bytes of copies and sets; for calls the thread, as CUPTI names it
  uint32_t correlation;  // with the call that caused it
  uint16_t name;         // in Tables::names
  uint16_t scope_path;   // for a graph's node, index of the Name of its scopes at capture; 0: unknown
  uint32_t detail;       // kernels: row of Tables::shapes; copies: kind << 16 | source << 8 | destination; others: type
  uint32_t graph;        // the executable graph that launched it; 0: none
  uint32_t node;         // in that graph
  uint16_t stream;       // in Tables::streams
  Activity activity;
  uint8_t reserved;
};
static_assert(sizeof(GpuRecord) == 48, "the memory budget counts on it");

// The launch parameters of a kernel.
struct KernelShape {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared_bytes, dynamic_shared_bytes, local_bytes_per_thread;
  uint32_t registers;
  bool operator==(const KernelShape&) const = default;
};

struct StreamKey {
  uint32_t device, context, stream;
  bool operator==(const StreamKey&) const = default;
};

struct HashBytes {
  template <class Key> size_t operator()(const Key& key) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

// Rows that are added and never change. One thread adds; any thread may read rows below a size it was told.
template <class Row> class Rows {
 public:
  explicit Rows(uint32_t most) : blocks_((most + kBlock - 1) / kBlock) {}
  // Adds a row, up to `most`. Throws bad_alloc.
  void Add(Row row) {
    const uint32_t at = size();
    if (at % kBlock == 0) blocks_[at / kBlock] = std::make_unique<Row[]>(kBlock);
    blocks_[at / kBlock][at % kBlock] = std::move(row);
    size_.store(at + 1, std::memory_order_release);
  }
  const Row& operator[](uint32_t i) const { return blocks_[i / kBlock][i % kBlock]; }
  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  bool is_full() const { return size() >= blocks_.size() * kBlock; }

  static constexpr uint32_t kBlock = 256;

 private:
  std::vector<std::unique_ptr<Row[]>> blocks_;
  std::atomic<uint32_t> size_{0};
};

// Repeated rows, numbered as they come. The first row stands for all new ones once the table is full.
template <class Row> class RowTable {
 public:
  // For one row: itself, its node in the index, and its part of the index's buckets while those double.
  static constexpr uint64_t kRowBytes = 2 * sizeof(Row) + 80;
  static constexpr uint64_t kBlockBytes = Rows<Row>::kBlock * kRowBytes;

  // `most` is rounded up to a multiple of 256.
  RowTable(Row other, uint32_t most) : rows_(most) { rows_.Add(other); }
  // Room for as many rows as fit into `bytes`, at least a block and at most `most`.
  RowTable(Row other, uint32_t most, uint64_t bytes)
      : RowTable(other, std::clamp<uint32_t>(static_cast<uint32_t>(bytes / kBlockBytes) * Rows<Row>::kBlock,
                                             Rows<Row>::kBlock, most)) {}
  // The number of a row; adds new ones. Throws bad_alloc.
  uint32_t Of(const Row& row) {
    if (row == rows_[last_]) return last_;
    const auto found = index_.find(row);
    if (found != index_.end()) return last_ = found->second;
    if (rows_.is_full()) return ++refused_, 0;
    const uint32_t at = rows_.size();
    rows_.Add(row);
    index_.emplace(row, at);
    return last_ = at;
  }
  const Rows<Row>& rows() const { return rows_; }
  uint64_t refused() const { return refused_; }
  uint64_t bytes() const { return (rows_.size() + Rows<Row>::kBlock - 1) / Rows<Row>::kBlock * kBlockBytes; }

 private:
  Rows<Row> rows_;
  std::unordered_map<Row, uint32_t, HashBytes> index_;
  uint32_t last_ = 0;
  uint64_t refused_ = 0;
};

// Names of kernels. CUPTI gives the same pointer for the same kernel, but does not report when the kernel's module is
// unloaded. So a pointer is read once, without a fault if nothing is left there, and believed until Forget.
class NameTable {
 public:
  // Takes `bytes` at most, but 64 KiB at least, and holds 16384 names.
  explicit NameTable(uint64_t bytes)
      : most_pointers_(bytes / 4 / kPointerBytes), most_text_bytes_(bytes * 3 / 4), names_(kMostNames) {
    names_.Add("(other)");
  }
  // The row of the name at a pointer. Throws bad_alloc.
  uint32_t Of(const char* name);
  void Forget() { by_pointer_.clear(); }
  const Rows<std::string>& names() const { return names_; }
  uint64_t refused() const { return refused_; }  // pointers that had to be named "(other)"
  uint64_t bytes() const { return text_bytes_ + pointers_ * kPointerBytes; }

 private:
  static constexpr uint32_t kMostNames = 16384;  // fits GpuRecord::name
  static constexpr size_t kMostBytes = 4096;     // of one name
  // For a pointer, and for a name besides its text: its row, its node in the index, its part of the index's buckets
  // while those double, and the heap's addition.
  static constexpr uint64_t kPointerBytes = 64, kNameBytes = 160;

  const uint64_t most_pointers_, most_text_bytes_;
  Rows<std::string> names_;
  std::unordered_map<const char*, uint32_t> by_pointer_;
  std::unordered_map<std::string_view, uint32_t> by_text_;  // into names_
  uint64_t refused_ = 0, text_bytes_ = Rows<std::string>::kBlock * kNameBytes;
  uint64_t pointers_ = 0;  // the most at one time
};

// Tables that grow with the host's program, in a fifth of `memory_bytes` at most.
struct Tables {
  explicit Tables(uint64_t memory_bytes)
      : names(memory_bytes / 8),
        shapes({}, 65536, memory_bytes / 16),
        streams({~0u, ~0u, ~0u}, 4096, memory_bytes / 64) {}
  uint64_t bytes() const { return names.bytes() + shapes.bytes() + streams.bytes(); }

  NameTable names;
  RowTable<KernelShape> shapes;
  RowTable<StreamKey> streams;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_RECORDS_H_
