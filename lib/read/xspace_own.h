// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace of an XSpace by Pitot (lib/serialize/xspace.cc).
#ifndef PITOT_LIB_READ_XSPACE_OWN_H_
#define PITOT_LIB_READ_XSPACE_OWN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/read/trace.h"
#include "read/own_rows.h"
#include "read/xla_details.h"
#include "read/xspace_file.h"

namespace pitot::read {

class OwnXSpaceTarget final : public XSpaceTarget {
 public:
  explicit OwnXSpaceTarget(model::Trace* trace) : trace_(*trace), rows_(trace) {}

  // Whether Pitot wrote the planes.
  static bool Knows(const std::vector<XSpacePlaneHead>& planes);
  void TakeHeads(const std::vector<XSpacePlaneHead>& planes) override;
  void Take(size_t plane, int64_t line, const ChromeEvent& event) override;
  void Skip() override {}
  bool EndsWithHostName() const override { return has_end_mark_; }
  Status Finish(TraceReport* report);

 private:
  // What a line is: a thread or a stream, by its row.
  struct Line {
    bool is_requests = false;  // or their stays in queues
    uint32_t row = model::kNone;
  };

  // An event's time, the row of its line, and what it belongs to.
  struct Row {
    int64_t begin_ns, duration_ns;
    uint32_t of, request, batch;
  };
  struct Rows {
    std::unordered_map<uint64_t, uint32_t> by_id;
    uint64_t last_id = 0;  // mostly that of the next event, too
    uint32_t last_row = model::kNone;
  };

  void TakeDevice(const XSpacePlaneHead& head, uint32_t plane);
  void TakeRequest(const ChromeEvent& event, const Row& row);
  void TakeStay(const ChromeEvent& event, const Row& row);  // in a queue
  void TakeBatch(const ChromeEvent& event, const Row& row);
  void TakeScope(const ChromeEvent& event, const Row& row);
  void TakeWork(const ChromeEvent& event, const Row& row);
  // The row of a request or batch; kNone for "".
  uint32_t RowOf(std::string_view id, Rows* rows, uint32_t (OwnRows::*make)());
  uint32_t ThreadOf(const ChromeEvent& event, std::string_view key) const;

  model::Trace& trace_;
  OwnRows rows_;
  std::vector<std::unordered_map<int64_t, Line>> lines_;  // by plane
  Rows requests_, batches_;
  XlaLaunches launches_;
  int64_t unix_offset_ns_ = 0;
  bool has_end_mark_ = false;
  bool has_depths_ = false, has_losses_ = false;  // older files lack them
  std::string losses_, gpu_losses_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_XSPACE_OWN_H_
