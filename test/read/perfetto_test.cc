// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fakes/string_sink.h"
#include "pitot/serialize/perfetto.h"
#include "read/parse.h"
#include "read/tables.h"
#include "report/incident_trace.h"
#include "serialize/sample_trace.h"
#include "serialize/wire.h"

using pitot::SiteKind;
using pitot::analyze::TopBy;
using pitot::model::GpuKind;
using pitot::model::kNone;
using pitot::model::Trace;
using pitot::serialize::WireBuffer;
using read_test::Parse;
using read_test::Read;

namespace {

std::string Bytes(const WireBuffer& buffer) { return {reinterpret_cast<const char*>(buffer.data()), buffer.size()}; }

// Packets of one sequence as the SDK writes them.
class Packets {
 public:
  template <class Fill> Packets& Add(const Fill& fill) {
    const size_t packet = buffer_.Open(1);
    fill(buffer_);
    buffer_.Close(packet);
    return *this;
  }
  template <class Fill> Packets& Track(uint64_t uuid, const Fill& fill) {
    return Add([&](WireBuffer& buffer) {
      const size_t track = buffer.Open(60);
      buffer.Varint(1, uuid);
      fill(buffer);
      buffer.Close(track);
    });
  }
  Packets& Thread(uint64_t uuid, int64_t pid, int64_t tid, const char* name) {
    return Track(uuid, [&](WireBuffer& buffer) {
      const size_t thread = buffer.Open(4);
      buffer.Int(1, pid);
      buffer.Int(2, tid);
      buffer.String(5, name);
      buffer.Close(thread);
    });
  }
  // A sequence begins: its names, and thread 7 by default.
  Packets& State(uint32_t sequence) {
    return Add([&](WireBuffer& buffer) {
      buffer.Varint(10, sequence);
      buffer.Varint(13, 1);
      const size_t interned = buffer.Open(12);
      for (const auto& [field, iid, text] :
           {std::tuple(2, 1, "decode"), {2, 2, "resize"}, {3, 1, "bytes"}, {29, 1, "jpeg"}}) {
        const size_t entry = buffer.Open(static_cast<uint32_t>(field));
        buffer.Varint(1, static_cast<uint64_t>(iid));
        buffer.String(2, text);
        buffer.Close(entry);
      }
      buffer.Close(interned);
      const size_t defaults = buffer.Open(59);
      const size_t event = buffer.Open(11);
      buffer.Varint(11, 7);
      buffer.Close(event);
      buffer.Close(defaults);
    });
  }
  template <class Fill> Packets& Event(uint32_t sequence, uint64_t at_ns, uint64_t type, const Fill& fill) {
    return Add([&](WireBuffer& buffer) {
      buffer.Varint(8, at_ns);
      buffer.Varint(10, sequence);
      buffer.Varint(13, 2);
      const size_t event = buffer.Open(11);
      buffer.Varint(9, type);
      fill(buffer);
      buffer.Close(event);
    });
  }
  Packets& Begin(uint64_t at_ns, uint64_t name, uint32_t sequence = 1) {
    return Event(sequence, at_ns, 1, [&](WireBuffer& buffer) { buffer.Varint(10, name); });
  }
  Packets& End(uint64_t at_ns, uint32_t sequence = 1) {
    return Event(sequence, at_ns, 2, [](WireBuffer&) {});
  }
  // A counter's track, and a sample of it.
  Packets& Counter(uint64_t uuid, uint64_t parent, const char* name) {
    return Track(uuid, [&](WireBuffer& buffer) {
      buffer.Varint(5, parent);
      buffer.String(2, name);
      buffer.Close(buffer.Open(8));
    });
  }
  Packets& Sample(uint64_t uuid, uint64_t at_ns, int64_t value) {
    return Event(1, at_ns, 4, [&](WireBuffer& buffer) {
      buffer.Varint(11, uuid);
      buffer.Int(30, value);
    });
  }
  std::string Text() const { return Bytes(buffer_); }

 private:
  WireBuffer buffer_;
};

std::string Written(const Trace& trace, const pitot::PerfettoOptions& options = {}) {
  fakes::StringSink sink;
  REQUIRE(pitot::MakePerfettoSerializer(options)->Serialize(trace, sink).ok());
  return sink.bytes;
}

uint64_t Compress(void*, const void* in, uint64_t size, void* out, uint64_t capacity) {
  uLongf packed = capacity;
  return compress(static_cast<Bytef*>(out), &packed, static_cast<const Bytef*>(in), size) == Z_OK ? packed : 0;
}

// A CPU goes on with another thread, by an event of ftrace.
void PutSwitch(int at_ns, int tid, const char* name, WireBuffer* buffer) {
  const size_t event = buffer->Open(2);
  buffer->Varint(1, static_cast<uint64_t>(at_ns));
  const size_t change = buffer->Open(4);
  buffer->String(5, name);
  buffer->Int(6, tid);
  buffer->Close(change);
  buffer->Close(event);
}

}  // namespace

TEST_CASE("slices of a Perfetto trace are scopes of their thread, with annotations as arguments", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1);
  packets.Event(1, 1000, 1, [](WireBuffer& buffer) {
    buffer.Varint(10, 1);
    size_t annotation = buffer.Open(4);
    buffer.Varint(1, 1);
    buffer.Varint(3, 4096);
    buffer.Close(annotation);
    annotation = buffer.Open(4);
    buffer.String(10, "kind");
    buffer.Varint(17, 1);
    buffer.Close(annotation);
  });
  packets.Begin(1100, 2).End(1300).End(1500);
  packets.Event(1, 1600, 3, [](WireBuffer& buffer) { buffer.String(23, "flush"); });

  const Read read = Parse(packets.Text());

  REQUIRE(read.status.ok());
  CHECK(read.report.format == "perfetto");
  CHECK(read.report.tool == "Perfetto");
  CHECK(read.Events() == "decode 1000+500, resize 1100+200, flush 1600+0");
  const auto& decode = read.trace.sites[read.trace.events.site[0]];
  REQUIRE(decode.arg_names.size() == 2);
  CHECK(read.Name(decode.arg_names[0]) == "bytes");
  CHECK(read.trace.arg_values[read.trace.events.args[0]] == 4096);
  CHECK(read.Name(static_cast<uint32_t>(read.trace.arg_values[read.trace.events.args[0] + 1])) == "jpeg");
  CHECK(read.Name(read.trace.threads[0].name) == "worker");
  CHECK(read.trace.threads[0].tid == 43);
  CHECK(read.trace.pid == 42);
}

TEST_CASE("a Perfetto sequence's own clock counts up, and is tied to the trace's", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1);
  packets.Add([](WireBuffer& buffer) {
    buffer.Varint(10, 1);
    const size_t snapshot = buffer.Open(6);
    for (const auto& [id, at, is_incremental] : {std::tuple(64, 100, 1), {6, 5000, 0}, {1, 1'700'000'000, 0}}) {
      const size_t clock = buffer.Open(1);
      buffer.Varint(1, static_cast<uint64_t>(id));
      buffer.Varint(2, static_cast<uint64_t>(at));
      if (is_incremental != 0) buffer.Varint(3, 1);
      buffer.Close(clock);
    }
    buffer.Close(snapshot);
  });
  for (const uint64_t type : {1, 2}) {
    packets.Add([&](WireBuffer& buffer) {
      buffer.Varint(8, 30);  // since the packet before
      buffer.Varint(58, 64);
      buffer.Varint(10, 1);
      const size_t event = buffer.Open(11);
      buffer.Varint(9, type);
      buffer.Varint(10, 1);
      buffer.Close(event);
    });
  }

  const Read read = Parse(packets.Text());

  REQUIRE(read.status.ok());
  CHECK(read.Events() == "decode 5030+30");
  CHECK(read.trace.clock.realtime_ns == 1'700'000'000 + 60);
}

TEST_CASE("a Perfetto trace's counters, scheduling and GPU stages are read", "[perfetto]") {
  Packets packets;
  packets.Track(9, [](WireBuffer& buffer) {
    buffer.String(2, "queue depth");
    const size_t counter = buffer.Open(8);
    buffer.Varint(4, 2);  // what its values are multiplied by
    buffer.Close(counter);
  });
  packets.State(1);
  packets.Event(1, 2000, 4, [](WireBuffer& buffer) {
    buffer.Varint(11, 9);
    buffer.Int(30, 21);
  });
  packets.Add([](WireBuffer& buffer) {
    const size_t bundle = buffer.Open(1);
    buffer.Varint(1, 3);
    for (const auto& [at, tid, name] : {std::tuple(100, 43, "worker"), {160, 0, "swapper"}, {200, 44, "other"}}) {
      PutSwitch(at, tid, name, &buffer);
    }
    buffer.Close(bundle);
  });
  packets.Add([](WireBuffer& buffer) {
    buffer.Varint(10, 2);
    buffer.Varint(13, 1);
    const size_t interned = buffer.Open(12);
    const size_t queue = buffer.Open(24);
    buffer.Varint(1, 1);
    buffer.String(2, "stream 7");
    buffer.Close(queue);
    const size_t kernel = buffer.Open(1000);
    buffer.Varint(1, 1);
    buffer.String(2, "_Z4gemmPf");
    buffer.String(3, "gemm(float*)");
    const size_t registers = buffer.Open(5);
    buffer.Varint(1, 4);
    buffer.Varint(4, 96);
    buffer.Close(registers);
    buffer.Close(kernel);
    for (const auto& [iid, text] : {std::pair(4, "registers_per_thread"), {5, "shared_mem_dynamic"}}) {
      const size_t name = buffer.Open(1001);
      buffer.Varint(1, static_cast<uint64_t>(iid));
      buffer.String(2, text);
      buffer.Close(name);
    }
    buffer.Close(interned);
  });
  packets.Add([](WireBuffer& buffer) {
    buffer.Varint(8, 3000);
    buffer.Varint(10, 2);
    const size_t stage = buffer.Open(53);
    buffer.Varint(1, 77);
    buffer.Varint(2, 500);
    buffer.Varint(13, 1);
    buffer.Varint(19, 1);
    const size_t launch = buffer.Open(21);
    const size_t grid = buffer.Open(1);
    buffer.Varint(1, 8);
    buffer.Varint(2, 2);
    buffer.Close(grid);
    const size_t shared = buffer.Open(3);
    buffer.Varint(1, 5);
    buffer.Varint(3, 2048);
    buffer.Close(shared);
    buffer.Close(launch);
    buffer.Close(stage);
  });
  // The call that caused it.
  packets.Thread(7, 42, 43, "worker");
  packets.Event(1, 2900, 1, [](WireBuffer& buffer) {
    buffer.String(23, "cudaLaunchKernel");
    const size_t correlation = buffer.Open(3000);
    buffer.Varint(1, 77);
    buffer.Close(correlation);
  });
  packets.End(2950);

  const Read read = Parse(packets.Text());

  REQUIRE(read.status.ok());
  REQUIRE(read.trace.samples.size() == 1);
  CHECK(read.trace.samples.value[0] == 42);
  CHECK(read.Name(read.trace.counters[0].name) == "queue depth");
  CHECK(read.Events() == "worker (43) 100+60");
  REQUIRE(read.trace.gpu.size() == 1);
  CHECK(read.Name(read.trace.gpu.name[0]) == "gemm(float*)");
  CHECK(read.trace.gpu.duration_ns[0] == 500);
  CHECK(read.trace.shapes.at(read.trace.gpu.shape[0]).grid[1] == 2);
  CHECK(read.trace.shapes.at(read.trace.gpu.shape[0]).registers_per_thread == 96);
  CHECK(read.trace.shapes.at(read.trace.gpu.shape[0]).dynamic_shared_bytes == 2048);
  CHECK(read.Name(read.trace.calls.name.at(read.trace.gpu.call[0])) == "cudaLaunchKernel");
  CHECK(read.Count("switches") == 3);
}

TEST_CASE("a Perfetto trace that is cut off, padded or has a damaged packet keeps the rest", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1);
  for (uint64_t i = 0; i < 10; ++i) packets.Begin(1000 + 100 * i, 1).End(1050 + 100 * i);
  const std::string whole = packets.Text();

  const Read padded = Parse(whole + std::string(64, '\0'));
  CHECK(padded.status.ok());
  CHECK(padded.trace.events.size() == 10);

  const Read cut = Parse(whole.substr(0, whole.size() - 4));
  CHECK(cut.status.code() == pitot::StatusCode::kDataLoss);
  CHECK(cut.trace.events.size() == 10);
  CHECK(!cut.report.complete);

  WireBuffer bad;
  bad.String(1, "\x5a\x7f");  // an event that is longer than its packet
  const Read damaged = Parse(whole + Bytes(bad) + Packets().Begin(9000, 1).End(9100).Text());
  CHECK(damaged.status.code() == pitot::StatusCode::kDataLoss);
  CHECK(damaged.report.events_bad == 1);
  CHECK(damaged.trace.events.size() == 11);
}

TEST_CASE("events of a Perfetto sequence before its names are left out, and counted", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").Begin(500, 1).State(1).Begin(1000, 1).End(1100);

  const Read read = Parse(packets.Text());

  CHECK(read.Events() == "decode 1000+100");
  CHECK(read.report.problems.find("1 event before the names") == 0);
}

TEST_CASE("Perfetto slices may be deeper than 512", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1);
  for (uint64_t i = 0; i < 520; ++i) packets.Begin(1000 + i, 1);
  for (uint64_t i = 0; i < 520; ++i) packets.End(3000 + i);

  const Read read = Parse(packets.Text());

  REQUIRE(read.trace.events.size() == 520);
  for (uint32_t row = 0; row < 520; ++row)
    REQUIRE(read.trace.events.begin_ns[row] + read.trace.events.duration_ns[row] == 3519 - row);
  CHECK(read.report.problems.empty());
}

TEST_CASE("two writers' packets on one Perfetto track make the same slices in any order", "[perfetto]") {
  using Step = void (*)(Packets*, uint32_t writer);
  struct Event {
    uint32_t writer;
    Step step;
  };
  // Each writer ends slices of the other.
  const std::vector<Event> events = {
      {1, [](Packets* to, uint32_t writer) { to->Begin(100, 1, writer); }},
      {2, [](Packets* to, uint32_t writer) { to->Begin(150, 2, writer); }},
      {1, [](Packets* to, uint32_t writer) { to->End(200, writer); }},
      {2, [](Packets* to, uint32_t writer) { to->End(250, writer); }},
      {1, [](Packets* to, uint32_t writer) { to->Begin(300, 1, writer); }},
      {2, [](Packets* to, uint32_t writer) { to->End(400, writer); }},
      {1, [](Packets* to, uint32_t writer) { to->Begin(450, 2, writer); }},
      {1, [](Packets* to, uint32_t writer) { to->Begin(500, 1, writer); }},
      {2,
       [](Packets* to, uint32_t writer) {
         to->Event(writer, 600, 2, [](WireBuffer& buffer) { buffer.Varint(10, 2); });  // "resize"
       }},
  };
  const auto write = [&](const std::vector<uint32_t>& writers) {
    Packets packets;
    packets.Thread(7, 42, 43, "worker").State(1).State(2);
    for (const uint32_t writer : writers) {
      for (const Event& event : events) {
        if (writer == 0 || event.writer == writer) event.step(&packets, event.writer);
      }
    }
    return Parse(packets.Text());
  };

  const std::string expected = "decode 100+150, resize 150+50, decode 300+100, resize 450+150, decode 500+100";
  for (const std::vector<uint32_t>& writers : {std::vector<uint32_t>{0}, {1, 2}, {2, 1}}) {
    CAPTURE(writers);
    const Read read = write(writers);
    CHECK(read.status.ok());
    CHECK(read.Events() == expected);
    CHECK(read.report.problems.empty());
    CHECK(read.Count("ends_without_begin") == 0);
  }
}

TEST_CASE("Perfetto slices that begin and end at one time are in the order of the file", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1);
  packets.Begin(100, 1).End(200).Begin(200, 2).End(200).Begin(200, 1).Begin(200, 2).End(300).End(400);

  const Read read = Parse(packets.Text());

  CHECK(read.Events() == "decode 100+100, decode 200+200, resize 200+100, resize 200+0");
  CHECK(read.report.problems.empty());
}

TEST_CASE("Perfetto's switches of a CPU may be in any order", "[perfetto]") {
  Packets packets;
  packets.State(1);
  for (const auto& [at, tid, name] :
       {std::tuple(160, 0, "swapper"), {200, 44, "other"}, {100, 43, "worker"}, {250, 0, "swapper"}}) {
    packets.Add([&, at = at, tid = tid, name = name](WireBuffer& buffer) {
      const size_t bundle = buffer.Open(1);
      buffer.Varint(1, 3);
      PutSwitch(at, tid, name, &buffer);
      buffer.Close(bundle);
    });
  }

  const Read read = Parse(packets.Text());

  CHECK(read.Events() == "worker (43) 100+60, other (44) 200+50");
  CHECK(read.Name(read.trace.threads.at(0).name) == "CPU 3");
}

TEST_CASE("a Perfetto track may be described after its events", "[perfetto]") {
  Packets packets;
  packets.State(1).Begin(1000, 1).End(1100).Sample(9, 1000, 5).Thread(7, 42, 43, "worker").Counter(9, 7, "depth");

  const Read read = Parse(packets.Text());

  CHECK(read.Events() == "decode 1000+100");
  REQUIRE(read.trace.threads.size() == 1);
  CHECK(read.Name(read.trace.threads[0].name) == "worker");
  CHECK(read.trace.threads[0].tid == 43);
  CHECK(read.trace.pid == 42);
  REQUIRE(read.trace.counters.size() == 1);
  CHECK(read.Name(read.trace.counters[0].name) == "depth");
}

TEST_CASE("arguments of the end of a Perfetto slice come after those of its begin", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1);
  const auto annotate = [](WireBuffer* buffer, const char* name, uint64_t value) {
    const size_t annotation = buffer->Open(4);
    buffer->String(10, name);
    buffer->Varint(3, value);
    buffer->Close(annotation);
  };
  packets.Event(1, 1000, 1, [&](WireBuffer& buffer) {
    buffer.Varint(10, 1);
    annotate(&buffer, "bytes", 4096);
  });
  packets.Begin(1100, 2);
  for (const auto& [at, value] : {std::pair(1200, 2), {1300, 3}})
    packets.Event(1, static_cast<uint64_t>(at), 2,
                  [&, value = value](WireBuffer& buffer) { annotate(&buffer, "rows", static_cast<uint64_t>(value)); });

  const Read read = Parse(packets.Text());

  REQUIRE(read.Events() == "decode 1000+300, resize 1100+100");
  std::string args;
  for (uint32_t row = 0; row < 2; ++row) {
    const auto& site = read.trace.sites[read.trace.events.site[row]];
    for (size_t i = 0; i < site.arg_names.size(); ++i)
      args += read.Name(site.arg_names[i]) + "=" +
              std::to_string(read.trace.arg_values[read.trace.events.args[row] + i]) + " ";
  }
  CHECK(args == "bytes=4096 rows=3 rows=2 ");
}

TEST_CASE("counters of one name on several Perfetto tracks stay apart", "[perfetto]") {
  Packets packets;
  packets.State(1);
  for (const uint64_t gpu : {20, 21}) {
    packets.Track(gpu, [&](WireBuffer& buffer) { buffer.String(2, gpu == 20 ? "GPU 0" : "GPU 1"); });
    packets.Counter(10 * gpu, gpu, "load").Sample(10 * gpu, 1000, static_cast<int64_t>(gpu));
  }
  packets.Counter(30, 0, "load").Counter(31, 0, "load").Counter(32, 0, "memory");
  for (const uint64_t uuid : {30, 31, 32, 200, 210}) packets.Sample(uuid, 2000, static_cast<int64_t>(uuid));

  const Read read = Parse(packets.Text());

  std::string samples;
  for (uint32_t row = 0; row < read.trace.samples.size(); ++row)
    samples += read.Name(read.trace.counters[read.trace.samples.counter[row]].name) + " " +
               std::to_string(static_cast<int>(read.trace.samples.value[row])) + "; ";
  CHECK(samples ==
        "GPU 0: load 20; GPU 0: load 200; GPU 1: load 21; GPU 1: load 210; load 30; load (2) 31; memory 32; ");
}

TEST_CASE("ends of Perfetto slices without a begin before them are said", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1).End(500).Begin(1000, 1).End(1100);

  const Read read = Parse(packets.Text());

  CHECK(read.Events() == "decode 1000+100");
  CHECK(read.report.problems.find("1 end of slices had no begin before them") == 0);
}

TEST_CASE("long arguments of ends of Perfetto slices are left out beyond 64 MiB", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1);
  const std::string text(16 << 10, 'x');
  for (uint64_t i = 0; i < 500; ++i)
    packets.Begin(1000 + 2 * i, 1).Event(1, 1001 + 2 * i, 2, [&](WireBuffer& buffer) {
      for (int arg = 0; arg < 10; ++arg) {
        const size_t annotation = buffer.Open(4);
        buffer.String(10, "key");
        buffer.String(6, text);
        buffer.Close(annotation);
      }
    });

  const Read read = Parse(packets.Text());

  CHECK(read.trace.events.size() == 500);
  CHECK(read.report.problems.find("arguments of ends were left out: they are too long") != std::string::npos);
}

TEST_CASE("a Perfetto event of a clock that no snapshot so far has is not read with a time of another", "[perfetto]") {
  Packets packets;
  packets.Thread(7, 42, 43, "worker").Add([](WireBuffer& buffer) {
    const size_t snapshot = buffer.Open(6);
    const size_t clock = buffer.Open(1);
    buffer.Varint(1, 6);
    buffer.Varint(2, 500'000);
    buffer.Close(clock);
    buffer.Close(snapshot);
  });
  packets.State(1).Begin(1000, 1).End(1100);
  packets.Add([](WireBuffer& buffer) {
    buffer.Varint(8, 1050);
    buffer.Varint(10, 1);
    buffer.Varint(58, 3);  // CLOCK_MONOTONIC
    const size_t event = buffer.Open(11);
    buffer.Varint(9, 3);
    buffer.Varint(10, 2);
    buffer.Close(event);
  });

  const Read read = Parse(packets.Text());

  CHECK(read.Events() == "decode 1000+100");
  CHECK(read.report.events_bad == 1);
}

TEST_CASE("packed Perfetto packets that grow without end are damage", "[perfetto]") {
  Packets unknown;
  unknown.Add([](WireBuffer& buffer) { buffer.String(900, std::string(32 << 20, '\0')); });
  const std::string unpacked = unknown.Text();
  std::string packed(64 << 10, '\0');
  packed.resize(Compress(nullptr, unpacked.data(), unpacked.size(), packed.data(), packed.size()));
  REQUIRE(!packed.empty());
  Packets packets;
  packets.Thread(7, 42, 43, "worker").State(1).Begin(1000, 1).End(1100);
  for (int i = 0; i < 8; ++i) packets.Add([&](WireBuffer& buffer) { buffer.String(50, packed); });

  const Read read = Parse(packets.Text());

  CHECK(read.status.code() == pitot::StatusCode::kDataLoss);
  CHECK(read.Events() == "decode 1000+100");
}

// The sampled counters: device, name and unit.
std::set<std::tuple<int64_t, std::string, std::string>> Counters(const Trace& trace) {
  std::set<std::tuple<int64_t, std::string, std::string>> counters;
  for (const uint32_t row : trace.samples.counter) {
    const pitot::model::CounterRow& counter = trace.counters[row];
    const int64_t device = counter.device == kNone ? -1 : int64_t{trace.devices[counter.device].ordinal};
    counters.emplace(device, trace.strings[counter.name], trace.strings[counter.unit]);
  }
  return counters;
}

TEST_CASE("what Pitot wrote for Perfetto has the same tables when it is read", "[perfetto]") {
  const auto check = [](const Trace& trace, const pitot::PerfettoOptions& options = {}) {
    const Read read = Parse(Written(trace, options));
    INFO(read.status.message());
    REQUIRE(read.status.ok());
    CHECK(read.report.tool == "Pitot");
    for (const TopBy by :
         {TopBy::kOperator, TopBy::kKernel, TopBy::kLayer, TopBy::kScope, TopBy::kRequest, TopBy::kCall}) {
      CAPTURE(static_cast<int>(by));
      CHECK(read_test::Table(read.trace, by) == read_test::Table(trace, by));
    }
    CHECK(read.trace.window_begin_ns == trace.window_begin_ns);
    CHECK(read.trace.clock.realtime_ns == trace.clock.realtime_ns);
    CHECK(read.trace.requests.size() == trace.requests.size());
    CHECK(read.trace.batches.size() == trace.batches.size());
    CHECK(read.trace.members.size() == trace.members.size());
    CHECK(read.trace.handoffs.size() == trace.handoffs.size());
    CHECK(read.trace.asyncs.size() == trace.asyncs.size());
    CHECK(read.trace.tokens.size() == trace.tokens.size());
    CHECK(read.trace.samples.size() == trace.samples.size());
    CHECK(Counters(read.trace) == Counters(trace));
    CHECK(read.trace.losses.size() == trace.losses.size());
    CHECK(read.trace.gpu_losses.size() == trace.gpu_losses.size());
    CHECK(read.trace.firings.size() == trace.firings.size());
    CHECK(read_test::Answers(read.trace) == read_test::Answers(trace));
  };
  check(incident::MakeTrace());
  check(incident::MakeGpuTrace());
  check(pitot::test::SampleTrace());
  check(pitot::test::LargeTrace(2000, 30));
  pitot::PerfettoOptions packed;
  packed.compress = Compress;
  check(incident::MakeGpuTrace(), packed);
}

TEST_CASE("labels that are named like fields of Pitot stay labels in a Perfetto trace", "[perfetto]") {
  Trace trace = pitot::test::SampleTrace();
  REQUIRE(!trace.requests.empty());
  const uint64_t id = trace.requests[0].id;
  const auto outcome = trace.requests[0].outcome;
  trace.requests[0].labels = {{trace.strings.Add("id"), trace.strings.Add("7")},
                              {trace.strings.Add("outcome"), trace.strings.Add("failed")},
                              {trace.strings.Add("labels"), trace.strings.Add("x")}};
  trace.requests[0].sizes = {{trace.strings.Add("deadline_ns"), 77}};

  const Read read = Parse(Written(trace));

  REQUIRE(read.status.ok());
  const auto found = std::find_if(read.trace.requests.begin(), read.trace.requests.end(),
                                  [&](const auto& request) { return request.id == id; });
  REQUIRE(found != read.trace.requests.end());
  CHECK(found->outcome == outcome);
  CHECK(found->deadline_ns == trace.requests[0].deadline_ns);
  std::string labels;
  for (const auto& label : found->labels) labels += read.Name(label.key) + "=" + read.Name(label.value) + " ";
  CHECK(labels == "id=7 outcome=failed labels=x ");
  REQUIRE(found->sizes.size() == 1);
  CHECK(read.Name(found->sizes[0].name) == "deadline_ns");
  CHECK(found->sizes[0].value == 77);
}
