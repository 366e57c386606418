// SPDX-License-Identifier: Apache-2.0
//
// The counted part of a trace: everything, or the work for a request and for the batches it was in.
#ifndef PITOT_LIB_ANALYZE_TOP_SELECTION_H_
#define PITOT_LIB_ANALYZE_TOP_SELECTION_H_

#include <cstdint>
#include <vector>

#include "pitot/model/index.h"

namespace pitot::top {

class Selection {
 public:
  // `request` is a row, or kNone for everything.
  Selection(const model::Trace& trace, const model::RequestIndex& index, uint32_t request)
      : trace_(trace), request_(request), batches_(trace.batches.size()) {
    if (request == model::kNone) return;
    for (const uint32_t batch : index.Batches(request)) batches_[batch] = true;
  }
  uint32_t request() const { return request_; }
  // Whether work in this context is counted.
  bool Has(uint32_t request, uint32_t batch) const {
    return request_ == model::kNone || request == request_ || (batch != model::kNone && batches_[batch]);
  }
  bool HasEvent(uint32_t event) const { return Has(trace_.events.request[event], trace_.events.batch[event]); }
  // Work of a batch is the batch's, whichever request it was called for.
  bool HasGpu(uint32_t gpu_row) const {
    if (request_ == model::kNone) return true;
    const uint32_t call = trace_.gpu.call[gpu_row];
    if (call == model::kNone) return false;
    const uint32_t batch = trace_.calls.batch[call];
    return batch != model::kNone ? batches_[batch] : trace_.calls.request[call] == request_;
  }

 private:
  const model::Trace& trace_;
  uint32_t request_;
  std::vector<bool> batches_;  // the request was in these
};

}  // namespace pitot::top

#endif  // PITOT_LIB_ANALYZE_TOP_SELECTION_H_
