// SPDX-License-Identifier: Apache-2.0
//
// The trace of a small server: requests are decoded, wait in a queue, and are served in batches of one. One of them
// waits behind a long batch of another route, and its batch allocates memory.
#ifndef PITOT_TEST_ANALYZE_SMALL_SERVER_H_
#define PITOT_TEST_ANALYZE_SMALL_SERVER_H_

#include <cstdint>
#include <string>

#include "pitot/request.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace small_server {

using pitot::ArgType;
using pitot::SiteKind;
using pitot::model::kNone;
using pitot::model::Trace;

inline constexpr int64_t kUs = 1000, kBegin = 1'000'000 * kUs;
inline constexpr uint64_t kSlow = 0x8f0c, kOther = 0x77aa;

class Server {
 public:
  // The window begins that much after kBegin.
  explicit Server(int64_t after_us = 0) : at_us_(after_us + 1'000) {
    Trace& trace = maker_.trace;
    trace.window_begin_ns = kBegin + after_us * kUs;
    trace.clock = {kBegin, 1795228277123456789, kBegin, true, 2.1, 40};
    trace.pid = 4242;
    http_ = maker_.Thread("http-1");
    other_ = maker_.Thread("http-2");
    executor_ = maker_.Thread("executor");
    decode_ = maker_.Site(SiteKind::kScope, "decode");
    forward_ = maker_.Site(SiteKind::kScope, "forward");
    respond_ = maker_.Site(SiteKind::kScope, "respond");
    wait_ = maker_.WaitSite();
  }
  // 4 ms of decoding, 10 ms of the model and 1 ms of the answer, each a bit more or less.
  void Normal(int i) {
    const int64_t jitter = (i * 37 % 101) * 3;
    Serve(0x1000 + static_cast<uint64_t>(i), "/classify", http_, 4'000 + jitter,
          10'000 + slower_us_ + (i * 53 % 97) * 5, 1'000);
  }
  // From now on the model takes that much longer.
  void SlowDown(int64_t by_us) { slower_us_ = by_us; }
  // Returns when its batch began.
  int64_t Serve(uint64_t id, const char* route, uint32_t thread, int64_t decode_us, int64_t forward_us,
                int64_t respond_us, int64_t queued_us = 0) {
    const int64_t end_us = at_us_ + decode_us + queued_us + forward_us + respond_us;
    const uint32_t request = maker_.Request(id, route, At(at_us_), (end_us - at_us_) * kUs);
    maker_.trace.requests[request].begin_thread = thread;
    maker_.trace.requests[request].end_thread = executor_;
    const int64_t queue_us = at_us_ + decode_us, take_us = queue_us + queued_us;
    const uint32_t batch =
        maker_.Batch(id + 1, route[1] == 'c' ? "resnet50" : "unet", executor_, At(take_us), (end_us - take_us) * kUs);
    maker_.Member(batch, request, At(take_us));
    maker_.Event(thread, decode_, At(at_us_), decode_us * kUs, {request, kNone});
    maker_.trace.handoffs.push_back(
        {request, maker_.String("images"), thread, executor_, At(queue_us), At(take_us), batch});
    maker_.Event(executor_, forward_, At(take_us), forward_us * kUs, {kNone, batch});
    maker_.Event(executor_, respond_, At(take_us + forward_us), respond_us * kUs, {kNone, batch});
    last_ = batch;
    at_us_ = end_us + 100;
    return take_us;
  }
  // While the slow request's batch allocates, two threads in turn begin to wait for a lock of its thread.
  void KeepWaiting(const char* lock, int waits) { lock_ = lock, waits_ = waits; }
  // The long batch of another request, and the slow request behind it.
  void Slow() {
    const int64_t begin_us = at_us_ + 5'000;
    Serve(kOther, "/segment", other_, 2'000, 20'000, 500);
    const int64_t free_us = at_us_ - 100;
    at_us_ = begin_us;
    const int64_t take_us = Serve(kSlow, "/classify", http_, 4'000, 15'000, 1'000, free_us - begin_us - 4'000);
    maker_.Call(executor_, "cudaMalloc", At(take_us + 1'000), 5'000 * kUs, {kNone, last_});
    for (int i = 0; i < waits_; ++i)
      maker_.Event(i % 2 == 0 ? other_ : http_, wait_, At(take_us + 1'200 + 1'000 * i), 500 * kUs, {},
                   {static_cast<uint64_t>(pitot::WaitKind::kLock), maker_.String(lock_),
                    maker_.trace.threads[executor_].number, 0});
  }
  Trace Make(int normal, bool has_fired = true) {
    for (int i = 0; i < normal; ++i) Normal(i);
    Slow();
    Trace& trace = maker_.trace;
    trace.window_end_ns = At(at_us_ + 1'000);
    if (has_fired) trace.firings.push_back({At(at_us_), kSlow, maker_.String("latency /classify"), 0});
    return maker_.Finish();
  }

 private:
  static int64_t At(int64_t us) { return kBegin + us * kUs; }
  pitot::test::TraceMaker maker_;
  uint32_t http_, other_, executor_, decode_, forward_, respond_, wait_, last_ = kNone;
  int64_t at_us_, slower_us_ = 0;
  const char* lock_ = "";
  int waits_ = 0;
};

}  // namespace small_server

#endif  // PITOT_TEST_ANALYZE_SMALL_SERVER_H_
