// SPDX-License-Identifier: Apache-2.0
//
// Open requests, the route table, and the interface through which finished requests reach the triggers.
#ifndef PITOT_LIB_TRACE_REQUESTS_H_
#define PITOT_LIB_TRACE_REQUESTS_H_

#include <atomic>
#include <cstdint>

#include "pitot/extend/trigger.h"
#include "pitot/request.h"
#include "trace/internal_sites.h"
#include "trace/rings.h"

namespace pitot::trace {

inline constexpr uint32_t kMaxRoutes = 64;
inline constexpr uint32_t kMaxLabelValues = 256;
inline constexpr uint32_t kMaxReasons = 256;

// Notified of requests, with the ticks of their arrival, or for a token of the mark before it, on the host's threads,
// concurrently. The session implements it.
class RequestObserver {
 public:
  virtual void OnFinish(const RequestView& request, uint64_t begin_ticks) noexcept = 0;
  virtual void OnTokens(const RequestView& request, uint64_t before_ticks, uint64_t gap_ns) noexcept = 0;
  // A batch has ended; `executor` is the index of its Name. Requests may be served without batches.
  virtual void OnBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept;
  // A request that is already late joins a batch.
  virtual void OnLateMember() noexcept;
  // Work began while a thread of Pitot may have been resting (rest.h).
  virtual void OnWork() noexcept;
  // The latency, ns, from which a request of this route is late; 0: never.
  virtual uint64_t LateAfterNs(const char* route) noexcept = 0;

 protected:
  ~RequestObserver() = default;
};

struct RequestCounts {
  uint64_t begun = 0, finished = 0, abandoned = 0, open = 0, refused = 0, labels_folded = 0, details_refused = 0;
};

// A copy of an open request: the words of internal_sites.h, and other fields.
struct OpenRequest {
  RecordWords words;
  uint64_t begin_ticks = 0;
  uint32_t begin_thread = 0;           // number
  uint64_t late_ticks = ~uint64_t{0};  // when it becomes late; ~0: never
  uint64_t token_gap_ns = 0;           // since its last token; 0: it has none
  uint64_t token_ticks = 0;            // its last token; 0: it has none
  uint64_t taken_ticks = 0;            // when a thread or a batch last took it; 0: never
  uint64_t batch = 0;                  // the last one that it joined; 0: none
  bool is_ending = false;              // Finish has begun; its record may not exist yet
  RequestView view;                    // `route` lives as long as the process
};

// Keeps a route separate from "(other)" for the life of the process. False if no place is left.
bool KeepRoute(const char* route) noexcept;

// The context during a step of a task (pitot/interpreter.h), on the calling thread; 0: none. After it the thread has
// the request from before the step, if that is still open. Most steps record nothing, and then their context is not
// recorded either.
void BeginStepContext(ThreadRing* ring, uint64_t request, uint64_t now) noexcept;
void EndStepContext(ThreadRing* ring, uint64_t now) noexcept;

// Makes room for `max_open` requests, in the black box if there is one and it has room. Call it before OpenRings. False
// if there is no memory.
bool OpenRequests(uint32_t max_open, Box* box = nullptr) noexcept;
void CloseRequests() noexcept;
void ForgetRequestsAfterFork() noexcept;

// Sets the observer. With null, the call returns when no thread is inside the former observer any more. It returns
// false if that took longer than `timeout_ns`; the former observer must then live for ever.
bool SetRequestObserver(RequestObserver* observer, uint64_t timeout_ns) noexcept;
// Asks the observer again, when its answers to LateAfterNs may have changed.
void RefreshLateness() noexcept;

// Calls `visit` for a consistent copy of each open request. A request that changes while being copied is tried again,
// then left out.
void VisitOpenRequests(void (*visit)(void* context, const OpenRequest& request), void* context) noexcept;

// The same for the table in another process's black box; without `view` and `token_gap_ns`. Each of its slots takes
// RequestSlotBytes.
void VisitRequestsIn(const void* table, uint64_t bytes, void (*visit)(void* context, const OpenRequest& request),
                     void* context) noexcept;
uint32_t RequestSlotBytes() noexcept;

RequestCounts CountRequests() noexcept;

// How the requests of a route ended.
struct RouteProgress {
  uint32_t name = 0;        // index of the route's name; 0: those that became "(other)"
  uint64_t ok_ticks = 0;    // when the last one ended well; 0: there was none
  uint64_t longest_ns = 0;  // what these took lately, at most; 0: there were few
  // Those that failed since then: they timed out, failed, or were given up after a long wait. 0: there were few.
  uint64_t failing_ticks = 0;  // the last stage or token of the first of them, or its beginning
  uint64_t failed_ticks = 0;   // when the last of them ended
  uint32_t failed = 0;         // how many
};
// `position` is below kMaxRoutes. Threads: any, lock-free.
RouteProgress ProgressOfRoute(uint32_t position) noexcept;
uint64_t CountOpenBatches() noexcept;

// The host's work, for those who rest while there is none. `begun` changes with each request, batch and asynchronous
// scope, and whenever a thread takes another process's request. `open` is the number of open requests and batches.
struct Activity {
  uint64_t begun = 0, open = 0;
};
// Threads: any, lock-free.
Activity CountActivity() noexcept;

uint64_t RequestBytes() noexcept;  // memory of the table

// Makes ids from here on follow from `seed`, for tests that need the same ones each time.
void SeedIdsForTesting(uint64_t seed) noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_REQUESTS_H_
