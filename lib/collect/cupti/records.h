// SPDX-License-Identifier: Apache-2.0
//
// What is kept of CUPTI's records: 48 bytes each, and tables of what repeats.
#ifndef PITOT_LIB_COLLECT_CUPTI_RECORDS_H_
#define PITOT_LIB_COLLECT_CUPTI_RECORDS_H_

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
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kGraph = 4,  // a whole graph, one record
  kOverhead = 6,
  kJit = 7,
  kCall = 8,  // of the driver's or runtime's API, where callbacks do not record it
};

struct GpuRecord {
  int64_t begin_ns;  // CLOCK_MONOTONIC
  int64_t duration_ns;
  uint64_t value;        // bytes of copies and sets; the thread of calls, as CUPTI names it; of a graph's kernels the
                         // index of the Name of the scopes they were captured in
  uint32_t correlation;  // with the call that caused it
  uint32_t name;         // in Tables::names
  uint32_t detail;  // of kernels in Tables::shapes; of copies copy kind << 16 | source << 8 | destination; of others
                    // their type
  uint32_t graph;   // the executable graph it was launched by; 0: none
  uint32_t node;    // in that graph
  uint16_t stream;  // in Tables::streams
  Activity activity;
  uint8_t reserved;
};
static_assert(sizeof(GpuRecord) == 48, "the memory budget counts on it");

// How a kernel was launched.
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

// Rows that are added and never change. One thread adds; any thread may read those below a size that it was told.
template <class Row> class Rows {
 public:
  explicit Rows(uint32_t most) : blocks_((most + kBlock - 1) / kBlock) {}
  // Throws bad_alloc. No more than `most`.
  void Add(Row row) {
    const uint32_t at = size();
    if (at % kBlock == 0) blocks_[at / kBlock] = std::make_unique<Row[]>(kBlock);
    blocks_[at / kBlock][at % kBlock] = std::move(row);
    size_.store(at + 1, std::memory_order_release);
  }
  const Row& operator[](uint32_t i) const { return blocks_[i / kBlock][i % kBlock]; }
  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  bool is_full() const { return size() >= blocks_.size() * kBlock; }

 private:
  static constexpr uint32_t kBlock = 256;
  std::vector<std::unique_ptr<Row[]>> blocks_;
  std::atomic<uint32_t> size_{0};
};

// Rows that repeat, numbered as they come. The first row stands for all that come when the table is full.
template <class Row> class RowTable {
 public:
  // `most` is rounded up to a multiple of 256.
  RowTable(Row other, uint32_t most) : rows_(most) { rows_.Add(other); }
  // Throws bad_alloc.
  uint32_t Of(const Row& row) {
    if (row == rows_[last_]) return last_;
    const auto found = index_.find(row);
    if (found != index_.end()) return last_ = found->second;
    if (rows_.is_full()) return ++refused_, 0;
    index_.emplace(row, rows_.size());
    rows_.Add(row);
    return last_ = rows_.size() - 1;
  }
  const Rows<Row>& rows() const { return rows_; }
  uint64_t refused() const { return refused_; }

 private:
  Rows<Row> rows_;
  std::unordered_map<Row, uint32_t, HashBytes> index_;
  uint32_t last_ = 0;
  uint64_t refused_ = 0;
};

// Names of kernels. CUPTI gives the same pointer for the same kernel and does not say when the module that holds it is
// unloaded: a pointer is read once, without faulting where nothing is left, and believed until Forget.
class NameTable {
 public:
  // `most` is rounded up to a multiple of 256.
  explicit NameTable(uint32_t most) : names_(most) { names_.Add("(other)"); }
  // Throws bad_alloc.
  uint32_t Of(const char* name);
  void Forget() { by_pointer_.clear(); }
  const Rows<std::string>& names() const { return names_; }
  uint64_t refused() const { return refused_; }

 private:
  static constexpr size_t kMostBytes = 4096;  // of one name
  static constexpr size_t kMostPointers = 16384;

  Rows<std::string> names_;
  std::unordered_map<const char*, uint32_t> by_pointer_;
  std::unordered_map<std::string_view, uint32_t> by_text_;  // into names_
  uint64_t refused_ = 0;
};

struct Tables {
  NameTable names{16384};
  RowTable<KernelShape> shapes{{}, 65536};
  RowTable<StreamKey> streams{{~0u, ~0u, ~0u}, 4096};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_RECORDS_H_
