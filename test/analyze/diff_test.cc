// SPDX-License-Identifier: Apache-2.0
//
// Changes between two traces: each regression is found as what it is, and harmless changes that look like one are not.
#include "pitot/analyze/diff.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "analyze/diff/diff_tables.h"
#include "analyze/two_versions.h"

namespace pitot::test {

using namespace analyze;
using model::kNone;
using model::Trace;

namespace {

Diff Compare(const Trace& before, const Trace& after, const DiffOptions& options = {}) {
  REQUIRE(FindInconsistency(before) == "");
  REQUIRE(FindInconsistency(after) == "");
  Diff diff;
  REQUIRE(FindDiff(before, after, options, &diff).ok());
  return diff;
}
Diff Compare(const Version& before, const Version& after) { return Compare(Make(before), Make(after)); }

const DiffTable& Table(const Diff& diff, const std::string& name) {
  for (const DiffTable& table : diff.tables) {
    if (table.name == name) return table;
  }
  FAIL("no table " << name);
  return diff.tables[0];
}
const DiffRow& Row(const Diff& diff, const std::string& table, const std::string& name) {
  for (const DiffRow& row : Table(diff, table).rows) {
    if (row.name == name) return row;
  }
  FAIL("no row " << name);
  return diff.tables[0].rows[0];
}
const DiffGate& Gate(const Diff& diff, const std::string& name) {
  for (const DiffGate& gate : diff.gates) {
    if (gate.name == name) return gate;
  }
  FAIL("no gate " << name);
  return diff.gates[0];
}

// As recorded at depth scopes.
Trace WithoutGpuWork(const Version& version) {
  Trace trace = Make(version);
  trace.gpu = {};
  for (model::StreamRow& stream : trace.streams) stream.first_event = stream.event_count = 0;
  for (model::DepthRow& row : trace.depths) row.depth = Depth::kScopes;
  return trace;
}
bool HasNote(const Diff& diff, const std::string& note) {
  return std::find(diff.notes.begin(), diff.notes.end(), note) != diff.notes.end();
}

Version Slower() {
  Version version;
  version.gemm_us = 1300;
  return version;
}

}  // namespace

TEST_CASE("the same version twice is not a regression", "[diff]") {
  Version more;
  more.requests = 90;

  const Diff diff = Compare(Version(), more);

  CHECK(diff.outcome == DiffOutcome::kPass);
  CHECK(diff.per == DiffPer::kRequest);
  CHECK(diff.before_requests == 120);
  for (const DiffTable& table : diff.tables) {
    for (const DiffRow& row : table.rows) CHECK_FALSE(row.is_significant);
  }
}

TEST_CASE("only a proved fall of the latency lets counts grow", "[diff]") {
  Version before, after;
  before.gemms = 100;
  after.gemms = 104;
  before.gemm_us = 20;
  after.gemm_us = 19;

  before.jitter_us = after.jitter_us = 1500;
  const Diff unsure = Compare(before, after);
  CHECK(Gate(unsure, "latency").ratio < 1);
  CHECK(Gate(unsure, "latency").high > 1);
  CHECK(Gate(unsure, "launches").outcome == DiffOutcome::kRegression);

  before.jitter_us = after.jitter_us = 0;
  const Diff sure = Compare(before, after);
  CHECK(Gate(sure, "latency").high < 1);
  CHECK(Gate(sure, "launches").outcome == DiffOutcome::kPass);
}

TEST_CASE("the gate of GPU time equals the sum of its table, with any number of requests", "[diff]") {
  Version many;
  many.requests = 955;
  Trace trace = Make(many);
  for (uint32_t row = 0; row < trace.gpu.size() / 3; ++row) trace.gpu.duration_ns[row] /= 1 + row % 2;

  const Diff diff = Compare(trace, trace);

  CHECK(std::llround(Gate(diff, "gpu time").before) == Table(diff, "gpu").before_ns);
}

TEST_CASE("a slower kernel is a regression by its duration and not by its count", "[diff]") {
  const Diff diff = Compare(Version(), Slower());

  CHECK(diff.outcome == DiffOutcome::kRegression);
  CHECK(Gate(diff, "latency").outcome == DiffOutcome::kRegression);
  CHECK(Gate(diff, "gpu time").outcome == DiffOutcome::kRegression);
  CHECK(Gate(diff, "launches").outcome == DiffOutcome::kPass);
  const DiffRow& gemm = Row(diff, "gpu", "gemm");
  CHECK(gemm.is_significant);
  CHECK(gemm.is_duration);
  CHECK_FALSE(gemm.is_count);
  CHECK(gemm.count_effect_ns == 0);
  CHECK(gemm.duration_effect_ns == gemm.after_ns - gemm.before_ns);
  CHECK(gemm.duration_effect_ns > 1'190'000);
  CHECK_FALSE(Row(diff, "gpu", "memcpy DtoH, device to pinned").is_significant);
}

TEST_CASE("more launches and copies are a regression by count and not by duration", "[diff]") {
  Version after;
  after.gemms = 5;
  after.copies = 3;
  after.allocations = 1;

  const Diff diff = Compare(Version(), after);

  CHECK(diff.outcome == DiffOutcome::kRegression);
  CHECK(Gate(diff, "launches").before == 4);
  CHECK(Gate(diff, "launches").after == 5);
  for (const char* const name : {"launches", "bytes copied", "allocations"})
    CHECK(Gate(diff, name).outcome == DiffOutcome::kRegression);
  CHECK(Gate(diff, "waits for GPUs").outcome == DiffOutcome::kPass);
  for (const char* const name : {"gemm", "memcpy DtoH, device to pinned"}) {
    const DiffRow& row = Row(diff, "gpu", name);
    CHECK(row.is_count);
    CHECK_FALSE(row.is_duration);
    CHECK(row.duration_effect_ns == 0);
  }
}

TEST_CASE("a few launches more are not a regression where the latency fell, and many are", "[diff]") {
  const auto compare = [](int gemms, int64_t gemm_us) {
    Version before, after;
    before.gemms = 100;
    before.gemm_us = 100;
    after.gemms = gemms;
    after.gemm_us = gemm_us;
    return Compare(before, after);
  };
  const Diff faster = compare(102, 70);
  CHECK(Gate(faster, "launches").ratio == Approx(1.02));
  CHECK(Gate(faster, "launches").limit == Approx(1.05));
  CHECK(faster.outcome == DiffOutcome::kPass);
  CHECK(Gate(compare(110, 70), "launches").outcome == DiffOutcome::kRegression);
  CHECK(Gate(compare(102, 100), "launches").outcome == DiffOutcome::kRegression);
}

TEST_CASE("a limit of counts that is given holds where the latency fell, too", "[diff]") {
  Version before, after;
  before.gemms = 100;
  before.gemm_us = 100;
  after.gemms = 102;
  after.gemm_us = 70;
  for (const double growth : {0.0, 0.01, 0.03}) {
    DiffOptions options;
    options.count_growth = growth;

    const Diff diff = Compare(Make(before), Make(after), options);

    const DiffGate& gate = Gate(diff, "launches");
    CHECK(gate.limit == Approx(1 + growth));
    CHECK(gate.outcome == (growth < 0.02 ? DiffOutcome::kRegression : DiffOutcome::kPass));
  }
}

TEST_CASE("a note says that GPU work was not recorded in one of the traces, or in both", "[diff]") {
  const std::string in_one = "only one of the traces has GPU work: it is not compared";
  const std::string in_none = "GPU work was not recorded: GPU times, launches and copies are not compared";
  const Trace with = Make(Version()), without = WithoutGpuWork(Version());

  CHECK(HasNote(Compare(with, without), in_one));
  CHECK(HasNote(Compare(without, with), in_one));
  CHECK_FALSE(HasNote(Compare(with, without), in_none));
  CHECK_FALSE(HasNote(Compare(without, with), in_none));
  CHECK(HasNote(Compare(without, without), in_none));
  CHECK_FALSE(HasNote(Compare(without, without), in_one));
  const Diff of_both = Compare(with, with);
  CHECK_FALSE(HasNote(of_both, in_one));
  CHECK_FALSE(HasNote(of_both, in_none));
  for (const DiffGate& gate : Compare(with, without).gates) CHECK(gate.name.find("latency") == 0);
}

TEST_CASE("the blame rows show more launches where the gate does", "[diff]") {
  Version before, after;
  before.gemm_us = after.gemm_us = 1;  // bound by launches
  before.gemms = 100;
  after.gemms = 150;

  const Diff diff = Compare(before, after);

  CHECK(Gate(diff, "launches").outcome == DiffOutcome::kRegression);
  for (const char* const name : {"dispatch_gap", "gpu_exec_expected"}) {
    const DiffRow& row = Row(diff, "latency by blame", name);
    INFO(name);
    CHECK((row.is_count && !row.is_duration));
    CHECK(row.after_count == Approx(row.before_count * 1.5).epsilon(0.05));
    CHECK(std::llabs(row.duration_effect_ns) < row.count_effect_ns / 20);
  }
}

TEST_CASE("rows add up to their table's change, and effects to their rows', for any traces", "[diff]") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Diff diff = Compare(RandomTrace(2 * seed, 300), RandomTrace(2 * seed + 1, 400));
    CHECK(diff.within_ns + diff.between_ns == diff.after_latency_ns - diff.before_latency_ns);
    for (const DiffTable& table : diff.tables) {
      int64_t change_ns = 0;
      for (const DiffRow& row : table.rows) {
        REQUIRE(row.count_effect_ns + row.duration_effect_ns == row.after_ns - row.before_ns);
        change_ns += row.count_effect_ns + row.duration_effect_ns;
      }
      REQUIRE(change_ns == table.after_ns - table.before_ns);
    }
  }
}

TEST_CASE("parts of the latency add up to its change, by size, stage and blame", "[diff]") {
  const Diff diff = Compare(Version(), Slower());

  for (const char* const name : {"latency by route and size", "latency by stage", "latency by blame"}) {
    CHECK(Table(diff, name).before_ns == diff.before_latency_ns);
    CHECK(Table(diff, name).after_ns == diff.after_latency_ns);
  }
  CHECK(Row(diff, "latency by stage", "forward").is_duration);
  CHECK_FALSE(Row(diff, "latency by stage", "decode").is_significant);
}

TEST_CASE("more large requests are not a regression: only like requests are compared", "[diff]") {
  Version before, after;
  before.large_percent = 10;
  after.large_percent = 60;

  const Diff diff = Compare(before, after);

  CHECK(diff.outcome == DiffOutcome::kPass);
  CHECK(diff.mix_shift > 0.4);
  CHECK(diff.sizes_p < 0.01);
  CHECK(diff.compared_before < 120);
  CHECK(diff.between_ns > 9 * std::abs(diff.within_ns));
  REQUIRE_FALSE(diff.notes.empty());
  CHECK(diff.notes[0].find("a different route or size") != std::string::npos);
}

TEST_CASE("a slower kernel is found among requests of other sizes, too", "[diff]") {
  Version before, after = Slower();
  before.large_percent = 10;
  after.large_percent = 60;

  const Diff diff = Compare(before, after);

  CHECK(diff.outcome == DiffOutcome::kRegression);
  CHECK(diff.within_ns > 1'000'000);
}

TEST_CASE("a kernel under another name of the build is the same kernel", "[diff]") {
  Version before, after;
  before.gemm = "triton_mm_fused_0d1d2d";
  after.gemm = "triton_mm_fused_0d1d2d3d";

  const Diff renamed = Compare(before, after);
  const DiffRow& row = Row(renamed, "gpu", "triton_mm_fused_0d1d2d3d");
  CHECK(row.was == "triton_mm_fused_0d1d2d");
  CHECK(row.after_ns == row.before_ns);
  CHECK_FALSE(row.is_significant);

  after.gemm = "cutlass_gemm";
  const Diff replaced = Compare(before, after);
  CHECK(Row(replaced, "gpu", "cutlass_gemm").before_ns == 0);
  CHECK(Row(replaced, "gpu", "cutlass_gemm").is_count);
  CHECK(Row(replaced, "gpu", "triton_mm_fused_0d1d2d").after_ns == 0);
  CHECK(replaced.outcome == DiffOutcome::kPass);
}

TEST_CASE("a Python function in another line is the same function", "[diff]") {
  const auto trace_of = [](const std::vector<std::string>& functions) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("main");
    maker.trace.window_end_ns = 1000;
    int64_t at_ns = 0;
    for (const std::string& function : functions)
      maker.Event(thread, maker.Site(SiteKind::kScope, function), at_ns += 100, 50);
    return maker.Finish();
  };
  Diff diff;
  REQUIRE(analyze::FindDiff(trace_of({"a.py(9): f", "a.py(10): f", "b.py(3): g", "c.py(1): h"}),
                            trace_of({"a.py(11): f", "a.py(12): f", "b.py(3): g", "d.py(1): h"}), {}, &diff)
              .ok());

  CHECK(Row(diff, "host", "a.py(11): f").was == "line 9");
  CHECK(Row(diff, "host", "a.py(12): f").was == "line 10");
  CHECK(Row(diff, "host", "b.py(3): g").was.empty());
  CHECK(Row(diff, "host", "c.py(1): h").after_ns == 0);
  CHECK(Row(diff, "host", "d.py(1): h").before_ns == 0);
}

TEST_CASE("normal names lack the parts that change from build to build", "[diff]") {
  CHECK(diff::NormalName("triton_poi_fused_add_0d1d2de") == "triton_poi_fused_add");
  CHECK(diff::NormalName("void gemm<float, 128>(float*, int)") == "gemm");
  CHECK(diff::NormalName("flash_fwd_3f9a21bc") == "flash_fwd");
  CHECK(diff::NormalName("fused_add_relu") == "fused_add_relu");
  CHECK(diff::NormalName("_7") == "_7");
  CHECK(diff::WithoutLine("torch/nn/modules/module.py(1743): _call_impl") == "torch/nn/modules/module.py: _call_impl");
  CHECK(diff::WithoutLine("a(b).py(2): f(3): g") == "a(b).py: f(3): g");
  for (const char* const name : {"f(x): y", "(): y", "aten::mm", "module.py(12)", ""})
    CHECK(diff::WithoutLine(name) == name);
}

TEST_CASE("a batch's work is shared by its members, so a request of a larger batch has less", "[diff]") {
  Version after;
  after.members = 4;

  const Diff diff = Compare(Version(), after);

  CHECK(Gate(diff, "launches").after == 1);
  CHECK(Row(diff, "gpu", "gemm").after_count == 1);
  CHECK(Row(diff, "gpu", "gemm").after_ns < 1'010'000);
}

TEST_CASE("a trace does not differ from itself, however few its requests and whatever was lost", "[diff]") {
  Version few;
  few.requests = 3;
  Trace trace = Make(few);
  trace.gpu_losses.push_back({0, 0, 0, trace.window_end_ns, 10, 0});

  const Diff diff = Compare(trace, trace);

  CHECK(diff.is_same_recording);
  CHECK(diff.outcome == DiffOutcome::kPass);
  CHECK_FALSE(diff.gates.empty());
  for (const DiffGate& gate : diff.gates) {
    CHECK((gate.outcome == DiffOutcome::kPass && gate.why == ""));
    CHECK((gate.is_known && gate.ratio == 1 && gate.low == 1 && gate.high == 1));
  }
}

TEST_CASE("traces that differ in a name, a ns or a byte are not the same, nor are empty ones", "[diff]") {
  const Trace trace = Make(Version());
  const auto is_same = [&](const auto& change) {
    Trace after = Make(Version());
    change(&after);
    return Compare(trace, after).is_same_recording;
  };

  CHECK(is_same([](Trace*) {}));
  CHECK_FALSE(is_same([](Trace* after) { ++after->window_end_ns; }));
  CHECK_FALSE(is_same([](Trace* after) { ++after->requests[5].id; }));
  CHECK_FALSE(is_same([](Trace* after) { --after->requests[5].duration_ns; }));
  CHECK_FALSE(is_same([](Trace* after) { --after->events.duration_ns[5]; }));
  CHECK_FALSE(is_same([](Trace* after) { --after->calls.duration_ns[5]; }));
  CHECK_FALSE(is_same([](Trace* after) { after->calls.name[5] = after->strings.Add("cudaMalloc"); }));
  CHECK_FALSE(is_same([](Trace* after) { --after->gpu.duration_ns[5]; }));
  CHECK_FALSE(is_same([](Trace* after) { ++after->gpu.bytes[5]; }));
  CHECK_FALSE(is_same([](Trace* after) { after->gpu.name[5] = after->strings.Add("other"); }));
  const Diff nothing = Compare(Trace(), Trace());
  CHECK_FALSE(nothing.is_same_recording);
  CHECK(nothing.outcome == DiffOutcome::kInconclusive);
}

TEST_CASE("too few requests, or too noisy ones, are inconclusive", "[diff]") {
  Version few;
  few.requests = 3;
  Version few_after = few;
  few_after.gemm_us = 1001;  // another run
  const Diff diff = Compare(few, few_after);
  CHECK(diff.outcome == DiffOutcome::kInconclusive);
  CHECK_THAT(Gate(diff, "latency").why,
             Catch::StartsWith("too few to compare (3 before, 3 after") && Catch::EndsWith("compare longer traces"));

  Version noisy, noisy_after;
  noisy.requests = noisy_after.requests = 20;
  noisy.jitter_us = noisy_after.jitter_us = 5000;
  noisy_after.requests = 12;
  CHECK(Compare(noisy, noisy_after).outcome == DiffOutcome::kInconclusive);
}

TEST_CASE("losses make counts inconclusive, not smaller", "[diff]") {
  Version fewer;
  fewer.gemms = 3;
  Trace after = Make(fewer);
  after.gpu_losses.push_back({0, 0, 0, after.window_end_ns, 10, 0});

  const Diff diff = Compare(Make(Version()), after);

  CHECK(diff.outcome == DiffOutcome::kInconclusive);
  CHECK(Gate(diff, "launches").why == "records were lost");
  CHECK(Gate(diff, "latency").outcome == DiffOutcome::kPass);
}

TEST_CASE("traces without requests are compared by their counts alone", "[diff]") {
  Trace before = Make(Version()), after = Make(Version());
  for (Trace* const trace : {&before, &after}) {
    for (model::RequestRow& request : trace->requests) request.end_known = false;
  }
  after.calls.name[0] = after.strings.Add("cudaLaunchKernelEx");

  const Diff diff = Compare(before, after);
  CHECK(diff.per == DiffPer::kTrace);
  CHECK(diff.outcome == DiffOutcome::kPass);
  CHECK(Gate(diff, "launches").before == 480);

  for (uint32_t call = 0; call < 100; ++call) after.calls.name[call] = after.strings.Add("cudaGraphLaunch");
  CHECK(Compare(before, after).outcome == DiffOutcome::kRegression);
}

TEST_CASE("an option out of range is named", "[diff]") {
  Diff diff;
  DiffOptions options;
  options.q = 0;
  const Trace trace = Make(Version());
  CHECK(std::string(FindDiff(trace, trace, options, &diff).message()) == "q: out of range");
}

}  // namespace pitot::test
