// SPDX-License-Identifier: Apache-2.0
//
// What is kept of CUPTI's records: 48 bytes each, and tables of what repeats.
#ifndef PITOT_LIB_COLLECT_CUPTI_RECORDS_H_
#define PITOT_LIB_COLLECT_CUPTI_RECORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pitot::cupti {

enum class Activity : uint8_t {
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kGraph = 4,  // a whole graph, one record
  kSynchronization = 5,
  kOverhead = 6,
  kJit = 7,
  kCall = 8,  // of the driver's or runtime's API, where callbacks do not record it
};

struct GpuRecord {
  int64_t begin_ns;  // CLOCK_MONOTONIC
  int64_t duration_ns;
  uint64_t value;        // bytes of copies and sets; the thread of calls, as CUPTI names it
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

// Rows that repeat, numbered as they come. The first row stands for all that come when the table is full.
template <class Row, class Hash> class RowTable {
 public:
  RowTable(Row other, uint32_t most) : most_(most) { rows_.push_back(other); }
  // Throws bad_alloc.
  uint32_t Of(const Row& row) {
    if (row == rows_[last_]) return last_;
    const auto found = index_.find(row);
    if (found != index_.end()) return last_ = found->second;
    if (rows_.size() >= most_) return ++refused_, 0;
    rows_.push_back(row);
    index_.emplace(row, static_cast<uint32_t>(rows_.size() - 1));
    return last_ = static_cast<uint32_t>(rows_.size() - 1);
  }
  const std::vector<Row>& rows() const { return rows_; }
  uint64_t refused() const { return refused_; }

 private:
  const uint32_t most_;
  std::vector<Row> rows_;
  std::unordered_map<Row, uint32_t, Hash> index_;
  uint32_t last_ = 0;
  uint64_t refused_ = 0;
};

// Names by their text. CUPTI gives the same pointer for the same kernel, but a module that was unloaded may leave its
// place to another: the text is compared each time.
class NameTable {
 public:
  explicit NameTable(uint32_t most) : most_(most) { names_.push_back("(other)"); }
  // Throws bad_alloc.
  uint32_t Of(const char* name);
  const std::vector<std::string>& names() const { return names_; }
  uint64_t refused() const { return refused_; }

 private:
  static constexpr size_t kMostBytes = 4096;  // of one name

  const uint32_t most_;
  std::vector<std::string> names_;
  std::unordered_map<const char*, uint32_t> by_pointer_;
  std::unordered_map<std::string, uint32_t> by_text_;
  uint64_t refused_ = 0;
};

struct Tables {
  NameTable names{16384};
  RowTable<KernelShape, HashBytes> shapes{{}, 65536};
  RowTable<StreamKey, HashBytes> streams{{~0u, ~0u, ~0u}, 4096};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_RECORDS_H_
