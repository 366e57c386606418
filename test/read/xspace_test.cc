// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "fakes/string_sink.h"
#include "model/lacking.h"
#include "pitot/serialize/xspace.h"
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

std::string FileText(const std::string& name) {
  std::ifstream file(std::string(PITOT_READ_DATA) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A plane as the profiler writes it: lines before the names that they refer to.
class Plane {
 public:
  explicit Plane(const std::string& name) { buffer_.String(2, name); }
  void BeginLine(int64_t id, const std::string& name, int64_t begin_ns) {
    line_ = buffer_.Open(3);
    buffer_.Int(1, id);
    buffer_.String(2, name);
    buffer_.Int(3, begin_ns);
  }
  void EndLine() { buffer_.Close(line_); }
  void Event(const std::string& name, int64_t offset_ps, int64_t duration_ps,
             const std::vector<std::pair<std::string, std::string>>& stats = {}) {
    const size_t event = buffer_.Open(4);
    buffer_.Varint(1, IdOf(name, &events_));
    buffer_.Int(2, offset_ps);
    buffer_.Int(3, duration_ps);
    for (const auto& [key, value] : stats) {
      const size_t stat = buffer_.Open(4);
      buffer_.Varint(1, IdOf(key, &stats_));
      const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
      is_number ? buffer_.Varint(3, std::stoull(value)) : buffer_.Varint(7, IdOf(value, &stats_));
      buffer_.Close(stat);
    }
    buffer_.Close(event);
  }
  std::string Space() {
    AddNames(4, events_);
    AddNames(5, stats_);
    WireBuffer space;
    space.Bytes(1, buffer_.data(), buffer_.size());
    return {reinterpret_cast<const char*>(space.data()), space.size()};
  }

 private:
  static uint64_t IdOf(const std::string& name, std::vector<std::string>* names) {
    const auto found = std::find(names->begin(), names->end(), name);
    if (found == names->end()) names->push_back(name);
    return static_cast<uint64_t>(std::find(names->begin(), names->end(), name) - names->begin()) + 1;
  }
  void AddNames(uint32_t field, const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      const size_t entry = buffer_.Open(field);
      buffer_.Varint(1, i + 1);
      const size_t value = buffer_.Open(2);
      buffer_.Varint(1, i + 1);
      buffer_.String(2, names[i]);
      buffer_.Close(value);
      buffer_.Close(entry);
    }
  }

  WireBuffer buffer_;
  size_t line_ = 0;
  std::vector<std::string> events_, stats_;
};

std::string Written(const Trace& trace) {
  fakes::StringSink sink;
  REQUIRE(pitot::MakeXSpaceSerializer()->Serialize(trace, sink).ok());
  return sink.bytes;
}

}  // namespace

TEST_CASE("an XSpace's kernel has its launch, shape, module and operation", "[xspace]") {
  Plane host("/host:CPU");
  host.BeginLine(9, "python", 1'700'000'000'000'000'000);
  host.Event("cuLaunchKernel", 100'000'000, 5'000'000, {{"correlation_id", "77"}});
  host.Event("train", 90'000'999, 50'000'999, {{"step_num", "0"}, {"_src", "a.cc"}});
  host.Event("dot.3", 106'000'000, 5'000'000, {{"hlo_op", "dot.3"}});
  host.EndLine();
  Plane gpu("/device:GPU:0");
  gpu.BeginLine(2, "XLA Ops", 1'700'000'000'000'000'000);
  gpu.Event("fusion.1", 110'000'000, 20'000'000);
  gpu.EndLine();
  gpu.BeginLine(20, "Stream #20(Compute,MemcpyH2D)", 1'700'000'000'000'000'000);
  gpu.Event("fusion_1", 110'500'000, 20'000'000,
            {{"correlation_id", "77"},
             {"hlo_module", "jit_f"},
             {"hlo_op", "fusion.1"},
             {"kernel_details", "regs:40 static_shared:16 dynamic_shared:1024 grid:8,2,1 block:256,1,1 occ_pct:50"}});
  gpu.Event("MemcpyH2D", 131'000'000, 2'000'000,
            {{"memcpy_details", "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"}});
  gpu.EndLine();

  const Read read = Parse(host.Space() + gpu.Space());

  REQUIRE(read.status.ok());
  CHECK(read.report.format == "xspace");
  CHECK(read.Events() == "train 1700000000000090000+50001, dot.3 1700000000000106000+5000");
  CHECK(read.trace.sites[read.trace.events.site[0]].arg_names.size() == 1);
  CHECK(read.trace.sites[read.trace.events.site[1]].kind == SiteKind::kOperator);
  const auto& work = read.trace.gpu;
  REQUIRE(work.size() == 2);
  CHECK(read.Name(read.trace.calls.name.at(work.call[0])) == "cuLaunchKernel");
  CHECK(read.Name(work.scope_path[0]) == "jit_f / fusion.1");
  CHECK(read.trace.shapes.at(work.shape[0]).grid[1] == 2);
  CHECK(read.trace.shapes[0].registers_per_thread == 40);
  CHECK(read.Name(work.name[1]) == "HtoD, pageable to device");
  CHECK(work.bytes[1] == 4096);
  CHECK(read.Count("derived") == 1);
  CHECK(read.trace.clock.realtime_ns == 1'700'000'000'000'140'001);
}

TEST_CASE("an XSpace's whole numbers keep their values, also those beyond 63 bits", "[xspace]") {
  Plane host("/host:CPU");
  host.BeginLine(9, "python", 1'700'000'000'000'000'000);
  host.Event("step", 0, 5'000'000, {{"id", "18446744073709551615"}, {"step_num", "7"}});
  host.EndLine();

  const Read read = Parse(host.Space());

  REQUIRE(read.trace.events.size() == 1);
  const auto& types = read.trace.sites[read.trace.events.site[0]].arg_types;
  CHECK(types == std::vector<pitot::ArgType>{pitot::ArgType::kUint, pitot::ArgType::kInt});
  REQUIRE(read.trace.arg_values.size() == 2);
  CHECK(read.trace.arg_values[0] == UINT64_MAX);
  CHECK(read.trace.arg_values[1] == 7);
}

TEST_CASE("an XSpace that is cut off keeps what is whole, and one with a damaged event counts it", "[xspace]") {
  Plane host("/host:CPU");
  host.BeginLine(9, "python", 5000);
  for (int i = 0; i < 10; ++i) host.Event("step", i * 1000, 500);
  host.EndLine();
  const std::string whole = host.Space();
  REQUIRE(Parse(whole).status.ok());

  const std::string bytes = FileText("jax.xplane.pb");
  const Read cut = Parse(bytes.substr(0, bytes.size() - 600));
  CHECK(cut.status.code() == pitot::StatusCode::kDataLoss);
  CHECK(cut.trace.events.size() > 10);
  CHECK(!cut.report.complete);

  std::string damaged = whole;
  damaged[damaged.find("python") + 13] = '\x7f';  // the id of the first event's name
  const Read one_less = Parse(damaged);
  CHECK(one_less.status.code() == pitot::StatusCode::kDataLoss);
  CHECK(one_less.report.events_bad == 1);
  CHECK(one_less.trace.events.size() == 9);
}

TEST_CASE("a file by JAX on a CPU says the same as an XSpace and as JSON", "[xspace]") {
  const Read read = Parse(FileText("jax.xplane.pb"));

  REQUIRE(read.status.ok());
  CHECK(read.report.tool == "JAX's profiler");
  const auto by_operator = read_test::Table(read.trace, TopBy::kOperator);
  REQUIRE(by_operator.size() == 1);
  CHECK(by_operator[0].find("ynn_fusion: calls 4 ") == 0);
  size_t steps = 0;
  for (uint32_t row = 0; row < read.trace.events.size(); ++row) steps += read.trace.EventName(row) == "train";
  CHECK(steps == 4);
  CHECK(read.trace.clock.realtime_ns > 1'700'000'000'000'000'000);
}

TEST_CASE("what Pitot wrote as an XSpace has the same tables when it is read", "[xspace]") {
  const auto check = [](const Trace& trace) {
    const Read read = Parse(Written(trace));
    REQUIRE(read.status.ok());
    CHECK(read.report.tool == "Pitot");
    for (const TopBy by : {TopBy::kOperator, TopBy::kKernel, TopBy::kScope, TopBy::kCall}) {
      CAPTURE(static_cast<int>(by));
      CHECK(read_test::Table(read.trace, by) == read_test::Table(trace, by));
    }
    CHECK(read.trace.window_begin_ns == trace.window_begin_ns);
    CHECK(read.trace.requests.size() == trace.requests.size());
    CHECK(read.trace.batches.size() == trace.batches.size());
    CHECK(read.trace.members.size() == trace.members.size());
  };
  check(incident::MakeTrace());
  check(incident::MakeGpuTrace());
  check(pitot::test::SampleTrace());
  check(pitot::test::LargeTrace(2000));
}

TEST_CASE("an XSpace by Pitot says when GPUs and operators were recorded", "[xspace]") {
  Trace trace = pitot::test::SampleTrace();
  const int64_t begin_ns = trace.window_begin_ns, end_ns = trace.window_end_ns, middle_ns = (begin_ns + end_ns) / 2;
  trace.depths = {{begin_ns, middle_ns, pitot::Depth::kScopes}, {middle_ns, end_ns, pitot::Depth::kKernels}};
  trace.operator_depths = {{begin_ns, middle_ns, pitot::Depth::kScopes}, {middle_ns, end_ns, pitot::Depth::kOps}};
  const std::vector<std::string> table = read_test::Table(trace, TopBy::kOperator);
  REQUIRE(std::any_of(table.begin(), table.end(),
                      [](const std::string& row) { return row.find("(operators not recorded)") == 0; }));

  const std::string bytes = Written(trace);
  const Read read = Parse(bytes);

  CHECK(read_test::Table(read.trace, TopBy::kOperator) == table);
  REQUIRE(read.trace.depths.size() == 2);
  CHECK(read.trace.depths[1].begin_ns == middle_ns);
  CHECK(read.trace.depths[1].depth == pitot::Depth::kKernels);
  CHECK(read.trace.operator_depths.size() == 2);
  CHECK(!pitot::model::IsLacking(read.trace, "depths of recording"));

  // An older file does not have it.
  std::string older = bytes;
  for (size_t at = 0; (at = older.find("pitot_depths")) != std::string::npos;) older[at] = 'P';
  const Read of_older = Parse(older);
  CHECK(of_older.trace.depths.empty());
  CHECK(pitot::model::IsLacking(of_older.trace, "depths of recording"));
}

TEST_CASE("depths of an XSpace that make no sense are left out", "[xspace]") {
  Trace trace = pitot::test::SampleTrace();
  trace.depths = {{1000, 2000, pitot::Depth::kGraphs}, {2000, 3000, pitot::Depth::kOps}};
  const std::string bytes = Written(trace), text = "2000 3000 ops";
  for (const char* other : {"3000 2000 ops", "2000 3000 opt", "20x0 3000 ops", "-200 3000 ops", "2000 3000    "}) {
    CAPTURE(other);
    std::string changed = bytes;
    changed.replace(changed.find(text), text.size(), other);
    CHECK(Parse(changed).trace.depths.size() == 1);
  }
}

TEST_CASE("a request in an XSpace by Pitot has its route, outcome and events", "[xspace]") {
  const Trace trace = incident::MakeGpuTrace();

  const Read read = Parse(Written(trace));

  REQUIRE(read.trace.requests.size() == trace.requests.size());
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    CHECK(read.trace.requests[row].id == trace.requests[row].id);
    CHECK(read.Name(read.trace.requests[row].route) == trace.strings[trace.requests[row].route]);
    CHECK(read.trace.requests[row].begin_ns == trace.requests[row].begin_ns);
    CHECK(read.trace.requests[row].duration_ns == trace.requests[row].duration_ns);
    CHECK(read.trace.requests[row].outcome == trace.requests[row].outcome);
  }
  size_t of_requests = 0;
  for (const uint32_t request : read.trace.events.request) of_requests += request != kNone;
  CHECK(of_requests == 4);  // of the slow request
}

TEST_CASE("a request in an XSpace by Pitot has its stays in queues", "[xspace]") {
  const auto rows = [](const Trace& trace) {
    std::vector<std::string> texts;
    const auto thread = [&](uint32_t row) { return row == kNone ? "-" : std::to_string(trace.threads[row].tid); };
    for (const auto& row : trace.handoffs)
      texts.push_back(std::string(trace.strings[row.queue]) + " of " + std::to_string(trace.requests[row.request].id) +
                      " " + std::to_string(row.enqueue_ns) + " to " + std::to_string(row.take_ns) + " by " +
                      (row.batch == kNone ? "-" : std::to_string(trace.batches[row.batch].id)) + " from thread " +
                      thread(row.from_thread) + " to " + thread(row.to_thread));
    return texts;
  };
  for (const Trace& trace : {incident::MakeTrace(), incident::MakeGpuTrace(), pitot::test::SampleTrace()}) {
    const Read read = Parse(Written(trace));
    CHECK(rows(read.trace) == rows(trace));
  }
  CHECK(!rows(incident::MakeTrace()).empty());
}

TEST_CASE("a request whose begin is not known is still one after an XSpace", "[xspace]") {
  Trace trace = incident::MakeTrace();
  trace.requests[0].begin_known = false;

  const Read read = Parse(Written(trace));

  CHECK(!read.trace.requests[0].begin_known);
  CHECK(read.trace.requests[1].begin_known);
}

TEST_CASE("a trace in Unix time keeps its date in an XSpace", "[xspace]") {
  constexpr int64_t kDateNs = 1'700'000'000'000'000'000;
  pitot::test::TraceMaker maker;
  maker.trace.window_begin_ns = kDateNs;
  maker.trace.window_end_ns = kDateNs + 1000;
  maker.Request(7, "/r", kDateNs, 5);
  Trace trace = maker.Finish();
  trace.clock = {trace.window_end_ns, trace.window_end_ns, 0};

  const Read read = Parse(Written(trace));

  CHECK(read.trace.clock.realtime_ns - read.trace.clock.monotonic_ns + read.trace.requests[0].begin_ns == kDateNs);
  CHECK(!pitot::model::IsLacking(read.trace, "the date"));
}

TEST_CASE("waits recorded by a watcher of an interpreter are no work of the host after an XSpace either", "[xspace]") {
  pitot::test::TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("main"),
                 site = maker.Site(pitot::SiteKind::kScope, "waited for the interpreter's lock");
  maker.trace.sites[site].file = maker.String("pitot/interpreter.h");
  maker.trace.sites[site].function = maker.String("RecordLockHeld");
  maker.Event(thread, maker.Site(pitot::SiteKind::kScope, "work"), 100, 200);
  maker.Event(thread, site, 400, 300);
  const Trace trace = maker.Finish();
  const std::vector<std::string> table = read_test::Table(trace, TopBy::kScope);

  CHECK(read_test::Table(Parse(Written(trace)).trace, TopBy::kScope) == table);
}
