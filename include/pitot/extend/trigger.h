// SPDX-License-Identifier: Apache-2.0
//
// Extend: a trigger decides when to make an incident. The built-in ones (pitot/trigger/) use this interface.
#ifndef PITOT_EXTEND_TRIGGER_H_
#define PITOT_EXTEND_TRIGGER_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/outcome.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// A finished or open request, as triggers see it. Times in ns; strings live for the call.
struct RequestView {
  uint64_t id;
  const char* route;
  uint32_t route_index;  // below 64, stable for the process
  uint32_t size_bucket;  // of the first size: 1 + floor(log2) clamped to 1..63; 0 without a size
  Outcome outcome;       // meaningless while open
  uint64_t latency_ns;   // so far, while open
  uint64_t deadline_ns;  // 0: none
  uint32_t output_tokens;
  uint64_t first_token_ns;  // after arrival; 0: none yet
  uint64_t max_token_gap_ns;
};

// A trigger's message when it fires.
struct Firing {
  uint64_t request = 0;         // id; 0: no particular request
  const char* cause = "";       // short, stable, names the budget: "latency /classify"; copied
  const char* detail = "";      // a sentence for the report; copied
  uint32_t pre_window_ms = 0;   // 0: the recorder's
  uint32_t post_window_ms = 0;  // 0: the recorder's
  bool joins_only = false;      // joins a pending incident, but begins none: the trigger cools down
  uint32_t more_like_it = 0;    // events like it since the last firing: the trigger cooled down, or there was no room
};

// An open scope, as triggers see it.
struct OpenScopeView {
  const char* name;  // lives for the call
  uint32_t thread;   // Pitot's number for it
  uint64_t open_ns;  // so far
  bool is_wait;      // it is a wait (PITOT_WAIT, Mutex, ConditionVariable); idle threads wait for long
};

// Takes firings. Fire never blocks and never allocates; it returns false if the queue of firings is full. (Budgets are
// applied later.)
class FiringSink {
 public:
  virtual bool Fire(const Firing& firing) noexcept = 0;
  // Whether an incident is pending, or about to be. A trigger that cools down asks before it fires with `joins_only`.
  virtual bool MayJoin() noexcept { return false; }

 protected:
  ~FiringSink() = default;
};

class PITOT_EXPORT Trigger {
 public:
  virtual ~Trigger();
  // Whether its options make sense. Recorder::Add asks, and returns the error.
  virtual Status Check() const noexcept;
  // The only route it watches, kept separate from "(other)" from then on; null: all. Lives as long as the trigger.
  virtual const char* Route() const noexcept;
  // A request finished. On the host's thread, concurrently from many: no locks, no allocations, and tens of ns unless
  // it fires.
  virtual void OnFinish(const RequestView& request, FiringSink& sink) noexcept;
  // A request marked output tokens; rules as for OnFinish. `gap_ns` is the time since the previous mark (since arrival
  // for the first).
  virtual void OnTokens(const RequestView& request, uint64_t gap_ns, FiringSink& sink) noexcept;
  // Whether it needs OnTokens. If no request puts out tokens then, the recorder says so once.
  virtual bool WatchesTokens() const noexcept;
  // Whether to call OnOpenRequest.
  virtual bool WatchesOpenRequests() const noexcept;
  // Called every tick (10 ms) for each open request. On Pitot's own thread.
  virtual void OnOpenRequest(const RequestView& request, FiringSink& sink) noexcept;
  // Whether to call OnOpenScope.
  virtual bool WatchesOpenScopes() const noexcept;
  // Called every tick for each scope and wait open for at least 10 ms. Less often while no request or batch is open:
  // see MakeStallTrigger. On Pitot's own thread.
  virtual void OnOpenScope(const OpenScopeView& scope, FiringSink& sink) noexcept;
  // The latency from which a running request of `route` counts as late (Request::IsLate), ns; 0: never.
  virtual uint64_t LateAfterNs(const char* route) noexcept;
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_TRIGGER_H_
