// SPDX-License-Identifier: Apache-2.0
//
// A hearing of a judge, for tests: it keeps all answers.
#ifndef PITOT_TEST_ANALYZE_KEEPING_HEARING_H_
#define PITOT_TEST_ANALYZE_KEEPING_HEARING_H_

#include <cstdint>
#include <map>
#include <string>

#include "fakes/string_sink.h"
#include "pitot/extend/judge.h"
#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

namespace fakes {

class KeepingHearing final : public pitot::Hearing {
 public:
  explicit KeepingHearing(const pitot::model::Trace& trace, int64_t most_asks = INT64_MAX)
      : trace_(trace), most_asks_(most_asks) {}
  const pitot::model::Trace& trace() const noexcept override { return trace_; }
  bool IsOver() noexcept override { return ++asks > most_asks_; }
  void OpenReport(const char* text) override { opening = text; }
  pitot::Status AddFile(pitot::Serializer& serializer) override {
    if (IsOver()) return pitot::Status(pitot::StatusCode::kUnavailable, "the time is up");
    if (!file_status.ok()) return file_status;
    StringSink sink;
    const pitot::Status status = serializer.Serialize(trace_, sink);
    files[serializer.FileName()] = sink.bytes;
    return status;
  }

  void SetSignature(const char* says, int64_t ns) override { signature = says, excess_ns = ns; }
  bool BeginFindings() noexcept override { return are_findings_due; }
  bool CanFilesWait() noexcept override { return can_files_wait; }

  int64_t asks = 0;
  std::string opening, signature;
  int64_t excess_ns = 0;
  bool are_findings_due = true, can_files_wait = false;
  std::map<std::string, std::string> files;
  pitot::Status file_status;

 private:
  const pitot::model::Trace& trace_;
  const int64_t most_asks_;
};

}  // namespace fakes

#endif  // PITOT_TEST_ANALYZE_KEEPING_HEARING_H_
