// SPDX-License-Identifier: Apache-2.0
//
// How large the requests of each route are, and how long they take, whatever their size.
#ifndef PITOT_LIB_ANALYZE_BLAME_ROUTE_SIZES_H_
#define PITOT_LIB_ANALYZE_BLAME_ROUTE_SIZES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

// Lengths of requests, or of times to first tokens.
class SizedLengths {
 public:
  void Add(uint32_t size_bucket, double size, int64_t ns);
  void Sort();

  uint32_t count() const { return static_cast<uint32_t>(lengths_ns_.size()); }
  double median_size() const { return median_size_; }
  int64_t median_ns() const { return median_ns_; }
  // The share that took at most `ns`.
  double Percentile(int64_t ns) const;
  // Those of one size bucket.
  struct Like {
    uint32_t count = 0;
    int64_t median_ns = 0;
  };
  Like OfBucket(uint32_t size_bucket) const;

 private:
  std::vector<int64_t> lengths_ns_;  // ascending after Sort
  std::vector<double> sizes_;        // until Sort
  std::map<uint32_t, std::vector<int64_t>> of_bucket_ns_;
  std::map<uint32_t, Like> of_bucket_;
  double median_size_ = 0;
  int64_t median_ns_ = 0;
};

// Requests that ended well, by route and by the name of their first size. Those without a size are left out.
class RouteSizes {
 public:
  // O(n log n) in the requests.
  explicit RouteSizes(const model::Trace& trace);

  // Null: the request has no size.
  const SizedLengths* OfRequest(uint32_t request) const { return At(requests_, request); }
  const SizedLengths* OfFirstToken(uint32_t request) const { return At(first_tokens_, request); }

 private:
  using Map = std::map<std::pair<model::StringId, model::StringId>, SizedLengths>;
  const SizedLengths* At(const Map& all, uint32_t request) const;

  const model::Trace& trace_;
  Map requests_, first_tokens_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_ROUTE_SIZES_H_
