// SPDX-License-Identifier: Apache-2.0
//
// Limits the incidents of a cause: a fixed number per hour, refilled evenly. Only the verdict shows what an incident is
// about. A known one folds, so it gives its place back, up to five times as many an hour as the budget has. A quarter
// of the budget is a reserve for new verdicts. From it incidents begin now and then, on trial.
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
  // Takes one of `cause`'s incidents, if any is left at `now_ns`. If not, it counts as refused, with `more_like_it`.
  // Causes beyond the first 256 share one bucket.
  Answer Take(const std::string& cause, int64_t now_ns, Reserve reserve, uint32_t more_like_it = 0) {
    Bucket& bucket = buckets_[NameOf(cause)];
    Refill(&bucket, now_ns);
    if (!MayTake(bucket, now_ns, reserve)) {
      bucket.refusals += uint64_t{1} + more_like_it;
      return std::exchange(bucket.refused, true) ? Answer::kRefusedAgain : Answer::kRefused;
    }
    const bool is_of_reserve = bucket.left < 1 + Reserved(reserve);
    if (!is_of_reserve) bucket.refused = false;  // trials are no reason to log the next refusal
    if (is_of_reserve) bucket.next_trial_ns = now_ns + TrialNs();
    bucket.left -= 1;
    return is_of_reserve ? Answer::kTakenOfReserve : Answer::kTaken;
  }
  enum class Verdict : uint8_t { kNew, kKnown };
  // The verdict of an incident that was `taken` so. A known one gives its place back. After a new one of the reserve,
  // the next may come at once.
  void NoteVerdict(const std::string& cause, Answer taken, Verdict verdict, int64_t now_ns) {
    Bucket& bucket = buckets_[NameOf(cause)];
    Refill(&bucket, now_ns);
    const bool is_of_reserve = taken == Answer::kTakenOfReserve;
    if (verdict == Verdict::kNew) {
      if (is_of_reserve) bucket.next_trial_ns = 0;
      return;
    }
    if (!is_of_reserve && bucket.returns < 1) return;  // trials are rare as it is
    if (!is_of_reserve) bucket.returns -= 1;
    bucket.left = std::min(bucket.left + 1, static_cast<double>(per_hour_));
  }
  // Counts events of the cause that neither began nor joined an incident of it.
  void AddRefusals(const std::string& cause, uint64_t count) { buckets_[NameOf(cause)].refusals += count; }
  // How many of the cause were refused since the last call; 0 if it shares a bucket.
  uint64_t TakeRefusals(const std::string& cause) {
    const auto at = buckets_.find(cause);
    return at != buckets_.end() ? std::exchange(at->second.refusals, 0) : 0;
  }
  // Whether Take would succeed.
  bool Has(const std::string& cause, int64_t now_ns, Reserve reserve) const {
    const auto at = buckets_.find(NameOf(cause));
    if (at == buckets_.end()) return true;
    Bucket bucket = at->second;
    Refill(&bucket, now_ns);
    return MayTake(bucket, now_ns, reserve);
  }

 private:
  struct Bucket {
    bool used = false;
    bool refused = false;  // at the last call
    double left = 0;
    double returns = 0;  // places that may yet be given back; all of an hour's at first, as those left
    int64_t at_ns = 0;
    int64_t next_trial_ns = 0;
    uint64_t refusals = 0;
  };
  static constexpr double kReturns = 5;  // of each place
  double Reserved(Reserve reserve) const { return reserve == Reserve::kNone ? 0 : reserve_; }
  bool MayTake(const Bucket& bucket, int64_t now_ns, Reserve reserve) const {
    return bucket.left >= 1 && (bucket.left >= 1 + Reserved(reserve) || now_ns >= bucket.next_trial_ns);
  }
  int64_t TrialNs() const { return 900'000'000'000 / per_hour_; }  // four times as often as the budget refills
  std::string NameOf(const std::string& cause) const {
    constexpr size_t kMaxCauses = 256;
    return buckets_.contains(cause) || buckets_.size() < kMaxCauses ? cause : std::string();
  }
  void Refill(Bucket* bucket, int64_t now_ns) const {
    constexpr double kHourNs = 3600e9;
    const double most = per_hour_;
    const double earned = bucket->used ? static_cast<double>(now_ns - bucket->at_ns) / kHourNs * most : most;
    bucket->used = true;
    bucket->at_ns = now_ns;
    bucket->left = std::min(bucket->left + earned, most);
    bucket->returns = std::min(bucket->returns + kReturns * earned, kReturns * most);
  }
  uint32_t per_hour_;
  double reserve_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_BUDGET_H_
