// SPDX-License-Identifier: Apache-2.0
//
// A server in virtual time with a known overhead at each depth, driven by a governor. Requests arrive whatever the
// server does (open loop), wait for their executor, and are served in batches. Batches of several executors overlap and
// slow each other down; load and durations drift.
#ifndef PITOT_TEST_GOVERNOR_SIMULATED_SERVER_H_
#define PITOT_TEST_GOVERNOR_SIMULATED_SERVER_H_

#include <cstdint>
#include <random>
#include <vector>

#include "governor/governor.h"

namespace simulated {

using pitot::Depth;
using pitot::governor::kDepths;

inline constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000, kTick = 10 * kMs;

// The effect on a batch of recording at a depth.
struct Cost {
  double factor = 1;       // of all of its duration
  double extra_ms = 0;     // once a batch
  double tail_factor = 1;  // of one batch in fifty only
};

struct Load {
  uint32_t executors = 4;
  double requests_per_second = 300;  // of each executor
  double batch_ms = 3;               // of a batch of one; a batch of eight takes twice as long
  double sigma = 0.3;                // of the lognormal noise of a batch's duration
  double contention = 0.05;          // slower by this for each other running executor
  double burst = 1;                  // how many times the requests in one twentieth of the time
  double drift = 0;                  // of load and of durations, up and down in ten minutes
  double stall_after_switch = 1;     // factor in the 20 ms after a change of depth, to a deeper or a shallower one
  Cost cost[kDepths];
};

// The same factor for all depths except scopes, or one each.
Load WithOverhead(Load load, double graphs, double kernels, double ops);

class Server {
 public:
  Server(const Load& load, uint64_t seed);

  // Serves for that many seconds, ticking the governor.
  void Run(pitot::governor::Governor* governor, double seconds);
  void set_costs(const Load& load) { std::copy(load.cost, load.cost + kDepths, load_.cost); }
  // A batch longer than that, relative to its usual duration, arms the governor for that time; 0: none does.
  void set_arms_beyond(double times, int64_t for_ns) { arms_beyond_ = times, arms_for_ns_ = for_ns; }
  void set_requests_per_second(double requests) { load_.requests_per_second = requests; }

  int64_t now_ns() const { return now_ns_; }
  uint64_t works() const { return works_; }
  // The exact cost of recording so far: every batch against itself unrecorded.
  double MeanOverhead() const { return actual_ / bare_ - 1; }
  double P99Overhead() const;
  // Counts from this call on.
  void ForgetOverhead();

 private:
  struct Executor {
    bool is_running = false;
    int64_t begin_ns = 0;
    double left_ns = 0;  // as if unrecorded
    double bare_ns = 0, usual_ns = 0;
    bool is_of_tail = false;
    uint32_t work_class = 0;
    uint32_t waiting = 0;
    double next_arrival_ns = 0;
  };

  void Serve(uint32_t index, int64_t until_ns, double others, double stall, pitot::governor::Governor* governor);
  void Start(uint32_t index, double now_ns, double others);
  void Finish(const Executor& executor, double end_ns, pitot::governor::Governor* governor);
  double Gap();
  double Wave(double amplitude) const;

  Load load_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::vector<Executor> executors_;
  int64_t now_ns_ = kSecond;
  int64_t switched_ns_ = 0;
  bool is_burst_ = false;
  Depth depth_ = Depth::kScopes;
  double arms_beyond_ = 0;
  int64_t arms_for_ns_ = 0;
  bool arms_now_ = false;

  uint64_t works_ = 0;
  double actual_ = 0, bare_ = 0;
  std::vector<uint32_t> actual_counts_, bare_counts_;
};

}  // namespace simulated

#endif  // PITOT_TEST_GOVERNOR_SIMULATED_SERVER_H_
