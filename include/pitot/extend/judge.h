// SPDX-License-Identifier: Apache-2.0
//
// Extend: a judge explains why the request of an incident was slow, once the incident's dump is on disk. It learns
// what is normal from incidents and, if it asks for them, from samples taken between incidents. The built-in one
// (pitot/analyze/judge.h) uses this interface.
#ifndef PITOT_EXTEND_JUDGE_H_
#define PITOT_EXTEND_JUDGE_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/extend/serializer.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// The input of a judge for one call, and the receiver of its answers.
class PITOT_EXPORT Hearing {
 public:
  virtual const model::Trace& trace() const noexcept = 0;
  // True once the CPU budget is spent, the recorder stops, or findings must wait for a verdict: return then. Ask once
  // per millisecond of work. The call keeps the judge within the worker's share of the CPU.
  virtual bool IsOver() noexcept = 0;
  // Sets the text that report.txt opens with, for people; copied. A later text replaces it. Hooks receive it, too.
  virtual void OpenReport(const char* text) = 0;
  // Says what the verdict is, in words that are the same whenever the same happens: route, cause, whose; no ids. And
  // how bad it is, in ns beyond the usual. Incidents with the same signature fold: the first, the worst and the last
  // are kept. Copied. Without it, or with "", an incident is unlike any other.
  virtual void SetSignature(const char* signature, int64_t excess_ns);
  // Adds a file to the incident, or replaces the file of that name as a whole.
  // Errors: kUnavailable (the call is over, it is a sample, or incidents are not kept on disk), the serializer's
  //   errors, kResourceExhausted, kIoError.
  virtual Status AddFile(Serializer& serializer) = 0;
  // Says that learning from a sample is done, and what follows looks for its findings. These have half of the samples'
  // share of a CPU, and do not make samples shorter. False: that half is spent, so leave them out.
  virtual bool BeginFindings() noexcept;
  // Asked after SetSignature: whether to leave files other than the verdict's to AddFindings. True if the next incident
  // waits for its verdict, and this one is no worse than an incident before with the same signature. Never, if the
  // judge has no findings (JudgeNeeds).
  virtual bool CanFilesWait() noexcept;

 protected:
  ~Hearing() = default;
};

struct JudgeNeeds {
  uint32_t budget_ms = 2000;        // CPU time of one call
  uint32_t sample_every_ms = 0;     // shortest time between two samples; 0: no samples
  uint32_t sample_window_ms = 0;    // how far back a sample reaches
  uint32_t sample_permille = 5;     // samples' share of one CPU's time, half of it for findings; expensive ones come
                                    // less often
  uint32_t sample_bytes = 1 << 20;  // rings copied for a sample, at most; the newest events
  bool has_findings = false;        // whether to call AddFindings
};

// Called on Pitot's worker at idle priority, one call at a time; may allocate. Exceptions, errors, and calls that
// exceed their budget are noted in report.txt, logged and counted (Stats::verdicts_failed, findings_left_out); answers
// given by then stay.
// A call that does not return delays the incidents after it, but not Recorder::Stop.
class PITOT_EXPORT Judge {
 public:
  virtual ~Judge();
  // Used in messages: "why".
  virtual const char* Name() const noexcept = 0;
  // Tells how much it may remember, bytes: its part of Options::memory_budget_bytes. Its work on a trace is not counted
  // here. Does nothing by default. Called once, by Recorder::Add, before all others but Name.
  virtual void LimitMemory(uint64_t bytes) noexcept;
  // Called once, by Recorder::Add.
  virtual JudgeNeeds Needs() const noexcept = 0;
  // Judges an incident, and no more: the next ones wait for their verdicts.
  virtual Status Decide(Hearing& hearing) = 0;
  // Adds to the last incidents that were judged what is not the verdict, such as findings about the whole window, or a
  // page that Decide left out (Hearing::CanFilesWait): with the same trace, once no incident waits for its verdict. The
  // hearing is over when one does. Not called for all.
  virtual Status AddFindings(Hearing& hearing);
  // Learns from a sample: its trace has no firings.
  virtual Status Learn(Hearing& hearing);
  // Adds what it learned to an otherwise empty trace (Trace::norms). Each incident's dump has it, so that a tool gives
  // the same verdict. Asked by Recorder::Add, and again after Learn and AddFindings. On an error what it added before
  // stays: kUnavailable says that nothing has changed since.
  virtual Status AddNorms(model::Trace* trace);
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_JUDGE_H_
