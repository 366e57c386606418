// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace of OpenTelemetry's spans, which come in any order. Spans that Pitot wrote become what they were:
// requests with stages, stays in queues, and batches. Spans by others are requests if a server or consumer made
// them, or if they have no parent in the file. The spans within them are parts that belong to no thread.
#ifndef PITOT_LIB_READ_OTLP_BUILDER_H_
#define PITOT_LIB_READ_OTLP_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/read/trace.h"
#include "read/otlp_message.h"

namespace pitot::read {

class OtlpBuilder final : public OtlpTarget {
 public:
  // Both are empty, and must outlive the builder.
  OtlpBuilder(model::Trace* trace, TraceReport* report) : trace_(*trace), report_(*report) {}

  void TakeResource(const OtlpAttributes& attributes) override;
  void TakeLibrary(std::string_view name) override;
  void TakeSpan(const OtlpSpan& span) override;
  void TakeBad() override { ++report_.events, ++report_.events_bad; }

  void Finish();
  // Whether the last resource announced more spans, as Pitot's writer does.
  bool expects_more() const { return expects_more_; }

 private:
  enum class Kind : uint8_t { kRequest, kPart, kStage, kQueued, kBatch };
  struct Firing {
    uint64_t at_ns;
    model::StringId cause, detail;
  };
  // What a request keeps of its span.
  struct Details {
    model::RequestRow row;
    uint64_t first_token_at_ns = 0;
    double queue_s = 0, first_token_s = 0;  // as vLLM says them
    std::vector<Firing> firings;
  };
  // A span that was read, in Unix time.
  struct Span {
    OtlpSpanId id;
    uint64_t parent_id;
    uint64_t begin_ns, end_ns;
    uint32_t process;
    model::StringId name;
    Kind kind;
    bool is_open;
    uint8_t close = 0;                           // of a batch
    std::vector<uint64_t> links = {};            // keys; of Pitot's
    std::unique_ptr<Details> details = nullptr;  // none: those of a part are not kept
  };
  struct Process {
    model::StringId name = 0, host = 0;
    int64_t pid = 0;
    uint64_t spans = 0;
  };

  void TakeDetails(const OtlpSpan& from, Span* span);
  void TakeAttribute(const OtlpAttribute& attribute, Span* span);
  void TakeOwn(std::string_view key, const OtlpAttribute& attribute, Span* span);
  model::StringId Intern(std::string_view text);
  const Span* Find(uint64_t key) const;
  const Span* ParentOf(const Span& span) const;
  const Span* RequestAround(const Span& span, bool* is_too_deep = nullptr) const;
  uint32_t& RowOf(const Span& span) { return rows_[static_cast<size_t>(&span - spans_.data())]; }
  std::vector<uint32_t> OfKind(Kind kind) const;
  int64_t At(uint64_t unix_ns) const { return static_cast<int64_t>(unix_ns - base_ns_); }
  int64_t DurationOf(const Span& span);
  uint32_t Site(model::StringId name);

  void FindWindow();
  void AddRequests();
  void AddRequest(Span* span);
  void TakeQueueTime(double queue_s, const model::RequestRow& request);
  void TakeVllmStages(double queue_s, model::RequestRow* row);
  void AddBatches();
  void AddParts();
  void OrderStages();
  void NameProcess();

  model::Trace& trace_;
  TraceReport& report_;
  bool is_own_ = false;  // the library of the next spans is Pitot's
  bool has_own_ = false, has_others_ = false;
  bool has_queues_ = false;  // others said times in queues
  bool expects_more_ = false;
  uint64_t own_begin_ns_ = UINT64_MAX;  // of Pitot's windows, in Unix time
  std::string lacks_;                   // what a file that Pitot converted lacked
  std::map<std::string, uint32_t> known_processes_;
  std::vector<Process> processes_;
  uint32_t process_ = 0;
  std::vector<Span> spans_;
  std::unordered_map<uint64_t, uint32_t> by_key_;
  std::vector<uint32_t> rows_;  // by span: the request or batch that it became
  std::map<model::StringId, uint32_t> sites_;
  uint64_t base_ns_ = 0;  // Unix time of the trace's origin
  int64_t total_ns_ = 0;  // of all durations
  uint64_t repeated_ = 0, orphans_ = 0, too_deep_ = 0, out_of_range_ = 0, negative_ = 0, parts_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_OTLP_BUILDER_H_
