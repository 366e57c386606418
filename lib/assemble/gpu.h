// SPDX-License-Identifier: Apache-2.0
//
// The GPU's tables of a trace: what collectors add is put in order and joined to the calls that caused it.
#ifndef PITOT_LIB_ASSEMBLE_GPU_H_
#define PITOT_LIB_ASSEMBLE_GPU_H_

#include <cstdint>
#include <deque>
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

class GpuTables final : public TraceBuilder {
 public:
  // `correlations` has one for each of the trace's calls, which the rings held; `pasts` one for each of its threads.
  GpuTables(model::Trace* trace, std::vector<uint32_t> correlations, std::vector<ThreadPast> pasts)
      : trace_(*trace), correlations_(std::move(correlations)), pasts_(std::move(pasts)) {
    pasts_.resize(trace->threads.size());
  }

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
  bool IsInterval(int64_t begin_ns, int64_t duration_ns) const;
  std::vector<uint32_t> Outermost() const;
  uint32_t ThreadAt(int64_t tid, int64_t at_ns) const;
  ContextChange ContextAt(uint32_t thread, int64_t at_ns);
  void AddCalls();
  void JoinCalls();
  void SortSamples();
  model::StringId Text(uint32_t id) const { return id < trace_.strings.size() ? id : 0; }
  uint32_t CallOf(uint64_t key, int64_t at_ns) const;

  model::Trace& trace_;
  std::vector<uint32_t> correlations_;                              // of trace_.calls
  std::vector<ThreadPast> pasts_;                                   // of trace_.threads
  std::unordered_map<int64_t, std::vector<uint32_t>> threads_;      // by tid, in the order of their first events
  std::unordered_map<uint32_t, std::vector<model::Segment>> flat_;  // by thread
  std::deque<GpuActivity> activities_;
  std::deque<GpuCall> calls_;
  std::vector<Nested> nested_;
  std::vector<Sample> samples_;
  std::unordered_map<uint64_t, uint32_t> counters_;               // by device and name
  std::unordered_map<uint64_t, std::vector<uint32_t>> calls_of_;  // by key; in order of time
};

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_GPU_H_
