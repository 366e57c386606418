// SPDX-License-Identifier: Apache-2.0
//
// The GPU tables of a trace: sorts the rows from collectors and joins them to the calls that caused them.
#ifndef PITOT_LIB_ASSEMBLE_GPU_H_
#define PITOT_LIB_ASSEMBLE_GPU_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/extend/collector.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "snapshot/texts.h"

namespace pitot::assemble {

// A thread's context from a moment on, as rows.
struct ContextChange {
  int64_t at_ns;
  uint32_t request, batch;
};
// The recording collector of a call, by the index of its Name, and the call's correlation there.
struct CallSource {
  uint32_t correlation, collector;
};
// The lifetime of a thread of the trace, from its first event on, and its contexts in order; unknown before the first.
struct ThreadPast {
  int64_t begin_ns = 0, end_ns = INT64_MAX;
  std::vector<ContextChange> contexts;
};

// The cost of a row of activities or calls, in bytes, at the peak of making the trace or its files. It covers columns
// and the memory for sorting and joining them, or for report and Perfetto file. Measured; a test holds an incident to
// it.
inline constexpr uint64_t kActivityCost = 144, kGpuCallCost = 112, kSampleCost = 44, kStringCost = 140;

class GpuTables final : public TraceBuilder {
 public:
  // `sources` has one entry for each of the trace's calls. These came from rings, and hold the target of their wait as
  // in DeviceCall: the stream, and the context in place of the device. `pasts` has one entry for each thread.
  // `spare_bytes` is available for rows beyond what their collectors bring.
  GpuTables(model::Trace* trace, std::vector<CallSource> sources, std::vector<ThreadPast> pasts,
            uint64_t spare_bytes = uint64_t{1} << 62, const snapshot::Texts& texts = snapshot::OwnTexts())
      : texts_(texts),
        trace_(*trace),
        sources_(std::move(sources)),
        pasts_(std::move(pasts)),
        spare_bytes_(spare_bytes) {
    pasts_.resize(trace->threads.size());
  }

  // Call it before a collector of this name adds rows. They may cost `bytes`, and then the spare bytes. The first row
  // without room is left out, and so are all others that the collector adds after it. Samples have no order: those
  // without room are left out and counted.
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

  // Call it after the last collector.
  void Finish();

 private:
  struct Sample {
    uint32_t counter;
    int64_t at_ns;
    double value;
  };
  struct LeftOut {
    int64_t begin_ns = INT64_MAX, end_ns = 0;
    uint64_t rows = 0;
  };
  // The correlation of a call, or of one inside it that is not kept, and its row.
  struct Cause {
    uint32_t correlation, call;
  };
  struct Added {
    std::string name;
    uint32_t first_call;        // of calls_
    std::vector<Cause> causes;  // in the order of correlation and time
    uint64_t invalid_rows = 0, samples_left_out = 0, stale_calls = 0;
  };
  // False: left out, and counted for the device's row.
  bool TakeRoom(uint64_t cost, uint32_t device, int64_t begin_ns, int64_t duration_ns);
  void Charge(uint64_t cost);
  bool IsInterval(int64_t begin_ns, int64_t duration_ns) const;
  bool IsBetween(int64_t begin_ns, int64_t end_ns) const;
  bool IsValid(int64_t begin_ns, int64_t duration_ns);  // counts the row if it is not
  std::vector<uint32_t> Outermost() const;
  uint32_t ThreadAt(int64_t tid, int64_t at_ns) const;
  ContextChange ContextAt(uint32_t thread, int64_t at_ns);
  void NumberCollectors();
  uint32_t AdderOf(uint32_t call) const;
  void ResolveAwaited();
  // Whether a call is too long ago for the window to be what it says.
  bool IsStale(uint32_t call) const;
  void AddCalls();
  void IndexCalls();
  void SortActivities();
  void AddLeftOut();
  void AddCounts();
  void SortSamples();
  void AddUuid(const GpuDevice& device);
  model::StringId Text(uint32_t id) const { return id < trace_.strings.size() ? id : 0; }
  uint32_t CallOf(const std::vector<Cause>& causes, uint32_t correlation, int64_t at_ns, size_t* near) const;

  const snapshot::Texts& texts_;
  model::Trace& trace_;
  // By row of trace_.calls; in place of the collector's name its number, from NumberCollectors on.
  std::vector<CallSource> sources_;
  std::vector<ThreadPast> pasts_;                                   // by row of trace_.threads
  std::unordered_map<int64_t, std::vector<uint32_t>> threads_;      // by tid, in the order of their first events
  std::unordered_map<uint32_t, std::vector<model::Segment>> flat_;  // by thread
  std::deque<GpuCall> calls_;
  std::deque<Sample> samples_;      // not a vector, which takes three times the memory while it grows
  std::vector<uint32_t> added_by_;  // by row of trace_.streams: the adding collector; rows in the order of adding
  // By number. The first stands for rows without a collector, and for a collector of a call that is not in the trace.
  std::vector<Added> collectors_{{}};
  std::unordered_map<uint64_t, uint32_t> counters_;  // by device and name
  uint64_t spare_bytes_, own_bytes_ = 0;
  bool is_full_ = false;
  std::set<uint32_t> has_uuid_;           // ordinals of devices
  std::map<uint32_t, LeftOut> left_out_;  // by row of devices, or kNone
};

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_GPU_H_
