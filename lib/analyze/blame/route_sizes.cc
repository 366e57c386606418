// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/route_sizes.h"

#include <algorithm>
#include <cmath>

#include "base/quantile.h"

namespace pitot::blame {

namespace {

bool HasSize(const model::RequestRow& row) {
  return !row.sizes.empty() && std::isfinite(row.sizes[0].value) && row.sizes[0].value > 0;
}

}  // namespace

void SizedLengths::Add(uint32_t size_bucket, double size, int64_t ns) {
  lengths_ns_.push_back(ns);
  sizes_.push_back(size);
  of_bucket_ns_[size_bucket].push_back(ns);
}

void SizedLengths::Sort() {
  std::sort(lengths_ns_.begin(), lengths_ns_.end());
  median_ns_ = base::Median(lengths_ns_);
  median_size_ = base::Median(std::move(sizes_));
  for (auto& [bucket, lengths_ns] : of_bucket_ns_) {
    const auto count = static_cast<uint32_t>(lengths_ns.size());
    of_bucket_[bucket] = {count, base::Median(std::move(lengths_ns))};
  }
  sizes_.clear();
  of_bucket_ns_.clear();
}

double SizedLengths::Percentile(int64_t ns) const { return base::ShareUpTo(lengths_ns_, ns); }

SizedLengths::Like SizedLengths::OfBucket(uint32_t size_bucket) const {
  const auto found = of_bucket_.find(size_bucket);
  return found == of_bucket_.end() ? Like{} : found->second;
}

RouteSizes::RouteSizes(const model::Trace& trace) : trace_(trace) {
  for (const model::RequestRow& row : trace.requests) {
    if (!HasSize(row) || !row.begin_known || !row.end_known || row.outcome != Outcome::kOk || row.duration_ns <= 0)
      continue;
    const auto key = std::make_pair(row.route, row.sizes[0].name);
    requests_[key].Add(row.size_bucket, row.sizes[0].value, row.duration_ns);
    if (row.first_token_ns > 0) first_tokens_[key].Add(row.size_bucket, row.sizes[0].value, row.first_token_ns);
  }
  for (Map* const all : {&requests_, &first_tokens_}) {
    for (auto& [key, lengths] : *all) lengths.Sort();
  }
}

const SizedLengths* RouteSizes::At(const Map& all, uint32_t request) const {
  const model::RequestRow& row = trace_.requests[request];
  if (!HasSize(row)) return nullptr;
  const auto found = all.find({row.route, row.sizes[0].name});
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace pitot::blame
