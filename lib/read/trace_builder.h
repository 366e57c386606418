// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace of rows that come in any order, for the readers of other tools' files. Finish sorts and connects them.
#ifndef PITOT_LIB_READ_TRACE_BUILDER_H_
#define PITOT_LIB_READ_TRACE_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/read/trace.h"
#include "read/chrome_event.h"
#include "read/shapes.h"
#include "read/sites.h"
#include "read/texts.h"

namespace pitot::read {

class TraceBuilder {
 public:
  // `trace` is empty and must outlive the builder.
  explicit TraceBuilder(model::Trace* trace) : trace_(*trace), sites_(trace), shapes_(trace) {}

  struct Span {
    int64_t begin_ns = 0;
    int64_t duration_ns = 0;  // kOpen: it has no end
  };
  struct Async {
    uint32_t site = 0;  // of a part
    Span span;
    uint32_t begin_thread = model::kNone, end_thread = model::kNone;  // rows
  };
  struct Work {
    model::GpuKind kind = model::GpuKind::kKernel;
    uint32_t stream = 0;  // row
    std::string_view name, scope_path;
    int64_t correlation = 0;  // of the call that caused it; 0: unknown
    bool has_shape = false;
    model::KernelShape shape;
    uint64_t bytes = 0;
  };

  model::StringId Intern(std::string_view text) { return read::Intern(text, &trace_); }
  // The number of a process or thread: itself, or one below -1 for each text.
  int64_t Number(const ChromeValue& id);

  uint32_t Thread(int64_t process, int64_t thread);
  void NameProcess(int64_t process, std::string_view name) { process_names_[process] = name; }
  void NameThread(int64_t process, int64_t thread, std::string_view name) { thread_names_[{process, thread}] = name; }

  uint32_t Site(SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args = {}) {
    return sites_.Of(kind, name, args);
  }
  bool HasPlace(uint32_t site) const { return trace_.sites[site].function != 0; }
  // Sets where the function of a site is.
  void SetPlace(uint32_t site, std::string_view function, std::string_view file, uint32_t line);

  // Whether it is a time from 0 to model::kMaxTimeNs. Others are counted.
  bool IsInRange(int64_t at_ns);
  // These return false, and add nothing, for a time before 0 or beyond model::kMaxTimeNs. `args` are those of the site.
  bool AddEvent(uint32_t thread, uint32_t site, Span span, const std::vector<ChromeValue>& args = {});
  // For events that were added open, by row: their end, which is not before their begin; more arguments.
  void EndEvent(uint32_t row, int64_t end_ns);
  void AddArgs(uint32_t row, const std::vector<ChromeValue>& args);
  // Makes calls of these events, which are in order, with their correlations. Rows after them move up.
  void MakeCalls(const std::vector<std::pair<uint32_t, int64_t>>& events);
  // A request with its own id as a text, and its parts that belong to no thread. The threads of its begin and end are
  // not taken: what else they do is not known to be work for it, or to keep it waiting.
  bool AddRequest(std::string_view route, std::string_view id, const Async& whole, const std::vector<Async>& parts);
  bool AddCall(uint32_t thread, Span span, std::string_view name, int64_t correlation);
  bool AddGpu(Span span, const Work& work);
  // The value of a counter of a process from a moment on. Values that are not finite are left out.
  bool AddSample(int64_t process, std::string_view counter, int64_t at_ns, double value);
  // The same for a counter that is named later.
  uint32_t NewCounter();
  bool AddSample(uint32_t counter, int64_t at_ns, double value);
  void NameCounter(uint32_t counter, int64_t process, std::string_view name);

  uint32_t Device(std::string_view key, std::string_view name);
  uint32_t Stream(uint32_t device, int64_t number, std::string_view name = {});
  void AddAttribute(std::string_view key, std::string_view value);

  // Unix time is this much later than the times given. Without it the trace has no date.
  void SetUnixOffset(int64_t offset_ns) { unix_offset_ns_ = offset_ns, has_unix_offset_ = true; }
  void Finish(bool is_damaged);
  // After Finish: the tool's buffer was full. The window begins with the oldest ones left.
  void NoteOverwritten();

  // Adds to the report's problems and counts what was wrong with times.
  void ReportTimes(TraceReport* report) const;

 private:
  struct Sample {
    uint32_t counter;
    int64_t at_ns;
    double value;
  };

  bool TakeTime(Span* span);
  void FindWindow();
  void CloseLongSpans();
  void OrderEvents();
  void OrderCalls();
  void OrderGpu();
  void OrderRequests();
  void OrderSamples();
  void NameThreads();
  void NameCounters();
  std::string ProcessName(int64_t process) const;

  model::Trace& trace_;
  std::unordered_map<std::string, int64_t> texts_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> threads_;
  std::pair<int64_t, int64_t> last_thread_ = {0, 0};
  uint32_t last_thread_row_ = model::kNone;
  std::vector<int64_t> processes_;  // of the rows of threads
  std::map<int64_t, std::string> process_names_;
  std::map<std::pair<int64_t, int64_t>, std::string> thread_names_;
  Sites sites_;
  Shapes shapes_;
  std::unordered_map<std::string, uint32_t> devices_;
  std::map<std::pair<int64_t, std::string>, uint32_t> counters_;  // by process and name
  std::vector<std::pair<int64_t, std::string>> counter_names_;    // of rows: process and name
  std::map<std::pair<uint32_t, int64_t>, uint32_t> streams_;
  std::vector<Sample> samples_;
  std::vector<int64_t> call_correlations_, gpu_correlations_;
  int64_t total_ns_ = 0;  // of all durations
  int64_t unix_offset_ns_ = 0;
  bool has_unix_offset_ = false;
  uint64_t times_out_of_range_ = 0, durations_negative_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_TRACE_BUILDER_H_
