// SPDX-License-Identifier: Apache-2.0
//
// Extend: a judge says of an incident why a request was slow, once the incident's files are on disk. What is normal it
// learns from incidents and, where it asks for them, from samples of what happens between them. The built-in one
// (pitot/analyze/judge.h) uses this interface.
#ifndef PITOT_EXTEND_JUDGE_H_
#define PITOT_EXTEND_JUDGE_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/extend/serializer.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// What a judge is given for one call, and what it answers to.
class Hearing {
 public:
  virtual const model::Trace& trace() const noexcept = 0;
  // The CPU budget is spent, or the recorder stops: return. Ask once a millisecond of work: it keeps the judge within
  // the worker's share of the CPU, and an incident that comes meanwhile is written in this call.
  virtual bool IsOver() noexcept = 0;
  // What report.txt is to open with, for people; copied. Another text replaces it. Hooks are given it, too.
  virtual void OpenReport(const char* text) = 0;
  // Adds a file to the incident, or replaces the one of that name, whole. Errors: kUnavailable (the call is over, it is
  // a sample, or incidents are not kept on disk), what the serializer says, kResourceExhausted, kIoError.
  virtual Status AddFile(Serializer& serializer) = 0;

 protected:
  ~Hearing() = default;
};

struct JudgeNeeds {
  uint32_t budget_ms = 2000;        // CPU time of one call
  uint32_t sample_every_ms = 0;     // at least so long between two samples; 0: none
  uint32_t sample_window_ms = 0;    // how far back a sample reaches
  uint32_t sample_permille = 5;     // of one CPU's time, that samples may take: what costs more comes less often
  uint32_t sample_bytes = 1 << 20;  // of rings that a sample copies at most, the newest
};

// Called on Pitot's worker at idle priority, one call at a time; may allocate. What it throws or returns as an error,
// and a call that took more than its budget, is said in report.txt, logged and counted (Stats::verdicts_failed); what
// it had answered by then stays. One that does not return holds up the incidents after it, but not Recorder::Stop.
class PITOT_EXPORT Judge {
 public:
  virtual ~Judge();
  // Named in messages: "why".
  virtual const char* Name() const noexcept = 0;
  // Asked once, by Recorder::Add.
  virtual JudgeNeeds Needs() const noexcept = 0;
  // An incident.
  virtual Status Decide(Hearing& hearing) = 0;
  // A sample: its trace has no firings.
  virtual Status Learn(Hearing& hearing);
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_JUDGE_H_
