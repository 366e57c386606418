// SPDX-License-Identifier: Apache-2.0
//
// Limits the incidents of a cause: a fixed number per hour, refilled evenly.
#ifndef PITOT_LIB_SESSION_INCIDENT_BUDGET_H_
#define PITOT_LIB_SESSION_INCIDENT_BUDGET_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

namespace pitot::session {

// A token bucket for each cause. Not thread-safe.
class IncidentBudget {
 public:
  explicit IncidentBudget(uint32_t per_hour) : per_hour_(per_hour) {}

  enum class Answer : uint8_t { kTaken, kRefused, kRefusedAgain };
  // Takes one of `cause`'s incidents, if any is left at `now_ns`. Causes beyond the first 256 share one bucket.
  Answer Take(const std::string& cause, int64_t now_ns) {
    Bucket& bucket = buckets_[NameOf(cause)];
    if (!bucket.used) bucket = {true, false, static_cast<double>(per_hour_), now_ns};
    bucket.left = Left(bucket, now_ns);
    bucket.at_ns = now_ns;
    if (bucket.left < 1) return std::exchange(bucket.refused, true) ? Answer::kRefusedAgain : Answer::kRefused;
    bucket.refused = false;
    bucket.left -= 1;
    return Answer::kTaken;
  }
  // Whether Take would succeed.
  bool Has(const std::string& cause, int64_t now_ns) const {
    const auto at = buckets_.find(NameOf(cause));
    return at == buckets_.end() || Left(at->second, now_ns) >= 1;
  }

 private:
  struct Bucket {
    bool used = false;
    bool refused = false;  // at the last call
    double left = 0;
    int64_t at_ns = 0;
  };
  std::string NameOf(const std::string& cause) const {
    constexpr size_t kMaxCauses = 256;
    return buckets_.contains(cause) || buckets_.size() < kMaxCauses ? cause : std::string();
  }
  double Left(const Bucket& bucket, int64_t now_ns) const {
    constexpr double kHourNs = 3600e9;
    const double earned = static_cast<double>(now_ns - bucket.at_ns) / kHourNs * per_hour_;
    return std::min(bucket.left + earned, static_cast<double>(per_hour_));
  }
  uint32_t per_hour_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_BUDGET_H_
