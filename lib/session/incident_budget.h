// SPDX-License-Identifier: Apache-2.0
//
// Limits the incidents of a cause: a fixed number per hour, refilled evenly. A quarter of it is a reserve for verdicts
// that were not there before. What an incident is about shows only in its verdict. So from the reserve it gets its
// place now and then, on trial, and gives it back if its verdict is known.
#ifndef PITOT_LIB_SESSION_INCIDENT_BUDGET_H_
#define PITOT_LIB_SESSION_INCIDENT_BUDGET_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

namespace pitot::session {

// A token bucket for each cause. Not thread-safe.
class IncidentBudget {
 public:
  explicit IncidentBudget(uint32_t per_hour) : per_hour_(per_hour), reserve_(std::floor(per_hour / 4.0)) {}

  enum class Reserve : uint8_t { kNone, kForNewVerdicts };
  enum class Answer : uint8_t { kTaken, kTakenOfReserve, kRefused, kRefusedAgain };
  // Takes one of `cause`'s incidents, if any is left at `now_ns`. Causes beyond the first 256 share one bucket.
  Answer Take(const std::string& cause, int64_t now_ns, Reserve reserve) {
    Bucket& bucket = buckets_[NameOf(cause)];
    if (!bucket.used) bucket = {true, false, static_cast<double>(per_hour_), now_ns};
    bucket.left = Left(bucket, now_ns);
    bucket.at_ns = now_ns;
    if (!MayTake(bucket, now_ns, reserve))
      return std::exchange(bucket.refused, true) ? Answer::kRefusedAgain : Answer::kRefused;
    const bool is_of_reserve = bucket.left < 1 + Reserved(reserve);
    if (!is_of_reserve) bucket.refused = false;  // trials are no reason to log the next refusal
    if (is_of_reserve) bucket.next_trial_ns = now_ns + TrialNs();
    bucket.left -= 1;
    return is_of_reserve ? Answer::kTakenOfReserve : Answer::kTaken;
  }
  // The verdict of an incident of the reserve. A known one gives its place back; after a new one the next may come at
  // once.
  void NoteVerdict(const std::string& cause, bool is_known) {
    Bucket& bucket = buckets_[NameOf(cause)];
    if (is_known)
      bucket.left = std::min(bucket.left + 1, static_cast<double>(per_hour_));
    else
      bucket.next_trial_ns = 0;
  }
  // Whether Take would succeed.
  bool Has(const std::string& cause, int64_t now_ns, Reserve reserve) const {
    const auto at = buckets_.find(NameOf(cause));
    if (at == buckets_.end()) return true;
    Bucket bucket = at->second;
    bucket.left = Left(bucket, now_ns);
    return MayTake(bucket, now_ns, reserve);
  }

 private:
  struct Bucket {
    bool used = false;
    bool refused = false;  // at the last call
    double left = 0;
    int64_t at_ns = 0;
    int64_t next_trial_ns = 0;
  };
  double Reserved(Reserve reserve) const { return reserve == Reserve::kNone ? 0 : reserve_; }
  bool MayTake(const Bucket& bucket, int64_t now_ns, Reserve reserve) const {
    return bucket.left >= 1 && (bucket.left >= 1 + Reserved(reserve) || now_ns >= bucket.next_trial_ns);
  }
  int64_t TrialNs() const { return 900'000'000'000 / per_hour_; }  // four times as often as the budget refills
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
  double reserve_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_BUDGET_H_
