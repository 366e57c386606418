// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/usual.h"

#include "analyze/blame/batch_work.h"
#include "base/quantile.h"

namespace pitot::blame {

namespace {

template <class Key, class Lengths> std::map<Key, Lengths> Medians(std::map<Key, std::vector<int64_t>>* lengths) {
  std::map<Key, Lengths> medians;
  for (auto& [key, ns] : *lengths) {
    const auto count = static_cast<uint32_t>(ns.size());
    medians[key] = {count, base::Median(std::move(ns))};
  }
  return medians;
}

}  // namespace

Usual::Usual(const model::Trace& trace) : trace_(trace) {
  std::map<Key, std::vector<int64_t>> batches, requests;
  for (const BatchTime& time : BatchWindows(trace)) {
    const model::BatchRow& row = trace.batches[batch_ns_.size()];
    batch_ns_.push_back(time.work_ns);
    if (time.work_ns > 0) batches[{row.executor, row.member_count}].push_back(time.work_ns);
  }
  for (const model::RequestRow& row : trace.requests) {
    if (row.begin_known && row.end_known && row.duration_ns > 0)
      requests[{row.route, row.size_bucket}].push_back(row.duration_ns);
  }
  batches_ = Medians<Key, Lengths>(&batches);
  requests_ = Medians<Key, Lengths>(&requests);
}

Usual::Lengths Usual::OfRequest(uint32_t request) const {
  return At(requests_, {trace_.requests[request].route, trace_.requests[request].size_bucket});
}

Usual::Lengths Usual::OfBatch(uint32_t batch) const {
  return At(batches_, {trace_.batches[batch].executor, trace_.batches[batch].member_count});
}

}  // namespace pitot::blame
