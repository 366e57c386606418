// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of a Perfetto trace: a group per device with its streams and counters, the causing calls, and the depth
// and losses of recording.
#ifndef PITOT_LIB_SERIALIZE_PERFETTO_GPU_H_
#define PITOT_LIB_SERIALIZE_PERFETTO_GPU_H_

#include <stdint.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/kernel_name.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "serialize/packet_writer.h"
#include "serialize/perfetto_tracks.h"

namespace pitot::serialize {

class GpuTracks {
 public:
  // All three must outlive it.
  GpuTracks(const model::Trace& trace, Tracks* tracks, PacketWriter* out);

  // Descriptors of devices, streams and counters.
  void Describe();
  // Writes the activities of each stream, counters, calls of unknown threads, depths, overheads, losses, and waits for
  // streams and devices. Sequences are numbered from `first_sequence` on.
  void Write(uint32_t first_sequence);

  // The calls of a thread: rows `first` to `last` - 1.
  struct Calls {
    uint32_t first = 0, last = 0;
  };
  Calls CallsOf(uint32_t thread) const { return calls_[thread]; }
  int64_t CallEnd(uint32_t call) const;  // INT64_MAX while it is open
  // The contents of a call's slice. Call it between BeginEvent and EndEvent.
  void WriteCall(uint32_t call);

 private:
  std::string StreamName(uint32_t stream) const;
  uint64_t DeviceGroup(uint32_t device);
  uint64_t CounterGroup(const model::CounterRow& row);
  const model::KernelName& NameOf(model::StringId compiled);
  // The arrow to a row from its call. Only the first row of a call on a stream has one. 0: none.
  uint64_t FlowTo(uint32_t row) const;
  bool HasOnlySpans(uint32_t stream) const;
  void WriteStream(uint32_t sequence, uint32_t stream);
  void WriteRow(uint32_t row);
  void WriteShape(uint32_t row);
  void WriteContext(uint32_t call);
  void WriteCounters(uint32_t sequence);
  void WriteOtherCalls(uint32_t sequence);
  void WriteWaits(uint32_t sequence);

  // An event of the recording itself.
  struct RecordingMark {
    int64_t at_ns;
    uint64_t track;
    enum { kDepth, kOperators, kOverhead, kLoss, kEnd } kind;
    uint32_t row;
    bool has_number;  // of lost records
  };
  uint64_t RecordingGroup();
  // Adds the begin and the end of a slice on a lane with this name.
  void AddRecording(const RecordingMark& mark, int64_t end_ns, const char* name, std::vector<RecordingMark>* marks);
  void AddLoss(uint32_t row, std::vector<RecordingMark>* marks);
  void WriteRecordingMark(const RecordingMark& mark);
  void WriteRecording(uint32_t sequence);

  const model::Trace& trace_;
  Tracks& tracks_;
  PacketWriter& out_;
  const model::LaunchIndex launches_;
  std::vector<Calls> calls_;  // by thread, then of unknown threads
  std::unordered_map<model::StringId, model::KernelName> names_;
  std::map<std::string, size_t> counter_groups_;  // numbers, by the first word of their names
  // Texts that repeat in many slices.
  PacketWriter::Seen kinds_, full_names_, grids_, blocks_, requests_, batches_, awaited_;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PERFETTO_GPU_H_
