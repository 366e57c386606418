// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of Kineto's JSON: devices, calls with arrows to their work, the work of streams, allocators and
// counters.
#ifndef PITOT_LIB_SERIALIZE_KINETO_GPU_H_
#define PITOT_LIB_SERIALIZE_KINETO_GPU_H_

#include <stdint.h>

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "serialize/kineto_writer.h"
#include "serialize/lanes.h"

namespace pitot::serialize {

class KinetoGpu {
 public:
  // Both must outlive it.
  KinetoGpu(const model::Trace& trace, KinetoWriter* out);

  // The member "deviceProperties".
  void WriteDevices();
  void WriteNames();
  // The trace's process; another number if a device has that, because devices are processes, too.
  int64_t HostPid() const { return host_pid_; }
  // A call of a thread, and the begin of its arrow.
  void WriteCall(uint32_t call, KinetoPlace place);
  // What devices did, overheads and counters.
  void WriteWork();

 private:
  // The number of the event around a call; 0: none.
  uint64_t External(uint32_t call) const;
  uint64_t OrdinalOf(uint32_t device) const;
  KinetoPlace PlaceOf(uint32_t stream) const;
  // A row of the viewer that is free then, and its name. What has a stream says so in its arguments.
  enum class Row : uint32_t { kWork, kSpan };
  KinetoPlace TakeRow(Row of, KinetoPlace place, int64_t begin_ns, int64_t end_ns);
  void WriteRow(uint32_t row);
  void WriteLaunch(uint32_t row);
  std::string_view NameOf(uint32_t row);
  void WriteMemory();
  void WriteSample(uint32_t sample);

  const model::Trace& trace_;
  KinetoWriter& out_;
  const model::LaunchIndex launches_;
  const std::vector<uint32_t> enclosing_;            // scopes, by call
  std::unordered_map<uint64_t, std::string> names_;  // by name and kind
  std::string graph_name_;
  struct Rows {
    Lanes lanes;
    std::vector<int64_t> tids;
  };
  std::map<std::tuple<Row, int64_t, int64_t>, Rows> rows_;
  int64_t host_pid_;
  int64_t next_tid_ = 0;  // after the numbers of streams
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_KINETO_GPU_H_
