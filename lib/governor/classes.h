// SPDX-License-Identifier: Apache-2.0
//
// The usual durations of a class's works: their mean and their p99, from the recent past at any depth. They put works
// of all classes on one scale, so a block of time is three numbers however many classes it served.
#ifndef PITOT_LIB_GOVERNOR_CLASSES_H_
#define PITOT_LIB_GOVERNOR_CLASSES_H_

#include <stdint.h>

namespace pitot::governor {

// A work relative to its class. The mean and the p99 are those of the last Refresh, fixed while a round is measured:
// otherwise the scale would follow the effect it measures.
struct Relative {
  bool is_known;    // false: too few works of its class yet
  double duration;  // in means of its class, at most kLongest
  bool is_slow;     // beyond its class's p99
};

// Not thread-safe. Memory: 2.1 KiB a class, all of it here.
class Classes {
 public:
  static constexpr uint32_t kMost = 64;  // later ones share one more class
  // One work of a minute among works of 10 ms would outweigh whole blocks; both arms are cut alike.
  static constexpr double kLongest = 16;
  static constexpr uint32_t kSamples = 512;
  // Samples until a class's mean and p99 are used, one of them beyond, and until they are computed anew.
  static constexpr uint32_t kNews = 128;
  // Works of a class sampled a second, so that a burst is not taken for usual: 20 s are kept.
  static constexpr uint32_t kSampledPerSecond = 25;

  Relative Take(uint32_t work_class, int64_t duration_ns) noexcept;
  // Computes means and p99s anew, about once a second. Cost: 4 us, and 4 us for each class with kNews new samples.
  void Refresh() noexcept;

  // A long p99, ns: less than a twentieth of the last minute's works are of classes with a longer one. 0: none is
  // known.
  int64_t LongP99Ns() const noexcept { return long_p99_ns_; }
  // The steepness of the tail at the p99: beyond it the share of works falls as duration ^ -steepness. So an overhead
  // of 1 % there lets `steepness` percent more works pass (Hill, Annals of Statistics 1975). A steepness of 3 is heavy,
  // 9 a lognormal of sigma 0.3, and 300 has all works within some percent of each other.
  double TailSteepness() const noexcept;

 private:
  struct Class {
    uint32_t stride, skipped;  // every stride-th work is sampled
    uint32_t works;            // since the last Refresh
    uint32_t sample_count, next_sample, news;
    double mean_ns, p99_ns;  // as of the last Refresh; 0: unknown
    double recent;           // works, fading from Refresh to Refresh
    float samples_ns[kSamples];
  };

  Class& Find(uint32_t work_class) noexcept;
  static void Sample(Class* c, double ns) noexcept;
  void Summarize(Class* c) noexcept;
  int64_t LongestP99Ns() const noexcept;

  uint32_t class_count_ = 0;
  uint32_t ids_[kMost];            // apart from the rest, because they are searched for each work
  Class classes_[kMost + 1] = {};  // the last: all without room
  int64_t long_p99_ns_ = 0;
  float sorted_ns_[kSamples];
  double slow_count_ = 0, slow_logs_ = 0;  // works beyond their p99; sum of log(duration / p99)
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_CLASSES_H_
