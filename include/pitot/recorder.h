// SPDX-License-Identifier: Apache-2.0
//
// Control: starts and stops the process's only recorder, and adds triggers, collectors and outputs to it.
//
//   pitot::Options options;
//   options.incident_directory = "/var/lib/myserver/incidents";
//   auto recorder = pitot::Recorder::Start(options);
//   pitot::LatencyTriggerOptions slow;
//   slow.route = "/classify";
//   slow.above_ms = 50;
//   recorder.Add(pitot::MakeLatencyTrigger(slow));
#ifndef PITOT_RECORDER_H_
#define PITOT_RECORDER_H_

#include <memory>

#include "pitot/depth.h"
#include "pitot/export.h"
#include "pitot/extend/collector.h"
#include "pitot/extend/judge.h"
#include "pitot/extend/serializer.h"
#include "pitot/extend/trigger.h"
#include "pitot/health.h"
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

// A movable handle; its functions may be called from any thread. On any failure the server runs on, unrecorded.
class PITOT_EXPORT Recorder {
 public:
  // Not running: status() is kNotRunning.
  Recorder() noexcept;
  // Starts the recorder of this process. It maps only the memory it needs, starts three threads (the first collector
  // adds a fourth, handle_ends one, and collectors have their own), and enables recording. Call it early in main; in a
  // server that forks workers, in each worker.
  // Errors: status() is kInvalidArgument, which names the wrong field; kAlreadyRunning (also for another copy of the
  //   library); kResourceExhausted; kUnavailable; kDisabled if the environment says PITOT_OFF=1.
  // Cost: 2 ms, and 4 with a black box (docs/lab/black_box.md).
  static Recorder Start(const Options& options) noexcept;
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  // Stops.
  ~Recorder();

  // Ok while it records; otherwise the reason.
  Status status() const noexcept;

  // Adds a trigger, or a serializer for incidents' files; they stay until Stop. dump.pitot and report.txt
  // need no Add, nor trace.pftrace with Options::perfetto_file; a serializer with the name of an existing file replaces
  // it. Errors are also sent to Options::log.
  Status Add(std::unique_ptr<Trigger> trigger) noexcept;
  Status Add(std::unique_ptr<Serializer> serializer) noexcept;
  // Adds a collector and starts it; Stop stops it.
  // Errors: those of its Start.
  Status Add(std::unique_ptr<Collector> collector) noexcept;
  // Has incidents judged from now on, for example by pitot/analyze/judge.h. There is one judge; another replaces it.
  Status Add(std::unique_ptr<Judge> judge) noexcept;
  Status SetHooks(const Hooks& hooks) noexcept;

  // Sets how deep to record from now on, in place of Options::depth. Collectors have been told when this returns. A
  // hanging CUPTI does as requested once it answers.
  // Threads: any; not in a callback of CUPTI.
  // Errors: kNotRunning; kInvalidArgument: not a depth.
  // Cost: up to a few hundred us; 2 s at most if CUPTI does not answer (32 s at its first call,
  //   CuptiOptions::attach).
  Status SetDepth(Depth depth) noexcept;
  // Hands over what only one profiler of a process can use at a time, and takes it back. `collector` is the name of the
  // collector that holds it: "cupti" for CUPTI, which PyTorch's profiler gets without a call. Resume also takes it back
  // from a profiler that cannot be detected. Both do nothing if a collector of Pitot's was not added.
  // Threads: any; not in a callback of CUPTI.
  // Errors: kInvalidArgument: null; kNotFound: neither Pitot nor this recorder has a collector of this name;
  //   kNotRunning; kUnavailable: CUPTI does not answer, and does as requested once it
  //   answers; for Pause also: a GPU may still be held; for Resume also: another tool still has it.
  // Cost: waits for the thread that calls CUPTI, some ms to tens of ms, 2 s at most (as SetDepth at its first call).
  Status Pause(const char* collector) noexcept;
  Status Resume(const char* collector) noexcept;

  // Requests an incident now.
  // Errors: kNotRunning; kResourceExhausted (budget; cause "manual").
  Status Trigger(const char* reason) noexcept;
  // Waits until every incident requested before the call is on disk and judged (or failed), at most `timeout_ms`.
  // Errors: kNotRunning; kUnavailable if the time was up or the recorder was stopped meanwhile.
  Status Flush(uint32_t timeout_ms) noexcept;

  // After Stop: the values at that time. If the recorder never ran, or in the child of a fork: zeros and unknowns.
  pitot::Stats Stats() const noexcept;

  // Whether requests make progress, for a probe: answers by what open requests and their threads did last. A stage, a
  // token, an event in a request's context or in its batch's is progress; a wait is not. `stalled_after_ms` is longer
  // than the longest time that a healthy request spends without any; routes with short requests stall sooner. `pitot
  // health` and `pitot watch` answer the same from outside, also if this process cannot.
  // Cost: tens of us, and a few for each thread that works for a request or a batch. 10 ms more while a request is
  // without progress for 1.5 s.
  pitot::Health Health(uint32_t stalled_after_ms = 10'000) const noexcept;

  // Stops recording and frees memory and threads. An incident being written or judged is finished, within `timeout_ms`.
  // After that one being written is cut off and left unnamed, and one being judged stays without a verdict. An incident
  // that waits for its post window is written with the data so far. Incidents that wait for a verdict get none, and say
  // so. A running trigger, serializer, judge, hook or collector is waited for, up to two more seconds, then left
  // behind. Idempotent.
  void Stop(uint32_t timeout_ms = 5000) noexcept;

 private:
  explicit Recorder(Status status) noexcept;
  std::shared_ptr<session::Session> session_;
  Status status_;
};

PITOT_NAMESPACE_END

#endif  // PITOT_RECORDER_H_
