// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "fakes/failing_allocations.h"
#include "fakes/string_sink.h"
#include "golden.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "model/schema.h"
#include "pitot/model/trace.h"
#include "pitot/read/dump.h"
#include "pitot/serialize/perfetto.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "serialize/proto/pitot_dump.pb.h"
#include "serialize/sample_trace.h"
#include "serialize/schema_text.h"

namespace pitot::test {
namespace {

namespace proto = ::pitot::dump::v1;
using fakes::StringSink;
using model::Trace;

std::string Dump(const Trace& trace) {
  StringSink sink;
  REQUIRE(MakeDumpSerializer()->Serialize(trace, sink).ok());
  return sink.bytes;
}

uint32_t Load32(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}
void Store32(std::string* bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) (*bytes)[at + i] = static_cast<char>(value >> (8 * i));
}

struct Chunk {
  size_t at;
  uint32_t type;
  std::string payload;
};
std::vector<Chunk> Chunks(const std::string& bytes) {
  std::vector<Chunk> chunks;
  for (size_t at = 0; at < bytes.size();) {
    const uint32_t size = Load32(bytes, at + 8);
    chunks.push_back({at, Load32(bytes, at + 4), bytes.substr(at + dump_format::kChunkHeaderBytes, size)});
    at += dump_format::kChunkHeaderBytes + size;
  }
  return chunks;
}
std::string Frame(uint32_t type_and_flags, uint32_t sequence, const std::string& payload) {
  std::string chunk(dump_format::kChunkHeaderBytes, 0);
  Store32(&chunk, 0, dump_format::kMagic);
  Store32(&chunk, 4, type_and_flags);
  Store32(&chunk, 8, static_cast<uint32_t>(payload.size()));
  Store32(&chunk, 12, sequence);
  Store32(&chunk, 16,
          serialize::ExtendCrc32c(serialize::ExtendCrc32c(0, chunk.data(), 16), payload.data(), payload.size()));
  return chunk + payload;
}
uint32_t Type(dump_format::ChunkType type) { return static_cast<uint32_t>(type); }

void CheckKnown(const std::string& message_name, const std::string& payload) {
  const auto* const type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName("pitot.dump.v1." + message_name);
  REQUIRE(type != nullptr);
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  REQUIRE(message->ParseFromString(payload));
  REQUIRE(message->GetReflection()->GetUnknownFields(*message).empty());
  // The schema's own encoding is not longer than ours.
  REQUIRE(message->ByteSizeLong() <= payload.size());
}

struct Result {
  Status status;
  Trace trace;
  DumpReport report;
};
Result Parse(const std::string& bytes) {
  Result result;
  // A copy of the exact size, so that a sanitizer sees reads beyond it.
  const std::unique_ptr<char[]> exact(new char[bytes.size()]);
  if (!bytes.empty()) memcpy(exact.get(), bytes.data(), bytes.size());
  result.status = ParseDump(exact.get(), bytes.size(), &result.trace, &result.report);
  return result;
}

template <class T> bool IsPrefix(const std::vector<T>& part, const std::vector<T>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

}  // namespace

TEST_CASE("the CRC-32C of known bytes is the published one", "[dump]") {
  CHECK(serialize::ExtendCrc32c(0, "123456789", 9) == 0xe3069283);
  CHECK(serialize::ExtendCrc32c(serialize::ExtendCrc32c(0, "1234", 4), "56789", 5) == 0xe3069283);
  CHECK(serialize::ExtendCrc32c(0, std::string(32, 0).data(), 32) == 0x8a9136aa);
}

TEST_CASE("a dump reads back as the written trace", "[dump]") {
  const Trace trace = SampleTrace();
  REQUIRE(model::FindInconsistency(trace) == "");

  const Result result = Parse(Dump(trace));

  CHECK(std::string(result.status.message()) == "");
  CHECK(FindDifference(trace, result.trace) == "");
  CHECK(model::FindInconsistency(result.trace) == "");
  CHECK(result.report.complete);
  CHECK(result.report.version_major == 1);
  CHECK(result.report.chunks_bad + result.report.chunks_unknown + result.report.bytes_skipped +
            result.report.rows_dropped ==
        0);
}

TEST_CASE("dumps of random traces read back as written", "[dump]") {
  for (uint32_t seed = 0; seed < 53; ++seed) {
    Trace trace = RandomTrace(seed, seed < 50 ? seed * 10 : 20000);
    FillEmptyColumns(&trace);
    INFO("seed " << seed);
    REQUIRE(model::FindInconsistency(trace) == "");
    const Result result = Parse(Dump(trace));
    REQUIRE(result.status.ok());
    REQUIRE(FindDifference(trace, result.trace) == "");
  }
}

TEST_CASE("an empty trace makes a whole dump", "[dump]") {
  const Result result = Parse(Dump(Trace()));
  CHECK(result.status.ok());
  CHECK(result.report.complete);
  CHECK(FindDifference(Trace(), result.trace) == "");
}

TEST_CASE("extreme values survive a dump", "[dump]") {
  TraceMaker maker;
  maker.trace.window_end_ns = model::kMaxTimeNs;
  maker.trace.pid = -1;
  const uint32_t thread = maker.Thread("t");
  maker.trace.threads[0].tid = INT64_MIN;
  const uint32_t site =
      maker.Site(SiteKind::kScope, "s",
                 {{"i", ArgType::kInt}, {"u", ArgType::kUint}, {"d", ArgType::kDouble}, {"b", ArgType::kBool}});
  maker.Event(thread, site, 0, model::kMaxTimeNs, {},
              {static_cast<uint64_t>(INT64_MIN), UINT64_MAX, 0x7ff8000000000001, 2});
  maker.Event(thread, site, model::kMaxTimeNs, model::kOpen, {}, {INT64_MAX, 0, 0x8000000000000000, 0});
  maker.Request(UINT64_MAX, "", model::kMaxTimeNs, 0);
  const Trace trace = maker.Finish();
  REQUIRE(model::FindInconsistency(trace) == "");

  const Result result = Parse(Dump(trace));

  CHECK(result.status.ok());
  CHECK(FindDifference(trace, result.trace) == "");
}

TEST_CASE("every chunk follows the schema and has its sequence number", "[dump]") {
  const std::string bytes = Dump(SampleTrace());
  uint32_t sequence = 0;
  std::set<uint32_t> seen;
  std::map<uint32_t, std::string> names = {{1, "Header"}, {2, "Strings"}, {15, "Trailer"}};
  schema::ForEachTable([&]<const auto & kTable>() {
    names[Type(kTable.type)] = dump_format::MessageName(kTable.name);
  });
  for (const Chunk& chunk : Chunks(bytes)) {
    INFO("chunk " << sequence << " type " << chunk.type);
    CHECK(Load32(bytes, chunk.at) == dump_format::kMagic);
    CHECK(Load32(bytes, chunk.at + 12) == sequence++);
    seen.insert(chunk.type);
    CheckKnown(names.at(chunk.type), chunk.payload);
  }
  CHECK(seen.size() == names.size());
}

TEST_CASE("an event without arguments takes at most 24 bytes, and chunks at most 64 KiB", "[dump]") {
  const std::string bytes = Dump(LargeTrace(100000));
  CHECK(bytes.size() < 100000 * 24);
  for (const Chunk& chunk : Chunks(bytes)) CHECK(chunk.payload.size() <= 64 << 10);
}

TEST_CASE("a dump cut anywhere gives a consistent part of the trace", "[dump]") {
  const Trace whole = SampleTrace();
  const std::string bytes = Dump(whole);
  uint32_t most_events = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    INFO("cut to " << size << " of " << bytes.size());
    const Result result = Parse(bytes.substr(0, size));
    REQUIRE(result.status.code() == StatusCode::kDataLoss);
    REQUIRE_FALSE(result.report.complete);
    REQUIRE(result.report.chunks_bad == 0);
    REQUIRE(model::FindInconsistency(result.trace) == "");
    REQUIRE(IsPrefix(result.trace.events.begin_ns, whole.events.begin_ns));
    REQUIRE(IsPrefix(result.trace.events.site, whole.events.site));
    REQUIRE(result.trace.requests.size() <= whole.requests.size());
    REQUIRE(result.trace.events.size() >= most_events);
    most_events = result.trace.events.size();
  }
  CHECK(most_events == whole.events.size());
}

TEST_CASE("a dump with any one wrong byte loses at most the chunk around it", "[dump]") {
  const Trace whole = SampleTrace();
  const std::string bytes = Dump(whole);
  const std::vector<Chunk> chunks = Chunks(bytes);
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      INFO("byte " << at << " ^ " << flip);
      std::string wrong = bytes;
      wrong[at] = static_cast<char>(wrong[at] ^ flip);
      const Result result = Parse(wrong);
      REQUIRE(result.status.code() == StatusCode::kDataLoss);
      REQUIRE(model::FindInconsistency(result.trace) == "");
      REQUIRE(result.report.chunks == chunks.size() - 1);
      REQUIRE(result.report.chunks_bad <= 1);
    }
  }
}

TEST_CASE("rows that refer to rows of a bad chunk are dropped and counted", "[dump]") {
  const Trace whole = SampleTrace();
  std::string bytes = Dump(whole);
  for (const Chunk& chunk : Chunks(bytes)) {
    if (chunk.type == Type(dump_format::ChunkType::kRequests)) bytes[chunk.at + 30] ^= 1;
  }
  const Result result = Parse(bytes);
  CHECK(result.report.chunks_bad == 1);
  CHECK(result.report.rows_dropped ==
        whole.members.size() + whole.handoffs.size() + whole.asyncs.size() + whole.tokens.size());
  CHECK(result.trace.events.begin_ns == whole.events.begin_ns);
  CHECK(result.trace.events.request == std::vector<uint32_t>(whole.events.size(), model::kNone));
  CHECK(result.trace.batches.size() == whole.batches.size());
}

TEST_CASE("a dump of an unknown major version and a file that is not a dump are refused", "[dump]") {
  proto::Header header;
  header.set_version_major(2);
  Result result = Parse(Frame(Type(dump_format::ChunkType::kHeader), 0, header.SerializeAsString()));
  CHECK(result.status.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(result.status.message()) == "a dump of version 2; this reader knows 1");

  result = Parse("{\"traceEvents\": []}");
  CHECK(result.status.code() == StatusCode::kInvalidArgument);
  result = Parse("");
  CHECK(result.status.code() == StatusCode::kDataLoss);
}

TEST_CASE("a damaged chunk costs few requests", "[dump]") {
  Trace trace;
  for (uint64_t id = 1; id <= 1000; ++id) {
    model::RequestRow request;
    request.id = id;
    for (int stage = 0; stage < 5; ++stage) request.stages.push_back({trace.strings.Add("stage"), 0, 0});
    trace.requests.push_back(request);
  }
  std::string bytes = Dump(trace);
  const std::vector<Chunk> chunks = Chunks(bytes);
  const auto first = std::find_if(chunks.begin(), chunks.end(), [](const Chunk& chunk) {
    return chunk.type == Type(dump_format::ChunkType::kRequests);
  });
  REQUIRE(first != chunks.end());
  bytes[first->at + 100] ^= 1;

  const Result result = Parse(bytes);

  CHECK(result.report.chunks_bad == 1);
  CHECK(result.trace.requests.size() > 850);
  CHECK(result.trace.requests.size() < 1000);
}

TEST_CASE("chunks of a newer minor version are skipped and counted", "[dump]") {
  const Trace whole = SampleTrace();
  const std::string bytes = Dump(whole);
  std::string newer;
  uint32_t sequence = 0;
  for (const Chunk& chunk : Chunks(bytes)) {
    if (chunk.type == Type(dump_format::ChunkType::kTrailer)) {
      newer += Frame(99, sequence++, "anything");
      newer += Frame(Type(dump_format::ChunkType::kEvents) | 1 << 16, sequence++, "an event chunk with a flag");
      proto::Trailer trailer;
      trailer.ParseFromString(chunk.payload);
      trailer.set_chunks(trailer.chunks() + 2);
      trailer.add_rows(12345);
      newer += Frame(chunk.type, sequence++, trailer.SerializeAsString());
    } else {
      newer += Frame(chunk.type, sequence++, chunk.payload);
    }
  }
  const Result result = Parse(newer);
  CHECK(std::string(result.status.message()) == "");
  CHECK(result.report.chunks_unknown == 2);
  CHECK(FindDifference(whole, result.trace) == "");
}

TEST_CASE("a dump has the same bytes as before", "[dump]") {
  const std::string name = "dump_1." + std::to_string(dump_format::kVersionMinor) + ".pitot";
  Trace trace = SampleTrace();
  FillEmptyColumns(&trace);
  const std::string bytes = Dump(trace);
  INFO("a changed format needs a new minor version; a changed sample trace needs PITOT_APPROVE=1");
  CheckGolden(name, bytes);
}

// test/golden/dump_1.N.pitot were written by a Pitot of format 1.N from its sample trace of that time. Never rewrite
// those of older formats.
TEST_CASE("dumps of all formats read as before", "[dump]") {
  size_t dumps = 0;
  for (uint32_t minor = 0; minor <= dump_format::kVersionMinor; ++minor) {
    const std::string name = "dump_1." + std::to_string(minor);
    const std::string path = std::string(PITOT_GOLDEN_DIR) + "/" + name + ".pitot";
    if (access(path.c_str(), R_OK) != 0) continue;  // some formats read like the one before and have no dump
    INFO(path);
    Trace trace;
    DumpReport report;

    REQUIRE(ReadDump(path, &trace, &report).ok());

    ++dumps;
    CHECK((report.version_major == 1 && report.version_minor == minor && report.complete));
    CHECK(report.chunks_bad + report.chunks_unknown + report.bytes_skipped + report.rows_dropped == 0);
    CHECK(model::FindInconsistency(trace) == "");
    CheckGolden(name + ".txt", TextOf(trace));
    CHECK(FindDifference(trace, Parse(Dump(trace)).trace) == "");
  }
  CHECK(dumps >= 5);
}

TEST_CASE("the documents have the columns of the schema", "[dump]") {
  const std::string root = PITOT_SOURCE_DIR;
  CheckPart(root + "/lib/serialize/proto/pitot_dump.proto",
            "// The tables, generated from lib/model/schema.h by tools/approve.", "", ProtoOfTables());
  CheckPart(root + "/docs/reference/formats/dump.md", "<!-- generated from lib/model/schema.h by tools/approve -->",
            "<!-- end -->", DocumentOfTables());
}

TEST_CASE("a dump of minor version 1 reads without the fields of later versions", "[dump]") {
  Trace whole = SampleTrace();
  std::string older;
  uint32_t sequence = 0;
  for (const Chunk& chunk : Chunks(Dump(whole))) {
    std::string payload = chunk.payload;
    if (chunk.type == Type(dump_format::ChunkType::kHeader)) {
      proto::Header header;
      header.ParseFromString(payload);
      header.set_version_minor(1);
      payload = header.SerializeAsString();
    } else if (chunk.type == Type(dump_format::ChunkType::kGpu)) {
      proto::Gpu gpu;
      gpu.ParseFromString(payload);
      gpu.clear_scope_path();
      payload = gpu.SerializeAsString();
    } else if (chunk.type == Type(dump_format::ChunkType::kTrailer)) {
      proto::Trailer trailer;
      trailer.ParseFromString(payload);
      trailer.mutable_rows()->Truncate(22);
      trailer.set_chunks(sequence);
      payload = trailer.SerializeAsString();
    } else if (chunk.type >= Type(dump_format::ChunkType::kDepths)) {
      continue;
    }
    older += Frame(chunk.type, sequence++, payload);
  }

  const Result result = Parse(older);

  CHECK(std::string(result.status.message()) == "");
  CHECK(result.report.version_minor == 1);
  whole.gpu.scope_path.assign(whole.gpu.size(), 0);
  whole.depths.clear();
  whole.operator_depths.clear();
  whole.norms.clear();
  whole.gpu_losses.clear();
  whole.counters.clear();
  whole.samples = {};
  CHECK(FindDifference(whole, result.trace) == "");
}

TEST_CASE("senseless rows about GPU recording are dropped and counted", "[dump]") {
  const std::string header = Frame(Type(dump_format::ChunkType::kHeader), 0, [] {
    proto::Header message;
    message.set_version_major(1);
    message.set_window_end_ns(1000);
    return message.SerializeAsString();
  }());
  proto::Depths depths;
  for (const auto& [begin, duration, depth] :
       {std::tuple(10, 5, 2u), std::tuple(-5, 5, 2u), std::tuple(5, -1, 2u), std::tuple(0, 5, 9u)}) {
    depths.add_begin(begin);
    depths.add_duration_ns(duration);
    depths.add_depth(depth);
  }
  proto::GpuLosses losses;
  losses.add_stream(7);  // not a stream of the file
  losses.add_reason(0);
  losses.add_begin_ns(20);
  losses.add_end_ns(30);
  losses.add_records(0);
  losses.add_stream(0);
  losses.add_reason(0);
  losses.add_begin_ns(31);
  losses.add_end_ns(30);
  losses.add_records(0);
  proto::Counters counters;
  counters.add_device(0);
  counters.add_name(0);
  counters.add_unit(0);
  proto::Samples samples;
  for (const auto& [counter, at, value] :
       {std::tuple(0u, 10, 1.0), std::tuple(0u, -1, 2.0), std::tuple(1u, 3, 3.0), std::tuple(0u, 4, HUGE_VAL)}) {
    samples.add_counter(counter);
    samples.add_at(at);
    samples.add_value(value);
  }

  const Result result = Parse(header + Frame(Type(dump_format::ChunkType::kDepths), 1, depths.SerializeAsString()) +
                              Frame(Type(dump_format::ChunkType::kGpuLosses), 2, losses.SerializeAsString()) +
                              Frame(Type(dump_format::ChunkType::kCounters), 3, counters.SerializeAsString()) +
                              Frame(Type(dump_format::ChunkType::kSamples), 4, samples.SerializeAsString()));

  CHECK(result.report.chunks_bad == 0);
  CHECK(result.report.rows_dropped == 3 + 1 + 3);
  REQUIRE(result.trace.depths.size() == 1);
  CHECK(result.trace.depths[0].end_ns == 15);
  REQUIRE(result.trace.gpu_losses.size() == 1);
  CHECK(result.trace.gpu_losses[0].stream == model::kNone);
  CHECK(result.trace.gpu_losses[0].device == model::kNone);  // as in formats before 1.4, without the device
  CHECK(result.trace.samples.size() == 1);
}

TEST_CASE("a whole but senseless chunk is bad, not fatal", "[dump]") {
  const std::string header = Frame(Type(dump_format::ChunkType::kHeader), 0, [] {
    proto::Header message;
    message.set_version_major(1);
    return message.SerializeAsString();
  }());
  proto::Events events;
  events.add_begin(5);  // without the other columns
  Result result = Parse(header + Frame(Type(dump_format::ChunkType::kEvents), 1, events.SerializeAsString()));
  CHECK(result.report.chunks_bad == 1);
  CHECK(result.status.code() == StatusCode::kDataLoss);

  result = Parse(header + Frame(Type(dump_format::ChunkType::kStrings), 1, "\xff\xff\xff"));
  CHECK(result.report.chunks_bad == 1);

  // Rows with large numbers cost no memory.
  proto::Strings strings;
  strings.set_first_row(0xfffffff0);
  strings.add_size(1);
  strings.set_text("x");
  result = Parse(header + Frame(Type(dump_format::ChunkType::kStrings), 1, strings.SerializeAsString()));
  CHECK(result.report.chunks_bad == 0);
  CHECK(result.trace.strings.size() == 2);
}

TEST_CASE("a file of only headers of chunks is read quickly", "[dump]") {
  std::string bytes;
  while (bytes.size() < 4 << 20) {
    std::string chunk(dump_format::kChunkHeaderBytes, 0);
    Store32(&chunk, 0, dump_format::kMagic);
    Store32(&chunk, 4, Type(dump_format::ChunkType::kStrings));
    Store32(&chunk, 8, 1 << 20);
    bytes += chunk;
  }
  const Result result = Parse(bytes);
  CHECK(result.status.code() == StatusCode::kDataLoss);
}

TEST_CASE("a dump that cannot be written returns an error", "[dump]") {
  StringSink sink(100);
  CHECK(MakeDumpSerializer()->Serialize(SampleTrace(), sink).code() == StatusCode::kIoError);
}

namespace {

// A file of these bytes, for as long as this lives.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    const int file = mkstemp(path_);
    REQUIRE(file >= 0);
    REQUIRE(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(file);
  }
  ~TemporaryFile() { unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/pitot_dump_test_XXXXXX";
};

Result ReadFile(const std::string& bytes) {
  const TemporaryFile file(bytes);
  Result result;
  result.status = ReadDump(file.path(), &result.trace, &result.report);
  return result;
}

// The dump's chunks before the trailer, then `count` chunks of an unknown type with 1 MiB each, then the trailer.
std::string WithUnknown(const std::string& dump, uint32_t count) {
  std::string longer;
  uint32_t sequence = 0;
  for (const Chunk& chunk : Chunks(dump)) {
    if (chunk.type == Type(dump_format::ChunkType::kTrailer)) {
      for (uint32_t i = 0; i < count; ++i) longer += Frame(99, sequence++, std::string(1 << 20, '\x89'));
      proto::Trailer trailer;
      trailer.ParseFromString(chunk.payload);
      trailer.set_chunks(trailer.chunks() + count);
      longer += Frame(chunk.type, sequence++, trailer.SerializeAsString());
    } else {
      longer += Frame(chunk.type, sequence++, chunk.payload);
    }
  }
  return longer;
}

}  // namespace

TEST_CASE("a dump file is read through a window, not as a whole", "[dump]") {
  const TemporaryFile file(WithUnknown(Dump(SampleTrace()), 16));
  Result result;
  fakes::g_largest_bytes = 0;
  result.status = ReadDump(file.path(), &result.trace, &result.report);
  CHECK(fakes::g_largest_bytes <= 4 << 20);
  CHECK(result.status.ok());
  CHECK(result.report.chunks_unknown == 16);
  CHECK(FindDifference(SampleTrace(), result.trace) == "");
}

TEST_CASE("damage in a dump file costs what it costs in memory", "[dump]") {
  std::string bytes = WithUnknown(Dump(SampleTrace()), 5);
  for (size_t at = 1000; at < bytes.size(); at += 1'700'000) ++bytes[at];
  for (const std::string& damaged : {bytes, bytes.substr(0, bytes.size() - 10), "\x89PIT" + bytes}) {
    const Result in_memory = Parse(damaged), in_file = ReadFile(damaged);
    CHECK(in_file.status.code() == StatusCode::kDataLoss);
    CHECK(std::string(in_file.status.message()) == in_memory.status.message());
    CHECK(in_file.report.chunks == in_memory.report.chunks);
    CHECK(in_file.report.chunks_bad == in_memory.report.chunks_bad);
    CHECK(in_file.report.chunks_unknown == in_memory.report.chunks_unknown);
    CHECK(in_file.report.bytes_skipped == in_memory.report.bytes_skipped);
    CHECK(FindDifference(in_memory.trace, in_file.trace) == "");
  }
}

TEST_CASE("a long string in a dump file is read whole", "[dump]") {
  Trace trace = SampleTrace();
  trace.process_name = trace.strings.Add(std::string(5 << 20, 'x'));
  const Result result = ReadFile(Dump(trace));
  CHECK(result.status.ok());
  CHECK(FindDifference(trace, result.trace) == "");
}

TEST_CASE("dumps are read from files", "[dump]") {
  const std::string gone = TemporaryFile("").path();
  CHECK(FindDifference(SampleTrace(), ReadFile(Dump(SampleTrace())).trace) == "");
  CHECK(ReadFile("").status.code() == StatusCode::kDataLoss);
  CHECK(ReadFile(std::string(4 << 20, 'x')).status.code() == StatusCode::kInvalidArgument);
  Trace trace;
  DumpReport report;
  CHECK(ReadDump(gone, &trace, &report).code() == StatusCode::kNotFound);
  CHECK(ReadDump("/tmp", &trace, &report).code() == StatusCode::kInvalidArgument);
}

}  // namespace pitot::test
