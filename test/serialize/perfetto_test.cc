// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/perfetto.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

#include "base/depth_name.h"
#include "fakes/string_sink.h"
#include "golden.h"
#include "pitot/model/trace.h"
#include "serialize/proto/perfetto_trace.pb.h"
#include "serialize/sample_trace.h"
#include "serialize/wire.h"

namespace pitot::test {
namespace {

namespace proto = ::perfetto::protos;
using fakes::StringSink;
using model::kNone;
using model::kOpen;
using model::Trace;

std::string Serialize(const Trace& trace, const PerfettoOptions& options = {}) {
  StringSink sink;
  REQUIRE(MakePerfettoSerializer(options)->Serialize(trace, sink).ok());
  return sink.bytes;
}

// Whether the message, or a message inside it, has fields outside the schema.
bool HasUnknown(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!reflection.GetUnknownFields(message).empty()) return true;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (HasUnknown(reflection.GetMessage(message, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      if (HasUnknown(reflection.GetRepeatedMessage(message, field, i))) return true;
    }
  }
  return false;
}

// Collects every field of the file's messages.
void ListFields(const google::protobuf::Descriptor* type, std::set<const google::protobuf::Descriptor*>* seen,
                std::set<const google::protobuf::FieldDescriptor*>* fields) {
  if (!seen->insert(type).second) return;
  for (int i = 0; i < type->field_count(); ++i) {
    fields->insert(type->field(i));
    if (type->field(i)->message_type() != nullptr) ListFields(type->field(i)->message_type(), seen, fields);
  }
}
void MarkSet(const google::protobuf::Message& message, std::set<const google::protobuf::FieldDescriptor*>* fields) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &set);
  for (const google::protobuf::FieldDescriptor* field : set) {
    fields->erase(field);
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) MarkSet(reflection.GetMessage(message, field), fields);
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      MarkSet(reflection.GetRepeatedMessage(message, field, i), fields);
    }
  }
}

std::string Uncompress(const std::string& compressed) {
  google::protobuf::io::ArrayInputStream raw(compressed.data(), static_cast<int>(compressed.size()));
  google::protobuf::io::GzipInputStream stream(&raw);
  std::string bytes;
  const void* data;
  for (int size; stream.Next(&data, &size);) bytes.append(static_cast<const char*>(data), static_cast<size_t>(size));
  return bytes;
}

uint64_t CompressZlib(void* calls, const void* data, uint64_t size, void* out, uint64_t capacity) {
  ++*static_cast<int*>(calls);
  google::protobuf::io::ArrayOutputStream raw(out, static_cast<int>(capacity));
  google::protobuf::io::GzipOutputStream::Options options;
  options.format = google::protobuf::io::GzipOutputStream::ZLIB;
  google::protobuf::io::GzipOutputStream stream(&raw, options);
  const char* from = static_cast<const char*>(data);
  void* to;
  for (int room; size > 0 && stream.Next(&to, &room);) {
    const uint64_t part = std::min<uint64_t>(size, static_cast<uint64_t>(room));
    memcpy(to, from, part);
    from += part;
    size -= part;
    stream.BackUp(room - static_cast<int>(part));
  }
  return stream.Close() && size == 0 ? static_cast<uint64_t>(raw.ByteCount()) : 0;
}

// The file as Perfetto reads it, by its rules.
struct Replayed {
  struct Slice {
    uint64_t track;
    std::string name;
    int64_t begin_ns;
    int64_t duration_ns;
    size_t depth;
    proto::TrackEvent event;
    std::map<std::string, std::string> args;
  };
  std::vector<Slice> slices;
  std::vector<Slice> instants;
  std::vector<Slice> counters;
  std::map<uint64_t, proto::TrackDescriptor> tracks;
  std::vector<proto::TracePacket> packets;

  std::string TrackName(uint64_t track) const {
    const proto::TrackDescriptor& descriptor = tracks.at(track);
    return descriptor.has_thread()    ? descriptor.thread().thread_name()
           : descriptor.has_process() ? descriptor.process().process_name()
                                      : descriptor.name();
  }
  const Slice& Find(const std::string& name) const {
    for (const std::vector<Slice>* list : {&slices, &instants}) {
      for (const Slice& slice : *list) {
        if (slice.name == name) return slice;
      }
    }
    FAIL("no slice or instant " << name);
    return slices[0];
  }
};

Replayed Replay(const std::string& bytes) {
  Replayed replayed;
  proto::Trace file;
  REQUIRE(file.ParseFromString(bytes));
  REQUIRE_FALSE(HasUnknown(file));
  for (const proto::TracePacket& packet : file.packet()) {
    if (!packet.has_compressed_packets()) {
      replayed.packets.push_back(packet);
      continue;
    }
    const std::string run = Uncompress(packet.compressed_packets());
    REQUIRE(run.size() <= 512 << 10);
    proto::Trace bundle;
    REQUIRE(bundle.ParseFromString(run));
    REQUIRE_FALSE(HasUnknown(bundle));
    replayed.packets.insert(replayed.packets.end(), bundle.packet().begin(), bundle.packet().end());
  }

  struct Sequence {
    bool has_state = false;
    int64_t now_ns = 0;
    uint64_t track = 0;
    std::map<uint64_t, std::string> names, annotation_names, annotation_strings;
  };
  std::map<uint32_t, Sequence> sequences;
  struct Event {
    int64_t at_ns;
    proto::TrackEvent event;
    std::string name;
    std::map<std::string, std::string> args;
  };
  std::map<uint64_t, std::vector<Event>> events;  // by track
  const auto add = [](std::map<uint64_t, std::string>* to, uint64_t iid, const std::string& text) {
    REQUIRE(iid != 0);
    REQUIRE(to->emplace(iid, text).second);
  };
  for (const proto::TracePacket& packet : replayed.packets) {
    if (packet.has_track_descriptor()) {
      REQUIRE(packet.track_descriptor().uuid() != 0);
      REQUIRE(replayed.tracks.emplace(packet.track_descriptor().uuid(), packet.track_descriptor()).second);
      if (packet.track_descriptor().has_parent_uuid()) {
        REQUIRE(replayed.tracks.count(packet.track_descriptor().parent_uuid()) == 1);
      }
    }
    if (!packet.has_trusted_packet_sequence_id()) {
      REQUIRE_FALSE(packet.has_track_event());
      continue;
    }
    REQUIRE(packet.trusted_packet_sequence_id() != 0);
    Sequence& sequence = sequences[packet.trusted_packet_sequence_id()];
    if (packet.sequence_flags() == 1) {
      REQUIRE_FALSE(sequence.has_state);
      sequence.has_state = true;
      REQUIRE(packet.first_packet_on_sequence());
      REQUIRE(packet.clock_snapshot().clocks_size() == 2);
      REQUIRE(packet.clock_snapshot().clocks(0).clock_id() == 64);
      REQUIRE(packet.clock_snapshot().clocks(0).is_incremental());
      REQUIRE(packet.clock_snapshot().clocks(1).timestamp() == packet.clock_snapshot().clocks(0).timestamp());
      REQUIRE(packet.trace_packet_defaults().timestamp_clock_id() == 64);
      sequence.now_ns = static_cast<int64_t>(packet.clock_snapshot().clocks(0).timestamp());
      sequence.track = packet.trace_packet_defaults().track_event_defaults().track_uuid();
      continue;
    }
    REQUIRE(packet.sequence_flags() == 2);
    REQUIRE(sequence.has_state);
    for (const auto& entry : packet.interned_data().event_names()) add(&sequence.names, entry.iid(), entry.name());
    for (const auto& entry : packet.interned_data().debug_annotation_names()) {
      add(&sequence.annotation_names, entry.iid(), entry.name());
      REQUIRE_FALSE(entry.name().empty());
    }
    for (const auto& entry : packet.interned_data().debug_annotation_string_values()) {
      add(&sequence.annotation_strings, entry.iid(), entry.str());
    }
    REQUIRE(packet.has_timestamp());
    REQUIRE(packet.timestamp() <= static_cast<uint64_t>(model::kMaxTimeNs));  // a difference below zero would be huge
    sequence.now_ns += static_cast<int64_t>(packet.timestamp());
    REQUIRE(sequence.now_ns <= model::kMaxTimeNs);
    REQUIRE(packet.has_track_event());
    Event event{sequence.now_ns, packet.track_event(), packet.track_event().name(), {}};
    if (event.event.has_name_iid()) {
      REQUIRE(sequence.names.count(event.event.name_iid()) == 1);
      event.name = sequence.names[event.event.name_iid()];
    }
    for (const proto::DebugAnnotation& annotation : event.event.debug_annotations()) {
      REQUIRE(sequence.annotation_names.count(annotation.name_iid()) == 1);
      const std::string value = annotation.has_string_value_iid()
                                    ? sequence.annotation_strings.at(annotation.string_value_iid())
                                : annotation.has_string_value() ? annotation.string_value()
                                : annotation.has_uint_value()   ? std::to_string(annotation.uint_value())
                                : annotation.has_int_value()    ? std::to_string(annotation.int_value())
                                : annotation.has_bool_value()   ? (annotation.bool_value() ? "true" : "false")
                                                                : std::to_string(annotation.double_value());
      event.args[sequence.annotation_names[annotation.name_iid()]] = value;
    }
    const uint64_t track = event.event.has_track_uuid() ? event.event.track_uuid() : sequence.track;
    REQUIRE(replayed.tracks.count(track) == 1);
    events[track].push_back(event);
  }

  for (auto& [track, list] : events) {
    std::stable_sort(list.begin(), list.end(), [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; });
    std::vector<size_t> open;
    for (const Event& event : list) {
      const Replayed::Slice slice{track, event.name, event.at_ns, kOpen, open.size(), event.event, event.args};
      switch (event.event.type()) {
        case proto::TrackEvent::TYPE_SLICE_BEGIN:
          open.push_back(replayed.slices.size());
          replayed.slices.push_back(slice);
          break;
        case proto::TrackEvent::TYPE_SLICE_END:
          REQUIRE_FALSE(open.empty());
          replayed.slices[open.back()].duration_ns = event.at_ns - replayed.slices[open.back()].begin_ns;
          open.pop_back();
          break;
        case proto::TrackEvent::TYPE_INSTANT:
          replayed.instants.push_back(slice);
          break;
        case proto::TrackEvent::TYPE_COUNTER:
          REQUIRE(replayed.tracks[track].has_counter());
          replayed.counters.push_back(slice);
          break;
        default:
          FAIL("an event of no type");
      }
    }
  }
  return replayed;
}

using Named = std::tuple<std::string, int64_t, int64_t>;  // name, begin, duration

// The scopes of threads, from the trace.
std::multiset<Named> ScopesOf(const Trace& trace) {
  std::multiset<Named> scopes;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const model::SiteRow& site = trace.sites[trace.events.site[event]];
    if (!model::IsScope(site.kind)) continue;
    std::string name(trace.EventName(event));
    if (site.kind == SiteKind::kWait && trace.events.args[event] != kNone) {
      name =
          "wait " + std::string(trace.strings[static_cast<uint32_t>(trace.arg_values[trace.events.args[event] + 1])]);
    }
    scopes.emplace(name, trace.events.begin_ns[event], trace.events.duration_ns[event]);
  }
  return scopes;
}
bool IsCall(const Replayed::Slice& slice) {
  const auto kind = slice.args.find("kind");
  return kind != slice.args.end() && kind->second == "CUDA call";
}
// The name of the track above the slice's track; "" if there is none.
std::string ParentName(const Replayed& replayed, uint64_t uuid) {
  const proto::TrackDescriptor& track = replayed.tracks.at(uuid);
  return track.has_parent_uuid() ? replayed.TrackName(track.parent_uuid()) : "";
}
std::string ParentName(const Replayed& replayed, const Replayed::Slice& slice) {
  return ParentName(replayed, slice.track);
}
bool IsGpu(const Replayed& replayed, const Replayed::Slice& slice) {
  return ParentName(replayed, slice).rfind("GPU ", 0) == 0;
}
// The same, read back; cut scopes count with their true duration.
std::multiset<Named> ScopesOf(const Replayed& replayed) {
  std::multiset<Named> scopes;
  for (const Replayed::Slice& slice : replayed.slices) {
    if (IsCall(slice)) continue;
    const std::string track = replayed.TrackName(slice.track);
    const bool is_overlap =
        track.size() > 14 && track.substr(track.size() - 14) == " (overlapping)" && track != "stages (overlapping)";
    if (!replayed.tracks.at(slice.track).has_thread() && !is_overlap) continue;
    const auto cut = slice.args.find("true_duration_ns");
    scopes.emplace(slice.name, slice.begin_ns, cut == slice.args.end() ? slice.duration_ns : std::stoll(cut->second));
  }
  return scopes;
}

// Streams' work, with the names of their tracks.
using OnStream = std::tuple<std::string, int64_t, int64_t>;  // stream, begin, duration
std::string StreamName(const Trace& trace, uint32_t row) {
  const model::StreamRow& stream = trace.streams[row];
  const std::string name(trace.strings[stream.name]);
  return "stream " + std::to_string(stream.stream) + " (context " + std::to_string(stream.context) + ")" +
         (name.empty() ? "" : " " + name);
}

}  // namespace

TEST_CASE("nested messages of any length have right lengths", "[wire]") {
  for (const size_t size : {0, 1, 126, 127, 128, 129, 5000, 16383, 16384, 70000}) {
    serialize::WireBuffer buffer;
    const size_t packet = buffer.Open(1);
    const size_t annotations = buffer.Open(126);
    const size_t attribute = buffer.Open(1);
    buffer.String(1, "key");
    buffer.String(3, std::string(size, 'x'));
    buffer.Close(attribute);
    buffer.Close(annotations);
    buffer.Varint(8, UINT64_MAX);
    buffer.Close(packet);

    proto::Trace trace;
    REQUIRE(trace.ParseFromArray(buffer.data(), static_cast<int>(buffer.size())));
    REQUIRE(trace.packet_size() == 1);
    CHECK(trace.packet(0).timestamp() == UINT64_MAX);
    CHECK(trace.packet(0).trace_attributes().attribute(0).string_value().size() == size);
    CHECK(trace.ByteSizeLong() == buffer.size());
  }
}

TEST_CASE("a Perfetto trace of the sample has all the sample's rows", "[perfetto]") {
  const Trace trace = SampleTrace();
  const std::string bytes = Serialize(trace);
  const Replayed replayed = Replay(bytes);

  CHECK(ScopesOf(replayed) == ScopesOf(trace));
  const Replayed::Slice& slow = replayed.Find("/classify 8f0c");
  CHECK(slow.duration_ns == 41000000);
  CHECK(slow.args.at("id") == "1111222233338f0c");
  CHECK(slow.args.at("outcome") == "timed_out");
  CHECK(slow.args.at("reason") == "no free slot");
  CHECK(slow.args.at("deadline_ns") == "40000000");
  CHECK(slow.args.at("parent") == "1111222233334444");
  const Replayed::Slice& fast = replayed.Find("/classify 4444");
  CHECK(fast.args.at("trace_id") == "0af7651916cd43dd8448eb211c80319c");
  CHECK(fast.args.at("host_id") == "cmpl-17");
  CHECK(fast.args.at("model") == "resnet50");
  CHECK(fast.args.at("pixels") == "50176.000000");
  CHECK(fast.track != slow.track);
  CHECK(replayed.TrackName(fast.track) == replayed.TrackName(slow.track));
  CHECK(replayed.TrackName(replayed.tracks.at(slow.track).parent_uuid()) == "requests /classify");
  const Replayed::Slice& open = replayed.Find("/segment aaaa");
  CHECK(open.duration_ns == kOpen);
  CHECK(open.args.at("outcome") == "open");

  const Replayed::Slice& batch = replayed.Find("resnet50 batch");
  CHECK(batch.args.at("members") == "2");
  CHECK(batch.args.at("close_reason") == "timeout");
  const Replayed::Slice& queued = replayed.Find("queued images");
  CHECK(queued.track == fast.track);
  REQUIRE(queued.event.flow_ids_size() == 1);
  CHECK(std::count(batch.event.flow_ids().begin(), batch.event.flow_ids().end(), queued.event.flow_ids(0)) == 1);
  // Also from the batch to the first scope on its thread.
  const auto first = std::find_if(replayed.slices.begin(), replayed.slices.end(), [&](const Replayed::Slice& slice) {
    return &slice != &batch && slice.name != "join" && !slice.name.starts_with("queued ") &&
           std::any_of(slice.event.flow_ids().begin(), slice.event.flow_ids().end(), [&](uint64_t id) {
             return std::count(batch.event.flow_ids().begin(), batch.event.flow_ids().end(), id) == 1;
           });
  });
  REQUIRE(first != replayed.slices.end());
  CHECK(first->begin_ns >= batch.begin_ns);
  // Each member joins; the slow one was enqueued after the batch had begun.
  std::map<std::string, int> joins;  // arrows, by request
  for (const Replayed::Slice& mark : replayed.instants) {
    if (mark.name == "join") joins[mark.args.at("request")] = mark.event.flow_ids_size();
  }
  CHECK(joins == std::map<std::string, int>{{"1111222233334444", 0}, {"1111222233338f0c", 1}});
  // The reply's arrow goes to the first scope in the request's context on the taking thread.
  const Replayed::Slice& reply = replayed.Find("queued replies");
  REQUIRE(reply.event.flow_ids_size() == 1);
  const auto taken = std::find_if(replayed.slices.begin(), replayed.slices.end(), [&](const Replayed::Slice& slice) {
    return slice.name == "handle" && slice.event.flow_ids_size() != 0;
  });
  REQUIRE(taken != replayed.slices.end());
  CHECK(taken->begin_ns == 1050000500);
  CHECK(taken->event.flow_ids(0) == reply.event.flow_ids(0));

  const Replayed::Slice& trigger = replayed.Find("trigger: latency");
  CHECK(trigger.track == slow.track);
  const Replayed::Slice& wait = replayed.Find("wait model mutex");
  CHECK(wait.args.at("kind") == "lock");
  CHECK(wait.args.at("owner_request") == "1111222233334444");
  const Replayed::Slice& beside = replayed.Find("(unloaded 0x7f00)");
  CHECK(replayed.TrackName(beside.track) == "http 0 (overlapping)");
  CHECK(ParentName(replayed, beside) == "http 0");
  const Replayed::Slice& lost = replayed.Find("lost: overwritten");
  CHECK(lost.args.at("events") == "120");
  CHECK(replayed.TrackName(lost.track) == "http 0");
  CHECK(replayed.counters.size() == 6);
  CHECK(replayed.counters[0].track != replayed.counters[2].track);
}

TEST_CASE("a Perfetto trace shows streams below their device, and calls with arrows to their GPU work", "[perfetto]") {
  const Trace trace = SampleTrace();
  const Replayed replayed = Replay(Serialize(trace));

  const Replayed::Slice& kernel = replayed.Find("gemm");
  CHECK(replayed.TrackName(kernel.track) == "stream 7 (context 1) compute");
  CHECK(ParentName(replayed, kernel) == "GPU 0 NVIDIA H100 80GB HBM3");
  CHECK(replayed.tracks.at(replayed.tracks.at(kernel.track).parent_uuid()).parent_uuid() != 0);
  CHECK(kernel.duration_ns == 3000000);
  CHECK(kernel.args.at("kernel") == "gemm(float*)");
  CHECK(kernel.args.at("grid") == "98 x 2 x 1");
  CHECK(kernel.args.at("block") == "256 x 1 x 1");
  CHECK(kernel.args.at("registers_per_thread") == "96");
  CHECK(kernel.args.at("static_shared_bytes") == "1024");
  CHECK(kernel.args.at("dynamic_shared_bytes") == "49152");
  CHECK(kernel.args.at("estimated_occupancy_percent") == "25.000000");
  CHECK(kernel.args.at("request") == "1111222233338f0c");
  CHECK(kernel.args.at("batch") == "00000000000000b1");
  CHECK(kernel.args.count("bytes") == 0);

  const Replayed::Slice& launch = replayed.Find("cudaLaunchKernel");
  CHECK(replayed.TrackName(launch.track) == "executor");
  CHECK(replayed.tracks.at(launch.track).has_thread());
  CHECK(launch.depth == 2);  // in forward, in conv1
  REQUIRE(launch.event.flow_ids_size() == 1);
  REQUIRE(kernel.event.flow_ids_size() == 1);
  CHECK(launch.event.flow_ids(0) == kernel.event.flow_ids(0));
  CHECK(launch.event.correlation_id() == kernel.event.correlation_id());
  const auto wait_of = [&](std::string_view kind) {
    for (const Replayed::Slice& slice : replayed.slices) {
      if (slice.name == "cudaStreamSynchronize" && slice.args.at("kind") == kind) return slice;
    }
    FAIL("no " << kind);
    return Replayed::Slice();
  };
  CHECK(wait_of("CUDA call").args.at("waits_for") == "stream 7 (context 1) compute");
  const Replayed::Slice beside = wait_of("CUDA wait");
  CHECK(replayed.TrackName(beside.track) == "waits for stream 7 (context 1) compute");
  CHECK(ParentName(replayed, beside) == "GPU 0 NVIDIA H100 80GB HBM3");
  CHECK(beside.duration_ns == wait_of("CUDA call").duration_ns);
  CHECK(beside.args.at("batch") == "00000000000000b1");

  const Replayed::Slice& copy = replayed.Find("memcpy HtoD, pinned to device");
  CHECK(copy.args.at("bytes") == "602112");
  CHECK(copy.args.at("gb_per_s") == "0.602112");
  CHECK(replayed.Find("memset device").args.at("gb_per_s") == "4.096000");
  const Replayed::Slice& graph = replayed.Find("graph 5");
  CHECK(replayed.TrackName(graph.track) == "stream 14 (context 1)");
  CHECK(graph.args.at("graph") == "5");
  CHECK(graph.args.at("scope_path") == "forward / attention");
  CHECK(graph.event.flow_ids_size() == 0);
}

TEST_CASE("a viewer shows streams in their order, and rows of a stream together", "[perfetto]") {
  const Trace trace = SampleTrace();
  const Replayed replayed = Replay(Serialize(trace));
  std::map<std::string, std::set<int>> ranks;
  for (const auto& [uuid, track] : replayed.tracks) {
    if (ParentName(replayed, uuid) != "GPU 0 NVIDIA H100 80GB HBM3") continue;
    CHECK(replayed.tracks.at(track.parent_uuid()).child_ordering() == 3);  // EXPLICIT
    ranks[track.name()].insert(track.sibling_order_rank());
  }
  REQUIRE(ranks.size() > 3);
  for (const auto& [name, of] : ranks) CHECK(of.size() == 1);
  CHECK(*ranks.at("stream 7 (context 1) compute").begin() < *ranks.at("stream 14 (context 1)").begin());
}

TEST_CASE("counters named after a host or thread are grouped by the first word of their names", "[perfetto]") {
  Trace trace;
  const std::pair<const char*, const char*> names[] = {{"host: major faults", "counters host"},
                                                       {"host: minor faults", "counters host"},
                                                       {"thread 1: major faults", "counters thread"},
                                                       {"thread 2: major faults", "counters thread"},
                                                       {"queue depth", "server"}};
  trace.process_name = trace.strings.Add("server");
  for (const auto& [name, group] : names) {
    trace.samples.counter.push_back(static_cast<uint32_t>(trace.counters.size()));
    trace.samples.at_ns.push_back(1000);
    trace.samples.value.push_back(1);
    trace.counters.push_back({kNone, trace.strings.Add(name), 0});
  }
  const Replayed replayed = Replay(Serialize(trace));
  std::map<std::string, std::string> groups;
  std::set<uint64_t> parents;
  for (const Replayed::Slice& sample : replayed.counters) {
    groups[replayed.TrackName(sample.track)] = ParentName(replayed, sample);
    parents.insert(replayed.tracks.at(sample.track).parent_uuid());
  }
  CHECK(groups == std::map<std::string, std::string>(std::begin(names), std::end(names)));
  CHECK(parents.size() == 3);
}

TEST_CASE("a Perfetto trace shows GPUs' counters, recorded depths and overheads", "[perfetto]") {
  const Replayed replayed = Replay(Serialize(SampleTrace()));

  std::multiset<std::tuple<std::string, int64_t, double>> samples;
  for (const Replayed::Slice& sample : replayed.counters) {
    if (sample.begin_ns == 1016000000 || sample.begin_ns == 1040000000) continue;  // of the host
    samples.emplace(replayed.TrackName(sample.track), sample.begin_ns, sample.event.double_counter_value());
    const proto::CounterDescriptor& counter = replayed.tracks.at(sample.track).counter();
    if (replayed.TrackName(sample.track) == "SM clock") {
      CHECK(counter.unit_name() == "MHz");
      CHECK(ParentName(replayed, sample) == "counters");
      CHECK(ParentName(replayed, replayed.tracks.at(sample.track).parent_uuid()) == "GPU 0 NVIDIA H100 80GB HBM3");
    } else {
      CHECK(counter.unit() == proto::CounterDescriptor::UNIT_SIZE_BYTES);
      CHECK(ParentName(replayed, sample) == "sample_server");
    }
  }
  CHECK(samples == decltype(samples){{"SM clock", 1010000000, 1980},
                                     {"SM clock", 1020000000, 1755},
                                     {"allocated", 1015000000, 1.5e9}});

  const Replayed::Slice& depth = replayed.Find("graphs");
  CHECK(replayed.TrackName(depth.track) == "recorded depth");
  CHECK(ParentName(replayed, depth) == "GPU recording");
  CHECK(depth.begin_ns == 1015000000);
  CHECK(depth.duration_ns == 85000000);
  CHECK(replayed.TrackName(replayed.Find("module loading").track) == "overheads");
  CHECK(replayed.Find("lazy function loading").depth == 0);  // not inside another slice
  const Replayed::Slice& lost = replayed.Find("lost: buffer full");
  CHECK(replayed.TrackName(lost.track) == "stream 14 (context 1)");
  CHECK(lost.args.at("lost_to_ns") == "1032000000");
  CHECK(lost.args.at("records") == "12");
  CHECK(replayed.TrackName(replayed.Find("lost: paused").track) == "GPU 0 NVIDIA H100 80GB HBM3");
}

TEST_CASE("a Perfetto trace uses the options' names for depths", "[perfetto]") {
  constexpr int64_t kMs = 1000000;
  Trace trace;
  trace.window_begin_ns = kMs;
  trace.window_end_ns = 6 * kMs;
  const Depth depths[] = {Depth::kScopes, Depth::kGraphs, Depth::kKernels, Depth::kOps};
  for (int64_t i = 0; i < 4; ++i) trace.depths.push_back({(i + 1) * kMs, (i + 2) * kMs, depths[i]});
  const Replayed replayed = Replay(Serialize(trace));

  for (const Depth depth : depths) {
    const Replayed::Slice& slice = replayed.Find(base::DepthName(depth));
    CHECK(replayed.TrackName(slice.track) == "recorded depth");
    Depth parsed = Depth::kAuto;
    CHECK((base::ParseDepth(slice.event.name().c_str(), &parsed) && parsed == depth));
  }
  CHECK(replayed.Find("ops").begin_ns == 4 * kMs);
}

TEST_CASE("random GPU work and calls are all shown, without false nesting", "[perfetto]") {
  size_t arrows = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Trace trace = RandomTrace(seed, seed < 55 ? seed * 10 : 5000);
    const Replayed replayed = Replay(Serialize(trace));

    std::multiset<OnStream> expected, found, expected_waits, waits;
    std::set<uint32_t> with_others;  // streams with more than spans
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      if (trace.gpu.kind[row] != model::GpuKind::kSpan) with_others.insert(trace.gpu.stream[row]);
    }
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      const uint32_t stream = trace.gpu.stream[row];
      const bool is_beside = trace.gpu.kind[row] == model::GpuKind::kSpan && with_others.count(stream) != 0;
      expected.emplace(StreamName(trace, stream) + (is_beside ? " by CUDA events" : ""), trace.gpu.begin_ns[row],
                       trace.gpu.duration_ns[row]);
    }
    std::multiset<Named> expected_calls, calls;
    for (uint32_t call = 0; call < trace.calls.size(); ++call) {
      expected_calls.emplace(trace.strings[trace.calls.name[call]], trace.calls.begin_ns[call],
                             trace.calls.duration_ns[call]);
      const uint32_t stream = trace.calls.stream[call];
      if (stream != kNone || trace.calls.device[call] != kNone)
        expected_waits.emplace("waits for " + (stream != kNone ? StreamName(trace, stream) : "all streams"),
                               trace.calls.begin_ns[call], trace.calls.duration_ns[call]);
    }
    std::map<uint64_t, std::pair<uint32_t, uint32_t>> ends;  // of arrows: at calls, at GPU work
    for (const Replayed::Slice& slice : replayed.slices) {
      const auto kind = slice.args.find("kind");
      if (kind != slice.args.end() && kind->second == "CUDA wait") {
        REQUIRE(slice.depth == 0);
        waits.emplace(replayed.TrackName(slice.track), slice.begin_ns, slice.duration_ns);
        continue;
      }
      const bool is_gpu = IsGpu(replayed, slice) && ParentName(replayed, slice) != "GPU recording";
      if (is_gpu) {
        REQUIRE(slice.depth == 0);
        found.emplace(replayed.TrackName(slice.track), slice.begin_ns, slice.duration_ns);
      }
      if (IsCall(slice)) {
        const auto cut = slice.args.find("true_duration_ns");
        calls.emplace(slice.name, slice.begin_ns,
                      cut == slice.args.end() ? slice.duration_ns : std::stoll(cut->second));
      }
      for (const uint64_t flow : slice.event.flow_ids()) {
        ends[flow].first += IsCall(slice);
        ends[flow].second += is_gpu;
      }
    }
    REQUIRE(found == expected);
    REQUIRE(calls == expected_calls);
    REQUIRE(waits == expected_waits);
    std::set<std::pair<uint32_t, uint32_t>> linked;  // call, stream
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      if (trace.gpu.call[row] != kNone) linked.emplace(trace.gpu.call[row], trace.gpu.stream[row]);
    }
    size_t launches = 0;
    for (const auto& [flow, count] : ends) {
      REQUIRE(count.first == count.second);
      REQUIRE(count.first <= 1);
      launches += count.first;
    }
    REQUIRE(launches == linked.size());
    arrows += launches;
  }
  CHECK(arrows > 1000);
}

TEST_CASE("a wait has the number of its wake-ups in vain, if there were any", "[perfetto]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("waiter");
  const uint32_t wait = maker.Site(SiteKind::kWait, "wait",
                                   {{"kind", ArgType::kUint},
                                    {"resource", ArgType::kName},
                                    {"owner_thread", ArgType::kUint},
                                    {"owner_request", ArgType::kUint},
                                    {"spurious", ArgType::kUint}});
  maker.Event(thread, wait, 1000, 50, {}, {2, maker.String("often"), 0, 0, 12});
  maker.Event(thread, wait, 1100, 50, {}, {2, maker.String("once"), 0, 0, 0});

  const Replayed replayed = Replay(Serialize(maker.Finish()));

  CHECK(replayed.Find("wait often").args.at("spurious_wake_ups") == "12");
  CHECK(replayed.Find("wait once").args.count("spurious_wake_ups") == 0);
}

TEST_CASE("a stream's overlapping work gets further rows of the stream, the rest stays on one", "[perfetto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  maker.trace.streams.push_back({kNone, 2, 13, 0, 0, 0});
  for (const auto& [begin_ns, duration_ns] :
       {std::pair(100, 50), std::pair(120, 10), std::pair(150, 5), std::pair(155, 0)})
    maker.Gpu(0, model::GpuKind::kKernel, "k" + std::to_string(begin_ns), begin_ns, duration_ns, kNone);
  const Replayed replayed = Replay(Serialize(maker.Finish()));

  const uint64_t track = replayed.Find("k100").track;
  CHECK(replayed.Find("k120").track != track);
  CHECK(replayed.TrackName(replayed.Find("k120").track) == replayed.TrackName(track));
  CHECK(ParentName(replayed, replayed.Find("k120")) == "GPU (unknown)");
  CHECK(replayed.Find("k150").duration_ns == 5);
  CHECK(replayed.Find("k155").duration_ns == 0);
  CHECK(replayed.tracks.size() == 1 + 1 + 2);
}

TEST_CASE("calls never move scopes: a call that does not nest has a track next to them", "[perfetto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 10000;
  const uint32_t thread = maker.Thread("t"), quiet = maker.Thread("quiet");
  const uint32_t site = maker.Site(SiteKind::kScope, "scope"), mark = maker.Site(SiteKind::kInstant, "mark");
  maker.Event(thread, site, 100, 900);
  maker.Event(thread, mark, 250, 0);
  maker.Event(thread, site, 500, 100);
  maker.Call(thread, "inside", 200, 100);
  maker.Call(thread, "in inside", 210, 10);
  maker.Call(thread, "around", 490, 200);
  maker.Call(thread, "straddles", 590, 50);
  maker.Call(thread, "open", 2000, kOpen);
  maker.Call(quiet, "alone", 50, 10);
  const Trace trace = maker.Finish();
  const Replayed replayed = Replay(Serialize(trace));

  CHECK(ScopesOf(replayed) == ScopesOf(trace));
  CHECK(replayed.TrackName(replayed.Find("inside").track) == "t");
  CHECK(replayed.Find("inside").depth == 1);
  CHECK(replayed.Find("in inside").depth == 2);
  CHECK(replayed.TrackName(replayed.Find("around").track) == "t (CUDA calls)");
  CHECK(replayed.TrackName(replayed.Find("straddles").track) == "t (CUDA calls)");
  CHECK(replayed.Find("straddles").depth == 1);  // in the other call
  CHECK(replayed.TrackName(replayed.Find("open").track) == "t");
  CHECK(replayed.Find("open").duration_ns == kOpen);
  CHECK(replayed.TrackName(replayed.Find("alone").track) == "quiet");
  for (const Replayed::Slice& slice : replayed.slices) {
    if (slice.name == "scope") CHECK(slice.depth == (slice.begin_ns == 500));
  }
}

TEST_CASE("calls of threads outside the trace have a track of their own", "[perfetto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 10000;
  maker.Call(kNone, "cudaFree", 100, 50);
  maker.Call(kNone, "cudaMalloc", 120, 50);
  const Replayed replayed = Replay(Serialize(maker.Finish()));
  CHECK(ParentName(replayed, replayed.Find("cudaFree")) == "CUDA calls of unknown threads");
  CHECK(replayed.Find("cudaMalloc").depth == 0);
}

TEST_CASE("one call with many kernels has an arrow to the first on each stream", "[perfetto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 10000;
  const uint32_t thread = maker.Thread("t");
  maker.trace.streams.push_back({kNone, 1, 1, 0, 0, 0});
  maker.trace.streams.push_back({kNone, 1, 2, 0, 0, 0});
  maker.Call(thread, "cudaGraphLaunch", 100, 50);
  for (const int at_ns : {200, 300, 400})
    maker.Gpu(0, model::GpuKind::kKernel, "a" + std::to_string(at_ns), at_ns, 9, 0);
  for (const int at_ns : {150, 350}) maker.Gpu(1, model::GpuKind::kKernel, "b" + std::to_string(at_ns), at_ns, 9, 0);
  const Replayed replayed = Replay(Serialize(maker.Finish()));

  const auto flows = replayed.Find("cudaGraphLaunch").event.flow_ids();
  REQUIRE(flows.size() == 2);
  CHECK(replayed.Find("a200").event.flow_ids(0) == flows[0]);
  CHECK(replayed.Find("b150").event.flow_ids(0) == flows[1]);
  for (const char* name : {"a300", "a400", "b350"}) CHECK(replayed.Find(name).event.flow_ids_size() == 0);
}

TEST_CASE("a span is on its stream's track, or on one next to it if the stream has other work", "[perfetto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 10000;
  const uint32_t thread = maker.Thread("t");
  maker.trace.streams.push_back({kNone, 1, 1, 0, 0, 0});
  maker.trace.streams.push_back({kNone, 1, 2, 0, 0, 0});
  maker.Call(thread, "CudaEventScope", 100, 50);
  maker.Call(thread, "CudaEventScope", 200, 50);
  maker.Gpu(0, model::GpuKind::kKernel, "first", 149, 30, kNone);
  maker.Gpu(0, model::GpuKind::kSpan, "around", 150, 100, 0);
  maker.Gpu(0, model::GpuKind::kKernel, "second", 190, 30, kNone);
  maker.Gpu(1, model::GpuKind::kSpan, "alone", 250, 10, 1);
  const Replayed replayed = Replay(Serialize(maker.Finish()));

  CHECK(replayed.TrackName(replayed.Find("alone").track) == "stream 2 (context 1)");
  CHECK(replayed.TrackName(replayed.Find("around").track) == "stream 1 (context 1) by CUDA events");
  for (const char* name : {"first", "second"})
    CHECK(replayed.TrackName(replayed.Find(name).track) == "stream 1 (context 1)");
  CHECK(replayed.Find("around").duration_ns == 100);
  CHECK(replayed.Find("around").args.count("kind") == 1);
  CHECK(replayed.Find("alone").event.flow_ids_size() == 1);
}

TEST_CASE("losses of GPUs are counted in the trace's attributes", "[perfetto]") {
  const Replayed replayed = Replay(Serialize(SampleTrace()));
  std::map<std::string, int64_t> numbers;
  for (const proto::TracePacket& packet : replayed.packets) {
    for (const auto& attribute : packet.trace_attributes().attribute())
      numbers[attribute.key()] = attribute.long_value();
  }
  CHECK(numbers["gpu_losses"] == 2);
  CHECK(numbers["lost_gpu_records"] == 12);
}

TEST_CASE("a loss is marked on each stream of its device, or of a device if unknown, once with its number",
          "[perfetto]") {
  Trace trace = SampleTrace();
  trace.devices.push_back({1});
  trace.streams.push_back({1, 1, 5, 0, 0, 0});
  trace.gpu_losses = {
      {model::kNone, trace.strings.Add("of the first"), trace.window_begin_ns, trace.window_end_ns, 7, 0},
      {model::kNone, trace.strings.Add("of the second"), trace.window_begin_ns, trace.window_end_ns, 7, 1},
      {model::kNone, trace.strings.Add("of any"), trace.window_begin_ns, trace.window_end_ns, 7}};
  REQUIRE(FindInconsistency(trace) == "");

  const Replayed replayed = Replay(Serialize(trace));

  const auto count = [&](const char* name, bool with_number) {
    uint32_t marks = 0;
    for (const auto& slice : replayed.instants)
      marks += slice.name == name && (!with_number || slice.args.count("records") != 0);
    return marks;
  };
  CHECK(count("lost: of the first", false) == 2);
  CHECK(count("lost: of the first", true) == 1);
  CHECK(count("lost: of any", false) == 2);
  CHECK(count("lost: of any", true) == 1);
  CHECK(replayed.TrackName(replayed.Find("lost: of the second").track) == "stream 5 (context 1)");
}

TEST_CASE("the sample uses every field of the schema except compression", "[perfetto]") {
  proto::Trace file;
  REQUIRE(file.ParseFromString(Serialize(SampleTrace())));
  std::set<const google::protobuf::FieldDescriptor*> unused;
  std::set<const google::protobuf::Descriptor*> seen;
  ListFields(proto::Trace::descriptor(), &seen, &unused);
  MarkSet(file, &unused);
  std::set<std::string> names;
  for (const google::protobuf::FieldDescriptor* field : unused) names.insert(field->full_name());
  CHECK(names == std::set<std::string>{"perfetto.protos.TracePacket.compressed_packets"});
}

TEST_CASE("the Perfetto trace of the sample matches the approved file", "[perfetto][golden]") {
  proto::Trace file;
  REQUIRE(file.ParseFromString(Serialize(SampleTrace())));
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  REQUIRE(printer.PrintToString(file, &text));
  CheckGolden("sample.pftrace.txt", text);
}

TEST_CASE("Perfetto traces of random scopes replay to the same scopes", "[perfetto]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Trace trace = RandomTrace(seed, seed < 55 ? seed * 10 : 5000);
    const Replayed replayed = Replay(Serialize(trace));
    REQUIRE(ScopesOf(replayed) == ScopesOf(trace));
    size_t requests = 0, batches = 0, asyncs = 0, queued = 0;
    for (const Replayed::Slice& slice : replayed.slices) {
      requests += slice.args.count("outcome");
      batches += slice.args.count("batch_id");
      const bool is_queued = slice.name.rfind("queued ", 0) == 0;
      queued += is_queued;
      asyncs += !is_queued && !IsCall(slice) && !IsGpu(replayed, slice) && slice.args.count("request");
    }
    REQUIRE(requests == trace.requests.size());
    REQUIRE(batches == trace.batches.size());
    REQUIRE(queued == trace.handoffs.size());
    REQUIRE(asyncs == trace.asyncs.size());
  }
}

TEST_CASE("an empty trace becomes a Perfetto trace without events", "[perfetto]") {
  const Replayed replayed = Replay(Serialize(Trace()));
  CHECK(replayed.slices.empty());
  CHECK(replayed.packets.size() > 2);
}

TEST_CASE("an event without arguments takes less than 80 bytes, compressed at most 30", "[perfetto]") {
  const Trace trace = LargeTrace(100000);
  const std::string plain = Serialize(trace);
  CHECK(plain.size() < 80 * 100000);

  int calls = 0;
  PerfettoOptions options;
  options.compress = CompressZlib;
  options.compress_context = &calls;
  const std::string compressed = Serialize(trace, options);
  CHECK(calls > 5);
  CHECK(compressed.size() <= 30 * 100000);
  WARN("bytes per event: " << static_cast<double>(plain.size()) / 100000 << ", compressed "
                           << static_cast<double>(compressed.size()) / 100000);
  const Replayed from_plain = Replay(plain), from_compressed = Replay(compressed);
  CHECK(from_plain.packets.size() == from_compressed.packets.size());
  CHECK(ScopesOf(from_compressed) == ScopesOf(trace));
}

TEST_CASE("packets stay uncompressed if compression does not help", "[perfetto]") {
  PerfettoOptions options;
  options.compress = [](void*, const void*, uint64_t, void*, uint64_t) -> uint64_t { return 0; };
  CHECK(Serialize(SampleTrace(), options) == Serialize(SampleTrace()));
}

TEST_CASE("a scope beyond the limit of overlapping rows is cut, with its true duration", "[perfetto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100000;
  const uint32_t thread = maker.Thread("t"), site = maker.Site(SiteKind::kScope, "stairs");
  for (int64_t i = 0; i < 100; ++i) maker.Event(thread, site, 1000 + i, 1000);
  const Trace trace = maker.Finish();
  const Replayed replayed = Replay(Serialize(trace));
  CHECK(ScopesOf(replayed) == ScopesOf(trace));
  CHECK(std::count_if(replayed.slices.begin(), replayed.slices.end(),
                      [](const Replayed::Slice& slice) { return slice.args.count("true_duration_ns") != 0; }) == 83);
}

TEST_CASE("a Perfetto trace of a trace without a date has no Unix time", "[perfetto]") {
  Trace trace = SampleTrace();
  trace.clock = {};
  proto::Trace file;
  REQUIRE(file.ParseFromString(Serialize(trace)));

  std::set<uint32_t> clocks;
  for (const auto& packet : file.packet()) {
    for (const auto& clock : packet.clock_snapshot().clocks()) clocks.insert(clock.clock_id());
  }
  CHECK(clocks == std::set<uint32_t>{3, 64});  // CLOCK_MONOTONIC, and that of sequences
}

TEST_CASE("a Perfetto trace that cannot be written returns an error", "[perfetto]") {
  StringSink sink(100);
  CHECK(MakePerfettoSerializer({})->Serialize(SampleTrace(), sink).code() == StatusCode::kIoError);
}

}  // namespace pitot::test
