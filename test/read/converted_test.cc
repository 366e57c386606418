// SPDX-License-Identifier: Apache-2.0
//
// What Pitot converted: whether the file is whole, and what was lost of the trace.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "fakes/string_sink.h"
#include "model/lacking.h"
#include "pitot/analyze/analyze.h"
#include "pitot/serialize/kineto.h"
#include "pitot/serialize/otlp.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/serialize/xspace.h"
#include "read/parse.h"
#include "report/incident_trace.h"
#include "serialize/sample_trace.h"

using pitot::StatusCode;
using pitot::model::kNone;
using pitot::model::LossReason;
using pitot::model::Trace;
using read_test::Parse;
using read_test::Read;

namespace {

template <class Serializer> std::string Written(Serializer serializer, const Trace& trace) {
  fakes::StringSink sink;
  REQUIRE(serializer->Serialize(trace, sink).ok());
  return sink.bytes;
}
std::string Kineto(const Trace& trace) { return Written(pitot::MakeKinetoSerializer(), trace); }
std::string Perfetto(const Trace& trace) { return Written(pitot::MakePerfettoSerializer(), trace); }
std::string XSpace(const Trace& trace) { return Written(pitot::MakeXSpaceSerializer(), trace); }
std::string Otlp(const Trace& trace) { return Written(pitot::MakeOtlpSerializer(), trace); }

// Where the fields of a message end, without the last one. Their tags have one byte.
std::vector<size_t> EndsOfFields(const std::string& message) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < message.size();) {
    size_t size = 0;
    for (uint32_t shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(++at));
      size |= size_t{byte & 127u} << shift;
      if (byte < 128) break;
    }
    ends.push_back(at += 1 + size);
  }
  REQUIRE(ends.size() > 1);
  REQUIRE(ends.back() == message.size());
  ends.pop_back();
  return ends;
}
std::vector<size_t> EndsOfLines(const std::string& text) {
  std::vector<size_t> ends;
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) ends.push_back(at);
  REQUIRE(ends.size() > 10);
  return ends;
}

bool IsDamaged(const Trace& trace) {
  return std::any_of(trace.losses.begin(), trace.losses.end(),
                     [](const auto& loss) { return loss.reason == LossReason::kDamaged; });
}

// The losses of a trace in words.
std::multiset<std::string> Losses(const Trace& trace) {
  std::multiset<std::string> rows;
  const auto add = [&](const std::string& of, std::string_view reason, const auto& loss, uint64_t count) {
    rows.insert(of + " " + std::string(reason) + " " + std::to_string(loss.begin_ns) + " " +
                std::to_string(loss.end_ns) + " " + std::to_string(count));
  };
  for (const auto& loss : trace.losses)
    add(loss.thread == kNone ? "process"
                             : std::to_string(trace.threads[loss.thread].tid) + " " + std::to_string(loss.bytes),
        LossReasonName(loss.reason), loss, loss.events);
  for (const auto& loss : trace.gpu_losses) {
    const uint32_t of = loss.stream == kNone ? loss.device : trace.streams[loss.stream].device;
    const std::string device = of == kNone ? "GPU" : "GPU " + std::to_string(trace.devices[of].ordinal);
    add(loss.stream == kNone ? device : device + " stream " + std::to_string(trace.streams[loss.stream].stream),
        trace.strings[loss.reason], loss, loss.records);
  }
  return rows;
}

// Their spans fill several groups.
Trace ManyRequests() {
  pitot::test::TraceMaker maker;
  maker.trace.window_end_ns = 1'000'000'000;
  maker.trace.clock.realtime_ns = 1'700'000'000'000'000'000;
  for (uint64_t id = 1; id <= 6000; ++id) maker.Request(id, "/classify", static_cast<int64_t>(id) * 1000, 500);
  return maker.Finish();
}

}  // namespace

TEST_CASE("a converted file that was cut between two records is known to be cut", "[converted]") {
  const auto check = [](const std::string& bytes, const std::vector<size_t>& ends) {
    REQUIRE(Parse(bytes).status.ok());
    for (const size_t end : ends) {
      CAPTURE(end, bytes.size());
      const Read read = Parse(bytes.substr(0, end));
      CHECK(!read.status.ok());
      if (read.status.code() != StatusCode::kDataLoss) continue;  // it ends before its first event
      CHECK(!read.report.complete);
      CHECK(IsDamaged(read.trace));
    }
    CHECK(Parse(bytes.substr(0, ends.back())).status.code() == StatusCode::kDataLoss);
  };
  const Trace trace = pitot::test::SampleTrace();
  check(Perfetto(trace), EndsOfFields(Perfetto(trace)));
  check(XSpace(trace), EndsOfFields(XSpace(trace)));
  check(Kineto(trace), EndsOfLines(Kineto(trace)));
  const std::string spans = Otlp(ManyRequests());
  check(spans, EndsOfFields(spans));
}

TEST_CASE("a file of an older layout does not announce its end, and is not called cut", "[converted]") {
  const Trace trace = pitot::test::SampleTrace();
  const std::string key = "pitot_layout";
  std::string older = Perfetto(trace);
  older.at(older.find(key) + key.size() + 1) = 1;  // after the tag
  CHECK(Parse(older.substr(0, EndsOfFields(older).back())).status.ok());

  older = XSpace(trace);
  older.at(older.find(key)) = 'P';
  CHECK(Parse(older.substr(0, EndsOfFields(older).back())).status.ok());
}

TEST_CASE("losses have the same reasons, times and numbers after a conversion", "[converted]") {
  Trace trace = incident::MakeGpuTrace();
  const int64_t begin_ns = trace.window_begin_ns, end_ns = trace.window_end_ns;
  trace.gpu_losses.push_back({kNone, trace.strings.Add("dropped by CUPTI"), begin_ns, end_ns, 17, kNone});
  trace.gpu_losses.push_back({kNone, trace.strings.Add("impossible duration, 6.80 s in all"), end_ns, end_ns, 0, 0});
  for (const auto& write : {Perfetto, Kineto, XSpace}) {
    const Read read = Parse(write(trace));
    CAPTURE(read.report.format);
    REQUIRE(read.status.ok());
    CHECK(Losses(read.trace) == Losses(trace));
    CHECK(!pitot::model::IsLacking(read.trace, "losses"));
  }
}

TEST_CASE("a loss of a thread or stream that a converted file lacks is of the process or the GPU", "[converted]") {
  Trace trace = incident::MakeGpuTrace();
  trace.threads.push_back(trace.threads.back());
  trace.threads.back().tid = 4242;
  trace.threads.back().event_count = 0;
  trace.streams.push_back(trace.streams.back());
  trace.streams.back().stream = 99;
  trace.streams.back().event_count = 0;
  const auto thread = static_cast<uint32_t>(trace.threads.size() - 1);
  trace.losses = {{thread, LossReason::kOverwritten, 1000, 2000, 5, 0}};
  trace.gpu_losses = {
      {static_cast<uint32_t>(trace.streams.size() - 1), trace.strings.Add("overwritten"), 1000, 2000, 3, kNone}};
  const uint32_t device = trace.streams.back().device;
  REQUIRE(device != kNone);
  for (const auto& write : {Kineto, XSpace}) {
    const Read read = Parse(write(trace));
    REQUIRE(read.trace.losses.size() == 1);
    CHECK(read.trace.losses[0].thread == kNone);
    REQUIRE(read.trace.gpu_losses.size() == 1);
    CHECK(read.trace.gpu_losses[0].stream == kNone);
    CHECK(read.trace.devices.at(read.trace.gpu_losses[0].device).ordinal == trace.devices[device].ordinal);
  }
}

TEST_CASE("a finding about GPUs has the same confidence after a conversion, if records were lost", "[converted]") {
  const auto confidences = [](const Trace& trace) {
    pitot::analyze::AnalysisReport report;
    REQUIRE(Analyze(trace, pitot::analyze::MakeCatalogue(), {}, &report).ok());
    std::string text;
    for (const auto& analyzer : report.analyzers) {
      for (const auto& finding : analyzer.findings) {
        if (finding.code == "a02.kernels" || finding.code == "a39.lost_gpu_records")
          text += finding.code + " " + std::to_string(finding.confidence) + " ";
      }
    }
    return text;
  };
  const Trace trace = pitot::test::SampleTrace();
  const std::string expected = confidences(trace);
  REQUIRE(expected.find("a02.kernels") != std::string::npos);
  REQUIRE(expected.find("a39.lost_gpu_records") != std::string::npos);

  for (const auto& write : {Perfetto, Kineto, XSpace}) {
    const Read read = Parse(write(trace));
    CAPTURE(read.report.format);
    CHECK(confidences(read.trace) == expected);
  }
}

TEST_CASE("losses of a converted file that make no sense are left out", "[converted]") {
  Trace trace = pitot::test::SampleTrace();
  trace.losses = {{kNone, LossReason::kOverwritten, 1000, 2000, 5, 6}, {kNone, LossReason::kDepth, 2000, 3000, 0, 0}};
  const std::string bytes = Kineto(trace), text = "2000 3000 0 0 - too deep";
  for (const char* other : {"3000 2000 0 0 - too deep", "2000 3000 0 0 - too depp", "20x0 3000 0 0 - too deep",
                            "2000 3000 0 0 x too deep", "2000 3000 0 0 -"}) {
    CAPTURE(other);
    std::string changed = bytes;
    changed.replace(changed.find(text), text.size(), other);
    CHECK(Parse(changed).trace.losses.size() == 1);
  }
  CHECK(Parse(bytes).trace.losses.size() == 2);
}

TEST_CASE("viztracer's full buffer is a loss, also after a conversion", "[converted]") {
  const Read viztracer = Parse(
      R"__({"traceEvents":[{"pid":1,"tid":1,"ts":5,"ph":"X","dur":1,"name":"work (/srv/a.py:12)","cat":"FEE"}],)__"
      R"("viztracer_metadata":{"version":"1.1.1","overflow":true}})");
  REQUIRE(viztracer.trace.losses.size() == 1);
  CHECK(viztracer.trace.losses[0].reason == LossReason::kOverwritten);

  for (const auto& write : {Perfetto, Kineto, XSpace}) {
    const Read read = Parse(write(viztracer.trace));
    CAPTURE(read.report.format);
    CHECK(Losses(read.trace) == Losses(viztracer.trace));
    CHECK(pitot::model::IsLacking(read.trace, "losses"));  // others may have been lost
  }
}
