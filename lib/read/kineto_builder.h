// SPDX-License-Identifier: Apache-2.0
//
// Turns the events of a Kineto trace into the rows of a model::Trace.
#ifndef PITOT_LIB_READ_KINETO_BUILDER_H_
#define PITOT_LIB_READ_KINETO_BUILDER_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"
#include "pitot/read/kineto.h"
#include "pitot/read/trace.h"
#include "read/doubtful_gpu.h"
#include "read/kineto_event.h"
#include "read/kineto_names.h"

namespace pitot::read {

// Fills the report's is_gzip, complete, events, events_bad, problems and counts.
void TakeKinetoReport(const KinetoReport& kineto, TraceReport* report);

class KinetoBuilder {
 public:
  // Both must outlive the builder; `trace` is empty.
  KinetoBuilder(model::Trace* trace, KinetoReport* report);
  void Add(const KinetoEvent& event);
  // The same for another tool's event, whose category and phase are not looked at.
  void Add(Category category, const KinetoEvent& event);
  // The id of a name that many events have.
  model::StringId Intern(std::string_view text);
  // The device of a process.
  void AddDevice(const KinetoId& pid, const KinetoDevice& device) {
    SetProperties(device, Device(ProcessOf(pid).group, device.id));
  }
  void AddDevices(const std::vector<KinetoDevice>& devices);
  // A member of the file next to the events.
  void AddAttribute(std::string_view key, std::string_view value);
  // When GPUs, or operators, were recorded: Pitot's files have it. `later_ns` is added to the times.
  void AddDepths(std::vector<model::DepthRow> rows, bool is_of_operators, int64_t later_ns);
  // The window, if the file says it. Otherwise it is from the first begin to the last end of a row.
  void SetWindow(model::Interval window);
  // Losses: Pitot's files list them. Likewise.
  void AddLosses(std::string_view text, bool is_of_gpus, int64_t later_ns);
  // Another document follows. It has processes, devices and ids of its own.
  void BeginDocument();
  // The rank of the document's process.
  void SetRank(int64_t rank) { ranks_[document_] = rank; }
  void SetBaseTime(int64_t base_ns) { base_ns_ = base_ns; }
  // Sorts the rows and connects them. `is_cut`: the file was incomplete.
  void Finish(bool is_cut);

 private:
  struct Time {
    int64_t begin_ns, duration_ns;
  };
  // What belongs together: a document, or in a merged one a rank. Ids of correlation are unique in it.
  struct Group {
    uint32_t document;
    std::string label;  // "[TP00]" of "[TP00] 5000"
    bool has_rows = false;
  };
  struct Process {
    uint32_t group;
    int64_t pid;
    auto operator<=>(const Process&) const = default;
  };
  using ThreadKey = std::pair<Process, int64_t>;
  // The begin or end of an arrow between a call and its work.
  struct Arrow {
    int64_t id, begin_ns;
    ThreadKey of;
    bool is_end;
  };
  struct Sample {
    uint32_t counter;
    int64_t at_ns;
    double value;
  };

  // A record of `gpu` that cannot be true.
  struct SetAside {
    Doubt doubt;
    uint32_t stream, call;
    int64_t begin_ns, next_ns;  // the begin of the next thing of its stream
    int64_t duration_ns;
  };

  void Take(Category category, const KinetoEvent& event);
  bool TakeTime(const KinetoEvent& event, Time* time);
  void AddScope(const KinetoEvent& event, SiteKind kind);
  void AddCall(const KinetoEvent& event);
  void AddGpu(const KinetoEvent& event, model::GpuKind kind);
  void AddSync(const KinetoEvent& event);
  void AddOverhead(const KinetoEvent& event);
  void AddMemory(const KinetoEvent& event);
  void AddArrow(const KinetoEvent& event);
  void SeeUnknown(const KinetoEvent& event);
  void AddThreadName(const KinetoEvent& event);

  model::StringId NameOf(const KinetoEvent& event) { return event.name_id != 0 ? event.name_id : Intern(event.name); }
  int64_t Number(const KinetoId& id);
  Process ProcessOf(const KinetoId& pid);
  uint32_t GroupRow(std::string_view label);
  std::string NameOfGroup(uint32_t group) const;
  uint32_t Thread(const KinetoEvent& event);
  uint32_t Thread(const ThreadKey& key);
  uint32_t ThreadOfNumber(const KinetoEvent& event);
  // The id that ties calls to their work, in a form that no other group has. External ids are negative, below kNone.
  int64_t CorrelationOf(const KinetoEvent& event, uint32_t group);
  // `args`: 0, 1 with the shapes of inputs, 2 with their types, or 3 with their values as well.
  uint32_t Site(SiteKind kind, model::StringId name, uint32_t args, bool is_python);
  uint32_t Device(uint32_t group, int64_t ordinal);
  uint32_t Stream(const KinetoEvent& event);
  int64_t StreamNumber(const KinetoEvent& event);
  void UseGroup(uint32_t group);
  void SetProperties(const KinetoDevice& device, uint32_t device_row);
  uint32_t Shape(const model::KernelShape& shape);
  // `adds_up`: its samples are changes.
  uint32_t Counter(uint32_t group, uint32_t device, const std::string& name, const char* unit, bool adds_up);

  void FindWindow();
  void OrderEvents();
  void OrderCalls();
  void OrderGpu();
  void LinkGpu(const std::vector<uint32_t>& call_rows);
  // For work without ids of correlation (ROCm): links by arrows, then by External id.
  void LinkByArrows();
  void LinkByExternalIds();
  // Leaves out what threads did at time 0, if all else was an hour later or more.
  void LeaveOutTimeless();
  void SetAsideDoubtful();
  std::vector<std::vector<model::Interval>> StreamOrder() const;
  model::Interval PlaceOf(const SetAside& record, const std::vector<std::vector<model::Interval>>& order) const;
  // Says where work is missing: what was set aside, and launches without work.
  void AddGpuLosses();
  void AddGpuLoss(const model::GpuLossRow& loss);
  void NameThreads();
  void ApplyProperties();
  void NameGroups();
  void AddSamples();

  model::Trace& trace_;
  KinetoReport& report_;
  int64_t base_ns_ = 0;
  std::unordered_map<std::string, int64_t> texts_;  // ids that are not numbers: -2 and below
  uint32_t document_ = 0;
  std::map<uint32_t, int64_t> ranks_;  // by document
  std::vector<Group> groups_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> group_rows_;  // by document and label
  uint32_t plain_group_ = model::kNone;                              // of this document, without a label
  std::map<ThreadKey, uint32_t> threads_;
  std::vector<Process> thread_processes_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> thread_of_number_;  // of this document, by group and number
  std::string last_pid_;                                               // with a label
  Process last_process_ = {};
  ThreadKey last_thread_ = {};
  uint32_t last_thread_row_ = model::kNone;
  int64_t total_ns_ = 0;  // of all durations
  std::map<ThreadKey, std::string> thread_names_;
  std::unordered_map<uint64_t, uint32_t> sites_;              // by name, kind and whether it has shapes
  std::map<std::pair<uint32_t, int64_t>, uint32_t> devices_;  // by group and number
  std::vector<uint32_t> device_groups_;
  std::vector<std::pair<uint32_t, KinetoDevice>> properties_;           // by document
  size_t first_property_ = 0;                                           // of this document
  std::map<std::tuple<uint32_t, int64_t, int64_t>, uint32_t> streams_;  // by device, context, number
  std::map<std::array<uint32_t, 10>, uint32_t> shapes_;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, uint32_t> counters_;  // by group, device and name
  std::vector<bool> counter_adds_up_;                                         // whether its samples are changes
  std::vector<Sample> samples_;
  std::set<std::string> unknown_kinds_;
  std::vector<int64_t> call_correlations_, gpu_correlations_;  // of the rows of `calls` and `gpu`
  std::vector<Arrow> arrows_;                                  // only if calls or work have no correlation
  bool has_uncorrelated_ = false;
  bool has_depths_ = false;  // the file says when GPUs were recorded
  struct Losses {
    std::string text;
    bool are_of_gpus;
    int64_t later_ns;
  };
  std::vector<Losses> losses_;
  struct Sync {
    int64_t correlation;
    uint32_t stream, device;  // rows; kNone: not one stream, or not all of a device
  };
  std::vector<Sync> syncs_;
  std::vector<bool> shares_id_;    // whether a call has the id of an earlier one
  std::vector<Doubt> gpu_doubts_;  // of the rows of `gpu`, until they are set aside
  std::vector<SetAside> set_aside_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_KINETO_BUILDER_H_
