// SPDX-License-Identifier: Apache-2.0
//
// The GPU's tables of a trace: what collectors add is put in order and joined to the calls that caused it.
#ifndef PITOT_LIB_ASSEMBLE_GPU_H_
#define PITOT_LIB_ASSEMBLE_GPU_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/extend/collector.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::assemble {

// What a thread worked for, rows, from a moment on.
struct ContextChange {
  int64_t at_ns;
  uint32_t request, batch;
};
// When a thread of the trace was, from its first event on, and its contexts in order; before the first it is unknown.
struct ThreadPast {
  int64_t begin_ns = 0, end_ns = INT64_MAX;
  std::vector<ContextChange> contexts;
};

// What a row of activities or calls costs, in bytes, at the peak of making the trace or files of it: columns and what
// sorts and joins them, or what report and Perfetto file make of them. Measured; a test holds an incident to it.
inline constexpr uint64_t kActivityCost = 144, kGpuCallCost = 112, kStringCost = 140;

class GpuTables final : public TraceBuilder {
 public:
  // `correlations` has one for each of the trace's calls, which the rings held and which have what they waited for as
  // trace::Awaited says it: the stream, and as device the context. `pasts` has one for each of its threads.
  // `spare_bytes` is what rows may cost beyond what their collectors bring.
  GpuTables(model::Trace* trace, std::vector<uint32_t> correlations, std::vector<ThreadPast> pasts,
            uint64_t spare_bytes = uint64_t{1} << 62)
      : trace_(*trace), correlations_(std::move(correlations)), pasts_(std::move(pasts)), spare_bytes_(spare_bytes) {
    pasts_.resize(trace->threads.size());
  }

  // Before a collector of this name: its rows may cost so much, and then what is spare. What has no room is left out,
  // and all that the collector adds after it.
  void BeginCollector(uint64_t bytes, std::string_view name);

  uint32_t AddText(const char* text) override;
  uint32_t AddDevice(const GpuDevice& device) override;
  uint32_t AddStream(uint32_t device, uint32_t context, uint32_t stream) override;
  uint32_t AddShape(const uint32_t grid[3], const uint32_t block[3], uint32_t static_shared_bytes,
                    uint32_t dynamic_shared_bytes, uint32_t local_bytes, uint32_t registers) override;
  void Add(const GpuActivity& activity) override;
  void Add(const GpuCall& call) override;
  void AddOverhead(int64_t begin_ns, int64_t duration_ns, uint32_t name) override;
  void Add(const GpuLoss& loss) override;
  void AddDepth(int64_t begin_ns, int64_t end_ns, Depth depth) override;
  void AddOperatorDepth(int64_t begin_ns, int64_t end_ns, Depth depth) override;
  uint32_t AddCounter(uint32_t device, const char* name, const char* unit) override;
  void AddSample(uint32_t counter, int64_t at_ns, double value) override;
  void AddAttribute(const char* key, const char* value) override;

  // After the last collector.
  void Finish();

 private:
  // The correlation of a call that is not kept, because it was inside the one in this row.
  struct Nested {
    uint32_t correlation, call;
  };
  struct Sample {
    uint32_t counter;
    int64_t at_ns;
    double value;
  };
  struct LeftOut {
    int64_t begin_ns = INT64_MAX, end_ns = 0;
    uint64_t rows = 0;
  };
  struct Cause {
    uint32_t correlation, call;
  };
  // False: left out, and counted for the device's row.
  bool TakeRoom(uint64_t cost, uint32_t device, int64_t begin_ns, int64_t duration_ns);
  void Charge(uint64_t cost);
  bool IsInterval(int64_t begin_ns, int64_t duration_ns) const;
  std::vector<uint32_t> Outermost() const;
  uint32_t ThreadAt(int64_t tid, int64_t at_ns) const;
  ContextChange ContextAt(uint32_t thread, int64_t at_ns);
  void ResolveAwaited();
  void AddCalls();
  void IndexCalls();
  void SortActivities();
  void AddLeftOut();
  void SortSamples();
  model::StringId Text(uint32_t id) const { return id < trace_.strings.size() ? id : 0; }
  uint32_t CallOf(bool is_span, uint32_t correlation, int64_t at_ns) const;

  model::Trace& trace_;
  std::vector<uint32_t> correlations_;                              // of trace_.calls
  std::vector<ThreadPast> pasts_;                                   // of trace_.threads
  std::unordered_map<int64_t, std::vector<uint32_t>> threads_;      // by tid, in the order of their first events
  std::unordered_map<uint32_t, std::vector<model::Segment>> flat_;  // by thread
  std::deque<GpuCall> calls_;
  std::vector<Nested> nested_;
  std::vector<Sample> samples_;
  std::vector<uint32_t> added_by_;                   // of trace_.streams: which collector, as they came
  uint32_t collector_ = 0, awaited_of_ = kNoRow;     // the present one, and that whose streams calls waited for
  std::unordered_map<uint64_t, uint32_t> counters_;  // by device and name
  std::vector<Cause> causes_, span_causes_;  // in order of correlation and time; of spans' correlations the latter
  uint64_t spare_bytes_, own_bytes_ = 0;
  bool is_full_ = false;
  std::map<uint32_t, LeftOut> left_out_;  // by row of devices, or kNone
};

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_GPU_H_
