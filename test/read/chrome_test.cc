// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "read/parse.h"

using pitot::SiteKind;
using pitot::StatusCode;
using pitot::model::kNone;
using pitot::model::kOpen;
using read_test::Parse;
using read_test::Read;

namespace {

// Process 1, thread 2.
std::string Event(const std::string& phase, const std::string& name, const std::string& at_us,
                  const std::string& more = "") {
  return R"({"ph":")" + phase + R"(","name":")" + name + R"(","pid":1,"tid":2,"ts":)" + at_us + more + "}";
}

}  // namespace

TEST_CASE("spans with a duration become events in exact ns, also for a time in quotes", "[chrome]") {
  const Read read = Parse("[" + Event("X", "b", "\"1700000000000000.125\"", R"(,"dur":0.5)") + "," +
                          Event("X", "a", "1700000000000000", R"(,"dur":"2.75")") + "]");

  REQUIRE(read.status.ok());
  CHECK(read.report.complete);
  CHECK(read.Events() == "a 1700000000000000000+2750, b 1700000000000000125+500");
  CHECK(read.trace.threads.size() == 1);
  CHECK(read.trace.threads[0].tid == 2);
  CHECK(read.trace.pid == 1);
}

TEST_CASE("a begin and its end become one span", "[chrome]") {
  const Read read = Parse("[" + Event("B", "outer", "1") + "," + Event("B", "inner", "2") + "," + Event("E", "", "3") +
                          "," + Event("E", "", "4") + "," + Event("B", "open", "5") + "]");

  REQUIRE(read.status.ok());
  CHECK(read.Events() == "outer 1000+3000, inner 2000+1000, open 5000+open");
}

TEST_CASE("a span whose duration is not a number is damaged, and one without a duration is open", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a", "1", R"(,"dur":"long")") + "," + Event("X", "b", "2") + "]");

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.report.events_bad == 1);
  CHECK(read.Events() == "b 2000+open");
}

TEST_CASE("begins and ends are matched by time, not by their order in the file", "[chrome]") {
  const Read read = Parse("[" + Event("E", "a", "9") + "," + Event("B", "a", "1") + "]");
  CHECK(read.Events() == "a 1000+8000");
}

TEST_CASE("an end with a name closes what is open within its span", "[chrome]") {
  const Read read =
      Parse("[" + Event("B", "outer", "1") + "," + Event("B", "lost", "2") + "," + Event("E", "outer", "5") + "]");
  CHECK(read.Events() == "outer 1000+4000, lost 2000+3000");
}

TEST_CASE("an end without a begin is counted and named", "[chrome]") {
  const Read read = Parse("[" + Event("E", "a", "1") + "," + Event("X", "b", "2", R"(,"dur":1)") + "]");

  REQUIRE(read.status.ok());
  CHECK(read.Count("ends_without_begin") == 1);
  CHECK(read.report.problems == "1 end had no begin");
}

TEST_CASE("ends of a name that is not open leave the open begins alone", "[chrome]") {
  // Without an index by name this takes minutes.
  constexpr int kMarks = 200'000;
  std::string events = Event("B", "a", "1");
  for (int i = 0; i < kMarks; ++i) events += "," + Event("B", "b", "2");
  for (int i = 0; i < kMarks; ++i) events += "," + Event("E", "other", "3");
  const std::string net = R"(,"cat":"net","id":1)";
  for (int i = 0; i < kMarks; ++i) events += "," + Event("b", "b", "2", net);
  for (int i = 0; i < kMarks; ++i) events += "," + Event("e", "other", "3", net);
  const Read read = Parse("[" + events + "," + Event("E", "a", "4") + "]");

  REQUIRE(read.status.ok());
  CHECK(read.Count("ends_without_begin") == 2 * kMarks);
  CHECK(read.trace.events.duration_ns[0] == 3000);
  CHECK(read.trace.events.duration_ns.back() == 2000);
}

TEST_CASE("a begin or an end at an impossible time is counted, and no duration is made of it", "[chrome]") {
  const std::string net = R"(,"cat":"net","id":1)";
  const Read read =
      Parse("[" + Event("B", "a", "-9.2e15") + "," + Event("E", "a", "9.2e15") + "," + Event("b", "c", "-9.2e15", net) +
            "," + Event("e", "c", "9.2e15", net) + "," + Event("i", "d", "1") + "]");

  CHECK(read.Events() == "d 1000+0");
  CHECK(read.trace.requests.empty());
  CHECK(read.Count("times_out_of_range") == 4);
}

TEST_CASE("a duration of -1 ns is negative, not missing", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a", "1", R"(,"dur":-0.001)") + "," + Event("i", "b", "9") + "]");

  CHECK(read.Events() == "a 1000+0, b 9000+0");
  CHECK(read.Count("durations_negative") == 1);
}

TEST_CASE("a span without a duration is open", "[chrome]") {
  CHECK(Parse("[" + Event("X", "a", "1") + "," + Event("i", "b", "9") + "]").Events() == "a 1000+open, b 9000+0");
}

TEST_CASE("instants of all three kinds become instants", "[chrome]") {
  const Read read = Parse("[" + Event("i", "a", "1") + "," + Event("I", "b", "2") + "," + Event("R", "c", "3") + "]");

  CHECK(read.Events() == "a 1000+0, b 2000+0, c 3000+0");
  for (const auto& site : read.trace.sites) CHECK(site.kind == SiteKind::kInstant);
}

TEST_CASE("counters become samples by name, id and series", "[chrome]") {
  const Read read = Parse("[" + Event("C", "queue", "1", R"(,"args":{"value":3})") + "," +
                          Event("C", "memory", "2", R"(,"id":"0x5","args":{"used":1.5,"free":"2","text":"x"})") + "," +
                          Event("C", "queue", "0.5", R"(,"args":{"value":4})") + "]");

  REQUIRE(read.status.ok());
  REQUIRE(read.trace.counters.size() == 3);
  CHECK(read.Name(read.trace.counters[0].name) == "queue");
  CHECK(read.Name(read.trace.counters[1].name) == "memory 0x5 used");
  CHECK(read.Name(read.trace.counters[2].name) == "memory 0x5 free");
  CHECK(read.trace.samples.value == std::vector<double>{4, 3, 1.5, 2});
  CHECK(read.trace.samples.at_ns == std::vector<int64_t>{500, 1000, 2000, 2000});
}

TEST_CASE("counters of two processes are kept apart, with the process in their names", "[chrome]") {
  const auto counter = [](const std::string& pid, const std::string& at_us, const std::string& value) {
    return R"({"ph":"C","name":"queue","pid":)" + pid + R"(,"ts":)" + at_us + R"(,"args":{"value":)" + value + "}}";
  };
  const Read read = Parse(R"([{"ph":"M","name":"process_name","pid":1,"args":{"name":"server"}},)" +
                          counter("1", "1", "3") + "," + counter("2", "2", "100") + "," + counter("1", "3", "4") + "]");

  REQUIRE(read.trace.counters.size() == 2);
  CHECK(read.Name(read.trace.counters[0].name) == "server: queue");
  CHECK(read.Name(read.trace.counters[1].name) == "process 2: queue");
  CHECK(read.trace.samples.value == std::vector<double>{3, 4, 100});
}

TEST_CASE("several documents in a file are read, and counted", "[chrome]") {
  const Read read =
      Parse("[" + Event("X", "a", "1", R"(,"dur":1)") + "]\n[" + Event("X", "b", "2", R"(,"dur":1)") + "]\n");

  REQUIRE(read.status.ok());
  CHECK(read.Events() == "a 1000+1000, b 2000+1000");
  CHECK(read.report.problems == "2 documents were read: it goes on after its end");
}

TEST_CASE("members before the events may be larger than the beginning that decides on the format", "[chrome]") {
  const std::string padding = R"("padding":")" + std::string(300 << 10, ' ') + "\"";
  const Read read = Parse("{" + padding + R"(,"traceEvents":[)" + Event("X", "a", "1", R"(,"dur":1)") + "]}");

  REQUIRE(read.status.ok());
  CHECK(read.report.format == "chrome");
  CHECK(read.Events() == "a 1000+1000");

  CHECK(std::string(Parse("{" + padding + "}").status.message()) ==
        "it is JSON, but not a trace: it has no traceEvents");
  CHECK(
      std::string(Parse(R"({"resourceSpans":[)" + std::string(300 << 10, ' ') + "]}").status.message()).substr(0, 37) ==
      "OpenTelemetry spans without an event:");
}

TEST_CASE("the outermost asynchronous span of an id is a request, and those within are its parts", "[chrome]") {
  const auto async = [](const std::string& phase, const std::string& name, const std::string& at_us,
                        const std::string& id) { return Event(phase, name, at_us, R"(,"cat":"net",)" + id); };
  const Read read =
      Parse("[" + async("b", "get", "1", R"("id":1)") + "," + async("b", "get", "2", R"("id":2)") + "," +
            async("b", "dns", "3", R"("id":1)") + "," + async("n", "mark", "3.5", R"("id":1)") + "," +
            async("e", "dns", "4", R"("id":1)") + "," + async("e", "get", "7", R"("id":1)") + "," +
            async("S", "old", "0.5", R"("id":1)") + "," + async("F", "old", "9", R"("id":1)") + "," +
            async("b", "local", "10", R"("id2":{"local":"0x1"})") + "," + async("e", "get", "11", R"("id":7)") + "]");

  REQUIRE(read.status.ok());
  std::string text;
  for (const auto& row : read.trace.requests)
    text += read.Name(row.route) + " " + read.Name(row.host_id) + " " + std::to_string(row.begin_ns) + "+" +
            std::to_string(row.duration_ns) + ", ";
  CHECK(text == "old 1 500+8500, get 1 1000+6000, get 2 2000+-1, local 0x1 10000+-1, ");
  text.clear();
  for (const auto& row : read.trace.asyncs)
    text += read.Name(read.trace.sites[row.site].name) + " of " + std::to_string(row.request) + " " +
            std::to_string(row.begin_ns) + "+" + std::to_string(row.duration_ns) + ", ";
  CHECK(text == "dns of 1 3000+1000, mark of 1 3500+0, ");
  CHECK(read.Count("ends_without_begin") == 1);
}

TEST_CASE("asynchronous begins and ends are matched by time, not by their order in the file", "[chrome]") {
  const std::string net = R"(,"cat":"net","id":1)";
  const Read read =
      Parse("[" + Event("e", "get", "9", net) + "," + Event("n", "mark", "4", net) + "," + Event("e", "dns", "3", net) +
            "," + Event("b", "dns", "2", net) + "," + Event("b", "get", "1", net) + "]");

  REQUIRE(read.trace.requests.size() == 1);
  CHECK(read.trace.requests[0].duration_ns == 8000);
  REQUIRE(read.trace.asyncs.size() == 2);
  CHECK(read.trace.asyncs[0].duration_ns == 1000);
  CHECK(read.Count("ends_without_begin") == 0);
  CHECK(read.Count("unused") == 0);
}

TEST_CASE("asynchronous spans of the older kind are told apart by name, and local ids by process", "[chrome]") {
  const auto old = [](const std::string& phase, const std::string& name, const std::string& at_us) {
    return Event(phase, name, at_us, R"(,"cat":"net","id":1)");
  };
  const auto local = [](const std::string& phase, const std::string& pid, const std::string& at_us) {
    return R"({"ph":")" + phase + R"(","name":"l","cat":"c","id2":{"local":"1"},"tid":1,"pid":)" + pid + R"(,"ts":)" +
           at_us + "}";
  };
  const Read read = Parse("[" + old("S", "a", "1") + "," + old("S", "b", "2") + "," + old("F", "a", "3") + "," +
                          old("F", "b", "4") + "," + local("b", "1", "5") + "," + local("b", "2", "6") + "," +
                          local("e", "1", "7") + "," + local("e", "2", "8") + "]");

  std::string text;
  for (const auto& row : read.trace.requests)
    text += read.Name(row.route) + " " + std::to_string(row.begin_ns) + "+" + std::to_string(row.duration_ns) + ", ";
  CHECK(text == "a 1000+2000, b 2000+2000, l 5000+2000, l 6000+2000, ");
}

TEST_CASE("durations that would add up to more than the longest time are left out", "[chrome]") {
  const std::string longest = R"(,"dur":4.6e15)";
  const Read read = Parse("[" + Event("X", "a", "0", longest) + "," + Event("X", "b", "0", longest) + "]");

  CHECK(read.Events() == "a 0+4600000000000000000");
  CHECK(read.Count("times_out_of_range") == 1);
}

TEST_CASE("arrows and phases without a place are counted, not lost silently", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a", "1", R"(,"dur":1)") + "," + Event("s", "f", "1", R"(,"id":1)") + "," +
                          Event("f", "f", "2", R"(,"id":1)") + "," + Event("v", "dump", "2") + ",{}]");

  REQUIRE(read.status.ok());
  CHECK(read.Count("arrows") == 2);
  CHECK(read.Count("unused") == 2);
}

TEST_CASE("names of threads have their process before them if there are several", "[chrome]") {
  const auto name = [](const std::string& of, const std::string& pid, const std::string& tid, const std::string& text) {
    return R"({"ph":"M","name":")" + of + R"(","pid":)" + pid + R"(,"tid":)" + tid + R"(,"args":{"name":")" + text +
           "\"}}";
  };
  const std::string first = name("process_name", "1", "0", "server") + "," + name("thread_name", "1", "2", "main") +
                            "," + Event("X", "a", "1", R"(,"dur":1)") + "," + Event("i", "b", "1");
  CHECK(Parse("[" + first + "]").Name(Parse("[" + first + "]").trace.threads[0].name) == "main");

  const Read read = Parse("[" + first + R"(,{"ph":"X","name":"b","pid":"worker","tid":"t","ts":1,"dur":1}])");
  REQUIRE(read.trace.threads.size() == 2);
  CHECK(read.Name(read.trace.threads[0].name) == "server: main");
  CHECK(read.Name(read.trace.process_name) == "server");
  CHECK(read.Name(read.trace.threads[1].name).find("process -") == 0);
}

TEST_CASE("arguments keep their names and types", "[chrome]") {
  const Read read =
      Parse("[" + Event("X", "a", "1", R"(,"dur":1,"args":{"n":-3,"x":1.5,"is":true,"of":"b\n","l":[1,2]})") + "]");

  REQUIRE(read.status.ok());
  const auto& site = read.trace.sites[0];
  using pitot::ArgType;
  CHECK(site.arg_types ==
        std::vector<ArgType>{ArgType::kInt, ArgType::kDouble, ArgType::kBool, ArgType::kString, ArgType::kString});
  CHECK(static_cast<int64_t>(read.trace.arg_values[0]) == -3);
  CHECK(read.trace.arg_values[2] == 1);
  CHECK(read.Name(static_cast<uint32_t>(read.trace.arg_values[4])) == "[1,2]");
}

TEST_CASE("an unfinished list is whole if its last event is", "[chrome]") {
  const std::string events = "[" + Event("X", "a", "1", R"(,"dur":1)") + ",\n";
  const Read whole = Parse(events);
  CHECK(whole.status.ok());
  CHECK(whole.report.complete);

  const Read cut = Parse(events + R"({"ph":"X","na)");
  CHECK(cut.status.code() == StatusCode::kDataLoss);
  CHECK(cut.trace.events.size() == 1);
  REQUIRE(cut.trace.losses.size() == 1);
}

TEST_CASE("a zero byte between events is not the end of a list", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a", "1", R"(,"dur":1)") + "," + std::string(1, '\0') +
                          Event("X", "b", "2", R"(,"dur":1)") + "]");

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK_FALSE(read.report.complete);
  CHECK(std::string(read.status.message()) == "it is not JSON between its events");
}

TEST_CASE("an event without a time is left out, and the trace is damaged", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a", "1", R"(,"dur":1)") +
                          R"(,{"ph":"X","name":"b"},{"ph":"X","name":"c","ts":"x"},[1]])");

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.report.events == 4);
  CHECK(read.report.events_bad == 3);
  CHECK(std::string(read.status.message()) == "3 events of 4 could not be read");
}

TEST_CASE("text that is not UTF-8 costs no event", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a\xff\x01", "1", R"(,"dur":1)") + "]");

  REQUIRE(read.status.ok());
  CHECK(read.report.problems == "1 event had text that is not UTF-8");
  CHECK(read.Events() == "a\xef\xbf\xbd  1000+1000");
}

TEST_CASE("times out of range and negative durations are counted", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a", "-1", R"(,"dur":1)") + "," + Event("X", "b", "5e15", R"(,"dur":1)") +
                          "," + Event("X", "c", "1", R"(,"dur":-2)") + "]");

  CHECK(read.Events() == "c 1000+0");
  CHECK(read.Count("times_out_of_range") == 2);
  CHECK(read.Count("durations_negative") == 1);
}

TEST_CASE("open spans that would add up to more than the longest time are closed", "[chrome]") {
  const Read read =
      Parse("[" + Event("X", "a", "0") + "," + Event("X", "b", "0") + "," + Event("i", "c", "4.6e15") + "]");
  CHECK(read.Events() == "a 0+open, b 0+0, c 4600000000000000000+0");
}

TEST_CASE("viztracer's functions have their file and line, and its full buffer is reported", "[chrome]") {
  const Read read = Parse(
      R"__({"traceEvents":[{"pid":1,"tid":1,"ts":5,"ph":"X","dur":1,"name":"work (/srv/a b/prog.py:12)","cat":"FEE"}],)__"
      R"("viztracer_metadata":{"version":"1.1.1","overflow":true,"baseTimeNanoseconds":1795968099037724160}})");

  REQUIRE(read.status.ok());
  CHECK(read.report.tool == "viztracer");
  CHECK(read.report.problems.find("record with a larger tracer_entries") != std::string::npos);
  const auto& site = read.trace.sites[0];
  CHECK(read.Name(site.function) == "work");
  CHECK(read.Name(site.file) == "/srv/a b/prog.py");
  CHECK(site.line == 12);
  CHECK(read.trace.clock.realtime_ns - read.trace.clock.monotonic_ns == 1795968099037724160);
}

TEST_CASE("a trace without Unix time has no date", "[chrome]") {
  const Read read = Parse("[" + Event("X", "a", "1", R"(,"dur":1)") + "]");
  CHECK(read.trace.clock.realtime_ns == 0);
  CHECK(read.trace.window_begin_ns == 1000);
  CHECK(read.trace.window_end_ns == 2000);
}

TEST_CASE("LLVM's sums of its own events are no events, and its trace has a date", "[chrome]") {
  const std::string sum =
      R"({"ph":"X","name":"Total Frontend","pid":1,"tid":3,"ts":0,"dur":30,"args":{"count":2,"avg ms":0}})";
  const Read read =
      Parse(R"({"traceEvents":[)" + Event("X", "Frontend", "1", R"(,"dur":10)") + "," +
            Event("X", "Total recall", "20", R"(,"dur":10)") + "," + sum + R"(],"beginningOfTime":1796016482309993})");

  REQUIRE(read.status.ok());
  CHECK(read.Events() == "Frontend 1000+10000, Total recall 20000+10000");
  CHECK(read.trace.threads.size() == 1);
  CHECK(read.Count("summaries") == 1);
  CHECK(read.report.problems == "1 sum of other events (\"Total ...\") was left out");
  CHECK(read.trace.clock.realtime_ns - read.trace.clock.monotonic_ns == 1'796'016'482'309'993'000);

  CHECK(Parse(R"({"traceEvents":[)" + Event("X", "a", "1", R"(,"dur":10)") +
              R"(],"beginningOfTime":9223372036854775807})")
            .trace.clock.realtime_ns == 0);
}
