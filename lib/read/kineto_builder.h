// SPDX-License-Identifier: Apache-2.0
//
// Turns the events of a Kineto trace into the rows of a model::Trace.
#ifndef PITOT_LIB_READ_KINETO_BUILDER_H_
#define PITOT_LIB_READ_KINETO_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"
#include "pitot/read/kineto.h"
#include "read/doubtful_gpu.h"
#include "read/kineto_event.h"

namespace pitot::read {

class KinetoBuilder {
 public:
  // Both must outlive the builder; `trace` is empty.
  KinetoBuilder(model::Trace* trace, KinetoReport* report);
  void Add(const KinetoEvent& event);
  void AddDevices(const std::vector<KinetoDevice>& devices);
  // A member of the file next to the events.
  void AddAttribute(std::string_view key, std::string_view value);
  void SetBaseTime(int64_t base_ns) { base_ns_ = base_ns; }
  // Sorts the rows and connects them. `is_cut`: the file was incomplete.
  void Finish(bool is_cut);

 private:
  struct Time {
    int64_t begin_ns, duration_ns;
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

  bool TakeTime(const KinetoEvent& event, Time* time);
  void AddScope(const KinetoEvent& event, SiteKind kind);
  void AddCall(const KinetoEvent& event);
  void AddGpu(const KinetoEvent& event, model::GpuKind kind);
  void AddSync(const KinetoEvent& event);
  void AddOverhead(const KinetoEvent& event);
  void AddMemory(const KinetoEvent& event);
  void AddThreadName(const KinetoEvent& event);

  model::StringId Intern(std::string_view text);
  int64_t Number(const KinetoId& id);
  uint32_t Thread(const KinetoEvent& event);
  // `args`: 0, 1 with the shapes of inputs, 2 with their types, or 3 with their values as well.
  uint32_t Site(SiteKind kind, model::StringId name, uint32_t args);
  uint32_t Device(int64_t ordinal);
  uint32_t Stream(const KinetoEvent& event);
  uint32_t Shape(const model::KernelShape& shape);
  uint32_t Counter(uint32_t device, const std::string& name, const char* unit);

  void FindWindow();
  void OrderEvents();
  void OrderCalls();
  void OrderGpu();
  void LinkGpu(const std::vector<uint32_t>& call_rows);
  // Leaves out what threads did at time 0, if all else was an hour later or more.
  void LeaveOutTimeless();
  void SetAsideDoubtful();
  std::vector<std::vector<model::Interval>> StreamOrder() const;
  model::Interval PlaceOf(const SetAside& record, const std::vector<std::vector<model::Interval>>& order) const;
  // Says where work is missing: what was set aside, and launches without work.
  void AddGpuLosses();
  void AddGpuLoss(const model::GpuLossRow& loss);
  void NameThreads();
  void AddSamples();

  model::Trace& trace_;
  KinetoReport& report_;
  int64_t base_ns_ = 0;
  std::unordered_map<std::string, int64_t> texts_;  // ids that are not numbers: -2 and below
  std::map<std::pair<int64_t, int64_t>, uint32_t> threads_;
  std::pair<int64_t, int64_t> last_thread_ = {0, 0};
  uint32_t last_thread_row_ = model::kNone;
  int64_t total_ns_ = 0;  // of all durations
  std::map<std::pair<int64_t, int64_t>, std::string> thread_names_;
  std::unordered_map<uint64_t, uint32_t> sites_;  // by name, kind and whether it has shapes
  std::unordered_map<int64_t, uint32_t> devices_;
  std::map<std::tuple<uint32_t, int64_t, int64_t>, uint32_t> streams_;  // by device, context, number
  std::map<std::vector<uint32_t>, uint32_t> shapes_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> counters_;
  std::vector<Sample> samples_;
  std::vector<int64_t> call_correlations_, gpu_correlations_;  // of the rows of `calls` and `gpu`
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
