// SPDX-License-Identifier: Apache-2.0
//
// Control: starts and stops the one recorder of the process, and tells it what to watch for.
//
//   pitot::Options options;
//   options.incident_directory = "/var/lib/myserver/incidents";
//   auto recorder = pitot::Recorder::Start(options);
//   recorder.Add(pitot::MakeLatencyTrigger({.route = "/classify", .above_ms = 50}));
#ifndef PITOT_RECORDER_H_
#define PITOT_RECORDER_H_

#include <memory>

#include "pitot/depth.h"
#include "pitot/export.h"
#include "pitot/extend/collector.h"
#include "pitot/extend/judge.h"
#include "pitot/extend/serializer.h"
#include "pitot/extend/trigger.h"
#include "pitot/hooks.h"
#include "pitot/options.h"
#include "pitot/stats.h"
#include "pitot/status.h"

namespace pitot::session {
class Session;
}

PITOT_NAMESPACE_BEGIN

// The version of the linked library, "0.1.0".
PITOT_EXPORT const char* Version() noexcept;

// A handle. Movable; the functions may be called from any thread. Every failure leaves a server that runs unrecorded.
class PITOT_EXPORT Recorder {
 public:
  // Not running: status() is kNotRunning.
  Recorder() noexcept;
  // Starts the recorder of this process: maps nothing but what it needs, starts two threads (the first collector brings
  // a third), opens the gate. Call it early in main; in a server that forks workers, in each worker. Errors (in
  // status()): kInvalidArgument names the wrong field; kAlreadyRunning (also another copy of the library);
  // kResourceExhausted; kUnavailable; kDisabled when the environment says PITOT_OFF=1. Cost: about 1 ms.
  static Recorder Start(const Options& options) noexcept;
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  // Stops.
  ~Recorder();

  // Ok while it records; else why it does not.
  Status status() const noexcept;

  // Adds a trigger or a serializer of incidents' files, for good. trace.pftrace, dump.pitot and report.txt need no Add;
  // a serializer with the name of a file that is there replaces it. What goes wrong is also said through Options::log.
  Status Add(std::unique_ptr<Trigger> trigger) noexcept;
  Status Add(std::unique_ptr<Serializer> serializer) noexcept;
  // Adds a collector and starts it, for good; Stop stops it. Errors: what its Start says.
  Status Add(std::unique_ptr<Collector> collector) noexcept;
  // Has incidents judged from now on: by pitot/analyze/judge.h, say. One at a time; another takes its place.
  Status Add(std::unique_ptr<Judge> judge) noexcept;
  Status SetHooks(const Hooks& hooks) noexcept;

  // How deep to record from now on, in place of Options::depth. Collectors have been told when this
  // returns; a CUPTI that does not answer does what was asked when it does.
  // Threads: any; not within a callback of CUPTI's. Errors: kNotRunning; kInvalidArgument: no depth. Cost: some 100 us
  // (H100), 2 s at most where CUPTI does not answer (32 s at its first call, CuptiOptions::attach_at_start).
  Status SetDepth(Depth depth) noexcept;
  // Hands CUPTI, which one profiler of a process can use at a time, to another, and takes it back. (PyTorch's profiler
  // gets it without being asked; what one takes that cannot be seen to profile ResumeCupti takes back.)
  // Without a collector that has it both do nothing.
  // Threads: any; not within a callback of CUPTI's. Errors: kNotRunning; kUnavailable: CUPTI does not answer, and what
  // was asked is done when it does; of ResumeCupti also: somebody else still has it. Cost: waits for the thread that
  // calls CUPTI, less than a ms to some 20 ms, 2 s at most (as SetDepth at its first call).
  Status PauseCupti() noexcept;
  Status ResumeCupti() noexcept;

  // Asks for an incident now. Errors: kNotRunning; kResourceExhausted (budget; cause "manual").
  Status Trigger(const char* reason) noexcept;
  // Waits until every incident asked for before the call is on disk and judged (or failed), at most `timeout_ms`.
  // Errors: kNotRunning; kUnavailable when the time was up or the recorder was stopped meanwhile.
  Status Flush(uint32_t timeout_ms) noexcept;

  // After Stop: as they were then. Of a recorder that never ran, or in the child of a fork: zeros and unknowns.
  pitot::Stats Stats() const noexcept;

  // Stops recording and gives back memory and threads. An incident being written or judged is finished (at most
  // `timeout_ms`; then one being written is cut off and left unnamed, one being judged stays without a verdict); one
  // that waits for its post window is written with what there is; those that wait for a verdict get none, and say so. A
  // trigger, serializer, judge, hook or collector that is being called is waited for, up to two seconds more, then left
  // alone.
  // Idempotent.
  void Stop(uint32_t timeout_ms = 5000) noexcept;

 private:
  explicit Recorder(Status status) noexcept;
  std::shared_ptr<session::Session> session_;
  Status status_;
};

PITOT_NAMESPACE_END

#endif  // PITOT_RECORDER_H_
