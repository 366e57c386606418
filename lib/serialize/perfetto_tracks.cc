// SPDX-License-Identifier: Apache-2.0
#include "serialize/perfetto_tracks.h"

namespace pitot::serialize {

void Tracks::Describe(uint64_t uuid, uint64_t parent, std::string_view name) {
  namespace field = perfetto::track;
  WireBuffer& buffer = out_.buffer();
  out_.BeginPacket();
  const size_t descriptor = buffer.Open(perfetto::packet::kTrackDescriptor);
  buffer.Varint(field::kUuid, uuid);
  buffer.Varint(field::kParentUuid, parent);
  buffer.String(field::kName, name);
  if (ranks_.contains(uuid)) buffer.Varint(field::kOrdering, field::kExplicitOrdering);
  if (const auto ranks = ranks_.find(parent); ranks != ranks_.end())
    buffer.Varint(field::kRank, ranks->second.try_emplace(std::string(name), ranks->second.size()).first->second);
  buffer.Close(descriptor);
  out_.EndPacket();
}

void Tracks::DescribeCounter(uint64_t uuid, uint64_t parent, std::string_view name, std::string_view unit) {
  namespace field = perfetto::track;
  WireBuffer& buffer = out_.buffer();
  out_.BeginPacket();
  const size_t descriptor = buffer.Open(perfetto::packet::kTrackDescriptor);
  buffer.Varint(field::kUuid, uuid);
  buffer.Varint(field::kParentUuid, parent);
  buffer.String(field::kName, name);
  const size_t counter = buffer.Open(field::kCounter);
  if (unit == "bytes") {
    buffer.Varint(field::kCounterUnit, field::kUnitBytes);  // shown as KiB, MiB
  } else if (!unit.empty()) {
    buffer.String(field::kCounterUnitName, unit);
  }
  buffer.Close(counter);
  buffer.Close(descriptor);
  out_.EndPacket();
}

uint64_t Tracks::Group(Of of, uint64_t id, std::string_view prefix, std::string_view name, uint64_t parent) {
  const uint64_t uuid = Uuid(of, id);
  if (!groups_.insert(uuid).second) return uuid;
  if (of == Of::kDevice) ranks_[uuid];  // by name, stream 13 would be before stream 7
  Describe(uuid, parent != 0 ? parent : Process(), std::string(prefix).append(name));
  return uuid;
}

uint64_t Tracks::Lane(uint64_t group, std::string_view name, int64_t begin_ns, int64_t end_ns) {
  Rows& rows = rows_[std::pair(group, std::string(name))];
  const uint32_t lane = rows.lanes.Take(begin_ns, end_ns);
  if (lane == rows.uuids.size()) rows.uuids.push_back(NewLane(group, name));
  return rows.uuids[lane];
}

uint64_t Tracks::NewLane(uint64_t group, std::string_view name) {
  const uint64_t uuid = Uuid(Of::kLane, lanes_described_++);
  Describe(uuid, group, name);
  return uuid;
}

}  // namespace pitot::serialize
