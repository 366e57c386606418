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
  Status Finish(TraceReport* report);

 private:
  // What a line is: a thread or a stream, by its row.
  struct Line {
    bool is_requests = false;
    uint32_t row = model::kNone;
  };

  void TakeDevice(const XSpacePlaneHead& head, uint32_t plane);
  void TakeWork(const ChromeEvent& event, uint32_t stream);
  void TakeScope(const ChromeEvent& event, uint32_t thread, uint32_t request, uint32_t batch);
  void TakeCall(const ChromeEvent& event, uint32_t thread, uint32_t request, uint32_t batch);
  uint32_t RequestOf(std::string_view id);
  uint32_t BatchOf(std::string_view id);

  model::Trace& trace_;
  OwnRows rows_;
  std::vector<std::unordered_map<int64_t, Line>> lines_;  // by plane
  std::unordered_map<std::string, uint32_t> requests_, batches_;
  int64_t unix_offset_ns_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_XSPACE_OWN_H_
