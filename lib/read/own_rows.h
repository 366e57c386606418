// SPDX-License-Identifier: Apache-2.0
//
// Adds rows to a trace, for readers of Pitot's own traces in other formats. They come in any order, and refer to
// later rows.
#ifndef PITOT_LIB_READ_OWN_ROWS_H_
#define PITOT_LIB_READ_OWN_ROWS_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/status.h"
#include "read/chrome_event.h"
#include "read/shapes.h"
#include "read/sites.h"
#include "read/texts.h"

namespace pitot::read {

class OwnRows {
 public:
  explicit OwnRows(model::Trace* trace) : trace_(*trace), sites_(trace), shapes_(trace) {}

  model::StringId Intern(std::string_view text) { return read::Intern(text, &trace_); }

  // Whether both are times of a trace, and the durations so far fit in one. Otherwise the row is to be left out, and is
  // counted.
  bool TakeTime(int64_t begin_ns, int64_t duration_ns);

  // A row named before it is known. Finish removes it, and references to it, if it stays unknown.
  uint32_t NewRequest();
  uint32_t NewBatch();
  void Know(uint32_t request, const model::RequestRow& row) { trace_.requests[request] = row; }
  void KnowBatch(uint32_t batch, const model::BatchRow& row) { trace_.batches[batch] = row; }

  uint32_t Thread(int64_t tid, std::string_view name);
  uint32_t Device(uint32_t ordinal, std::string_view name);
  uint32_t Stream(const model::StreamRow& row);
  uint32_t Site(SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args) {
    return sites_.Of(kind, name, args);
  }
  // The rows' times must have been taken.
  void AddEvent(uint32_t thread, uint32_t site, int64_t begin_ns, int64_t duration_ns, uint32_t request, uint32_t batch,
                const std::vector<ChromeValue>& args);
  // A wait: the name of its kind (WaitKindName), and what it was for. `kind` "": not recorded.
  struct Wait {
    std::string_view kind, resource;
    uint64_t owner_thread = 0, owner_request = 0, spurious = 0;
  };
  void AddWait(uint32_t thread, int64_t begin_ns, int64_t duration_ns, uint32_t request, uint32_t batch,
               const Wait& wait);
  struct Call {
    int64_t begin_ns, duration_ns;
    uint32_t thread, request, batch;
    std::string_view name;
    uint64_t id;  // by which GPU work names it; 0: it has none
    uint32_t stream = model::kNone, device = model::kNone;
  };
  void AddCall(const Call& call);
  // Another id of the call added last.
  void NameCall(uint64_t id) { calls_.emplace_back(id, trace_.calls.size() - 1); }
  // The duration of a row that began at `begin_ns` and ends here; 0 if the end is not after it.
  int64_t Ended(int64_t begin_ns, int64_t end_ns);
  struct Work {
    int64_t begin_ns, duration_ns;
    GpuKind kind;
    uint32_t stream;
    std::string_view name, scope_path;
    uint64_t call;  // its id; 0: none
    bool has_shape;
    model::KernelShape shape;
    uint64_t bytes;
    uint32_t graph, node;
  };
  void AddWork(const Work& work);

  // Sorts and connects the rows. The trace's window and clock must be set. kInvalidArgument if rows contradict each
  // other: Pitot did not write them.
  Status Finish(bool is_damaged);

  uint64_t times_out_of_range() const { return times_out_of_range_; }

 private:
  void DropUnknown();
  void FindCalls();

  model::Trace& trace_;
  Sites sites_;
  Shapes shapes_;
  std::vector<std::pair<uint64_t, uint32_t>> calls_;     // ids and rows
  std::vector<std::pair<uint64_t, uint32_t>> of_calls_;  // ids of calls and rows of their GPU work
  int64_t total_ns_ = 0;
  uint64_t times_out_of_range_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_OWN_ROWS_H_
